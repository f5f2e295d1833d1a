//! The bytes of the PSMC protocol.
pub mod buf;
pub mod crypto;
