//! The sending side.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use nix::sys::prctl::set_timerslack;
use nix::sys::socket::{MsgFlags, recv};
use psmc_testbed::netns::Namespace;

use super::call::{Call, REPORT, Report};
use super::{HEADER, Header};
use crate::measure::Tally;
use crate::traffic::{Clock, TrafficError, socket};

/// How fast datagrams are sent, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bits per second of payload.
    pub rate: u64,
    /// Bytes of payload in each; fewer than 16 are made 16, for that much a datagram says of itself.
    pub payload: usize,
}

/// What is to be sent.
#[derive(Debug)]
pub(super) struct Emission {
    pub(super) socket: UdpSocket,
    pub(super) to: SocketAddr,
    pub(super) pace: Pace,
    /// Whether the pace is only the fastest.
    pub(super) adaptive: bool,
    pub(super) start: Instant,
    pub(super) end: Instant,
    pub(super) clock: Clock,
}

/// What was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) tally: Tally,
    /// What the kernel said of the last datagram that it did not take; that one counts as sent.
    pub(super) error: Option<io::Error>,
}

/// A thread that sends at an exact pace, which a runtime's timer does not keep. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Sender {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Sent>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    count: AtomicU64,
}

/// UDP that nobody asked for. It ends when this is dropped.
#[derive(Debug)]
pub struct Flood {
    _sender: Sender,
}

impl Flood {
    /// Sends from a host to an address, to the port of the discard service, for so long.
    ///
    /// # Errors
    /// If the host has no socket to give.
    pub fn start(from: &Namespace, to: IpAddr, pace: Pace, duration: Duration) -> Result<Self, TrafficError> {
        let socket = from.run(|| socket::udp(to)).map_err(TrafficError::socket("UDP"))?;
        let start = Instant::now();
        let clock = Clock::new(start, duration);
        let to = SocketAddr::new(to, DISCARD);
        let end = start + duration;
        let emission = Emission { socket, to, pace, adaptive: false, start, end, clock };
        Ok(Self { _sender: Sender::start(emission) })
    }
}

impl Sender {
    pub(super) fn start(emission: Emission) -> Self {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        Self { shared, thread: Some(thread::spawn(move || emission.send(&of_thread))) }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// How many datagrams were sent so far.
    pub(super) fn count(&self) -> u64 {
        self.shared.count.load(Ordering::Relaxed)
    }

    /// Ends it, and returns what it has sent.
    pub(super) fn finish(mut self) -> Sent {
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("only this and drop take the thread, and both own the sender");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it has panicked it has ended, too.
            drop(thread.join());
        }
    }
}

impl Emission {
    fn send(self, shared: &Shared) -> Sent {
        // Without it the kernel may wake a thread 50 µs late. If it does not allow that, that is how late we are.
        let _ = set_timerslack(1);
        let mut datagram = vec![0; self.pace.bytes()];
        let mut sent = Sent { tally: Tally::new(self.clock.interval()), error: None };
        let mut call = self.adaptive.then(|| Call::new(self.pace.rate));
        let rate = call.as_ref().map_or(self.pace.rate, Call::rate);
        let mut schedule = Schedule::new(Pace { rate, ..self.pace }, self.start);
        for number in 0.. {
            let due = schedule.due(number);
            if due >= self.end || !sleep_until(due, &shared.stop) {
                break;
            }
            if let Some(rate) = call.as_mut().and_then(|call| heard(&self.socket, call)) {
                schedule.change(rate, number);
            }
            let sent_at = self.clock.now();
            datagram[..HEADER].copy_from_slice(&Header { number, sent_at }.bytes());
            sent.tally.sent(sent_at);
            sent.error = self.socket.send_to(&datagram, self.to).err().or(sent.error);
            shared.count.fetch_add(1, Ordering::Relaxed);
        }
        sent
    }
}

impl Pace {
    fn bytes(self) -> usize {
        self.payload.max(HEADER)
    }

    /// How long after the first datagram this one is due; counted from there, so that errors don't add up.
    fn due(self, number: u64) -> Duration {
        let bits = u128::from(number) * self.bytes() as u128 * 8;
        let nanos = bits * 1_000_000_000 / u128::from(self.rate.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// When datagrams are due at a pace that changes.
struct Schedule {
    pace: Pace,
    /// The first datagram of this pace, and when it is due.
    first: u64,
    since: Instant,
}

impl Schedule {
    fn new(pace: Pace, start: Instant) -> Self {
        Self { pace, first: 0, since: start }
    }

    fn due(&self, number: u64) -> Instant {
        self.since + self.pace.due(number - self.first)
    }

    /// From this datagram on it is so many bits per second.
    fn change(&mut self, rate: u64, number: u64) {
        (self.since, self.first) = (self.due(number), number);
        self.pace.rate = rate;
    }
}

/// The rate after a report, if one has come.
fn heard(socket: &UdpSocket, call: &mut Call) -> Option<u64> {
    let mut bytes = [0; REPORT];
    let length = recv(socket.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT).ok()?;
    Some(call.follow(&Report::read(&bytes[..length])?))
}

/// Sleeps until `due`; says whether it may go on.
fn sleep_until(due: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        sleep(left.min(LONGEST_SLEEP));
    }
    false
}

/// The discard service (RFC 863), which nobody offers any more.
const DISCARD: u16 = 9;

/// After how long a sender notices that it should stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_exact_however_long_it_lasts() {
        let pace = Pace { rate: 8_000_000, payload: 1000 };
        assert_eq!(pace.due(0), Duration::ZERO);
        assert_eq!(pace.due(1), Duration::from_millis(1));
        assert_eq!(pace.due(86_400_000), Duration::from_hours(24));
        // A third of a nanosecond is never seen, but always counted.
        let odd = Pace { rate: 3_000_000_000, payload: 1000 };
        assert_eq!(odd.due(3_000_000), Duration::from_secs(8));
    }

    #[test]
    fn a_datagram_has_room_for_its_header() {
        assert_eq!(Pace { rate: 1, payload: 1 }.bytes(), HEADER);
    }

    #[test]
    fn what_is_stopped_ends_at_once() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = socket.local_addr().unwrap();
        let start = Instant::now();
        let (end, clock) = (start + Duration::from_hours(1), Clock::new(start, Duration::from_secs(1)));
        // The second one would be due in 1000 s.
        let pace = Pace { rate: 8, payload: 1000 };
        let sender = Sender::start(Emission { socket, to, pace, adaptive: false, start, end, clock });
        while sender.count() == 0 {
            thread::yield_now();
        }
        assert!(!sender.is_finished());
        assert_eq!(sender.finish().tally.total_sent(), 1);
    }
}
