//! The accept loop of the control channel.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tracing::{debug, error, info};

use super::crowds::{Answering, HalfOpen, Strangers};
use super::greeting::Greeting;
use super::tcp;
use super::{Acceptor, Secured, TlsError};
use crate::retry::Retry;

/// What an accept loop has seen so far. The first seven say how TCP connections ended up.
#[derive(Debug, Default)]
pub struct Counters {
    /// Handshakes that succeeded and were handed over.
    pub accepted: AtomicU64,
    /// Dialers whose key is not allowed.
    pub refused_unknown_key: AtomicU64,
    /// Handshakes that failed otherwise: broken connections, other protocols, nonsense.
    pub failed_handshake: AtomicU64,
    /// Handshakes dropped before anything was computed for them: more came from their source, or in all, than are answered.
    pub put_off: AtomicU64,
    /// Handshakes dropped to make room for newer ones.
    pub evicted: AtomicU64,
    /// Handshakes not finished within [`HANDSHAKE_TIMEOUT`](super::HANDSHAKE_TIMEOUT).
    pub timed_out: AtomicU64,
    /// Handshakes that succeeded, but were dropped because the receiver's queue was full.
    pub overflowed: AtomicU64,
    /// Connections that the system could not hand out, for instance for want of file descriptors.
    pub accept_errors: AtomicU64,
}

/// An accept loop: takes TCP connections, shakes hands, and hands over those that succeed.
#[derive(Debug)]
pub struct Listener {
    acceptor: Acceptor,
    ready: mpsc::Sender<(Secured, SocketAddr)>,
    counters: Arc<Counters>,
    handshakes: JoinSet<Outcome>,
    half_open: HalfOpen<AbortHandle>,
    answering: Answering,
    strangers: Strangers,
    /// When a clock that differs was spoken of last.
    clock_at: Option<Instant>,
}

type Outcome = (Result<Stage, TlsError>, SocketAddr);

/// How far a handshake has got.
enum Stage {
    Heard(Box<Greeting<TcpStream>>),
    Done(Box<Secured>),
}

impl Listener {
    /// Serves `listener` until the receiver of `ready` is closed. Dropping the future ends all handshakes.
    ///
    /// Each handshake is a task of its own. At most 512 are in progress, 32 of them from one IPv4 address or IPv6 /64; when
    /// there are more, the oldest is dropped. How many are answered has bounds as well, narrow ones for who does not prove to know
    /// the key of this side. A connection for which `ready` has no room is dropped and counted.
    /// The addresses handed over are canonical: IPv4 as IPv4, even from a dual-stack socket.
    pub async fn run(
        listener: TcpListener,
        acceptor: Acceptor,
        ready: mpsc::Sender<(Secured, SocketAddr)>,
        counters: Arc<Counters>,
    ) {
        let closed = ready.clone();
        let mut this = Self {
            acceptor,
            ready,
            counters: counters.clone(),
            handshakes: JoinSet::new(),
            half_open: HalfOpen::new(),
            answering: Answering::new(Instant::now()),
            strangers: Strangers::default(),
            clock_at: None,
        };
        let mut retry = Retry::new("accept control connections");
        loop {
            // In this order: what is over makes room for what comes.
            tokio::select! {
                biased;
                () = closed.closed() => return,
                Some(joined) = this.handshakes.join_next_with_id() => this.finish(joined),
                (stream, from) = accept(&listener, &mut retry, &counters) => this.begin(stream, from),
            }
        }
    }

    fn begin(&mut self, stream: TcpStream, from: SocketAddr) {
        let acceptor = self.acceptor.clone();
        let task = self.handshakes.spawn(async move {
            let heard = hear(&acceptor, stream).await;
            (heard.map(|greeting| Stage::Heard(Box::new(greeting))), from)
        });
        self.add(from, false, task);
    }

    /// Answers a first message, if that is to be answered by the pace of its source.
    fn answer(&mut self, greeting: Greeting<TcpStream>, from: SocketAddr) {
        let has_proved = greeting.has_proved;
        if !self.answering.admits(from.ip(), has_proved, Instant::now()) {
            increment(&self.counters.put_off);
            return;
        }
        let acceptor = self.acceptor.clone();
        let task = self.handshakes.spawn(async move {
            let answered = acceptor.answer(greeting).await;
            (answered.map(|secured| Stage::Done(Box::new(secured))), from)
        });
        self.add(from, has_proved, task);
    }

