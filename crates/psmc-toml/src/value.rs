//! The values that files are made of. Each type holds only what is legal, and says what is wrong otherwise.
//!
//! The same parsers serve files and command lines, so both give the same answer to the same mistake.

mod choice;
mod file_path;
mod limit;
mod listen;
mod name;
mod nearest;
mod net;
mod port;
mod quantity;
mod rate;
mod socket_path;
mod switch;
mod whole;

use std::fmt::Display;
use std::str::FromStr;

pub use choice::choose;
pub use file_path::FilePath;
pub use limit::Rate;
pub use listen::Listen;
pub use name::{InterfaceName, MAX_INTERFACE_LEN, Name};
pub use nearest::nearest;
pub use net::{host_address, parse_net};
pub use port::Port;
pub use quantity::{number_and_unit, scaled};
pub use rate::{RATE_REMEDY, bits_per_second, rate_text};
pub use socket_path::{RELAY_RUN_DIR, RUN_DIR, SocketPath};
pub use switch::Switch;
pub use whole::Whole;

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

/// How TOML writes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In quotes.
    Text,
    /// A whole number, without quotes.
    Number,
    /// Either of the two.
    TextOrNumber,
    /// A number, whole or not, without quotes.
    Decimal,
    /// `true` or `false`, without quotes.
    Boolean,
}

/// A value that can stand in a file.
pub trait Setting: FromStr<Err = ValueError> {
    /// How TOML writes it.
    const FORM: Form;
    /// One as it stands in a file, its quotes included.
    const EXAMPLE: &'static str;
}
