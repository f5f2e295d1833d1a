//! The accept loop of the control channel.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tracing::{debug, error, info};

use super::crowds::HalfOpen;
use super::crowds::Strangers;
use super::tcp;
use super::{Acceptor, Secured, TlsError};
use crate::retry::Retry;

/// What an accept loop has seen so far. The first six say how TCP connections ended up.
#[derive(Debug, Default)]
pub struct Counters {
    /// Handshakes that succeeded and were handed over.
    pub accepted: AtomicU64,
    /// Dialers whose key is not allowed.
    pub refused_unknown_key: AtomicU64,
    /// Handshakes that failed otherwise: broken connections, other protocols, nonsense.
    pub failed_handshake: AtomicU64,
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
    strangers: Strangers,
}

type Outcome = (Result<Secured, TlsError>, SocketAddr);

impl Listener {
    /// Serves `listener` until the receiver of `ready` is closed. Dropping the future ends all handshakes.
    ///
    /// Each handshake is a task of its own. At most 512 are in progress, 32 of them from one IPv4 address or IPv6 /64; when
    /// there are more, the oldest is dropped. A connection for which `ready` has no room is dropped and counted.
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
            strangers: Strangers::default(),
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
        let task = self.handshakes.spawn(async move { (serve(&acceptor, stream).await, from) });
        if let Some(oldest) = self.half_open.add(from.ip(), task) {
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
            Ok((_, (Ok(secured), from))) => self.hand_over(secured, from),
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
        increment(match error {
            TlsError::UnknownKey { .. } | TlsError::UnknownInvitation { .. } => {
                &self.counters.refused_unknown_key
            }
            TlsError::TimedOut => &self.counters.timed_out,
            TlsError::Io(_)
            | TlsError::WrongKey { .. }
            | TlsError::KeyRefused
            | TlsError::OtherProtocol
            | TlsError::Handshake(_) => &self.counters.failed_handshake,
        });
        debug!(%from, error = error as &dyn std::error::Error, "no control connection");
    }
}

async fn serve(acceptor: &Acceptor, stream: TcpStream) -> Result<Secured, TlsError> {
    tcp::tune(SockRef::from(&stream)).map_err(TlsError::Io)?;
    acceptor.accept(stream).await
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
