//! Connections between servers and routers: [`carry`] is either end of one, [`keep`] the server's, which dials and dials again. Relays
//! and sites have messages of their own, which [`keep`] hides.
//!
//! Everything is bounded: [`QUEUE`] messages wait in either direction, none is longer than
//! [`MAX_MESSAGE`](psmc_wire::control::MAX_MESSAGE) bytes, and who sends faster than [`Pace`] allows is read more slowly.

mod relay;
mod site;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use psmc_net::framing::{FramingError, MessageReader, Pace, close, write_message};
use psmc_net::keys::PublicKey;
use psmc_net::tls::tcp::{TcpError, connect_tcp};
use psmc_net::tls::{Dialer, Identity, TlsError};
use psmc_service::clock::Backoff;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, split};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsStream;

use crate::message::{ALPN, Message};
use crate::server::rules::Translator;

/// Messages that wait in a queue at most: each replaces those before it, and one that finds no room is made anew soon.
pub const QUEUE: usize = 16;

/// After how much silence the other side is gone: it speaks twice a second if it is a router, and at least each few seconds if it is
/// a server.
const GONE_AFTER: Duration = Duration::from_secs(6);

/// How long a connection may take: on a full line TCP sends its first packet a second time after one second, and a third time
/// after three.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// The first pause between attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest one: a router that starts is told within seconds.
const LAST_PAUSE: Duration = Duration::from_secs(3);

/// Why there is no connection any more, or none yet.
#[derive(Debug, Error)]
pub enum ConnectionError {
    /// There is no way to the router.
    #[error(transparent)]
    Tcp(#[from] TcpError),
    /// The router is another one, or does not know this server.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Messages come or go no more.
    #[error(transparent)]
    Framing(FramingError),
    /// Nothing came for six seconds.
    #[error("timed out")]
    Silent,
    /// The relay refuses.
    #[error("the relay refuses: {0}")]
    Refused(String),
    /// It is of a version that drops nothing for others.
    #[error("the relay cannot drop anything for others: upgrade it")]
    NotAble,
    /// The site's daemon says no, or is not there.
    #[error("cannot ask psmcd")]
    Site(#[from] psmc_api::ClientError),
    /// This side has nothing to say any more.
    #[error("closed here")]
    Closed,
}

impl From<FramingError> for ConnectionError {
    /// A dialler learns from its first read whether its key is accepted; then that is the error.
    fn from(error: FramingError) -> Self {
        match error {
            FramingError::Broken(source) => Self::Tls(source.into()),
            FramingError::Ended | FramingError::Stuck | FramingError::Malformed(_) => Self::Framing(error),
        }
    }
}

/// Carries messages both ways until the connection ends, and says why it did. Messages of later versions do not come out.
///
/// It ends with [`Closed`](ConnectionError::Closed), behind what was sent last, when there is no sender for `outgoing` or no
/// receiver for `incoming` any more.
pub async fn carry<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    outgoing: &mut mpsc::Receiver<Message>,
    incoming: &mpsc::Sender<Message>,
) -> ConnectionError {
    let (from, mut to) = split(stream);
    let write = async {
        loop {
            let Some(message) = outgoing.recv().await else { return ConnectionError::Closed };
            if let Err(error) = write_message(&mut to, &message).await {
                return error.into();
            }
        }
    };
    let error = tokio::select! {
        error = read(from, incoming) => error,
        error = write => error,
    };
    if matches!(error, ConnectionError::Closed) {
        close(to).await;
    }
    error
}

async fn read<S: AsyncRead>(mut stream: ReadHalf<S>, incoming: &mpsc::Sender<Message>) -> ConnectionError {
    let mut reader = MessageReader::default();
    let mut pace = Pace::new();
    loop {
        let next = tokio::select! {
            next = timeout(GONE_AFTER, reader.next(&mut stream)) => next,
            () = incoming.closed() => return ConnectionError::Closed,
        };
        match next {
            Err(_) => return ConnectionError::Silent,
            Ok(Err(error)) => return error.into(),
            Ok(Ok(Message::Unknown)) => {}
            Ok(Ok(message)) => {
                if incoming.send(message).await.is_err() {
                    return ConnectionError::Closed;
                }
            }
        }
        pace.wait().await;
    }
}

/// Who drops what a server does not accept, and is told so over a connection.
#[derive(Clone, Debug)]
pub enum Upstream {
    /// An agent on a router.
    Router(Target),
    /// A relay, to which this server is a site of that name.
    Relay(Target, String, Translator),
    /// A peer of the site of this machine, which its daemon asks.
    Site(Site, Translator),
}

/// A peer of the site of this machine.
#[derive(Clone, Debug)]
pub struct Site {
    /// The control socket of the site's daemon.
    pub socket: PathBuf,
    /// What the peer is called there.
    pub peer: String,
}

/// A router or relay to be dialled.
#[derive(Clone, Debug)]
pub struct Target {
    /// Where it takes servers.
    pub address: SocketAddr,
    /// Whom to expect there.
    pub public_key: PublicKey,
    /// The address to dial from, where that is not left to the routes.
    pub local: Option<std::net::IpAddr>,
}

/// What happens on a connection that is kept.
#[derive(Debug)]
pub enum Event {
    /// There is one; what is put into the sender goes to the router.
    Up(mpsc::Sender<Message>),
    /// The router says something.
    Message(Message),
    /// There is none, and why. Said once for each attempt that fails, too.
    Down(String),
}

/// Dials an upstream, and dials it again when the connection breaks, until nobody takes what `event` makes of what happens any
/// more.
pub async fn keep<E: Send>(
    identity: Identity,
    upstream: Upstream,
    events: mpsc::Sender<E>,
    event: impl Fn(Event) -> E,
) {
    let mut pause = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
    loop {
        let error = match timeout(CONNECT_TIMEOUT, connect(&identity, &upstream)).await {
            Ok(Ok(link)) => {
                let (sender, mut outgoing) = mpsc::channel(QUEUE);
                if events.send(event(Event::Up(sender))).await.is_err() {
                    return;
                }
                let (incoming, mut said) = mpsc::channel(1);
                let mut has_answered = false;
                let pass_on = async {
                    while let Some(message) = said.recv().await {
                        has_answered = true;
                        if events.send(event(Event::Message(message))).await.is_err() {
                            return;
                        }
                    }
                };
                let error = tokio::select! {
                    error = link.carry(&mut outgoing, &incoming) => error,
                    () = pass_on => return,
                };
                if has_answered {
                    pause.reset();
                }
                error
            }
            Ok(Err(error)) => error,
            Err(_) => ConnectionError::Silent,
        };
        if events.send(event(Event::Down(crate::error_chain(&error)))).await.is_err() {
            return;
        }
        sleep(pause.wait()).await;
    }
}

/// A connection to an upstream.
enum Link<'u> {
    Router(Stream),
    Relay(Stream, &'u str, &'u Translator),
    Site(psmc_api::Client, &'u Site, &'u Translator),
}

