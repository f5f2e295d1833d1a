//! Connections to relays: each is asked all the time whether it is there, and told what it may carry; and grants: what
//! gateways and clients show to relays.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use psmc_net::framing::{FramingError, MessageReader, write_message};
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::tls::tcp::{TcpError, connect_tcp};
use psmc_net::tls::{Dialer, Identity, TlsError};
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{
    ALPN, Cap, CapTarget, Grant, Hello, Message, Refused, RequestId, Revoke, SignedGrant, VERSION,
};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsStream;

use crate::config::Relay;
use crate::engine::Input;
use crate::error_chain;

/// How often a relay is asked.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// How long a relay may take to answer, or to shake hands: more than a round trip around the world and a lost packet.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);

/// The pause between attempts to reach a relay that is not there.
const PAUSE: Duration = Duration::from_secs(1);

/// What a relay may carry, in bits per second; whatever it can, if that is `None`.
pub type Limit = Option<u64>;

/// Sites whose grants are taken back: those that end at this second or before, since 1970 (UTC); none of them with 0.
pub type Void = Arc<BTreeMap<KeyBytes, u64>>;

/// What a relay is told.
#[derive(Clone, Debug)]
pub struct Orders {
    /// What it may carry.
    pub limit: watch::Receiver<Limit>,
    /// Whose grants are void there.
    pub void: watch::Receiver<Void>,
}

/// What is found out about a relay.
#[derive(Clone, Debug)]
pub struct News {
    /// The relay.
    pub relay: String,
    /// How long it takes to answer and does as it is told, or why it is of no use.
    pub result: Result<Duration, String>,
}

/// Why a relay is of no use.
#[derive(Debug, Error)]
enum RelayError {
    #[error(transparent)]
    Tcp(#[from] TcpError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Framing(#[from] FramingError),
    #[error("no answer within {ANSWER_WITHIN:?}")]
    Silent,
    #[error("refused: {}", .0.text)]
    Refused(Refused),
    #[error("protocol error: do both sides run matching versions of PSMC?")]
    Protocol,
    #[error("the coordinator is shutting down")]
    Ended,
}

/// Keeps a connection to a relay for as long as somebody may want to limit it.
pub async fn keep(
    relay: Relay,
    identity: Identity,
    name: String,
    mut orders: Orders,
    news: mpsc::Sender<Input>,
) {
    // A connection may break without the relay being gone; so the second failure in a row counts.
    let mut failed_before = true;
    loop {
        if orders.limit.has_changed().is_err() {
            return;
        }
        let mut answered = false;
        let Err(error) = converse(&relay, &identity, &name, &mut orders, &news, &mut answered).await;
        if matches!(error, RelayError::Ended) {
            return;
        }
        if answered {
            failed_before = false;
        }
        if failed_before || matches!(error, RelayError::Refused(_) | RelayError::Silent) {
            let result = Err(error_chain(&error));
            let told = news.send(Input::Relay(News { relay: relay.name.clone(), result })).await;
            if told.is_err() {
                return;
            }
            sleep(PAUSE).await;
        }
        failed_before = true;
    }
}

/// One connection, until it is of no use any more.
async fn converse(
    relay: &Relay,
    identity: &Identity,
    name: &str,
    Orders { limit, void }: &mut Orders,
    news: &mpsc::Sender<Input>,
    answered: &mut bool,
) -> Result<std::convert::Infallible, RelayError> {
    let mut link =
        timeout(ANSWER_WITHIN, Link::open(relay, identity, name)).await.map_err(|_| RelayError::Silent)??;
    loop {
        let rate = *limit.borrow_and_update();
        let asked = Instant::now();
        timeout(ANSWER_WITHIN, link.cap(rate)).await.map_err(|_| RelayError::Silent)??;
        let sites = void.borrow_and_update().clone();
        link.take_back(&sites).await?;
        *answered = true;
        let result = Ok(asked.elapsed());
        let told = news.send(Input::Relay(News { relay: relay.name.clone(), result })).await;
        told.map_err(|_| RelayError::Ended)?;
        tokio::select! {
            changed = limit.changed() => changed.map_err(|_| RelayError::Ended)?,
            changed = void.changed() => changed.map_err(|_| RelayError::Ended)?,
            () = sleep(ASK_EVERY) => {}
            // A relay that ends closes the connection, and says nothing else without being asked.
            unasked = link.hear() => return Err(unexpected(unasked?)),
        }
    }
}

/// A connection on which both have greeted.
struct Link {
    stream: TlsStream<TcpStream>,
    reader: MessageReader,
    next: u32,
    /// Whether grants can be taken back from it.
    revokes: bool,
    /// What it has been told of those.
    void: BTreeMap<KeyBytes, u64>,
}

impl Link {
    async fn open(relay: &Relay, identity: &Identity, name: &str) -> Result<Self, RelayError> {
        let tcp = connect_tcp(None, None, relay.address, ANSWER_WITHIN).await?;
        let dialer = Dialer::for_protocol(identity, relay.public_key, ALPN);
        let stream = dialer.connect(tcp).await?.stream;
        let (reader, void) = (MessageReader::default(), BTreeMap::new());
        let mut link = Self { stream, reader, next: 1, revokes: false, void };
        let hello = Hello { version: VERSION, name: name.to_owned(), grant: None };
        write_message(&mut link.stream, &Message::Hello(hello)).await?;
        let answer = link.hear().await?;
        let Message::Welcome(welcome) = answer else { return Err(unexpected(answer)) };
        link.revokes = welcome.abilities.revokes;
        Ok(link)
    }

