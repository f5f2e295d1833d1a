//! Messages and records as they travel.
//!
//! The library that our programs use for names and records refuses a whole message for one record whose data it
//! cannot read, and some of what it reads it writes back differently. Nothing legal may take an answer or a zone away, so
//! messages are taken apart here: data that the library reads and writes back to the same bytes it has; all other data stays
//! as it is (RFC 3597), but for names in it, which are never left compressed.

mod layout;
mod malformed;
mod message;
mod rdata;
mod signature;
mod stream;

pub use layout::{Field, layout};
pub use malformed::{MAX_UDP_LEN, malformed};
pub use message::{Incoming, read_message, read_record};
pub use rdata::{bytes_of, canonical_bytes, data_of, is_well_formed, type_covered};
pub use signature::{Conversation, is_request_signed};
pub use stream::{read_stream, write_stream};

use thiserror::Error;

/// Bytes that are no DNS message, or no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The bytes end too early, or a name in them leads nowhere.
    #[error("it ends too early, or a name in it cannot be read")]
    Form,
    /// OPT or TSIG records where they must not be, or several.
    #[error("it has an OPT or TSIG record in the wrong place")]
    Place,
    /// An option of EDNS that is not as its RFC has it.
    #[error("its EDNS option {0} is malformed")]
    Option(u16),
}

#[cfg(test)]
mod tests;
