//! A zone: its records, what it answers, and how it changes.
//!
//! A [`Zone`] never changes: an update makes another one, which shares the names that stayed as they were. So whoever
//! answers a question or sends a transfer holds on to one zone, whole, whatever happens beside it.

mod answer;
mod data;
mod denial;
mod file;
mod sign;
mod update;

pub use answer::Answer;
pub use data::{Delta, Node, Set, Zone, ZoneError};
pub use file::{ZoneFileError, read_zone_file, read_zone_text};
pub use sign::ZoneSigner;
pub use update::Refusal;

#[cfg(test)]
mod tests;