type Stream = TlsStream<TcpStream>;

async fn connect<'u>(identity: &Identity, upstream: &'u Upstream) -> Result<Link<'u>, ConnectionError> {
    Ok(match upstream {
        Upstream::Router(target) => Link::Router(dial(identity, target, ALPN).await?),
        Upstream::Relay(target, name, translator) => {
            Link::Relay(dial(identity, target, psmc_wire::relay::ALPN).await?, name, translator)
        }
        Upstream::Site(site, translator) => Link::Site(site::connect(site).await?, site, translator),
    })
}

async fn dial(
    identity: &Identity,
    target: &Target,
    protocol: &'static [u8],
) -> Result<Stream, ConnectionError> {
    let stream = connect_tcp(None, target.local, target.address, CONNECT_TIMEOUT).await?;
    let dialer = Dialer::for_protocol(identity, target.public_key, protocol);
    Ok(dialer.connect(stream).await?.stream)
}

impl Link<'_> {
    async fn carry(
        self,
        outgoing: &mut mpsc::Receiver<Message>,
        incoming: &mpsc::Sender<Message>,
    ) -> ConnectionError {
        match self {
            Self::Router(stream) => carry(stream, outgoing, incoming).await,
            Self::Relay(stream, name, translator) => {
                relay::carry(stream, name, translator, outgoing, incoming).await
            }
            Self::Site(client, site, translator) => {
                site::carry(client, site, translator, outgoing, incoming).await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    fn taken(serial: u64) -> Message {
        Message::Taken { serial, lasts_ms: 1, refused: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn messages_go_both_ways_until_one_side_has_enough() {
        let (near, far) = duplex(1024);
        let (near_to, mut near_out) = mpsc::channel(QUEUE);
        let (far_to, mut far_out) = mpsc::channel(QUEUE);
        let (near_in, mut near_said) = mpsc::channel(QUEUE);
        let (far_in, mut far_said) = mpsc::channel(QUEUE);
        let near = tokio::spawn(async move { carry(near, &mut near_out, &near_in).await });
        let far = tokio::spawn(async move { carry(far, &mut far_out, &far_in).await });
        near_to.send(taken(1)).await.unwrap();
        far_to.send(Message::Unknown).await.unwrap();
        far_to.send(taken(2)).await.unwrap();
        assert_eq!(far_said.recv().await, Some(taken(1)));
        assert_eq!(near_said.recv().await, Some(taken(2)));
        drop(near_to);
        assert!(matches!(near.await.unwrap(), ConnectionError::Closed));
        assert!(matches!(far.await.unwrap(), ConnectionError::Framing(FramingError::Ended)));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_silent_or_talks_nonsense_is_gone() {
        for (said, is_silent) in [(&b""[..], true), (b"\0\0\0\x02{}", false), (b"\xff\xff\xff\xff", false)] {
            let (near, mut far) = duplex(1024);
            let (_to, mut outgoing) = mpsc::channel(QUEUE);
            let (incoming, _received) = mpsc::channel(QUEUE);
            far.write_all(said).await.unwrap();
            let error = carry(near, &mut outgoing, &incoming).await;
            let is_malformed = matches!(&error, ConnectionError::Framing(FramingError::Malformed(_)));
            assert_eq!((matches!(error, ConnectionError::Silent), is_malformed), (is_silent, !is_silent));
        }
    }
}
