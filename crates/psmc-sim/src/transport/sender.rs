//! When a TCP sender sends what: the part of TCP in which smoltcp is too plain for a network with losses.

mod delivery;
mod rtt;
mod scoreboard;

use std::time::{Duration, Instant};

use super::congestion::{Acked, CongestionControl, Controller, Delivered, INITIAL_WINDOW, Rate};
use rtt::Rtt;
use scoreboard::{Scoreboard, Settled};

/// Loss detection, repair and congestion control of one direction of a connection.
///
/// Bytes are counted from the beginning of the stream. New segments are made by smoltcp out of as many bytes as
/// [`budget`](Self::budget) says, and reported to [`on_sent`](Self::on_sent). After
/// [`handle_ack`](Self::handle_ack) and [`handle_timeout`](Self::handle_timeout), call
/// [`poll_retransmit`](Self::poll_retransmit) until it says `None`. When there is nothing left to send, say so by
/// [`on_nothing_to_send`](Self::on_nothing_to_send).
pub(super) struct Sender {
    mss: u64,
    board: Scoreboard,
    rtt: Rtt,
    controller: Box<dyn Controller>,
    phase: Phase,
    /// The most that was in flight since the window was last found to be in full use.
    peak: u64,
    /// Until then nothing leaves, so that it does so at the controller's rate.
    paced_until: Option<Instant>,
    /// Bytes that were found lost since the controller was last told.
    lost: u64,
    probe: Option<Vec<u8>>,
    probe_at: Option<Instant>,
    lost_at: Option<Instant>,
    look_again_at: Option<Instant>,
    /// When the first of those segments was sent again that were unacknowledged, some of them, ever since.
    repaired_at: Option<Instant>,
    /// Whether the window was reduced since that was last asked.
    reduced: bool,
    /// Marks of what was sent before this are heeded already.
    heeded: u64,
}

/// What an acknowledgement tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack<'a> {
    /// Everything before has arrived.
    pub(super) up_to: u64,
    /// What has arrived behind a gap.
    pub(super) ranges: &'a [(u64, u64)],
    /// When the segment was sent that it answers (RFC 7323).
    pub(super) answers: Option<Instant>,
    /// Whether a packet has arrived marked.
    pub(super) echoes: bool,
}

/// What becomes of losses.
#[derive(Debug)]
enum Phase {
    /// There are none.
    Open,
    /// They are repaired, with this window in bytes.
    Recovery(Recovery, u64),
    /// Everything before this counted as lost, and is sent again.
    Loss(u64),
}

impl Sender {
    /// Before the first byte. What is left to chance comes from the seed.
    pub(super) fn new(congestion_control: CongestionControl, mss: u64, seed: u64) -> Self {
        Self {
            mss,
            board: Scoreboard::default(),
            rtt: Rtt::default(),
            controller: congestion_control.build(seed),
            phase: Phase::Open,
            peak: 0,
            paced_until: None,
            lost: 0,
            probe: None,
            probe_at: None,
            lost_at: None,
            look_again_at: None,
            repaired_at: None,
            reduced: false,
            heeded: 0,
        }
    }

