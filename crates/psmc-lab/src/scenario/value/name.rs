//! Names, titles, arguments and paths.

use std::path::PathBuf;
use std::str::FromStr;

use psmc_toml::{Form, MAX_INTERFACE_LEN, Name, Setting, ValueError};

/// The name of a link or a tunnel, which is that of its interfaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scenario) struct LinkName(pub(in crate::scenario) Name);

impl LinkName {
    /// What the kernel has in every namespace, or in every directory of settings of interfaces.
    const TAKEN: [&str; 3] = ["lo", "all", "default"];
}

impl FromStr for LinkName {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let name: Name = text.parse()?;
        if text.len() > MAX_INTERFACE_LEN {
            let reason = format!(
                "{text:?} is {} characters long, and the name of an interface can have {MAX_INTERFACE_LEN}",
                text.len()
            );
            return Err(ValueError::new(
                reason,
                "choose a shorter one: interfaces are called like their link",
            ));
        }
        if Self::TAKEN.contains(&text) {
            let reason = format!("no interface can be called {text:?}: Linux uses that name itself");
            return Err(ValueError::new(reason, "choose another one, such as \"dsl\""));
        }
        Ok(Self(name))
    }
}

impl Setting for LinkName {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"dsl\"";
}

/// The name of something that another section describes. Whether there is such a thing is seen later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scenario) struct Reference(pub(in crate::scenario) String);

impl FromStr for Reference {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text {
            "" => Err(ValueError::new("the name is empty", "put in the name of what is meant")),
            _ => Ok(Self(text.to_owned())),
        }
    }
}

impl Setting for Reference {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"…\"";
}

/// What a scenario is called: a line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::scenario) struct Title(pub(in crate::scenario) String);

impl Title {
    /// So long that it still fits into the heading of a table.
    const MAX_LEN: usize = 64;
}

impl FromStr for Title {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let fits = (1..=Self::MAX_LEN).contains(&text.chars().count()) && !text.contains(char::is_control);
        fits.then(|| Self(text.to_owned())).ok_or_else(|| {
            let remedy = format!("choose a line of 1 to {} characters", Self::MAX_LEN);
            ValueError::new("this is no name for a scenario", remedy)
        })
    }
}

impl Setting for Title {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"two-uplinks\"";
}

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::scenario) struct Argument(pub(in crate::scenario) String);

impl FromStr for Argument {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let whole = !text.contains('\0');
        whole
            .then(|| Self(text.to_owned()))
            .ok_or_else(|| ValueError::new("no argument has a zero byte in it", "remove it"))
    }
}

impl Setting for Argument {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"iperf3\", \"-s\"";
}

/// The path of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scenario) struct FilePath(pub(in crate::scenario) PathBuf);

impl FromStr for FilePath {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let names_a_file = !text.is_empty() && !text.ends_with('/') && !text.contains('\0');
        names_a_file
            .then(|| Self(text.into()))
            .ok_or_else(|| ValueError::new(format!("{text:?} is not the path of a file"), "name a file"))
    }
}

impl Setting for FilePath {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"lte.trace\"";
}

/// The congestion control of TCP, as the kernel calls it. Whether it has it turns out when the scenario runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::scenario) struct Controller(pub(in crate::scenario) String);

impl Controller {
    /// Longest name: `TCP_CA_NAME_MAX` of the kernel, less the zero at the end.
    const MAX_LEN: usize = 15;
}

impl FromStr for Controller {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
        let is_name = (1..=Self::MAX_LEN).contains(&text.len()) && text.bytes().all(allowed);
        is_name.then(|| Self(text.to_owned())).ok_or_else(|| {
            let remedy = "write \"cubic\", \"reno\", \"bbr\" or what else /proc/sys/net/ipv4/tcp_available_congestion_control lists";
            ValueError::new(format!("{text:?} is no congestion control"), remedy)
        })
    }
}

impl Setting for Controller {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"cubic\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_called_like_interfaces() {
        assert!("dsl".parse::<LinkName>().is_ok() && "exactly-15-long".parse::<LinkName>().is_ok());
        for bad in ["", "lo", "all", "sixteen-letters-", "a/b"] {
            assert!(bad.parse::<LinkName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        assert!("".parse::<Title>().is_err() && "a\nb".parse::<Title>().is_err());
        assert!("Cubic".parse::<Controller>().is_err() && "bbr".parse::<Controller>().is_ok());
        assert!("".parse::<FilePath>().is_err() && "a/".parse::<FilePath>().is_err());
    }
}
