//! What an acceptor hears first, and what it makes of it before anything is computed.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::server::{Accepted, Acceptor as Hearer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;
use tokio_rustls::StartHandshake;

use super::proof::{self, Proof, Stale, Taken};
use super::{Acceptor, HANDSHAKE_TIMEOUT, Service, TlsError, finish};
use crate::clock::unix_seconds;

/// A client's first message, which has not been answered.
pub(super) struct Greeting<S> {
    pub(super) start: StartHandshake<S>,
    /// What the client has asked for.
    pub(super) service: Service,
    /// Whether the client has [proved](proof) to know this acceptor's key.
    pub(super) has_proved: bool,
    /// When the handshake has to be complete.
    pub(super) deadline: Instant,
}

/// The proofs that an acceptor has taken that answers nothing else. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Quiet(Arc<Mutex<Taken>>);

impl Quiet {
    fn take(&self, proof: Option<Proof>) -> Result<(), TlsError> {
        let proof = proof.ok_or(TlsError::Unproved)?;
        // One that was poisoned has at worst forgotten a proof.
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.take(proof, unix_seconds()).map_err(|stale| match stale {
            Stale::Repeated => TlsError::Unproved,
            Stale::Clock(seconds) => TlsError::Clock { seconds },
        })
    }
}

impl Acceptor {
    /// Reads the first message of a client. rustls lets a client in that names no protocol at all; here a scanner, which names
    /// another one or none, gets an alert and nothing else, above all not this site's key, and from a quiet acceptor not even that.
    pub(super) async fn hear<S>(&self, io: S) -> Result<Greeting<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        finish(deadline, self.hear_until(io, deadline)).await
    }

    async fn hear_until<S>(&self, mut io: S, deadline: Instant) -> Result<Greeting<S>, (TlsError, S)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let error = match first_message(&mut io).await {
            Ok(accepted) => match self.judge(&accepted) {
                Ok((service, has_proved)) => {
                    let start = StartHandshake::from_parts(accepted, io);
                    return Ok(Greeting { start, service, has_proved, deadline });
                }
                Err(error) => Unheard { error, alert: NO_APPLICATION_PROTOCOL.to_vec() },
            },
            Err(unheard) => unheard,
        };
        if self.quiet.is_none() {
            // Whether it arrives changes nothing about the error.
            let _ = io.write_all(&error.alert).await;
        }
        Err((error.error, io))
    }

    /// What the client has asked for, and whether it has proved to know this acceptor's key.
    fn judge(&self, accepted: &Accepted) -> Result<(Service, bool), TlsError> {
        let hello = accepted.client_hello();
        let named: Vec<_> = hello.alpn().into_iter().flatten().collect();
        let service = self.services().find(|service| named.contains(&service.alpn));
        let service = service.ok_or(TlsError::OtherProtocol)?;
        let proof = proof::find(&self.key, service.alpn, named);
        if let Some(quiet) = &self.quiet {
            quiet.take(proof)?;
        }
        Ok((service.clone(), proof.is_some()))
    }
}

/// Why there is no first message, and what is to be said of that.
struct Unheard {
    error: TlsError,
    alert: Vec<u8>,
}

impl From<io::Error> for Unheard {
    fn from(error: io::Error) -> Self {
        Self { error: TlsError::Io(error), alert: Vec::new() }
    }
}

async fn first_message(io: &mut (impl AsyncRead + Unpin)) -> Result<Accepted, Unheard> {
    let mut hearer = Hearer::default();
    let mut chunk = [0; CHUNK];
    loop {
        let len = io.read(&mut chunk).await?;
        if len == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let mut rest = &chunk[..len];
        while !rest.is_empty() {
            hearer.read_tls(&mut rest)?;
        }
        match hearer.accept() {
            Ok(Some(accepted)) => return Ok(accepted),
            Ok(None) => {}
            Err((error, mut told)) => {
                let mut alert = Vec::new();
                told.write_all(&mut alert)?;
                return Err(Unheard { error: error.into(), alert });
            }
        }
    }
}

/// How much is read at once, in bytes: a first message has 1.6 kB with the share for ML-KEM, and rustls keeps 64 KiB of one at most.
const CHUNK: usize = 2048;

/// The record of the fatal alert `no_application_protocol` (RFC 8446 §5.1 and §6, RFC 7301 §3.2).
const NO_APPLICATION_PROTOCOL: [u8; 7] = [21, 3, 3, 0, 2, 2, 120];
