//! Mirrors, as HTTP/1.1 shows them (RFC 9110, RFC 9112).

mod client;
mod connect;
mod error;
mod head;
mod url;

pub(super) use client::{Answer, Client};
pub(super) use connect::Connector;
pub(crate) use connect::Via;
pub(super) use error::MirrorError;
pub(super) use head::{Coding, Head, Part, Proof, Version, is_same_time};
pub(crate) use url::Url;
