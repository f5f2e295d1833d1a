//! A stream of probes over a link, and what became of each.

use std::array;
use std::io::IoSlice;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use psmc_net::packet::{PacketPort, SEND_BATCH};
use psmc_net::priority::prefer_this_thread;

use super::probe::{Probe, template};
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
