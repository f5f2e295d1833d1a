//! The receive side of a path: what arrived, when to acknowledge it, and what was measured on the way.

use std::time::{Duration, Instant};

use psmc_wire::PacketNumber;
use psmc_wire::counts::{Arrived, ByColour};
use psmc_wire::datagram::Marks;
use psmc_wire::frame::{AckHeader, FrameWriter, PathStats};
use psmc_wire::ids::PathId;
use psmc_wire::ip::Ecn;

use crate::clock::SessionClock;
use crate::counted::{Samples, Told, count};
use crate::replay::{PATH_WORDS, ReplayWindow};

/// An acknowledgement is due at once when this many datagrams wait for it.
///
/// A batch of segmentation offload is up to 64 datagrams; a quarter of it keeps the sender's clock ticking
/// within a batch and costs one small datagram in sixteen at the very most.
const ACK_EVERY: u32 = 16;

/// An acknowledgement is due after this time at the latest; senders allow for it when they judge silence.
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_millis(5);

/// Statistics go to the sender this often while datagrams arrive.
const STATS_INTERVAL: Duration = Duration::from_secs(1);

/// The time in which the smallest one-way delay is sought: long enough to meet an empty queue, short enough
/// to follow a changed route.
const OWD_MIN_WINDOW: Duration = Duration::from_secs(10);

/// How long the largest one-way delay is remembered, at least; at most twice as long. Longer than queues take
/// to grow and shrink with the probes of congestion control, so that what they delay is still waited for.
const OWD_MAX_WINDOW: Duration = Duration::from_millis(100);

/// What a datagram tells beside its frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) packet_number: PacketNumber,
    pub(crate) bytes: usize,
    pub(crate) sent_at_us: u32,
    pub(crate) ecn: Ecn,
    pub(crate) ack_eliciting: bool,
    pub(crate) carries_data: bool,
    pub(crate) marks: Marks,
}

/// To whom delay samples are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Teller {
    /// This site.
    Own,
    /// The peer.
    Peer,
}

/// The receive side of a path.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) window: ReplayWindow<PATH_WORDS>,
    delay: Delay,
    stats: PathStats,
    ect0: u16,
    congestion_experienced: u16,
    largest_at: Option<Instant>,
    newest_sent_at_us: Option<u32>,
    unacknowledged: u32,
    ack_due: Option<Instant>,
    stats_due: Option<Instant>,
    heard_at: Option<Instant>,
    data_at: Option<Instant>,
    by_colour: ByColour,
    samples: Samples<Arrived>,
    told: [Told; 2],
}

impl Received {
    /// An authentic datagram, whose number the window took for new, has arrived.
    pub(crate) fn on_datagram(&mut self, arrival: Arrival, clock: &SessionClock, now: Instant) {
        let expected = self.window.expected();
        self.window.record(arrival.packet_number);
        self.heard_at = Some(now);
        self.stats.packets += 1;
        self.stats.bytes += arrival.bytes as u64;
        match arrival.ecn {
            Ecn::Ect0 => self.ect0 = self.ect0.wrapping_add(1),
            Ecn::Ce => self.congestion_experienced = self.congestion_experienced.wrapping_add(1),
            Ecn::NotEct | Ecn::Ect1 => {}
        }
        count(&mut self.by_colour, arrival.marks);
        if arrival.marks.delay {
            self.note_sample(&arrival, clock, now);
        }
        self.delay.on_sample(clock.one_way_delay(arrival.sent_at_us, now), now);
        if arrival.packet_number >= expected {
            self.largest_at = Some(now);
            self.newest_sent_at_us = Some(arrival.sent_at_us);
        }
        if arrival.carries_data {
            self.data_at = Some(now);
        }
        if arrival.ack_eliciting {
            self.stats_due.get_or_insert(now + STATS_INTERVAL);
            self.schedule_ack(arrival.packet_number != expected, now);
        }
    }

    fn note_sample(&mut self, arrival: &Arrival, clock: &SessionClock, now: Instant) {
        let number = arrival.packet_number.truncated();
        self.samples.note(Arrived { number, sent_us: arrival.sent_at_us, received_us: clock.timestamp(now) });
    }

