//! Traffic in real time: who sends it, who takes it, and what comes of it.
//!
//! Each stream has a thread of its own, which lives in the namespace of the sender; the sockets of the receiver are made
//! in the other namespace and used from the same thread. What is measured is measured where it arrives.
//!
//! | module | what it has |
//! |---|---|
//! | `tcp` | bulk transfer by TCP and MPTCP |
//! | `quic` | bulk transfer by QUIC |
//! | `udp` | datagrams at a constant rate, or at most at that |
//! | `requests` | requests at random times |
//! | `ping` | ICMP echo |
//! | `record` | what a stream has measured, and the result it makes |

mod ping;
mod quic;
mod record;
mod requests;
mod socket;
mod tcp;
mod udp;

use std::io;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use psmc_testbed::netns::Namespace;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::results::TrafficResult;
use crate::scenario::{Traffic, TrafficKind};
use record::{Ending, Record};
use requests::Requests;
use socket::TcpOptions;

pub use socket::check_congestion_control;
pub use udp::{Flood, Pace};

/// The hosts between which a stream flows.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// Who sends or asks.
    pub from: Arc<Namespace>,
    /// Who receives or answers.
    pub to: Arc<Namespace>,
}

/// Everything that a generator knows.
#[derive(Clone, Debug)]
struct Job {
    traffic: Traffic,
    hosts: Hosts,
    clock: Clock,
    /// Where its chance comes from.
    seed: u64,
    /// For whoever watches.
    live: Arc<Live>,
    /// Becomes true when nobody wants the result any more.
    cancelled: watch::Receiver<bool>,
}

/// A stream that runs. It ends by itself; to drop it ends it at once.
#[derive(Debug)]
pub struct Stream {
    thread: Option<JoinHandle<TrafficResult>>,
    live: Arc<Live>,
    cancel: watch::Sender<bool>,
}

impl Stream {
    /// Starts a stream. Call it before the traffic is to start, so that there is time to make the sockets.
    #[must_use]
    pub fn start(traffic: &Traffic, hosts: Hosts, clock: Clock, seed: u64) -> Self {
        let live = Arc::<Live>::default();
        let (cancel, cancelled) = watch::channel(false);
        let traffic = traffic.clone();
        let job = Job { traffic, hosts, clock, seed, live: Arc::clone(&live), cancelled };
        Self { thread: Some(thread::spawn(move || job.run())), live, cancel }
    }

    /// Bytes of payload that have arrived so far.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.live.arrived()
    }

    /// How long the latest answer took, for streams of pings and requests; `None` if there was none yet.
    #[must_use]
    pub fn latency(&self) -> Option<Duration> {
        self.live.latency()
    }

    /// Whether it has ended, so that [`finish`](Self::finish) does not wait.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until it has ended, and returns what it has measured.
    ///
    /// # Panics
    /// If its thread has.
    #[must_use]
    pub fn finish(mut self) -> TrafficResult {
        let thread = self.thread.take().expect("only this and drop take the thread, and both own the stream");
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.cancel.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // If it has panicked it has ended, too, and nobody wants its result.
            drop(thread.join());
        }
    }
}

impl Job {
    fn run(&self) -> TrafficResult {
        let result = self.hosts.from.block_on(|| self.measure());
        result.unwrap_or_else(|error| {
            Record::new(self).into_result(&self.traffic, Err(TrafficError::Runtime(error)))
        })
    }

    async fn measure(&self) -> TrafficResult {
        let record = Record::new(self);
        let outcome = tokio::select! {
            outcome = self.generate(&record) => outcome,
            () = self.until_cancelled() => Err(TrafficError::Cancelled),
        };
        record.into_result(&self.traffic, outcome)
    }

    async fn generate(&self, record: &Record) -> Result<Ending, TrafficError> {
        match &self.traffic.kind {
            TrafficKind::Tcp { congestion_control, flows, bytes, multipath } => {
                let options =
                    TcpOptions { congestion_control: Some(congestion_control), multipath: *multipath };
                tcp::Bulk { options, flows: *flows, bytes: *bytes }.run(self, record).await
            }
            TrafficKind::Quic { congestion_control, bytes } => {
                quic::Bulk { congestion_control, bytes: *bytes }.run(self, record).await
            }
            TrafficKind::Udp { rate, payload, adaptive } => {
                udp::run(self, Pace { rate: *rate, payload: *payload }, *adaptive, record).await
            }
            TrafficKind::Requests { congestion_control, rate, request, response } => {
                let options = TcpOptions { congestion_control: Some(congestion_control), multipath: false };
                let requests = Requests { options, rate: *rate, request: *request, response: *response };
                requests.run(self, record).await
            }
            TrafficKind::Ping { interval, payload } => ping::run(self, *interval, *payload, record).await,
        }
    }

