//! The control channel: TLS 1.3 over TCP (or over another such stream), both sides authenticated.
//!
//! The sides show raw Ed25519 public keys (RFC 7250) instead of certificates. The key exchange is
//! X25519MLKEM768 where both know it, else X25519. There are no tickets, so no resumption and no early data
//! either: each connection has fresh secrets. The keys of the data plane come out of its exporter (RFC 8446
//! §7.5), under the label [`EXPORTER_LABEL`] with an empty context.

mod config;
mod crowds;
mod error;
mod greeting;
mod listener;
mod proof;
pub mod tcp;
mod trust;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use psmc_wire::crypto::Role;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ConnectionCommon, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::{TlsConnector, TlsStream};
use zeroize::Zeroizing;

use crate::aead::{ExportedKeys, SECRET_LEN};
use crate::clock::unix_seconds;
use crate::keys::{PrivateKey, PublicKey};
use greeting::{Greeting, Quiet};

pub use error::TlsError;
pub use listener::{Counters, Listener};
pub use trust::AllowedKeys;

/// What both sides must name in the ALPN extension (RFC 7301).
pub const ALPN: &[u8] = b"psmc/1";

/// What a dialer names in its place that shows an invitation: it is no peer yet.
pub const JOIN_ALPN: &[u8] = b"psmc-join/1";

/// What a dialer names that wants to carry datagrams of a path in a [stream](crate::stream).
pub const PATH_ALPN: &[u8] = b"psmc-path/1";

/// Under which label the keys of the data plane are exported (RFC 8446 §7.5).
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-psmc-data-v1";

/// How long a handshake may take: two round trips over the worst path and a retransmission of TCP in each.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// What a site shows and proves in every handshake. Clones share one key.
#[derive(Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    public: PublicKey,
}

impl Identity {
    /// The identity of whoever holds `key`.
    #[must_use]
    pub fn new(key: &PrivateKey) -> Self {
        Self { certified: config::certified(key), public: key.public() }
    }

    /// The key by which peers know this identity.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// For a client of another protocol than ours, which `alpn` names (RFC 7301), over another transport, QUIC for one:
    /// it only talks to who proves to own the key `expected`.
    #[must_use]
    pub fn client_config(&self, expected: PublicKey, alpn: &[u8]) -> ClientConfig {
        config::client(self, expected, alpn)
    }

    /// For a server of another protocol than ours, over another transport: it lets in whose keys `allowed` holds.
    #[must_use]
    pub fn server_config(&self, allowed: AllowedKeys, alpn: &[u8]) -> ServerConfig {
        config::server(self, allowed, alpn)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.public).finish()
    }
}

/// Opens control connections to one peer.
#[derive(Clone)]
pub struct Dialer {
    config: Arc<ClientConfig>,
    expected: PublicKey,
    /// What the other side is called, if it is to hear that.
    name: ServerName<'static>,
    alpn: &'static [u8],
}

impl Dialer {
    /// Dials as `identity`, and only talks to who proves to own the key `expected`.
    #[must_use]
    pub fn new(identity: &Identity, expected: PublicKey) -> Self {
        Self::for_protocol(identity, expected, ALPN)
    }

    /// The same for another protocol than that of the sites, which `alpn` names.
    #[must_use]
    pub fn for_protocol(identity: &Identity, expected: PublicKey, alpn: &'static [u8]) -> Self {
        Self { config: Arc::new(config::client(identity, expected, alpn)), expected, name: no_name(), alpn }
    }

    /// Says, in the clear, to whom it wants to speak (RFC 6066 §3), so that a proxy in front may pass it on. What is no name of
    /// DNS is not said.
    #[must_use]
    pub fn asking_for(self, host: &str) -> Self {
        let Ok(name @ ServerName::DnsName(_)) = ServerName::try_from(host.to_owned()) else { return self };
        let mut config = (*self.config).clone();
        config.enable_sni = true;
        Self { config: Arc::new(config), name, ..self }
    }