    /// What has arrived, by colour, and the delay samples that were not told yet.
    pub(crate) fn counts(&mut self, teller: Teller) -> (ByColour, Vec<Arrived>) {
        (self.by_colour, self.samples.tell(&mut self.told[teller as usize]))
    }

    fn schedule_ack(&mut self, out_of_order: bool, now: Instant) {
        self.unacknowledged += 1;
        let due = if out_of_order || self.unacknowledged >= ACK_EVERY { now } else { now + MAX_ACK_DELAY };
        self.ack_due = Some(self.ack_due.map_or(due, |earlier| earlier.min(due)));
    }

    /// Writes an acknowledgement for `path`, whose receive side this is, unless the room is too small. It stays
    /// due until [`on_ack_sent`](Self::on_ack_sent).
    pub(crate) fn write_ack(
        &self,
        path: PathId,
        writer: &mut FrameWriter<'_>,
        clock: &SessionClock,
        now: Instant,
    ) -> bool {
        let (Some(largest), Some(at)) = (self.window.largest(), self.largest_at) else {
            return false;
        };
        let delay = now.saturating_duration_since(at).min(Duration::from_millis(500));
        let header = AckHeader {
            path,
            largest: largest.truncated(),
            delay_us: u32::try_from(delay.as_micros()).unwrap_or(u32::MAX),
            received_at_us: clock.timestamp(at),
            ect0: self.ect0,
            congestion_experienced: self.congestion_experienced,
        };
        writer.ack(&header, self.window.ranges())
    }

    /// An acknowledgement is on its way that may be relied on.
    pub(crate) fn on_ack_sent(&mut self) {
        self.unacknowledged = 0;
        self.ack_due = None;
    }

    /// Writes the statistics of `path`, unless the room is too small.
    pub(crate) fn write_stats(&mut self, path: PathId, writer: &mut FrameWriter<'_>) -> bool {
        let written = writer.path_stats(path, &self.stats());
        if written {
            self.stats_due = None;
        }
        written
    }

    /// Whether a datagram that is sent anyway should carry an acknowledgement along.
    pub(crate) fn ack_pending(&self) -> bool {
        self.ack_due.is_some()
    }

    /// When an acknowledgement has to leave even if it needs a datagram of its own.
    pub(crate) fn ack_due(&self) -> Option<Instant> {
        self.ack_due
    }

    /// When statistics should leave.
    pub(crate) fn stats_due(&self) -> Option<Instant> {
        self.stats_due
    }

    /// What was measured so far.
    pub(crate) fn stats(&self) -> PathStats {
        PathStats {
            owd_min_us: self.delay.min_us().cast_unsigned(),
            owd_smoothed_us: self.delay.smoothed_us.cast_unsigned(),
            jitter_us: self.delay.jitter_us,
            ..self.stats
        }
    }

    /// The largest one-way delay of late, microseconds on the session's relative scale.
    pub(crate) fn largest_delay_us(&self) -> Option<i32> {
        self.heard_at.map(|_| self.delay.max_us())
    }

    /// By how much the slowest datagrams of late were slower than the fastest.
    pub(crate) fn queueing(&self) -> Duration {
        let longer = self.delay.max_us().wrapping_sub(self.delay.min_us());
        Duration::from_micros(u64::try_from(longer).unwrap_or_default())
    }

    /// The sender's clock at the sending of the newest datagram received.
    pub(crate) fn newest_sent_at_us(&self) -> Option<u32> {
        self.newest_sent_at_us
    }

    /// When the last inner packet arrived.
    pub(crate) fn data_at(&self) -> Option<Instant> {
        self.data_at
    }

    /// When the last authentic datagram arrived.
    pub(crate) fn heard_at(&self) -> Option<Instant> {
        self.heard_at
    }
}

/// One-way delay relative to the offset of the two clocks.
#[derive(Debug, Default)]
struct Delay {
    smoothed_us: i32,
    jitter_us: u32,
    last_us: Option<i32>,
    min: Option<(i32, Instant)>,
    /// The largest of the present window, with its beginning, and that of the window before.
    max: Option<(i32, Instant)>,
    max_before: Option<i32>,
}

