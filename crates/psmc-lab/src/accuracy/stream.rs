//! A stream of probes over a link, and what became of each. They are frames of UDP from nobody to nobody, each with its
//! number and the time it was sent.

use std::io::IoSlice;
use std::time::{Duration, Instant, SystemTime};
use std::{array, thread};

use psmc_net::packet::{ETHERNET_HEADER, PacketPort, SEND_BATCH};
use psmc_net::priority::prefer_this_thread;

use crate::emulator::Fatigue;

/// Both ends of a link that is measured.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) sender: PacketPort,
    pub(super) receiver: PacketPort,
}

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Bytes of a packet, from the IP header on.
    pub(super) length: usize,
    /// How many packets.
    pub(super) count: u32,
    /// The time between two.
    pub(super) gap: Duration,
}

/// What became of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// When each was sent.
    pub(super) sent_at: Vec<SystemTime>,
    /// What arrived: number and time, in the order of arrival.
    pub(super) arrivals: Vec<(u32, SystemTime)>,
}

/// More packets a second cannot be sent.
const SHORTEST_GAP: Duration = Duration::from_nanos(100);

/// A sleep shorter than this ends too late to send in time.
const SHORTEST_SLEEP: Duration = Duration::from_micros(300);

/// How long nothing has to arrive until all that is on the way is taken for lost.
const SILENCE: Duration = Duration::from_millis(300);

impl Stream {
    /// So many packets a second, for about so long.
    pub(super) fn lasting(duration: Duration, packets_per_second: f64, length: usize) -> Self {
        let gap = Duration::from_secs_f64(1.0 / packets_per_second).max(SHORTEST_GAP);
        let count = u32::try_from(duration.as_nanos() / gap.as_nanos()).unwrap_or(u32::MAX).max(2);
        Self { length, count, gap }
    }

    /// Sends the probes and watches them arrive, on a thread that goes before others.
    pub(super) fn run(self, ends: &mut Ends) -> Outcome {
        let measure = || {
            prefer_this_thread();
            Measurement::new(self, ends).run()
        };
        thread::scope(|scope| scope.spawn(measure).join().unwrap_or_default())
    }
}

struct Measurement<'a> {
    stream: Stream,
    ends: &'a mut Ends,
    series: u32,
    frames: [Vec<u8>; SEND_BATCH],
    outcome: Outcome,
}

impl<'a> Measurement<'a> {
    fn new(stream: Stream, ends: &'a mut Ends) -> Self {
        // What is left of another stream has another start.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let count = stream.count as usize;
        Self {
            stream,
            ends,
            series: now.subsec_nanos(),
            frames: array::from_fn(|_| template(stream.length)),
            outcome: Outcome { sent_at: Vec::with_capacity(count), arrivals: Vec::with_capacity(count) },
        }
    }

    fn run(mut self) -> Outcome {
        let (start, count) = (Instant::now(), self.stream.count as usize);
        let mut fatigue = Fatigue::new();
        while self.outcome.sent_at.len() < count {
            let due = self.due_by(start.elapsed()).min(count) - self.outcome.sent_at.len();
            self.send(due.min(SEND_BATCH));
            self.receive();
            fatigue.rest_if_due();
            let left = self.time_left(start);
            if left > SHORTEST_SLEEP {
                thread::sleep(left - SHORTEST_SLEEP / 2);
            }
        }
        self.receive_rest(count);
        self.outcome
    }

    /// How many probes should have been sent after so long.
    fn due_by(&self, elapsed: Duration) -> usize {
        usize::try_from(elapsed.as_nanos() / self.stream.gap.as_nanos()).unwrap_or(usize::MAX - 1) + 1
    }

    /// Until the next probe is due.
    fn time_left(&self, start: Instant) -> Duration {
        let due = self.stream.gap * u32::try_from(self.outcome.sent_at.len()).unwrap_or(u32::MAX);
        due.saturating_sub(start.elapsed())
    }

    fn send(&mut self, count: usize) {
        if count == 0 {
            return;
        }
        for frame in &mut self.frames[..count] {
            let number = u32::try_from(self.outcome.sent_at.len()).unwrap_or(u32::MAX);
            let probe = Probe { series: self.series, number, sent_at: SystemTime::now() };
            probe.write(frame);
            self.outcome.sent_at.push(probe.sent_at);
        }
        let mut slices = [IoSlice::new(&[]); SEND_BATCH];
        for (slice, frame) in slices.iter_mut().zip(&self.frames) {
            *slice = IoSlice::new(frame);
        }
        // What the interface refuses does not arrive, and counts as lost.
        let _ = self.ends.sender.send(&slices[..count]);
    }

    fn receive(&mut self) -> usize {
        let before = self.outcome.arrivals.len();
        while let Some(frame) = self.ends.receiver.recv() {
            let probe = Probe::read(frame.bytes()).filter(|probe| probe.series == self.series);
            self.outcome.arrivals.extend(probe.map(|probe| (probe.number, frame.received_at())));
        }
        self.outcome.arrivals.len() - before
    }

    fn receive_rest(&mut self, count: usize) {
        let mut last = Instant::now();
        while self.outcome.arrivals.len() < count && last.elapsed() < SILENCE {
            thread::sleep(Duration::from_millis(1));
            if self.receive() > 0 {
                last = Instant::now();
            }
        }
    }
}

impl Outcome {
    /// The packets a second at which it was sent, from the first to the last.
    pub(super) fn sending_rate(&self) -> f64 {
        match (self.sent_at.first(), self.sent_at.last()) {
            (Some(first), Some(last)) => (self.sent_at.len() - 1) as f64 / seconds_between(*first, *last),
            _ => 0.0,
        }
    }

