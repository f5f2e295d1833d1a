//! `psmc init`, `psmc invite`, `psmc join`, `psmc peers` and `psmc expel`: a tunnel without a file written by hand.

mod addresses;
mod files;
mod init;
mod invite;
mod join;
mod start;

use psmcd::config::{Endpoint, Port, SaveError, ValueError};
use psmcd::enrolment::JoinError;

pub(super) use init::{InitArgs, init};
pub(super) use invite::{ExpelArgs, InviteArgs, expel, invite, peers};
pub(super) use join::{JoinArgs, join};

use files::WriteError;
use start::StartError;

/// Where configurations usually are.
pub(super) const CONFIG_DIR: &str = "/etc/psmc";

/// Why a tunnel was not set up.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    /// A file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The daemon does not run.
    #[error("the files are written, but psmcd does not run")]
    Start(#[from] StartError),
    /// The configuration cannot be changed.
    #[error(transparent)]
    Save(#[from] SaveError),
    /// Something that was given is of no use.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The other side was not reached.
    #[error("cannot reach {endpoint} by TCP: is psmcd running there, and do firewalls on the way let TCP and UDP port {} in?", endpoint.port)]
    Unreached {
        /// Where it should be.
        endpoint: Endpoint,
        /// What the system said of its last address.
        source: std::io::Error,
    },
    /// The other side did not let this one in.
    #[error("cannot join {endpoint}")]
    Join {
        /// Where it is.
        endpoint: Endpoint,
        /// Why.
        source: JoinError,
    },
    /// The invitation is not there.
    #[error("cannot read the invitation from standard input")]
    Input(#[source] std::io::Error),
    /// There is no runtime for the connection.
    #[error("cannot start a connection")]
    Runtime(#[source] std::io::Error),
}

/// An endpoint whose port need not be given.
fn endpoint(text: &str) -> Result<Endpoint, ValueError> {
    let with_port = |host: &str| format!("{host}:{}", Port::DEFAULT);
    match text.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(ip)) => with_port(&format!("[{ip}]")).parse(),
        Ok(ip) => with_port(&ip.to_string()).parse(),
        Err(_) => text.parse().or_else(|error| with_port(text).parse().map_err(|_| error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_our_port_unless_another_is_given() {
        for (text, expected) in [
            ("203.0.113.5", "203.0.113.5:5115"),
            ("203.0.113.5:6000", "203.0.113.5:6000"),
            ("2001:db8::5", "[2001:db8::5]:5115"),
            ("[2001:db8::5]:6000", "[2001:db8::5]:6000"),
            ("hq.example", "hq.example:5115"),
            ("hq.example:6000", "hq.example:6000"),
        ] {
            assert_eq!(endpoint(text).unwrap().to_string(), expected);
        }
        assert!(endpoint("hq example").is_err());
    }
}