impl Delay {
    /// Takes one measurement: jitter after RFC 3550 §6.4.1, the mean with the same gain of 1/16.
    fn on_sample(&mut self, owd_us: i32, now: Instant) {
        self.note_max(owd_us, now);
        match self.last_us.replace(owd_us) {
            None => self.smoothed_us = owd_us,
            Some(last) => {
                let difference = i64::from(owd_us.wrapping_sub(last)).unsigned_abs();
                let jitter = i64::from(self.jitter_us);
                let step = (i64::try_from(difference).unwrap_or(0) - jitter) / 16;
                self.jitter_us = u32::try_from(jitter + step).unwrap_or(0);
                let distance = owd_us.wrapping_sub(self.smoothed_us);
                self.smoothed_us = self.smoothed_us.wrapping_add(distance / 16);
            }
        }
        match self.min {
            Some((min, at)) if min <= owd_us && now < at + OWD_MIN_WINDOW => {}
            Some(_) | None => self.min = Some((owd_us, now)),
        }
    }

    fn note_max(&mut self, owd_us: i32, now: Instant) {
        match &mut self.max {
            Some((max, began)) if now < *began + OWD_MAX_WINDOW => *max = owd_us.max(*max),
            Some((max, began)) => {
                // After a pause the smoothed delay stands for what nobody has measured.
                let recent = now < *began + 2 * OWD_MAX_WINDOW;
                self.max_before = Some(if recent { *max } else { self.smoothed_us });
                (*max, *began) = (owd_us, now);
            }
            None => self.max = Some((owd_us, now)),
        }
    }

    fn max_us(&self) -> i32 {
        let present = self.max.map(|(max, _)| max);
        present.max(self.max_before).unwrap_or(self.smoothed_us)
    }

    fn min_us(&self) -> i32 {
        self.min.map_or(0, |(min, _)| min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(pn: u64) -> Arrival {
        Arrival {
            packet_number: PacketNumber(pn),
            bytes: 100,
            sent_at_us: 0,
            ecn: Ecn::NotEct,
            ack_eliciting: true,
            carries_data: true,
            marks: Marks::default(),
        }
    }

    #[test]
    fn a_lone_datagram_is_acknowledged_after_the_delay_and_a_gap_at_once() {
        let now = Instant::now();
        let clock = SessionClock::new(now);
        let mut received = Received::default();
        received.on_datagram(arrival(0), &clock, now);
        assert_eq!(received.ack_due(), Some(now + MAX_ACK_DELAY));
        received.on_datagram(arrival(2), &clock, now);
        assert_eq!(received.ack_due(), Some(now));
    }

    #[test]
    fn a_full_count_is_acknowledged_at_once_and_only_once() {
        let now = Instant::now();
        let clock = SessionClock::new(now);
        let mut received = Received::default();
        for pn in 0..u64::from(ACK_EVERY) {
            received.on_datagram(arrival(pn), &clock, now);
        }
        assert_eq!(received.ack_due(), Some(now));
        let mut room = [0; 100];
        assert!(received.write_ack(PathId(0), &mut FrameWriter::new(&mut room), &clock, now));
        received.on_ack_sent();
        assert_eq!(received.ack_due(), None);
    }

    #[test]
    fn datagrams_without_need_are_not_acknowledged() {
        let now = Instant::now();
        let mut received = Received::default();
        received.on_datagram(Arrival { ack_eliciting: false, ..arrival(0) }, &SessionClock::new(now), now);
        assert!(!received.ack_pending());
    }

    #[test]
    fn what_queues_add_is_the_difference_of_the_largest_and_the_smallest_delay_of_late() {
        let now = Instant::now();
        let mut received = Received::default();
        assert_eq!(received.queueing(), Duration::ZERO);
        for (delay_us, after) in [(-5_000, 0), (-1_000, 1), (75_000, 2), (10_000, 3)] {
            received.delay.on_sample(delay_us, now + Duration::from_millis(after));
        }
        assert_eq!(received.queueing(), Duration::from_millis(80));
    }

    #[test]
    fn a_constant_delay_has_no_jitter() {
        let mut delay = Delay::default();
        let now = Instant::now();
        for _ in 0..100 {
            delay.on_sample(5_000, now);
        }
        assert_eq!((delay.smoothed_us, delay.jitter_us, delay.min_us()), (5_000, 0, 5_000));
        for i in 0..200 {
            delay.on_sample(5_000 + 1_600 * (i % 2), now);
        }
        assert!((1_300..=1_600).contains(&delay.jitter_us), "{}", delay.jitter_us);
    }
}