    async fn until_cancelled(&self) {
        // The sender never goes before this: whoever drops the stream waits for this thread.
        let _ = self.cancelled.clone().wait_for(|cancelled| *cancelled).await;
    }

    async fn until_start(&self) {
        self.clock.sleep_until(self.traffic.start).await;
    }

    /// Waits until the stream has stopped, and then for what is on its way: until `arrived` says that nothing is, but
    /// not longer than [`LINGER`].
    async fn linger(&self, arrived: impl Fn() -> bool) {
        self.clock.sleep_until(self.traffic.stop).await;
        while !arrived() && self.clock.now() < self.patience_ends() {
            sleep(POLL).await;
        }
    }

    /// When what has not arrived counts as lost.
    fn patience_ends(&self) -> Duration {
        self.traffic.stop + LINGER
    }
}

/// A bulk transfer whose time was up before it had ended.
fn incomplete(record: &Record, bytes: Option<u64>) -> Result<Ending, TrafficError> {
    let arrived = record.bytes();
    match bytes {
        Some(wanted) if arrived < wanted => Err(TrafficError::Incomplete { arrived, wanted }),
        None if arrived == 0 => Err(TrafficError::Nothing),
        Some(_) | None => Ok(Ending::TimeUp),
    }
}

/// How long after its stop a stream waits for what is on its way: longer than any queue of use.
const LINGER: Duration = Duration::from_secs(2);

/// How often it is looked whether it has arrived.
const POLL: Duration = Duration::from_millis(5);

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// There is no runtime in the namespace.
    #[error("cannot start")]
    Runtime(#[source] io::Error),
    /// The kernel does not know the congestion control.
    #[error("this kernel does not support congestion control \"{wanted}\"; available: {available}")]
    CongestionControl {
        /// What was asked for.
        wanted: String,
        /// What there is.
        available: String,
    },
    /// The kernel does not give us a socket of this kind.
    #[error("cannot make a socket for {what}")]
    Socket {
        /// For what.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody takes the connection.
    #[error("cannot connect to {to}")]
    Connect {
        /// To where.
        to: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody answers.
    #[error("no connection to {to} within {} s", waited.as_secs_f64())]
    NoConnection {
        /// To where.
        to: SocketAddr,
        /// How long it was tried.
        waited: Duration,
    },
    /// A connection that stood is no more.
    #[error("connection lost")]
    Broken(#[source] io::Error),
    /// Time was up.
    #[error("timed out: only {arrived} of {wanted} bytes arrived")]
    Incomplete {
        /// Bytes that arrived.
        arrived: u64,
        /// Bytes that were to arrive.
        wanted: u64,
    },
    /// Nothing could be sent.
    #[error("cannot send")]
    Send(#[source] io::Error),
    /// Time was up, and nothing had got through.
    #[error("nothing arrived")]
    Nothing,
    /// Nobody wants the result any more.
    #[error("stopped")]
    Cancelled,
}

impl TrafficError {
    /// No socket for this.
    const fn socket(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Socket { what, source }
    }
}

/// Counts time from the start of a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    interval: Duration,
}

impl Clock {
    /// A run that starts at `start`, which may lie ahead, with series in intervals of this length.
    #[must_use]
    pub const fn new(start: Instant, interval: Duration) -> Self {
        Self { start, interval }
    }

    /// The interval of all series.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Since the start; 0 before it.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// A moment of the run.
    #[must_use]
    pub fn at(&self, time: Duration) -> Instant {
        self.start + time
    }

    /// Waits for a moment of the run. The timer of the runtime is exact to a millisecond.
    pub async fn sleep_until(&self, time: Duration) {
        tokio::time::sleep_until(self.at(time).into()).await;
    }
}

/// Written by the thread of the stream, read by whoever watches.
#[derive(Debug, Default)]
struct Live {
    /// Bytes of payload.
    arrived: AtomicU64,
    /// In nanoseconds; 0 if there is none yet.
    latency: AtomicU64,
}

impl Live {
    fn add_arrived(&self, bytes: u64) {
        self.arrived.fetch_add(bytes, Ordering::Relaxed);
    }

    fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    fn set_latency(&self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latency.store(nanos, Ordering::Relaxed);
    }

    fn latency(&self) -> Option<Duration> {
        let nanos = self.latency.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }
}