    /// Learns the length of a full segment.
    pub(super) fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
    }

    /// A new segment of `len` bytes was sent, in this packet.
    pub(super) fn on_sent(&mut self, len: u64, packet: Vec<u8>, now: Instant) {
        if self.board.is_empty() && self.board.delivery.is_limited() {
            self.controller.on_idle_end(now);
        }
        self.board.on_sent(len, packet, now);
        self.after_transmission(len, now);
    }

    /// The peer tells what has arrived.
    pub(super) fn handle_ack(&mut self, ack: &Ack<'_>, now: Instant) {
        let was_limited = self.peak + self.mss > self.window() || self.in_slow_start_and_half_used();
        let in_flight = self.board.in_flight();
        let settled = self.board.on_ack(ack.up_to, ack.ranges, self.rtt.min(), now);
        if let Some(rtt) = settled.rtt {
            self.rtt.on_sample(rtt);
        }
        if settled.advanced {
            self.undo_if_late(ack.answers);
        }
        self.leave_phase(ack.up_to);
        self.find_losses(now);
        if ack.echoes {
            self.heed_mark(ack.up_to, now);
        }
        if settled.advanced {
            self.rearm(now);
        }
        match &mut self.phase {
            Phase::Recovery(recovery, window) => {
                let target = bytes(self.controller.window(), self.mss);
                *window = recovery.window(settled.bytes, self.board.in_flight(), target, self.mss);
            }
            Phase::Open | Phase::Loss(_) if settled.bytes > 0 && was_limited && !ack.echoes => {
                let acked = Acked {
                    segments: segments(settled.bytes, self.mss),
                    rtt: settled.rtt,
                    smoothed_rtt: self.rtt.smoothed(),
                    acknowledged: ack.up_to,
                    sent: self.board.next(),
                };
                self.controller.on_acked(&acked, now);
            }
            Phase::Open | Phase::Loss(_) => {}
        }
        self.tell_delivered(&settled, in_flight, now);
        if settled.advanced {
            self.peak = self.board.in_flight();
        }
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.paced_until.take_if(|at| *at <= now);
        if self.look_again_at.take_if(|at| *at <= now).is_some() {
            self.find_losses(now);
        }
        if self.lost_at.is_some_and(|at| at <= now) {
            self.lose_all(now);
        } else if self.probe_at.take_if(|at| *at <= now).is_some() {
            self.probe = self.board.probe(now);
        }
    }

    /// A segment to be sent again.
    pub(super) fn poll_retransmit(&mut self, now: Instant) -> Option<Vec<u8>> {
        if let Some(probe) = self.probe.take() {
            return Some(probe);
        }
        let is_full = self.board.in_flight() + self.mss > self.window() && self.board.in_flight() > 0;
        if is_full || self.is_paced(now) {
            return None;
        }
        let packet = self.board.retransmit_lost(now)?;
        self.repaired_at.get_or_insert(now);
        self.after_transmission(self.mss, now);
        Some(packet)
    }

    /// How many new bytes may be sent. What was lost goes first.
    pub(super) fn budget(&self, now: Instant) -> u64 {
        if self.is_paced(now) {
            return 0;
        }
        let room = self.room();
        if self.controller.pacing().is_some() { room.min(self.mss) } else { room }
    }

    /// All that was to be sent was sent.
    pub(super) fn on_nothing_to_send(&mut self) {
        if self.room() >= self.mss {
            self.board.delivery.limit(self.board.in_flight());
        }
    }

    /// Whether the window was reduced since the last call.
    pub(super) fn take_reduced(&mut self) -> bool {
        std::mem::take(&mut self.reduced)
    }

    /// Where the next new segment starts.
    pub(super) fn next(&self) -> u64 {
        self.board.next()
    }

    /// Whether everything that was sent is acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        self.board.is_empty()
    }

    /// When there is something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        [self.probe_at, self.lost_at, self.look_again_at, self.paced_until].into_iter().flatten().min()
    }

    fn room(&self) -> u64 {
        if self.board.has_lost() { 0 } else { self.window().saturating_sub(self.board.in_flight()) }
    }

    fn is_paced(&self, now: Instant) -> bool {
        self.paced_until.is_some_and(|until| until > now)
    }

    fn window(&self) -> u64 {
        match self.phase {
            Phase::Recovery(_, window) if self.controller.pacing().is_none() => window,
            Phase::Recovery(..) | Phase::Open | Phase::Loss(_) => bytes(self.controller.window(), self.mss),
        }
    }

    /// A sender that doubles its window each round trip needs only half of it (RFC 7661 §4.1 has reasons).
    fn in_slow_start_and_half_used(&self) -> bool {
        self.controller.in_slow_start() && 2 * self.peak > self.window()
    }

    /// What answers a segment that was sent before the first repair shows that it was late, and not lost: everything is
    /// as if nothing had been (the Eifel algorithm, RFC 3522 and RFC 4015).
    fn undo_if_late(&mut self, answers: Option<Instant>) {
        if let Some((answered, repaired)) = answers.zip(self.repaired_at)
            && answered < repaired
            && !matches!(self.phase, Phase::Open)
        {
            self.controller.undo();
            self.board.find_again();
            self.open();
        }
    }

    /// The repairs of one phase may be acknowledged in the next one, where none of them shows that something was late.
    fn forget_repairs(&mut self) {
        if !self.board.has_repairs() {
            self.repaired_at = None;
        }
    }

    fn open(&mut self) {
        self.phase = Phase::Open;
        self.forget_repairs();
    }

    fn leave_phase(&mut self, ack: u64) {
        let over = match &self.phase {
            Phase::Open => false,
            Phase::Recovery(recovery, _) => ack >= recovery.until,
            Phase::Loss(until) => ack >= *until,
        };
        if over {
            self.open();
        }
    }

    fn find_losses(&mut self, now: Instant) {
        let overdue = self.board.find_overdue(self.rtt.latest(), self.rtt.min(), now);
        self.look_again_at = overdue.look_again;
        self.lost += overdue.bytes;
        if overdue.bytes > 0 && matches!(self.phase, Phase::Open) {
            let recovery = Recovery::new(self.board.next(), self.peak);
            self.controller.on_loss(now);
            self.note_reduction();
            self.phase = Phase::Recovery(recovery, self.board.in_flight() + self.mss);
        }
    }

    /// Tells the controller of an acknowledgement, before which so many bytes were on their way.
    fn tell_delivered(&mut self, settled: &Settled, in_flight: u64, now: Instant) {
        let mss = self.mss;
        let sample = self.board.delivery.take_sample(self.rtt.min(), now);
        let total = self.board.delivery.delivered();
        let seen = Delivered {
            segments: segments(settled.bytes, mss),
            lost: segments(std::mem::take(&mut self.lost), mss),
            in_flight_before: segments(in_flight, mss),
            in_flight: segments(self.board.in_flight(), mss),
            total,
            is_young: segments(total, mss) < INITIAL_WINDOW,
            rtt: settled.rtt,
            smoothed_rtt: self.rtt.sampled(),
            rate: sample.map(|sample| Rate {
                segments_per_s: segments(sample.bytes, mss) / sample.interval.as_secs_f64(),
                before: sample.before,
                is_limited: sample.is_limited,
            }),
            is_repairing: !matches!(self.phase, Phase::Open),
        };
        self.controller.on_delivered(&seen, now);
        if self.controller.holds_back() {
            self.board.delivery.limit(self.board.in_flight());
        }
    }

    /// A mark is a loss without anything to repair, and counts once a round trip (RFC 3168 §6.1.2).
    fn heed_mark(&mut self, up_to: u64, now: Instant) {
        if up_to > self.heeded && matches!(self.phase, Phase::Open) {
            self.controller.on_mark(now);
            self.note_reduction();
        }
    }

    fn note_reduction(&mut self) {
        self.reduced = true;
        self.heeded = self.board.next();
    }

    fn lose_all(&mut self, now: Instant) {
        if !matches!(self.phase, Phase::Loss(_)) {
            self.controller.on_timeout(now);
            self.note_reduction();
            self.forget_repairs();
        }
        self.phase = Phase::Loss(self.board.next());
        self.rtt.on_timeout();
        self.board.lose_all();
        self.rearm(now);
        self.probe_at = None;
    }

    fn after_transmission(&mut self, len: u64, now: Instant) {
        if let Some(rate) = self.controller.pacing() {
            let from = self.paced_until.map_or(now, |until| until.max(now));
            self.paced_until =
                Some(from + Duration::from_secs_f64((segments(len, self.mss) / rate).min(LONGEST_GAP)));
        }
        if let Phase::Recovery(recovery, _) = &mut self.phase {
            recovery.on_sent(len);
        }
        self.peak = self.peak.max(self.board.in_flight());
        if self.lost_at.is_none() {
            self.rearm(now);
        } else if matches!(self.phase, Phase::Open) {
            self.probe_at = Some(now + self.rtt.probe_timeout());
        }
    }

    /// Starts to wait for an acknowledgement anew.
    fn rearm(&mut self, now: Instant) {
        let waiting = !self.board.is_empty();
        self.lost_at = waiting.then(|| now + self.rtt.timeout());
        let probing = waiting && matches!(self.phase, Phase::Open);
        self.probe_at = probing.then(|| now + self.rtt.probe_timeout());
    }
}

