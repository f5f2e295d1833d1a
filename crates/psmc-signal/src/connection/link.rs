//! The end that dials, and dials again.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use psmc_net::framing::Framed;
use psmc_net::keys::{PublicKey, random_seed};
use psmc_net::tls::tcp::connect_tcp;
use psmc_net::tls::{Dialer, Identity};
use psmc_service::clock::Backoff;
use psmc_wire::control::{LENGTH_LEN, MAX_MESSAGE};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsStream;

use super::{Channel, ConnectionError, QUEUE};
use crate::ALPN;
use crate::message::{Message, Role};

/// Where a coordinator is, and who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coordinator {
    /// Where it takes connections.
    pub address: SocketAddr,
    /// Whom to expect there.
    pub public_key: PublicKey,
}

/// What a [`Link`] is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who this side is.
    pub identity: Identity,
    /// What it is.
    pub role: Role,
    /// The services that it is about.
    pub services: Vec<String>,
    /// Whom to dial: one after the other, and beside one that does not answer soon, until one says welcome. Where several
    /// coordinators share a state, all but one refuse.
    pub coordinators: Vec<Coordinator>,
    /// The interface to dial through, where that is not left to the routes.
    pub interface: Option<String>,
    /// The address to dial from.
    pub local: Option<IpAddr>,
}

/// What happens on a link.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// There is a connection. Nothing of what was said on the last one is known to have arrived: say again what holds.
    Up {
        /// To whom.
        coordinator: SocketAddr,
    },
    /// The coordinator says something: no pings, and nothing that this version does not know.
    Message(Message),
    /// There is no connection, and another is being tried. Said once for each attempt that fails, too.
    Down {
        /// To whom.
        coordinator: SocketAddr,
        /// Why, for people.
        reason: String,
    },
}

/// Why a message will not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// Too many wait already.
    #[error("send queue full ({QUEUE} messages): the line is slow or down")]
    Full,
    /// The other side would not read it.
    #[error("the message has {0} bytes, more than the {MAX_MESSAGE} that may be sent: send it in parts")]
    TooLong(usize),
    /// The link was dropped.
    #[error("connection lost")]
    Gone,
}

/// Puts messages on a [`Link`].
#[derive(Clone, Debug)]
pub struct Sender(mpsc::Sender<Message>);

impl Sender {
    /// Has a message sent, without waiting. While there is no connection, messages are thrown away: what holds is said
    /// again at [`Event::Up`].
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send(&self, message: Message) -> Result<(), SendError> {
        let len = message.encoded_len();
        if len > MAX_MESSAGE {
            return Err(SendError::TooLong(len));
        }
        self.0.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SendError::Full,
            mpsc::error::TrySendError::Closed(_) => SendError::Gone,
        })
    }
}

/// A connection to one of several coordinators that is made, and made again when it breaks, until the link is dropped.
#[derive(Debug)]
pub struct Link {
    sender: Sender,
    events: mpsc::Receiver<Event>,
    task: JoinHandle<()>,
}