    /// Says what the relay may carry in all. That is how it is asked whether it is there, too: twice the same changes nothing.
    async fn cap(&mut self, rate: Limit) -> Result<(), RelayError> {
        self.ask(|request| Message::Cap(Cap { request, target: CapTarget::Relay, rate })).await
    }

    /// Takes grants back, as far as it does not know that yet.
    async fn take_back(&mut self, sites: &BTreeMap<KeyBytes, u64>) -> Result<(), RelayError> {
        for (&site, &until_s) in sites {
            if !self.revokes || self.void.get(&site) == Some(&until_s) {
                continue;
            }
            let told = self.ask(|request| Message::Revoke(Revoke { request, site, until_s }));
            match timeout(ANSWER_WITHIN, told).await.map_err(|_| RelayError::Silent)? {
                // It carries what it is to carry all the same.
                Err(RelayError::Refused(refused)) => {
                    tracing::warn!(reason = refused.text, "a relay does not take grants back");
                }
                told => told?,
            }
            self.void.insert(site, until_s);
        }
        Ok(())
    }

    /// Asks for what is answered by DONE.
    async fn ask(&mut self, message: impl FnOnce(RequestId) -> Message) -> Result<(), RelayError> {
        let request = RequestId(self.next);
        self.next = self.next.wrapping_add(1).max(1);
        write_message(&mut self.stream, &message(request)).await?;
        let answer = self.hear().await?;
        if answer == Message::Done(request) { Ok(()) } else { Err(unexpected(answer)) }
    }

    /// The next message that this version knows. May be dropped and called again.
    async fn hear(&mut self) -> Result<Message, RelayError> {
        loop {
            let next = self.reader.next(&mut self.stream).await;
            let message = next.map_err(|error| match error {
                FramingError::Broken(source) => RelayError::Tls(source.into()),
                FramingError::Ended | FramingError::Stuck | FramingError::Malformed(_) => error.into(),
            })?;
            if !matches!(message, Message::Unknown(_)) {
                return Ok(message);
            }
        }
    }
}

fn unexpected(message: Message) -> RelayError {
    if let Message::Refused(refused) = message { RelayError::Refused(refused) } else { RelayError::Protocol }
}

/// Sessions that a site may have at a relay: a path over each of 64 uplinks.
const SESSIONS: u16 = 64;

/// Who may do what at a relay.
#[derive(Clone, Copy, Debug)]
pub struct Granted {
    /// The relay.
    pub relay: PublicKey,
    /// The site.
    pub site: PublicKey,
    /// Until when, in seconds since 1970.
    pub expires_s: u64,
    /// What the site may send and receive there, in bits per second.
    pub max_rate: Option<u64>,
    /// Whether it may be a gateway.
    pub gateway: bool,
}

impl Granted {
    /// The grant as `psmc grant` prints it, signed by the coordinator.
    #[must_use]
    pub fn sign(self, coordinator: &PrivateKey) -> String {
        let grant = Grant {
            relay: KeyBytes(*self.relay.as_bytes()),
            site: KeyBytes(*self.site.as_bytes()),
            expires_s: self.expires_s,
            sessions: SESSIONS,
            max_rate: self.max_rate,
            gateway: self.gateway,
        };
        let signature = coordinator.sign(&grant.signed_bytes());
        STANDARD.encode(SignedGrant { grant, signature }.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_what_relays_read() {
        let [coordinator, relay, site] = [1, 2, 3].map(|seed| PrivateKey::from_seed([seed; 32]));
        let granted = Granted {
            relay: relay.public(),
            site: site.public(),
            expires_s: 7,
            max_rate: Some(5),
            gateway: true,
        };
        let bytes = STANDARD.decode(granted.sign(&coordinator)).unwrap();
        let signed = SignedGrant::from_bytes(&bytes).unwrap();
        assert!(coordinator.public().has_signed(&signed.grant.signed_bytes(), &signed.signature));
        assert_eq!(signed.grant.site.0, *site.public().as_bytes());
        assert!(signed.grant.gateway);
    }
}
