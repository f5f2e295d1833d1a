//! The thread that watches interfaces, ten times a second.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use psmc_net::packet::PacketError;
use psmc_net::priority::prefer_this_thread;
use psmc_toml::InterfaceName;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::config::Service;
use crate::observe::{Observed, Observer};
use crate::status;

/// How often. Five samples tell a flood, so that it is known within a second.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// How often it is tried to open an interface anew that is gone, in samples.
const REOPEN_EVERY: u32 = 10;

/// Samples that wait to be judged: what is older is no news.
const QUEUE: usize = 32;

/// Nothing can be watched.
#[derive(Debug, Error)]
pub enum WatchError {
    /// An interface cannot.
    #[error("cannot capture packets")]
    Packets(#[from] PacketError),
    /// The system gives no thread.
    #[error("cannot start the thread that watches")]
    Thread(#[from] io::Error),
}

/// What has arrived, for each service in the order of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    /// What it is.
    pub samples: Vec<Observed>,
    /// In which time.
    pub elapsed: Duration,
}

/// The watching thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Watcher {
    arrivals: mpsc::Receiver<Arrivals>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    status: Mutex<status::Watch>,
}

impl Watcher {
    /// Begins to watch.
    ///
    /// # Errors
    /// [`WatchError`].
    pub fn start(interfaces: &[InterfaceName], services: &[Service]) -> Result<Self, WatchError> {
        let observer = Observer::open(interfaces, services)?;
        let (sender, arrivals) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared::default());
        let thread = thread::Builder::new().name("watch".to_owned()).spawn({
            let shared = shared.clone();
            move || watch(observer, &sender, &shared)
        })?;
        Ok(Self { arrivals, shared, thread: Some(thread) })
    }

    /// What has arrived next. May be dropped and called again.
    pub async fn next(&mut self) -> Option<Arrivals> {
        self.arrivals.recv().await
    }

    /// How the watching fares.
    #[must_use]
    pub fn status(&self) -> status::Watch {
        self.shared.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it has panicked, that was reported.
            let _ = thread.join();
        }
    }
}

fn watch(mut observer: Observer, arrivals: &mpsc::Sender<Arrivals>, shared: &Shared) {
    // A flood takes processors first. Ordinary users have to do without.
    prefer_this_thread();
    let (mut last, mut ticks) = (Instant::now(), 0_u32);
    while !shared.stop.load(Ordering::Relaxed) {
        thread::sleep((last + INTERVAL).saturating_duration_since(Instant::now()));
        let now = Instant::now();
        let elapsed = now - last;
        last = now;
        let samples = observer.sample(elapsed);
        let is_lost = arrivals.try_send(Arrivals { samples, elapsed }).is_err();
        ticks = ticks.wrapping_add(1);
        if ticks.is_multiple_of(REOPEN_EVERY) {
            for interface in observer.reopen() {
                tracing::info!(%interface, "interface available again");
            }
        }
        report(&observer, is_lost, shared);
    }
}

fn report(observer: &Observer, is_lost: bool, shared: &Shared) {
    let mut status = shared.status.lock().unwrap_or_else(PoisonError::into_inner);
    let blind: Vec<String> = observer.blind().map(ToString::to_string).collect();
    for interface in blind.iter().filter(|interface| !status.blind.contains(interface)) {
        tracing::warn!(%interface, "interface down or removed: not watching");
    }
    let (packets, packets_estimated) = observer.packets();
    let samples_lost = status.samples_lost + u64::from(is_lost);
    *status = status::Watch { packets, packets_estimated, blind, samples_lost };
}
