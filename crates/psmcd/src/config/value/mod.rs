//! The values a configuration is made of. Each type holds only what is legal, and says what is wrong otherwise.
//!
//! The same parsers serve the file and the command line, so both give the same answer to the same mistake.

mod choice;
mod endpoint;
mod listen;
mod name;
mod nearest;
mod net;
mod number;
mod rate;
mod socket_path;

use std::fmt::Display;
use std::str::FromStr;

pub(super) use choice::Encapsulation;
pub use choice::{Reorder, Scheduler};
pub use endpoint::{DnsName, Endpoint, Host};
pub use listen::Listen;
pub use name::{InterfaceName, Name};
pub(super) use nearest::nearest;
pub use net::{AllowedNet, BindAddress, TunnelAddress};
pub use number::{InnerMtu, Keepalive, LinkMtu, Port, Weight};
pub use rate::Rate;
pub(crate) use socket_path::RUN_DIR;
pub use socket_path::SocketPath;

/// Why a text is not the value it should be, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {remedy}")]
pub struct ValueError {
    reason: String,
    remedy: String,
}

impl ValueError {
    /// Says what is wrong (`reason`, naming the text) and what to do about it (`remedy`).
    pub(crate) fn new(reason: impl Display, remedy: impl Display) -> Self {
        Self { reason: reason.to_string(), remedy: remedy.to_string() }
    }

    /// What is wrong.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// What to write instead.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

/// How TOML writes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// In quotes.
    Text,
    /// A whole number, without quotes.
    Number,
    /// Either of the two.
    TextOrNumber,
}

/// A value that can stand in the file.
pub(super) trait Setting: FromStr<Err = ValueError> {
    /// How TOML writes it.
    const FORM: Form;
    /// One as it stands in a file, its quotes included.
    const EXAMPLE: &'static str;
}
