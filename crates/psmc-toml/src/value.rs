//! The values that files are made of: how TOML writes one, and what is made of it. What reads one refuses what is not legal,
//! and says what is wrong with it.
//!
//! The same parsers serve files and command lines, so both give the same answer to the same mistake.

mod name;
mod net;
mod rate;

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

pub use name::{
    FILE, INTERFACE, InterfaceName, MAX_INTERFACE_LEN, NAME, Name, RELAY_RUN_DIR, RUN_DIR, SOCKET,
    SocketPath, socket_path,
};
pub use net::{LISTEN, Listen, METRICS_ADDRESS, Port, host_address, parse_net};
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

/// A kind of value that can stand in a file: its form, an example, and the function that makes a `T` of its text, or says
/// what is wrong with it.
///
/// ```
/// use psmc_toml::{Kind, within};
///
/// /// How many workers.
/// const WORKERS: Kind<u8> = Kind::number("2", |text| {
///     within(text, 1..=64, format_args!("{text} is no number of workers"), "write a number from 1 to 64")
/// });
///
/// assert_eq!(WORKERS.read("3"), Ok(3));
/// assert_eq!(WORKERS.read("65").unwrap_err().reason(), "65 is no number of workers");
/// ```
#[derive(Debug)]
pub struct Kind<T> {
    /// How TOML writes it.
    pub form: Form,
    /// One as it stands in a file, its quotes included.
    pub example: &'static str,
    read: fn(&str) -> Result<T, ValueError>,
}

// Derived, they would ask for a `T` that can be copied.
impl<T> Clone for Kind<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Kind<T> {}

impl<T> Kind<T> {
    /// A text in quotes, of which `example` has them, too.
    pub const fn text(example: &'static str, read: fn(&str) -> Result<T, ValueError>) -> Self {
        Self { form: Form::Text, example, read }
    }

    /// A whole number.
    pub const fn number(example: &'static str, read: fn(&str) -> Result<T, ValueError>) -> Self {
        Self { form: Form::Number, example, read }
    }

    /// A whole number, or a text in quotes.
    pub const fn text_or_number(example: &'static str, read: fn(&str) -> Result<T, ValueError>) -> Self {
        Self { form: Form::TextOrNumber, example, read }
    }

    /// A number, whole or not.
    pub const fn decimal(example: &'static str, read: fn(&str) -> Result<T, ValueError>) -> Self {
        Self { form: Form::Decimal, example, read }
    }

    /// The same kind with another example: one that fits where it stands.
    pub const fn like(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    /// Makes a value of a text, without its quotes.
    ///
    /// # Errors
    /// If the text is no such value.
    pub fn read(&self, text: &str) -> Result<T, ValueError> {
        (self.read)(text)
    }
}

/// Something that is on or off.
pub const SWITCH: Kind<bool> = Kind {
    form: Form::Boolean,
    example: "true",
    read: |text| {
        let remedy = "write true or false, without quotes";
        text.parse().map_err(|_| ValueError::new(format!("{text:?} is neither yes nor no"), remedy))
    },
};

/// A number in a range, or a complaint with this reason and this remedy.
///
/// # Errors
/// If the text is no such number.
pub fn within<T: FromStr + PartialOrd>(
    text: &str,
    range: RangeInclusive<T>,
    reason: impl Display,
    remedy: impl Display,
) -> Result<T, ValueError> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| ValueError::new(reason, remedy))
}

/// A whole number in a range, where nothing more is to be said about it.
///
/// # Errors
/// If the text is no such number.
pub fn whole(text: &str, range: RangeInclusive<u32>) -> Result<u32, ValueError> {
    let remedy = format!("write a whole number from {} to {}", range.start(), range.end());
    within(text, range, format_args!("{text} is out of bounds here"), remedy)
}

/// The value among `all` that is spelt `text`; `what` names the kind in the complaint about another text.
///
/// # Errors
/// If none is spelt so; the remedy is the nearest spelling, or else all of them.
pub fn choose<T: Copy, const N: usize>(
    what: &str,
    all: [T; N],
    as_str: fn(T) -> &'static str,
    text: &str,
) -> Result<T, ValueError> {
    if let Some(value) = all.into_iter().find(|value| as_str(*value) == text) {
        return Ok(value);
    }
    let spellings = all.map(as_str);
    let remedy = match nearest(text, &spellings) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("choose one of \"{}\"", spellings.join("\", \"")),
    };
    Err(ValueError::new(format!("there is no {what} {text:?}"), remedy))
}

/// Makes an enum of words that stand in files: with `ALL` of them, `as_str`, the word of each, and `KIND`, by which one is read.
///
/// After the name comes what it is called in the complaint about another word, and the word that stands for an example.
///
/// ```
/// psmc_toml::choice! {
///     /// A direction.
///     pub enum Direction: "direction", such as "forward" {
///         /// There.
///         Forward = "forward",
///         /// And back.
///         Back = "back",
///     }
/// }
///
/// assert_eq!(Direction::KIND.read("back"), Ok(Direction::Back));
/// assert_eq!(Direction::KIND.read("up").unwrap_err().reason(), "there is no direction \"up\"");
/// ```
#[macro_export]
macro_rules! choice {
    ($(#[$about:meta])* $vis:vis enum $name:ident: $what:literal, such as $example:literal {
        $($(#[$about_variant:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $($(#[$about_variant])* $variant,)+
        }

        impl $name {
            /// All of them.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// How files spell it.
            $vis const KIND: $crate::Kind<Self> = $crate::Kind::text(concat!("\"", $example, "\""), |text| {
                $crate::choose($what, Self::ALL, Self::as_str, text)
            });

            /// As files spell it.
            $vis fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::ValueError;

            fn from_str(text: &str) -> Result<Self, $crate::ValueError> {
                Self::KIND.read(text)
            }
        }
    };
}

/// The candidate that `word` is most likely a misspelling of, if any is near.
///
/// Case, `_` and `-` do not count, so that the spelling of a WireGuard file (`AllowedIPs`) finds ours.
pub fn nearest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let word = simplified(word);
    candidates
        .iter()
        .map(|candidate| (strsim::osa_distance(&word, &simplified(candidate)), *candidate))
        .filter(|(distance, candidate)| *distance <= tolerance(candidate))
        .min()
        .map(|(_, candidate)| candidate)
}

fn simplified(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// How many typing errors still leave a word recognisable: one in three letters.
fn tolerance(candidate: &str) -> usize {
    candidate.len() / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[&str] = &["allowed_ips", "endpoint", "name", "public_key"];

    #[test]
    fn finds_typing_errors_and_foreign_spellings() {
        assert_eq!(nearest("alowed_ips", KEYS), Some("allowed_ips"));
        assert_eq!(nearest("AllowedIPs", KEYS), Some("allowed_ips"));
        assert_eq!(nearest("enpdoint", KEYS), Some("endpoint"));
        assert_eq!(nearest("PublicKey", KEYS), Some("public_key"));
    }

    #[test]
    fn leaves_other_words_alone() {
        assert_eq!(nearest("table", KEYS), None);
        assert_eq!(nearest("", KEYS), None);
    }
}