/// Between two segments, in seconds: a rate of almost nothing is a matter of timeouts.
const LONGEST_GAP: f64 = 1.0;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a window is positive and small")]
fn bytes(segments: f64, mss: u64) -> u64 {
    (segments.max(1.0) as u64).saturating_mul(mss)
}

#[expect(clippy::cast_precision_loss, reason = "a window of more than 2^52 bytes does not occur")]
fn segments(bytes: u64, mss: u64) -> f64 {
    bytes as f64 / mss as f64
}

// How much is sent while losses are repaired: proportional rate reduction (RFC 6937).

/// A repair that is going on.
#[derive(Clone, Copy, Debug)]
struct Recovery {
    /// What had been sent when it began: when all of that is acknowledged, it is over.
    until: u64,
    /// What was in flight then.
    before: u64,
    delivered: u64,
    sent: u64,
}

impl Recovery {
    /// Begins, with everything before `until` sent and `in_flight` of it not known to have arrived.
    fn new(until: u64, in_flight: u64) -> Self {
        Self { until, before: in_flight.max(1), delivered: 0, sent: 0 }
    }

    /// So many bytes left.
    fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    /// The window after an acknowledgement of `delivered` bytes, on the way to `target`.
    fn window(&mut self, delivered: u64, in_flight: u64, target: u64, mss: u64) -> u64 {
        self.delivered += delivered;
        let may_send = if in_flight > target {
            (self.delivered * target).div_ceil(self.before).saturating_sub(self.sent)
        } else {
            let caught_up = self.delivered.saturating_sub(self.sent).max(delivered) + mss;
            caught_up.min(target - in_flight)
        };
        // The first repair leaves in any case.
        in_flight + may_send.max(if self.sent == 0 { mss } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MSS: u64 = 1000;

    struct Bench {
        sender: Sender,
        start: Instant,
    }

    impl Bench {
        fn at(&self, ms: u64) -> Instant {
            self.start + Duration::from_millis(ms)
        }

        fn send(&mut self, segments: u64, ms: u64) {
            for _ in 0..segments {
                self.sender.on_sent(MSS, Vec::new(), self.at(ms));
            }
        }

        /// Segments by their numbers; what is sent again at once, how many.
        fn ack(&mut self, up_to: u64, ranges: &[(u64, u64)], answers_ms: u64, ms: u64) -> usize {
            let ranges: Vec<_> = ranges.iter().map(|(start, end)| (start * MSS, end * MSS)).collect();
            let answers = Some(self.at(answers_ms));
            let now = self.at(ms);
            self.sender.handle_ack(&Ack { up_to: up_to * MSS, ranges: &ranges, answers, echoes: false }, now);
            std::iter::from_fn(|| self.sender.poll_retransmit(now)).count()
        }
    }

    /// A sender that has lost the first of thirty segments, the twentieth of all, and has sent it again.
    fn repairing() -> Bench {
        let mut bench = Bench { sender: Sender::new(CongestionControl::Reno, MSS, 0), start: Instant::now() };
        bench.send(20, 0);
        bench.ack(20, &[], 0, 50);
        bench.send(30, 50);
        assert_eq!(bench.ack(20, &[(21, 25)], 50, 100), 1);
        bench
    }

    #[test]
    fn marks_halve_the_window_once_a_round_trip() {
        let mut bench = Bench { sender: Sender::new(CongestionControl::Reno, MSS, 0), start: Instant::now() };
        let mut windows = Vec::new();
        bench.send(10, 0);
        for (up_to, sent, ms) in [(2, 0, 50), (4, 0, 51), (10, 5, 52), (12, 0, 100)] {
            let ack = Ack { up_to: up_to * MSS, ranges: &[], answers: None, echoes: true };
            bench.sender.handle_ack(&ack, bench.at(ms));
            bench.send(sent, ms);
            windows.push((bench.sender.controller.window(), bench.sender.take_reduced()));
        }
        assert_eq!(windows, [(5.0, true), (5.0, false), (5.0, false), (2.5, true)]);
    }

    #[test]
    fn what_was_late_is_no_loss() {
        let mut bench = repairing();
        bench.ack(25, &[], 50, 110);
        assert!(matches!(bench.sender.phase, Phase::Open));
        assert!(bench.sender.controller.in_slow_start());
    }

    #[test]
    fn the_repair_of_an_earlier_loss_does_not_make_a_later_one_late() {
        let mut bench = repairing();
        bench.send(10, 100);
        // Another segment is found lost before the recovery is over, and sent again.
        assert!(bench.ack(20, &[(21, 50), (51, 55)], 100, 151) > 0);
        // With its end a third one is.
        assert!(bench.ack(50, &[(51, 55), (56, 60)], 100, 153) > 0);
        let window = bench.sender.controller.window();
        bench.ack(55, &[(56, 60)], 151, 201);
        assert!(
            matches!(bench.sender.phase, Phase::Recovery(..)),
            "that answers the repair of the second one"
        );
        assert!(bench.sender.controller.window() <= window);
    }
}
