//! The signal channel (as in DOTS, RFC 8612): what a coordinator, the gateways that it helps and the clients that it
//! tells say to each other. It must work while lines are flooded, so that messages are few, short and idempotent.
//!
//! A connection is TLS between keys that both sides know, dialled by the gateway or client under [`ALPN`]. Its messages are
//! [`Message`]s as JSON in the frames of other control connections (a length of four bytes before each). The dialler says
//! [`Message::Hello`] first, and the coordinator [`Message::Welcome`] or [`Message::Refused`]. [`connection`] does that.

pub mod connection;
pub mod message;
pub mod parts;

pub use message::{
    Alert, AlertKind, Client, Measured, Message, Mitigation, RelayOffer, Role, Routes, Stage, VERSION,
};

/// What both sides name in the ALPN extension (RFC 7301).
pub const ALPN: &[u8] = b"psmc-signal/1";
