//! TCP flows between the hosts, and what arrived when.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::{Duration, Instant};

use psmc_testbed::netns::Namespace;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::DemoError;
use super::network::{Link, Network};

/// Both ends of a connection.
pub(super) struct Flow {
    pub(super) sender: TcpStream,
    pub(super) receiver: TcpStream,
}

/// Connects `from` to `to`, which has the address `address`.
pub(super) async fn connect(from: &Namespace, to: &Namespace, address: Ipv4Addr) -> io::Result<Flow> {
    // A socket stays in the namespace that it is made in.
    let server = to.run(TcpSocket::new_v4)?;
    let client = from.run(TcpSocket::new_v4)?;
    SockRef::from(&client).set_tcp_congestion(CONGESTION_CONTROL)?;
    server.bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
    let listener = server.listen(1)?;
    let target = SocketAddr::from((address, listener.local_addr()?.port()));
    let both = async { tokio::try_join!(client.connect(target), listener.accept()) };
    let (sender, (receiver, _)) = patiently(both).await?;
    Ok(Flow { sender, receiver })
}

/// Reads to the end, takes down what arrives when, and shows it to `look`.
pub(super) async fn receive(
    stream: &mut TcpStream,
    deliveries: &RefCell<Deliveries>,
    mut look: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; READ_SIZE];
    loop {
        let length = patiently(stream.read(&mut buffer)).await?;
        if length == 0 {
            return Ok(());
        }
        deliveries.borrow_mut().add(Instant::now(), length as u64);
        look(&buffer[..length]);
    }
}

/// What one TCP flow gets through a link, in Mbit/s.
pub(super) async fn goodput_mbps(network: &Network, link: &Link) -> Result<f64, DemoError> {
    let failed = |source| DemoError::Tcp { over: format!("over {}", link.name), source };
    let mut flow = connect(&network.van, network.far(link), link.far()).await.map_err(failed)?;
    let deliveries = RefCell::new(Deliveries::new(Instant::now()));
    let both =
        async { tokio::try_join!(pour(&mut flow.sender), receive(&mut flow.receiver, &deliveries, |_| {})) };
    match timeout(MEASURED, both).await {
        Ok(Err(error)) => Err(failed(error)),
        Ok(Ok((never, ()))) => match never {},
        Err(_elapsed) => Ok(deliveries.borrow().mbps(Duration::ZERO..MEASURED)),
    }
}

/// Waits for `operation`, but not for ever.
async fn patiently<T>(operation: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let too_late = |_elapsed| {
        let seconds = SILENT_FOR.as_secs();
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing arrived for {seconds} s")))
    };
    timeout(SILENT_FOR, operation).await.unwrap_or_else(too_late)
}

/// Sends without end.
async fn pour(stream: &mut TcpStream) -> io::Result<Infallible> {
    loop {
        stream.write_all(&[0; READ_SIZE]).await?;
    }
}

/// A record of what a receiver read. Times are counted from its start.
#[derive(Clone, Debug)]
pub(super) struct Deliveries {
    started: Instant,
    reads: Vec<Read>,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    at: Duration,
    /// All bytes up to and including this read.
    total: u64,
}

impl Deliveries {
    /// An empty record.
    pub(super) const fn new(started: Instant) -> Self {
        Self { started, reads: Vec::new() }
    }

    /// Takes down that so many bytes were read. `now` must not go backwards.
    pub(super) fn add(&mut self, now: Instant, bytes: u64) {
        let at = self.time(now);
        let total = self.total() + bytes;
        self.reads.push(Read { at, total });
    }