    /// Shakes hands over `io` as the TLS client, within [`HANDSHAKE_TIMEOUT`], and proves with its first message that it knows the
    /// key of the other side, so that this is served first when many call.
    ///
    /// TLS 1.3 lets the client finish before the server has looked at the client's key. A peer that refuses this
    /// site's key therefore shows in the first read or write on the stream: make a [`TlsError`] of that error.
    ///
    /// # Errors
    /// [`TlsError`]; above all [`WrongKey`](TlsError::WrongKey) if the other side owns another key.
    pub async fn connect<S>(&self, io: S) -> Result<Secured<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut config = (*self.config).clone();
        config.alpn_protocols.push(proof::name(&self.expected, self.alpn, unix_seconds()));
        let connector = TlsConnector::from(Arc::new(config));
        let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
        let stream = finish(deadline, connector.connect(self.name.clone(), io).into_fallible()).await?;
        let (peer, keys) = outcome(stream.get_ref().1, self.alpn)?;
        let protocol = self.alpn;
        Ok(Secured { stream: TlsStream::Client(stream), peer, keys, role: Role::Dialer, protocol })
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer").finish_non_exhaustive()
    }
}

/// Accepts control connections from peers whose keys are allowed.
#[derive(Clone)]
pub struct Acceptor {
    key: PublicKey,
    /// Who has to prove to know `key` before this says a word, if anybody has.
    quiet: Option<Quiet>,
    peers: Service,
    /// What those are served that show an invitation, if any are.
    invited: Option<Service>,
    /// What peers are served whose paths come in streams, if any are.
    streams: Option<Service>,
}

/// A protocol, and how its handshakes go.
#[derive(Clone)]
struct Service {
    config: Arc<ServerConfig>,
    alpn: &'static [u8],
}

impl Acceptor {
    /// Answers as `identity` those whose keys `allowed` holds at the moment of their handshake.
    #[must_use]
    pub fn new(identity: &Identity, allowed: AllowedKeys) -> Self {
        Self::for_protocol(identity, allowed, ALPN)
    }

    /// The same for another protocol than that of the sites, which `alpn` names.
    #[must_use]
    pub fn for_protocol(identity: &Identity, allowed: AllowedKeys, alpn: &'static [u8]) -> Self {
        Self {
            key: identity.public(),
            quiet: None,
            peers: Service::new(identity, allowed, alpn),
            invited: None,
            streams: None,
        }
    }

    /// Answers those, too, who name [`JOIN_ALPN`] and show a key of `invitations`.
    #[must_use]
    pub fn with_invitations(self, identity: &Identity, invitations: AllowedKeys) -> Self {
        Self { invited: Some(Service::new(identity, invitations, JOIN_ALPN)), ..self }
    }

    /// Takes streams for datagrams, too, from those who name [`PATH_ALPN`] and whose keys `allowed` holds.
    #[must_use]
    pub fn with_streams(self, identity: &Identity, allowed: AllowedKeys) -> Self {
        Self { streams: Some(Service::new(identity, allowed, PATH_ALPN)), ..self }
    }

    /// Says nothing to who doesn't prove to know its key, with the first message, by a clock that is not off by more than five
    /// minutes, and once for each proof: an alert would say already that there is something, and TLS shows the key. Dialers of version
    /// 0.1 prove nothing.
    #[must_use]
    pub fn quietly(self, is_quiet: bool) -> Self {
        Self { quiet: is_quiet.then(Quiet::default), ..self }
    }

