//! What can go wrong with a mirror.

use std::io;

use hyper::StatusCode;

use super::url::UrlError;

/// Why a mirror did not give what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MirrorError {
    #[error("cannot find the address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error("cannot connect to {address}")]
    Connect { address: String, source: io::Error },
    #[error("no secure connection to {host}")]
    Tls { host: String, source: io::Error },
    #[error(
        "the system has no certificates to check {host} by; install ca-certificates, or set SSL_CERT_FILE"
    )]
    NoRoots { host: String },
    #[error("it broke off")]
    Broken(#[source] hyper::Error),
    #[error("it closed the connection before the end of its answer")]
    Short,
    #[error("it did not answer in time")]
    Silent,
    #[error("it sent nothing any more")]
    Stalled,
    #[error("it answered {0}")]
    Status(StatusCode),
    #[error("it redirects to what is no address")]
    Redirect(#[source] UrlError),
    #[error("it redirects from https to http, {0}, which is not followed; give that URL if you trust it")]
    Downgrade(String),
    #[error("it redirects more than {0} times")]
    Redirects(usize),
    #[error("it does not say how long the file is")]
    NoLength,
    #[error("it sent another part of the file than it was asked for")]
    WrongPart,
    #[error("it sent all of the file instead of a part")]
    NoParts,
    #[error("it serves another version of the file than before, or lies about it: {0}")]
    Changed(String),
    #[error("it serves another version of the file than the other mirrors: {0}")]
    Differs(String),
}

impl MirrorError {
    /// Whether it will not help to ask again.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Status(status) => {
                let later =
                    [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
                status.is_client_error() && !later.contains(status)
            }
            Self::NoRoots { .. }
            | Self::Redirect(_)
            | Self::Downgrade(_)
            | Self::Redirects(_)
            | Self::NoLength
            | Self::Changed(_)
            | Self::Differs(_) => true,
            // rustls tells of bad certificates in this way.
            Self::Tls { source, .. } => source.kind() == io::ErrorKind::InvalidData,
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Broken(_)
            | Self::Short
            | Self::Silent
            | Self::Stalled
            | Self::WrongPart
            | Self::NoParts => false,
        }
    }
}