    /// A moment as the record counts it.
    pub(super) fn time(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.started)
    }

    /// How many bytes arrived in all.
    pub(super) fn total(&self) -> u64 {
        self.reads.last().map_or(0, |read| read.total)
    }

    /// When the last of them did.
    pub(super) fn end(&self) -> Duration {
        self.reads.last().map_or(Duration::ZERO, |read| read.at)
    }

    /// The mean rate in a window, in Mbit/s; 0 for an empty window.
    pub(super) fn mbps(&self, window: Range<Duration>) -> f64 {
        let bytes = self.total_at(window.end).saturating_sub(self.total_at(window.start));
        let length = window.end.saturating_sub(window.start);
        if length.is_zero() {
            return 0.0;
        }
        bytes as f64 * 8.0 / 1e6 / length.as_secs_f64()
    }

    /// The longest time between two successive reads, the later of which lies in the window.
    pub(super) fn longest_gap(&self, window: Range<Duration>) -> Duration {
        let pairs = self.reads.iter().zip(self.reads.iter().skip(1));
        pairs
            .filter(|(_, read)| window.contains(&read.at))
            .map(|(before, read)| read.at - before.at)
            .max()
            .unwrap_or_default()
    }

    /// How long after `since` the rate had reached `mbps`, or `None` if it never did.
    pub(super) fn reached(&self, mbps: f64, since: Duration) -> Option<Duration> {
        let last = self.end().checked_sub(RATE_WINDOW)?;
        let steps = std::iter::successors(Some(since), |at| Some(*at + RATE_STEP));
        steps
            .take_while(|at| *at <= last)
            .find(|at| self.mbps(*at..*at + RATE_WINDOW) >= mbps)
            .map(|at| at - since)
    }

    fn total_at(&self, time: Duration) -> u64 {
        let later = self.reads.partition_point(|read| read.at <= time);
        later.checked_sub(1).map_or(0, |last| self.reads[last].total)
    }
}

/// What Linux uses unless it is told otherwise, so that the results of two machines compare.
pub(super) const CONGESTION_CONTROL: &[u8] = b"cubic";

/// How long a connection may take to be made, and to deliver anything: longer than any tunnel of use.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// How long a link is measured. TCP finds its speed in a small part of this, and that part is counted: what is held back
/// until a loss is repaired, and then delivered at once, would otherwise be counted twice over.
const MEASURED: Duration = Duration::from_secs(2);

/// Most bytes taken from a socket at once: what one arriving burst can hold.
const READ_SIZE: usize = 64 * 1024;

/// Over how long a rate is taken to see whether it has been reached: short enough to tell when, and many round trips, so
/// that the bursts of TCP cancel out.
const RATE_WINDOW: Duration = Duration::from_millis(200);

/// How exactly the moment is found at which a rate was reached.
const RATE_STEP: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    /// 1000 bytes a millisecond, which is 8 Mbit/s, from 1 ms to 1000 ms, with a pause after 500 ms.
    fn steady_with_pause(pause: u64) -> Deliveries {
        let start = Instant::now();
        let mut deliveries = Deliveries::new(start);
        for at in (1..=500).chain(501 + pause..=1000) {
            deliveries.add(start + ms(at), 1000);
        }
        deliveries
    }

    #[test]
    fn a_steady_stream_has_its_rate_in_every_window() {
        let deliveries = steady_with_pause(0);
        assert_eq!(deliveries.total(), 1_000_000);
        assert_eq!(deliveries.end(), ms(1000));
        for window in [ms(0)..ms(1000), ms(100)..ms(200), ms(999)..ms(1000)] {
            let mbps = deliveries.mbps(window.clone());
            assert!((mbps - 8.0).abs() < 1e-9, "{mbps} in {window:?}");
        }
    }

    #[test]
    fn a_window_without_bytes_has_no_rate() {
        let deliveries = steady_with_pause(200);
        for window in [ms(500)..ms(700), ms(2000)..ms(3000), ms(300)..ms(300)] {
            assert!(deliveries.mbps(window.clone()).abs() < 1e-9, "{window:?}");
        }
        assert!(Deliveries::new(Instant::now()).mbps(ms(0)..ms(9)).abs() < 1e-9);
    }

    #[test]
    fn a_gap_counts_when_it_ends() {
        let deliveries = steady_with_pause(200);
        for window in [ms(0)..ms(1000), ms(600)..ms(1000), ms(0)..ms(702)] {
            assert_eq!(deliveries.longest_gap(window.clone()), ms(201), "{window:?}");
        }
        assert_eq!(deliveries.longest_gap(ms(0)..ms(701)), ms(1));
        assert_eq!(Deliveries::new(Instant::now()).longest_gap(ms(0)..ms(9)), ms(0));
    }

    #[test]
    fn a_rate_is_reached_once_it_lasts() {
        let start = Instant::now();
        let mut deliveries = Deliveries::new(start);
        for at in 1..=3000 {
            // Half the rate in the first second.
            let bytes = if at <= 1000 { 500 } else { 1000 };
            deliveries.add(start + ms(at), bytes);
        }
        assert_eq!(deliveries.reached(7.999, ms(700)), Some(ms(300)));
        assert_eq!(deliveries.reached(3.9, ms(700)), Some(ms(0)));
        assert_eq!(deliveries.reached(8.1, ms(700)), None);
        assert_eq!(deliveries.reached(1.0, ms(2900)), None);
    }
}