impl Link {
    /// Begins to dial.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn open(options: Options) -> Self {
        let (sender, outgoing) = mpsc::channel(QUEUE);
        let (events_to, events) = mpsc::channel(QUEUE);
        let task = tokio::spawn(keep(options, outgoing, events_to));
        Self { sender: Sender(sender), events, task }
    }

    /// Has a message sent: [`Sender::send`].
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send(&self, message: Message) -> Result<(), SendError> {
        self.sender.send(message)
    }

    /// What others can send by.
    #[must_use]
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// What happens next. May be dropped and called again.
    ///
    /// # Panics
    /// If the task behind the link has panicked.
    pub async fn next(&mut self) -> Event {
        self.events.recv().await.expect("the task ends with the link only")
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Nobody listens to the events any more.
struct Unheard;

/// A connection with a welcome, and to whom.
type Connected = (Coordinator, Channel<TlsStream<TcpStream>>);

/// Dials until nobody listens to the events any more.
async fn keep(options: Options, outgoing: mpsc::Receiver<Message>, events: mpsc::Sender<Event>) {
    // Ends with nothing to be said to anybody.
    let Err(Unheard) = dial(Arc::new(options), outgoing, &events).await;
}

async fn dial(
    options: Arc<Options>,
    mut outgoing: mpsc::Receiver<Message>,
    events: &mpsc::Sender<Event>,
) -> Result<Infallible, Unheard> {
    let mut pause = Backoff::new(FIRST_PAUSE, LAST_PAUSE);
    loop {
        if let Some((coordinator, channel)) = race(&options, events).await? {
            pause.reset();
            let error = serve(coordinator, channel, &mut outgoing, events).await;
            say_down(coordinator, &error, events).await?;
        }
        sleep(jittered(pause.wait())).await;
    }
}

/// Dials all coordinators, and has the one that says welcome first; `None` if none does. Each is dialled as soon as the one
/// before has failed, or beside it if that takes long (as RFC 8305 §5 does with addresses).
async fn race(options: &Arc<Options>, events: &mpsc::Sender<Event>) -> Result<Option<Connected>, Unheard> {
    let mut untried = options.coordinators.iter().copied();
    let mut attempts = JoinSet::new();
    let mut next = untried.next();
    loop {
        if let Some(coordinator) = next.take() {
            let options = options.clone();
            attempts.spawn(async move { (coordinator, attempt(&options, coordinator).await) });
        }
        tokio::select! {
            ended = attempts.join_next() => {
                let Some(ended) = ended else { return Ok(None) };
                match ended.expect("attempts do not panic, and are aborted with their race only") {
                    (coordinator, Ok(channel)) => return Ok(Some((coordinator, channel))),
                    (coordinator, Err(error)) => say_down(coordinator, &error, events).await?,
                }
                next = untried.next();
            }
            () = sleep(NEXT_AFTER), if untried.len() > 0 => next = untried.next(),
        }
    }
}

async fn say_down(
    coordinator: Coordinator,
    error: &ConnectionError,
    events: &mpsc::Sender<Event>,
) -> Result<(), Unheard> {
    let down = Event::Down { coordinator: coordinator.address, reason: with_causes(error) };
    events.send(down).await.map_err(|_| Unheard)
}

/// From the first packet to the welcome.
async fn attempt(
    options: &Options,
    coordinator: Coordinator,
) -> Result<Channel<TlsStream<TcpStream>>, ConnectionError> {
    let connecting = timeout(CONNECT_TIMEOUT, connect(options, coordinator)).await;
    connecting.map_err(|_| ConnectionError::TimedOut(CONNECT_TIMEOUT))?
}

/// Carries messages until the connection ends, and says why it did.
async fn serve(
    coordinator: Coordinator,
    channel: Channel<TlsStream<TcpStream>>,
    outgoing: &mut mpsc::Receiver<Message>,
    events: &mpsc::Sender<Event>,
) -> ConnectionError {
    // What was meant for another connection.
    while outgoing.try_recv().is_ok() {}
    if events.send(Event::Up { coordinator: coordinator.address }).await.is_err() {
        return ConnectionError::Closed;
    }
    let (incoming, mut received) = mpsc::channel(1);
    let pass_on = async {
        while let Some(message) = received.recv().await {
            if events.send(Event::Message(message)).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        error = channel.run(outgoing, &incoming) => error,
        () = pass_on => ConnectionError::Closed,
    }
}

async fn connect(
    options: &Options,
    coordinator: Coordinator,
) -> Result<Channel<TlsStream<TcpStream>>, ConnectionError> {
    let dialer = Dialer::for_protocol(&options.identity, coordinator.public_key, ALPN);
    let interface = options.interface.as_deref();
    let stream = connect_tcp(interface, options.local, coordinator.address, CONNECT_TIMEOUT).await?;
    let secured = dialer.connect(stream).await?;
    Channel::greet(secured.stream, options.role, options.services.clone()).await
}

/// Between half of a pause and all of it, so that those who lost the same coordinator do not come back at once.
fn jittered(pause: Duration) -> Duration {
    let [chance, ..] = random_seed();
    pause / 2 + pause / 2 * u32::from(chance) / 255
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl Message {
    /// How long it is on the wire, without the length in front.
    fn encoded_len(&self) -> usize {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        bytes.len() - LENGTH_LEN
    }
}

/// How long a connection may take until the welcome: on a full line TCP sends its first packet a second time after one
/// second, and a third time after three.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);

/// How long a coordinator may take until the next one is dialled beside it: a handshake over a long way.
const NEXT_AFTER: Duration = Duration::from_millis(300);

/// The pause after all coordinators were tried for the first time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: a coordinator that starts finds its gateways within seconds.
const LAST_PAUSE: Duration = Duration::from_secs(3);
