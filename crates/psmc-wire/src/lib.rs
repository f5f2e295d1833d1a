//! The bytes of the PSMC protocol, and nothing else: datagrams, frames, control messages, identifiers.
//!
//! `docs/PROTOCOL.md` specifies every format to the bit; this crate is its only implementation. Views
//! borrow the bytes they read and allocate nothing. No function here panics on any input: what is not
//! well-formed is a [`Malformed`].

pub mod buf;
pub mod control;
pub mod counts;
pub mod crypto;
pub mod datagram;
pub mod drops;
mod fields;
pub mod frame;
pub mod hop;
pub mod ids;
pub mod ip;
pub mod probe;
pub mod relay;
pub mod shed;

pub use buf::{BufPool, HEADROOM, PacketBuf};
pub use fields::Malformed;
pub use ids::{Bucket, FlowSeq, Incarnation, KeyBytes, Label, PacketNumber, PathId, StreamId};
pub use ip::transport::Checksum;
