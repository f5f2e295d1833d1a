//! Mirrors, as HTTP/1.1 shows them (RFC 9110, RFC 9112), and what can go wrong with them.

mod client;
mod head;
mod url;

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use hyper::StatusCode;
use psmc_net::tls::tcp::TcpError;

pub(crate) use client::Via;
pub(super) use client::{Answer, Client, Connector};
pub(super) use head::{Coding, Head, Piece, Proof, Version, is_same_time};
pub(crate) use url::Url;
use url::UrlError;

/// Why a mirror did not give what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MirrorError {
    #[error("cannot find the address of {host}")]
    Resolve { host: String, source: io::Error },
    #[error(transparent)]
    Connect(#[from] TcpError),
    #[error("{host} has no address of the family of {from}")]
    Family { host: String, from: IpAddr },
    #[error("no secure connection to {host}")]
    Tls { host: String, source: io::Error },
    #[error(
        "the system has no certificates to check {host} by; install ca-certificates, or set SSL_CERT_FILE"
    )]
    NoRoots { host: String },
    #[error("connection lost")]
    Broken(#[source] hyper::Error),
    #[error("it closed the connection before the end of its answer")]
    Short,
    #[error("timed out waiting for a response")]
    Silent,
    #[error("stalled")]
    Stalled,
    #[error("it answered {status}{}", later(*after))]
    Status {
        status: StatusCode,
        /// When it wants to be asked again, if it says so.
        after: Option<Duration>,
    },
    #[error("redirect without a Location")]
    Nowhere,
    #[error("redirect to an invalid URL")]
    Redirect(#[source] UrlError),
    #[error("it redirects from https to http, {0}, which is not followed; give that URL if you trust it")]
    Downgrade(String),
    #[error("it redirects more than {0} times")]
    Redirects(usize),
    #[error("it does not say how long the file is, as other mirrors do")]
    NoLength,
    #[error("it says that there is nothing in the file")]
    Nothing,
    #[error("what it sent compressed cannot be decompressed")]
    Corrupt(#[source] io::Error),
    #[error("what it sent has another SHA-256: {0}")]
    Hash(String),
    #[error("it sent another part of the file than it was asked for")]
    WrongPart,
    #[error("it sent all of the file instead of a part")]
    NoParts,
    #[error("it sent the unrequested content coding {0}")]
    Coding(String),
    #[error("its version of the file changed: {0}")]
    Changed(String),
    #[error("it serves another version of the file than the other mirrors: {0}")]
    Differs(String),
}

impl MirrorError {
    /// Whether it will not help to ask again.
    pub(crate) fn is_lasting(&self) -> bool {
        match self {
            Self::Status { status, after } => {
                let later =
                    [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
                let is_final = status.is_client_error() && !later.contains(status);
                is_final || after.is_some_and(|after| after > LONGEST_WAIT)
            }
            Self::NoRoots { .. }
            | Self::Family { .. }
            | Self::Nowhere
            | Self::Redirect(_)
            | Self::Downgrade(_)
            | Self::Redirects(_)
            | Self::Coding(_)
            | Self::NoLength
            | Self::Nothing
            | Self::Hash(_)
            | Self::Changed(_)
            | Self::Differs(_) => true,
            Self::Connect(error) => matches!(error, TcpError::Local { .. }),
            // rustls tells of bad certificates in this way.
            Self::Tls { source, .. } => source.kind() == io::ErrorKind::InvalidData,
            Self::Resolve { .. }
            | Self::Broken(_)
            | Self::Corrupt(_)
            | Self::Short
            | Self::Silent
            | Self::Stalled
            | Self::WrongPart
            | Self::NoParts => false,
        }
    }

    /// Whether there is no such interface. One that there was may come back.
    pub(crate) fn is_about_the_interface(&self) -> bool {
        matches!(self, Self::Connect(TcpError::Interface { .. }))
    }

    /// When it is of use to ask again, at the earliest, if the mirror says so.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if let Self::Status { after, .. } = self { *after } else { None }
    }

    /// Whether a request without a range may be answered all the same: the range is what the mirror does not like.
    pub(crate) fn is_about_the_range(&self) -> bool {
        let disliked =
            [StatusCode::BAD_REQUEST, StatusCode::RANGE_NOT_SATISFIABLE, StatusCode::NOT_IMPLEMENTED];
        matches!(self, Self::Status { status, .. } if disliked.contains(status))
    }

    /// Whether the mirror says that the file does not have the bytes that were asked for.
    pub(crate) fn is_unsatisfiable(&self) -> bool {
        matches!(self, Self::Status { status: StatusCode::RANGE_NOT_SATISFIABLE, .. })
    }
}

fn later(after: Option<Duration>) -> String {
    after.map_or_else(String::new, |after| format!(", and wants to be asked again in {} s", after.as_secs()))
}

/// Nobody waits longer for a mirror: it is left out.
const LONGEST_WAIT: Duration = Duration::from_mins(2);
