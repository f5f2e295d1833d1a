//! Messages and records as they travel.
//!
//! The library that our programs use for names and records refuses a whole message for one record whose data it
//! cannot read, and some of what it reads it writes back differently. Nothing legal may take an answer or a zone away, so
//! messages are taken apart here: data that the library reads and writes back to the same bytes it has; all other data stays
//! as it is (RFC 3597), but for names in it, which are never left compressed.

mod layout;
mod message;
mod rdata;
mod signature;

pub use layout::{Field, layout};
pub use message::{Incoming, read_message, read_record};
pub use rdata::{bytes_of, canonical_bytes, data_of, is_well_formed, type_covered};
pub use signature::{Conversation, is_request_signed};

use hickory_proto::op::{Edns, Message, OpCode, ResponseCode};
use thiserror::Error;
use tokio::io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

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

/// What a message in a datagram holds at most, so that it is not fragmented anywhere (the DNS flag day of 2020).
pub const MAX_UDP_LEN: u16 = 1232;

/// A response to what cannot be parsed: its header is all that is known of it, and that it has EDNS where only an option is
/// wrong.
#[must_use]
pub fn malformed(bytes: &[u8], error: Malformed) -> Option<Vec<u8>> {
    let [id_high, id_low, high, low] = *bytes.first_chunk()?;
    let op_code = OpCode::from_u8(high >> 3 & 0x0f);
    let mut response =
        Message::error_msg(u16::from_be_bytes([id_high, id_low]), op_code, ResponseCode::FormErr);
    let is_question = op_code == OpCode::Query;
    response.metadata.recursion_desired = is_question && high & 0x01 != 0;
    response.metadata.checking_disabled = is_question && low & 0x10 != 0;
    if let Malformed::Option(_) = error {
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_UDP_LEN);
        response.set_edns(edns);
    }
    response.to_vec().ok()
}

/// A message behind its length (RFC 1035 §4.2.2).
///
/// # Errors
/// What the stream says.
pub async fn read_stream(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; length.into()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// The same the other way.
///
/// # Errors
/// What the stream says, and that a message is too long.
pub async fn write_stream(stream: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), message].concat()).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests;