    /// The packets a second at which it arrived, from the first to the last.
    pub(super) fn arrival_rate(&self) -> f64 {
        match (self.arrivals.first(), self.arrivals.last()) {
            (Some((_, first)), Some((_, last))) => {
                (self.arrivals.len() - 1) as f64 / seconds_between(*first, *last)
            }
            _ => 0.0,
        }
    }

    /// The share that did not arrive.
    pub(super) fn loss(&self) -> f64 {
        1.0 - self.arrivals.len() as f64 / self.sent_at.len().max(1) as f64
    }

    /// Whether each arrived, by number.
    pub(super) fn arrived(&self) -> Vec<bool> {
        let mut arrived = vec![false; self.sent_at.len()];
        for (number, _) in &self.arrivals {
            if let Some(arrived) = arrived.get_mut(*number as usize) {
                *arrived = true;
            }
        }
        arrived
    }
}

/// Negative if `b` was before `a`.
pub(super) fn seconds_between(a: SystemTime, b: SystemTime) -> f64 {
    b.duration_since(a).map_or_else(|before| -before.duration().as_secs_f64(), |after| after.as_secs_f64())
}

const IPV4_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const PAYLOAD: usize = ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER;
const ADDRESSES: usize = ETHERNET_HEADER + 12;

/// From 192.0.2.1 to 192.0.2.2.
const NOBODY: [u16; 4] = [0xc000, 0x0201, 0xc000, 0x0202];

/// What a probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    /// Which series of probes it belongs to.
    pub(super) series: u32,
    /// Its number, from 0.
    pub(super) number: u32,
    /// When it was sent.
    pub(super) sent_at: SystemTime,
}

/// The shortest packet that has room for a probe, in bytes from the IP header on.
pub(super) const SHORTEST: usize = IPV4_HEADER + UDP_HEADER + 16;

/// The bytes of a frame with a packet of `length` bytes, but for the probe. No stack answers it: the addresses are
/// nobody's (RFC 5737).
pub(super) fn template(length: usize) -> Vec<u8> {
    let length = length.max(SHORTEST);
    let mut frame = vec![0; ETHERNET_HEADER + length];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[8, 0]);
    let (ip, udp) = frame[ETHERNET_HEADER..].split_at_mut(IPV4_HEADER);
    ip.copy_from_slice(&ipv4_header(length));
    let udp_length = u16::try_from(length - IPV4_HEADER).unwrap_or(0);
    // From port 9 to port 9, discard (RFC 863); a checksum of zero is none.
    udp[..6].copy_from_slice(&words::<3, 6>([9, 9, udp_length]));
    frame
}

impl Probe {
    pub(super) fn write(&self, frame: &mut [u8]) {
        let nanos = self.sent_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let payload = &mut frame[PAYLOAD..PAYLOAD + 16];
        payload[..4].copy_from_slice(&self.series.to_be_bytes());
        payload[4..8].copy_from_slice(&self.number.to_be_bytes());
        // Good until the year 2554.
        payload[8..].copy_from_slice(&u64::try_from(nanos).unwrap_or(0).to_be_bytes());
    }

    /// `None` if the frame is none of ours.
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let payload: &[u8; 16] = frame.get(PAYLOAD..PAYLOAD + 16)?.try_into().ok()?;
        let [series, number] = [0, 4].map(|at| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|i| payload[at + i]);
            u32::from_be_bytes([a, b, c, d])
        });
        let nanos = payload[8..].iter().fold(0, |nanos, byte| nanos << 8 | u64::from(*byte));
        let sent_at = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
        let is_ours = frame[ADDRESSES..ADDRESSES + 8] == words::<4, 8>(NOBODY);
        is_ours.then_some(Self { series, number, sent_at })
    }
}

fn ipv4_header(length: usize) -> [u8; IPV4_HEADER] {
    let total = u16::try_from(length).unwrap_or(u16::MAX);
    let [a, b, c, d] = NOBODY;
    // Version and length of the header, no fragments, time to live and UDP, the checksum, the addresses.
    let mut fields = [0x4500, total, 0, 0x4000, 0x4011, 0, a, b, c, d];
    let sum: u32 = fields.iter().map(|field| u32::from(*field)).sum();
    fields[5] = !u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap_or(0);
    words(fields)
}

fn words<const WORDS: usize, const BYTES: usize>(values: [u16; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (chunk, value) in bytes.chunks_exact_mut(2).zip(values) {
        chunk.copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_read_as_it_was_written() {
        let sent_at = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
        let probe = Probe { series: 7, number: 70_000, sent_at };
        let mut frame = template(64);
        probe.write(&mut frame);
        assert_eq!(Probe::read(&frame), Some(probe));
    }

    #[test]
    fn other_frames_are_none() {
        assert_eq!(Probe::read(&[2, 0, 0, 0, 0, 2]), None);
        assert_eq!(Probe::read(&[0xff; 100]), None);
    }

    #[test]
    fn a_template_is_as_long_as_asked_and_has_a_right_checksum() {
        for length in [0, SHORTEST, 64, 1500] {
            let frame = template(length);
            assert_eq!(frame.len(), ETHERNET_HEADER + length.max(SHORTEST));
            let header = &frame[ETHERNET_HEADER..ETHERNET_HEADER + IPV4_HEADER];
            let sum: u32 =
                header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        }
    }
}
