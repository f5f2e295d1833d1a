//! What goes wrong on the control channel.

use std::io;
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError, OtherError};
use thiserror::Error;

use super::HANDSHAKE_TIMEOUT;
use crate::keys::PublicKey;

/// Why there is no control connection.
///
/// Its `From<io::Error>` finds the reason in the errors of a TLS stream too, such as the alert of a peer that refused
/// this site's key after the dialer's side of the handshake was through.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The connection below broke or was closed.
    #[error("connection lost")]
    Io(#[source] io::Error),
    /// The handshake took too long.
    #[error(
        "TLS handshake timed out after {HANDSHAKE_TIMEOUT:?}: packets are lost on the path, or the other end is stuck"
    )]
    TimedOut,
    /// A dialer whose key is not allowed here. The key is claimed: nothing has proved yet that the dialer owns it.
    #[error("unknown key {key}: to accept it, add a [[peer]] with this public_key")]
    UnknownKey {
        /// The key shown.
        key: PublicKey,
    },
    /// A dialer shows an invitation that is not known here. Its key is claimed, not proved.
    #[error("unknown invitation {key}: it has expired, was used, or was withdrawn")]
    UnknownInvitation {
        /// The key of the invitation.
        key: PublicKey,
    },
    /// A dialer that says nothing by which to tell that it knows the key of this site, which is quiet, or repeats what another one said.
    #[error("the dialer does not prove to know this site's key: is it a stranger, or of version 0.1?")]
    Unproved,
    /// A dialer that knows the key of this site, which is quiet, but by whose clock this is another time.
    #[error("the dialer's clock differs by {seconds} s from this one: set both by NTP")]
    Clock {
        /// By how much it is ahead.
        seconds: i64,
    },
    /// The one that answers is not the one dialled. The key found is claimed, not proved.
    #[error(
        "the peer has the key {found}, not {expected}: compare public_key with what `psmc pubkey` prints there"
    )]
    WrongKey {
        /// The key configured.
        expected: PublicKey,
        /// The key shown.
        found: PublicKey,
    },
    /// The other side does not accept the key shown here.
    #[error(
        "the peer rejects this site's key: add what `psmc pubkey` prints here to the peer's configuration"
    )]
    KeyRefused,
    /// The other side speaks TLS, but not this protocol in this version.
    #[error("ALPN mismatch: do both sides run matching versions of PSMC?")]
    OtherProtocol,
    /// Anything else that TLS finds wrong; the source says what.
    #[error("TLS handshake failed: is the other end a PSMC site?")]
    Handshake(#[source] rustls::Error),
}

impl From<io::Error> for TlsError {
    fn from(error: io::Error) -> Self {
        match error.downcast::<rustls::Error>() {
            Ok(error) => error.into(),
            Err(error) => Self::Io(error),
        }
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        if let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = &error
            && let Some(rejected) = cause.downcast_ref::<RejectedKey>()
        {
            return rejected.into();
        }
        if error == rustls::Error::AlertReceived(AlertDescription::CertificateUnknown) {
            return Self::KeyRefused;
        }
        if error == rustls::Error::NoApplicationProtocol
            || error == rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)
        {
            return Self::OtherProtocol;
        }
        Self::Handshake(error)
    }
}

/// Carries a key that this side does not accept through rustls, which tells the other side
/// `certificate_unknown` (RFC 8446 §6.2).
#[derive(Debug, Error)]
#[error("key {found} is not accepted")]
pub(super) struct RejectedKey {
    pub(super) found: PublicKey,
    /// The one key that would be, if there is one.
    pub(super) expected: Option<PublicKey>,
}

impl From<RejectedKey> for rustls::Error {
    fn from(rejected: RejectedKey) -> Self {
        Self::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(rejected))))
    }
}

impl From<&RejectedKey> for TlsError {
    fn from(rejected: &RejectedKey) -> Self {
        let found = rejected.found;
        match rejected.expected {
            Some(expected) => Self::WrongKey { expected, found },
            None => Self::UnknownKey { key: found },
        }
    }
}