    fn add(&mut self, from: SocketAddr, has_proved: bool, task: AbortHandle) {
        if let Some(oldest) = self.half_open.add(from.ip(), has_proved, task) {
            oldest.abort();
            increment(&self.counters.evicted);
        }
    }

    fn finish(&mut self, joined: Result<(Id, Outcome), JoinError>) {
        let id = match &joined {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        self.half_open.remove(|task| task.id() == id);
        match joined {
            Ok((_, (Ok(Stage::Heard(greeting)), from))) => self.answer(*greeting, from),
            Ok((_, (Ok(Stage::Done(secured)), from))) => self.hand_over(*secured, from),
            Ok((_, (Err(error), from))) => self.count_failure(&error, from),
            // Only evicted ones are cancelled, and those are counted.
            Err(error) if error.is_cancelled() => {}
            Err(error) => {
                increment(&self.counters.failed_handshake);
                error!(%error, "bug: a handshake panicked");
            }
        }
    }

    fn hand_over(&self, secured: Secured, from: SocketAddr) {
        let peer = secured.peer;
        match self.ready.try_send((secured, from)) {
            Ok(()) => {
                increment(&self.counters.accepted);
                debug!(%from, %peer, "control connection accepted");
            }
            Err(TrySendError::Full(_)) => {
                increment(&self.counters.overflowed);
                debug!(%from, %peer, "control connection dropped: the queue is full");
            }
            // The loop is about to notice that, too.
            Err(TrySendError::Closed(_)) => {}
        }
    }

    /// Strangers can cause any number of these, hence the low level of the record; a key is spoken of now and then.
    fn count_failure(&mut self, error: &TlsError, from: SocketAddr) {
        if let TlsError::UnknownKey { key } = error
            && let Some(times) = self.strangers.note(*key, Instant::now())
        {
            let address = from.ip();
            info!(%address, %key, times, "connection with an unknown key rejected: to accept it, add a [[peer]] with this public_key");
        }
        if let TlsError::UnknownInvitation { key } = error
            && let Some(times) = self.strangers.note(*key, Instant::now())
        {
            let address = from.ip();
            info!(%address, invitation = %key, times, "invitation rejected: it has expired, was used, or was withdrawn");
        }
        if let TlsError::Clock { seconds } = error
            && self.clock_at.is_none_or(|at| at.elapsed() >= CLOCK_AGAIN)
        {
            self.clock_at = Some(Instant::now());
            let address = from.ip();
            info!(%address, seconds, "a caller's clock differs: this site is quiet, and goes by the time; set both by NTP");
        }
        increment(match error {
            TlsError::UnknownKey { .. } | TlsError::UnknownInvitation { .. } => {
                &self.counters.refused_unknown_key
            }
            TlsError::TimedOut => &self.counters.timed_out,
            TlsError::Io(_)
            | TlsError::WrongKey { .. }
            | TlsError::KeyRefused
            | TlsError::OtherProtocol
            | TlsError::Unproved
            | TlsError::Clock { .. }
            | TlsError::Handshake(_) => &self.counters.failed_handshake,
        });
        debug!(%from, error = error as &dyn std::error::Error, "no control connection");
    }
}

async fn hear(acceptor: &Acceptor, stream: TcpStream) -> Result<Greeting<TcpStream>, TlsError> {
    tcp::tune(SockRef::from(&stream)).map_err(TlsError::Io)?;
    acceptor.hear(stream).await
}

/// The next connection. Errors are counted and got over, however many there are.
async fn accept(listener: &TcpListener, retry: &mut Retry, counters: &Counters) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => return (stream, tcp::canonical(from)),
            Err(error) => {
                increment(&counters.accept_errors);
                retry.after(&error).await;
            }
        }
    }
}

fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A clock that differs is spoken of again after this time.
const CLOCK_AGAIN: Duration = Duration::from_secs(600);
