//! Values chosen from a list.

use std::str::FromStr;

use psmc_toml::{Form, Setting, ValueError, choose};

/// An enum whose variants the file spells like this.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $what:literal, $example:literal, { $($(#[$variant_doc:meta])* $variant:ident = $spelling:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(in crate::scenario) enum $name {
            $($(#[$variant_doc])* $variant),+
        }

        impl $name {
            /// As the file spells it.
            pub(in crate::scenario) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $spelling),+
                }
            }
        }

        impl FromStr for $name {
            type Err = ValueError;

            fn from_str(text: &str) -> Result<Self, ValueError> {
                choose($what, [$(Self::$variant),+], Self::as_str, text)
            }
        }

        impl Setting for $name {
            const FORM: Form = Form::Text;
            const EXAMPLE: &'static str = $example;
        }
    };
}

choice! {
    /// One of the directions of a link.
    Direction, "direction", "\"forward\"", {
        /// From the first host of `between` to the second.
        Forward = "forward",
        /// From the second to the first.
        Back = "back",
    }
}

choice! {
    /// How a NAT maps and filters.
    NatKindName, "kind of NAT", "\"symmetric\"", {
        EndpointIndependent = "endpoint-independent",
        Symmetric = "symmetric",
    }
}

choice! {
    /// What a queue drops before it is full.
    DisciplineName, "queue discipline", "\"codel\"", {
        DropTail = "drop-tail",
        Red = "red",
        CoDel = "codel",
    }
}

choice! {
    /// A kind of traffic.
    TrafficKindName, "kind of traffic", "\"tcp\"", {
        Tcp = "tcp",
        Quic = "quic",
        Udp = "udp",
        Requests = "requests",
        Ping = "ping",
    }
}

choice! {
    /// The congestion control of QUIC.
    ControllerName, "congestion control of QUIC", "\"cubic\"", {
        Cubic = "cubic",
        NewReno = "newreno",
        Bbr = "bbr",
    }
}

impl Direction {
    /// Its index in `Link::directions`.
    pub(in crate::scenario) fn index(self) -> usize {
        match self {
            Self::Forward => 0,
            Self::Back => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_recognised() {
        assert_eq!("codel".parse(), Ok(DisciplineName::CoDel));
        let error = "symetric".parse::<NatKindName>().unwrap_err();
        assert_eq!(error.remedy(), "did you mean \"symmetric\"?");
    }
}