    /// Shakes hands over `io` as the TLS server, within [`HANDSHAKE_TIMEOUT`].
    ///
    /// # Errors
    /// [`TlsError`]; above all [`UnknownKey`](TlsError::UnknownKey) for a key that is not allowed.
    pub async fn accept<S>(&self, io: S) -> Result<Secured<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.answer(self.hear(io).await?).await
    }

    /// Shakes hands with who has greeted.
    async fn answer<S>(&self, greeting: Greeting<S>) -> Result<Secured<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Greeting { start, service: Service { config, alpn }, deadline, .. } = greeting;
        let shaken = finish(deadline, start.into_stream(config).into_fallible()).await;
        if let Err(TlsError::UnknownKey { key }) = shaken
            && alpn == JOIN_ALPN
        {
            return Err(TlsError::UnknownInvitation { key });
        }
        let stream = shaken?;
        let (peer, keys) = outcome(stream.get_ref().1, alpn)?;
        Ok(Secured { stream: TlsStream::Server(stream), peer, keys, role: Role::Acceptor, protocol: alpn })
    }

    fn services(&self) -> impl Iterator<Item = &Service> {
        std::iter::once(&self.peers).chain(&self.invited).chain(&self.streams)
    }
}

impl Service {
    fn new(identity: &Identity, allowed: AllowedKeys, alpn: &'static [u8]) -> Self {
        Self { config: Arc::new(config::server(identity, allowed, alpn)), alpn }
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

/// A control connection whose other side has proved to own `peer`.
pub struct Secured<S = TcpStream> {
    /// The connection, for control messages.
    pub stream: TlsStream<S>,
    /// The key of the other side.
    pub peer: PublicKey,
    /// The keys of the data plane, the same at both ends.
    pub keys: ExportedKeys,
    /// Which end this is.
    pub role: Role,
    /// The protocol that both sides have named.
    pub protocol: &'static [u8],
}

impl<S> fmt::Debug for Secured<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured").field("peer", &self.peer).field("role", &self.role).finish_non_exhaustive()
    }
}

/// Awaits a handshake, and sees to it that the alert of one that fails arrives.
async fn finish<T, S, E>(
    deadline: Instant,
    handshake: impl Future<Output = Result<T, (E, S)>>,
) -> Result<T, TlsError>
where
    S: AsyncRead + AsyncWrite + Unpin,
    TlsError: From<E>,
{
    match timeout_at(deadline, handshake).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err((error, io))) => {
            // Whether the other side hangs up in time changes nothing about the error.
            let _ = timeout(LINGER, hang_up(io)).await;
            Err(error.into())
        }
        Err(_) => Err(TlsError::TimedOut),
    }
}

/// Closes `io` behind what was sent last, and waits for the other side to do the same.
///
/// Closing a TCP connection with unread input resets it (RFC 1122 §4.2.2.13), and the reset would overtake an alert.
async fn hang_up<S>(mut io: S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    io.shutdown().await?;
    tokio::io::copy(&mut io.take(LINGER_BYTES), &mut tokio::io::sink()).await?;
    Ok(())
}

/// The other side's key, and the keys exported, of a connection whose handshake is complete.
fn outcome<D>(connection: &ConnectionCommon<D>, alpn: &[u8]) -> Result<(PublicKey, ExportedKeys), TlsError> {
    if connection.alpn_protocol() != Some(alpn) {
        return Err(TlsError::OtherProtocol);
    }
    let peer = connection
        .peer_certificates()
        .and_then(|chain| config::from_spki(chain.first()?))
        .ok_or(TlsError::Handshake(rustls::Error::NoCertificatesPresented))?;
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    connection
        .export_keying_material(&mut secret[..], EXPORTER_LABEL, Some(b""))
        .map_err(TlsError::Handshake)?;
    Ok((peer, ExportedKeys::new(&secret)))
}

/// rustls wants a name for each server. Ours have keys only, and this one is never sent.
fn no_name() -> ServerName<'static> {
    Ipv4Addr::UNSPECIFIED.into()
}

/// How long a failed connection is kept for its alert to arrive: one round trip over a bad path.
const LINGER: Duration = Duration::from_secs(1);

/// How much a failed connection may still send before it is reset, in bytes: more than any handshake leaves unread.
const LINGER_BYTES: u64 = 64 * 1024;
