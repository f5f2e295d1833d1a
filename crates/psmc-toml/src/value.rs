//! The values that files are made of. What reads one refuses what is not legal, and says what is wrong with it.
//!
//! The same parsers serve files and command lines, so both give the same answer to the same mistake.

mod kind;
mod name;
mod nearest;
mod net;
mod rate;

use std::fmt::Display;

pub use kind::{Form, Kind, SWITCH, choose, whole, within};
pub use name::{
    FILE, INTERFACE, InterfaceName, MAX_INTERFACE_LEN, NAME, Name, RELAY_RUN_DIR, RUN_DIR, SOCKET,
    SocketPath, socket_path,
};
pub use nearest::nearest;
pub use net::{LISTEN, Listen, Port, host_address, parse_net};
pub use rate::{RATE, RATE_REMEDY, Rate, bits_per_second, number_and_unit, rate_text, scaled};

/// Why a text is not the value it should be, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {remedy}")]
pub struct ValueError {
    reason: String,
    remedy: String,
    is_about_secret: bool,
}

impl ValueError {
    /// Says what is wrong (`reason`, naming the text) and what to do about it (`remedy`).
    pub fn new(reason: impl Display, remedy: impl Display) -> Self {
        Self { reason: reason.to_string(), remedy: remedy.to_string(), is_about_secret: false }
    }

    /// The text may be a secret, which must not reach a terminal or a log.
    #[must_use]
    pub fn about_secret(self) -> Self {
        Self { is_about_secret: true, ..self }
    }

    /// Whether the text may be a secret.
    pub(crate) fn is_about_secret(&self) -> bool {
        self.is_about_secret
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
