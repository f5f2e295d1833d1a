//! Mirrors, as HTTP/1.1 shows them (RFC 9110, RFC 9112).

mod client;
mod connect;
mod error;
mod head;
mod url;

pub(super) use client::{Answer, Client};
pub(super) use connect::Connector;
pub(super) use error::MirrorError;
pub(super) use head::{Head, Part, Version};
pub(crate) use url::Url;
