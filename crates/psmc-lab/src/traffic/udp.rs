//! UDP at a constant rate: every datagram says as which and when it was sent.
//!
//! A stream may be adaptive instead: its receiver reports once a second what has arrived, as those of RTP do (RFC 3550, section 6.4),
//! and its sender follows the losses.

mod call;
mod sender;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;

use super::record::{Ending, Record};
use super::{Job, TrafficError, socket};
use call::Reporter;
use sender::{Emission, Sender, Sent};

pub use sender::{Flood, Pace};

/// The longest datagram that there is.
const MAX_DATAGRAM: usize = 65536;

/// Sends until the stop of the stream, and receives a little longer.
pub(super) async fn run(
    job: &Job,
    pace: Pace,
    adaptive: bool,
    record: &Record,
) -> Result<Ending, TrafficError> {
    let (receiver, to) = receiver(job)?;
    let socket = socket::udp(to.ip()).map_err(TrafficError::socket("UDP"))?;
    let (start, end) = (job.clock.at(job.traffic.start), job.clock.at(job.traffic.stop));
    let sender = Sender::start(Emission { socket, to, pace, adaptive, start, end, clock: job.clock });
    record.reordered.set(Some(0));
    tokio::select! {
        error = receive(&receiver, adaptive, record) => match error? {},
        () = job.linger(|| sender.is_finished() && record.tally.borrow().total_arrived() == sender.count()) => {}
    }
    conclude(sender.finish(), record)
}

fn receiver(job: &Job) -> Result<(UdpSocket, SocketAddr), TrafficError> {
    let address = job.traffic.address;
    let socket = job.hosts.to.run(|| socket::udp(address)).and_then(|socket| {
        socket.set_nonblocking(true)?;
        let port = socket.local_addr()?.port();
        Ok((UdpSocket::from_std(socket)?, SocketAddr::new(address, port)))
    });
    socket.map_err(TrafficError::socket("UDP"))
}

async fn receive(socket: &UdpSocket, adaptive: bool, record: &Record) -> Result<Infallible, TrafficError> {
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut seen = Seen::default();
    let mut reporter = adaptive.then(Reporter::default);
    loop {
        let (length, from) = socket.recv_from(&mut buffer).await.map_err(TrafficError::Broken)?;
        let Some(header) = Header::read(&buffer[..length]) else { continue };
        note(header, length, &mut seen, record);
        let report = reporter.as_mut().and_then(|reporter| reporter.note(header.number, record.now()));
        if let Some(report) = report {
            // One that is not sent is as good as lost.
            let _ = socket.send_to(&report.bytes(), from).await;
        }
    }
}

fn note(header: Header, length: usize, seen: &mut Seen, record: &Record) {
    let is_late = seen.highest().is_some_and(|highest| header.number < highest);
    if !seen.insert(header.number) {
        return;
    }
    if is_late {
        record.reordered.update(|count| count.map(|count| count + 1));
    }
    let now = record.now();
    record.tally.borrow_mut().arrived(header.sent_at);
    record.latencies.borrow_mut().add(now, now.saturating_sub(header.sent_at));
    record.delivered(length);
}

/// The clocks of both ends are one, but only the part of the delay that varies is told: what else there is, is known.
fn conclude(sent: Sent, record: &Record) -> Result<Ending, TrafficError> {
    record.tally.borrow_mut().merge(&sent.tally);
    record.latencies.replace_with(|latencies| std::mem::take(latencies).beyond_smallest());
    match sent.error {
        _ if record.tally.borrow().total_arrived() > 0 => Ok(Ending::TimeUp),
        Some(error) => Err(TrafficError::Send(error)),
        None => Err(TrafficError::Nothing),
    }
}

/// Bytes at the beginning of a datagram.
const HEADER: usize = 16;

/// What a datagram says of itself: its number and when it was sent, each in eight bytes, the most significant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    number: u64,
    sent_at: Duration,
}

impl Header {
    /// That of a datagram; `None` if it is too short.
    fn read(datagram: &[u8]) -> Option<Self> {
        let (number, rest) = datagram.split_first_chunk()?;
        let (nanos, _) = rest.split_first_chunk()?;
        let sent_at = Duration::from_nanos(u64::from_be_bytes(*nanos));
        Some(Self { number: u64::from_be_bytes(*number), sent_at })
    }

    fn bytes(self) -> [u8; HEADER] {
        let nanos = u64::try_from(self.sent_at.as_nanos()).unwrap_or(u64::MAX);
        let mut bytes = [0; HEADER];
        let (number, sent_at) = bytes.split_at_mut(HEADER / 2);
        number.copy_from_slice(&self.number.to_be_bytes());
        sent_at.copy_from_slice(&nanos.to_be_bytes());
        bytes
    }
}

/// The most that is believed of a number: a day of the smallest datagrams that a network carries.
const MAX_NUMBER: u64 = 1 << 36;

/// A set of numbers from 0 on without large gaps.
#[derive(Clone, Debug, Default)]
struct Seen {
    words: Vec<u64>,
    highest: Option<u64>,
}

impl Seen {
    /// The highest number in it.
    const fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Adds a number; says whether it was not there.
    fn insert(&mut self, number: u64) -> bool {
        let Some(index) = usize::try_from(number / 64).ok().filter(|_| number < MAX_NUMBER) else {
            return false;
        };
        if self.words.len() <= index {
            self.words.resize(index + 1, 0);
        }
        let bit = 1 << (number % 64);
        let is_new = self.words[index] & bit == 0;
        self.words[index] |= bit;
        self.highest = self.highest.max(Some(number));
        is_new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_header_round_trips() {
        let header = Header { number: 7 << 40, sent_at: Duration::from_nanos(123_456_789_012) };
        let mut datagram = header.bytes().to_vec();
        datagram.push(9);
        assert_eq!(Header::read(&datagram), Some(header));
        assert_eq!(Header::read(&datagram[..HEADER]), Some(header));
        assert_eq!(Header::read(&datagram[..HEADER - 1]), None);
    }

    #[test]
    fn it_is_a_set() {
        let (mut seen, mut model) = (Seen::default(), BTreeSet::new());
        // Every number below 1000 several times, in an order that jumps.
        for number in (0..5000_u64).map(|step| step * 387 % 1000) {
            assert_eq!(seen.insert(number), model.insert(number), "{number}");
            assert_eq!(seen.highest(), model.last().copied());
        }
        assert!(!seen.insert(u64::MAX));
        assert_eq!(seen.highest(), Some(999));
    }
}
