//! What is known of the round trips of a path.
//!
//! The round trip of a path that carries a load, without any queue.

use std::time::{Duration, Instant};

use super::AckSample;
use super::phase::{ACK_DELAY, ALLOWANCE};
use super::round::Steadiness;
use crate::clock::WindowedMin;

/// The round trips of a path, as acknowledgements and rounds have shown them.
///
/// `base` is the path's best under load, as far as whoever asks knows better than [`base`](Self::base): others may hide it.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    min: Duration,
    smoothed: Duration,
    /// The same without the queues of the way back.
    forward: Option<Duration>,
    jitter: Duration,
    steadiness: Steadiness,
    loaded: LoadedRtt,
    /// By how much single packets are later than the fastest one, on average.
    lateness: Option<Duration>,
    /// When one about as short as the best was last seen.
    best_seen: Option<Instant>,
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self::assumed(INITIAL_RTT)
    }
}

impl RoundTrips {
    /// All are taken for as long as this, until they are measured.
    pub(crate) fn assumed(round_trip: Duration) -> Self {
        Self {
            min: round_trip,
            smoothed: round_trip,
            forward: None,
            jitter: Duration::ZERO,
            steadiness: Steadiness::default(),
            loaded: LoadedRtt::default(),
            lateness: None,
            best_seen: None,
        }
    }

    /// Takes in what an acknowledgement says, and returns the round trip that it has measured.
    pub(crate) fn on_ack(&mut self, sample: &AckSample) -> Option<Duration> {
        self.min = sample.min_rtt.unwrap_or(self.min);
        let rtt = sample.rtt?;
        self.smoothed = sample.smoothed_rtt.unwrap_or(rtt);
        self.forward = Some(self.forward.map_or(rtt, |mean| (mean * 7 + rtt) / 8));
        self.jitter = sample.jitter;
        Some(rtt)
    }

    /// A datagram took so long: notes when one was about as short as `base`, which may have been a small one's: to forward a full one
    /// takes as long as `datagram`.
    pub(crate) fn compare(&mut self, rtt: Duration, base: Duration, datagram: Duration, now: Instant) {
        if rtt <= base + datagram.max(base / 16 + MIN_RTT_TOLERANCE) {
            self.best_seen = Some(now);
        }
    }

    /// The best is looked for from now on.
    pub(crate) fn renew(&mut self, now: Instant) {
        self.best_seen = Some(now);
    }

    /// Whether the best was last seen longer ago than `age`.
    pub(crate) fn is_best_old(&self, age: Duration, now: Instant) -> bool {
        self.best_seen.is_some_and(|at| now.saturating_duration_since(at) > age)
    }

    /// A round that carried a load had `least` for its smallest, with a queue of this path's own datagrams in it or not.
    pub(crate) fn on_round(&mut self, least: Duration, has_own_queue: bool, now: Instant) {
        if !has_own_queue {
            self.loaded.on_round(least, now);
        }
        self.steadiness.on_round(least);
    }

    /// A round between two probes that carried a load had `least` for its smallest.
    pub(crate) fn on_cruise(&mut self, least: Duration) {
        self.loaded.on_cruise(least);
    }

    /// The path is probed again, or will not be for long.
    pub(crate) fn end_cycle(&mut self) {
        self.loaded.end_cycle();
    }

    /// A round that carried next to nothing had `most` for its largest.
    pub(crate) fn on_idle_round(&mut self, most: Duration) {
        let late = most.saturating_sub(self.min + ACK_DELAY);
        self.lateness = Some(self.lateness.map_or(late, |mean| (mean * 7 + late) / 8));
    }

    /// The smallest of the last seconds, of a single packet.
    pub(crate) fn min(&self) -> Duration {
        self.min
    }

    /// The mean of the last ones, with the queues of the way back.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// By how much the delays of successive datagrams differ, as the peer measured it.
    pub(crate) fn jitter(&self) -> Duration {
        self.jitter
    }

    /// By how much the smallest of successive rounds differ, on average.
    pub(crate) fn variation(&self) -> Duration {
        self.steadiness.variation()
    }

    /// By how much those go up and down in turn, without what hosts are late.
    pub(crate) fn alternation(&self) -> Duration {
        self.steadiness.own_alternation()
    }

    /// By how much packets are later than the fastest one without any queue of ours: at most about twice as much as on average.
    /// Those that follow on one another are all late if the first one is, so that [`jitter`](Self::jitter) says little of it.
    pub(crate) fn spread(&self) -> Duration {
        2 * self.lateness.unwrap_or_default()
    }

    /// Whether delays vary by so much that the time over which a round arrives says nothing of what the path carries.
    pub(crate) fn is_spread(&self, base: Duration) -> bool {
        self.spread() >= base / 4
    }

    /// Whether delays vary from round to round, without any queue of ours, by more than hosts are late.
    pub(crate) fn is_unsteady(&self, base: Duration) -> bool {
        self.steadiness.alternates(base / 32)
    }

    /// That of the path under load, without a queue; `is_rough` says whether what arrives in rounds goes up and down in turn.
    pub(crate) fn base(&self, is_rough: bool) -> Duration {
        let slack = if is_rough { SLACK * self.alternation() } else { Duration::ZERO };
        self.loaded.typical(self.min, slack)
    }

    /// That which windows are made for. Packets whose delays vary stay longer on the path than the fastest of them; but a queue is not
    /// to be taken for that, ours or that of others who make their windows as we do, so that this has its limit. What alternates is none.
    /// Where nobody else could keep a queue, what round trips vary by is the path's.
    pub(crate) fn held(&self, base: Duration, others_may_queue: bool) -> Duration {
        let most = self.most_held(base, others_may_queue);
        self.smoothed.clamp(base, most) + 4 * self.steadiness.alternation()
    }

    /// What acknowledgements wait for on the way back beyond what [`held`](Self::held) and the [`ALLOWANCE`] have room for: what they are
    /// about has long arrived, and stands in no queue.
    pub(crate) fn way_back(&self, base: Duration, others_may_queue: bool) -> Duration {
        let waited = self.smoothed.saturating_sub(self.forward.unwrap_or(self.smoothed));
        waited
            .saturating_sub(ALLOWANCE)
            .min(self.smoothed.saturating_sub(self.most_held(base, others_may_queue)))
    }

    fn most_held(&self, base: Duration, others_may_queue: bool) -> Duration {
        if others_may_queue {
            base + base * HELD_PERCENT / 100 + 4 * self.steadiness.alternation()
        } else {
            2 * base + 4 * self.variation()
        }
    }

    /// That which is usual when no queue of ours is in it, as far as delays vary from round to round.
    pub(crate) fn clear(&self, base: Duration) -> Duration {
        self.smoothed.clamp(base, base + 4 * self.variation())
    }

    /// How many rounds must look as if the pipe were full: delays that vary do so by chance.
    pub(crate) fn filled_limit(&self, base: Duration) -> u32 {
        if self.jitter > base / 16 { 2 } else { 1 }
    }
}

/// Assumed until a round trip has been measured: a short one, which sends too little rather than too much.
const INITIAL_RTT: Duration = Duration::from_millis(20);

/// A round trip this much above the minimum counts as the minimum: hosts are no more exact.
const MIN_RTT_TOLERANCE: Duration = Duration::from_millis(1);

/// The fastest of hundreds of rounds is as many alternations faster than they are as a rule.
const SLACK: u32 = 8;

/// By how much round trips may be longer than the path's for a window to cover them, percent. With more of it several models keep a longer
/// queue, with less one falls behind beside CUBIC.
const HELD_PERCENT: u32 = 30;

/// The smallest round trips of rounds that carried a load.
///
/// A path whose delay varies and which keeps the order of its packets is never as fast under load as it is for a single packet, and of many
/// rounds the fastest is as rare as a slow one. What it is as a rule shows just after queues were drained: the fastest round of each
/// cycle of probing, on average.
#[derive(Debug, Default)]
pub(crate) struct LoadedRtt {
    least: WindowedMin,
    /// The smallest of this cycle, and the mean of those of cycles, the last of which weighs a quarter.
    cycle: Option<Duration>,
    mean: Option<Duration>,
}

impl LoadedRtt {
    /// A round whose queue is not ours had `least` for its smallest round trip.
    pub(crate) fn on_round(&mut self, least: Duration, now: Instant) {
        self.least.update(least, now);
    }

    /// The same of a round between two probes.
    pub(crate) fn on_cruise(&mut self, least: Duration) {
        self.cycle = Some(self.cycle.map_or(least, |before| before.min(least)));
    }

    /// The path is probed again, or will not be for long.
    pub(crate) fn end_cycle(&mut self) {
        if let Some(least) = self.cycle.take() {
            self.mean = Some(self.mean.map_or(least, |mean| (mean * 3 + least) / 4));
        }
    }

    /// The smallest of the last seconds, if it is more than `min_rtt`, that of a single packet.
    pub(crate) fn least(&self, min_rtt: Duration) -> Duration {
        self.least.get().unwrap_or(min_rtt).max(min_rtt)
    }

    /// The mean of those of cycles, within `slack` of the smallest: a queue of others is in all of them.
    pub(crate) fn typical(&self, min_rtt: Duration, slack: Duration) -> Duration {
        let least = self.least(min_rtt);
        self.mean.map_or(least, |mean| mean.clamp(least, least + slack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of a path on which single packets took so many milliseconds, in turn.
    fn after_idle_rounds(took: impl Iterator<Item = u64>) -> RoundTrips {
        let mut trips = RoundTrips::assumed(Duration::from_millis(30));
        took.for_each(|ms| trips.on_idle_round(Duration::from_millis(ms)));
        trips
    }

    #[test]
    fn what_single_packets_vary_by_is_known_before_any_load() {
        let base = Duration::from_millis(30);
        let varying = after_idle_rounds((0..100).map(|n| 35 + n * 17 % 41));
        let spread = varying.spread().as_millis();
        assert!((33..=47).contains(&spread) && varying.is_spread(base), "{spread} ms");
        let steady = after_idle_rounds((0..100).map(|n| 30 + n % 6));
        assert_eq!(
            (steady.spread(), steady.is_spread(base)),
            (Duration::ZERO, false),
            "late acknowledgements"
        );
        let stalled = after_idle_rounds((0..100).map(|n| if n == 80 { 130 } else { 31 }));
        assert!(!stalled.is_spread(base), "{:?}", stalled.spread());
        assert!(!RoundTrips::default().is_spread(base), "nothing is known");
    }

    /// Those of a path of 20 ms after many acknowledgements whose datagrams took so many milliseconds, and they themselves more.
    fn after_queues(forward: u64, back: u64) -> RoundTrips {
        let ms = Duration::from_millis;
        let mut trips = RoundTrips::assumed(ms(20));
        for _ in 0..100 {
            let (rtt, smoothed_rtt) = (Some(ms(forward)), Some(ms(forward + back)));
            trips.on_ack(&AckSample { rtt, min_rtt: Some(ms(20)), smoothed_rtt, ..AckSample::default() });
        }
        trips
    }

    #[test]
    fn windows_cover_what_acknowledgements_wait_for_and_no_queue_of_data() {
        let (base, ms) = (Duration::from_millis(20), Duration::from_millis);
        let covered = |trips: &RoundTrips| trips.held(base, true) + trips.way_back(base, true);
        assert_eq!(covered(&after_queues(20, 0)), ms(20));
        assert_eq!(covered(&after_queues(20, 5)), ms(25), "there is room for that anyhow");
        assert_eq!(covered(&after_queues(20, 15)), ms(31));
        assert_eq!(covered(&after_queues(20, 60)), ms(76));
        assert_eq!(covered(&after_queues(80, 0)), ms(26), "it stands in a queue");
        assert_eq!(covered(&after_queues(50, 30)), ms(46));
        assert_eq!(covered(&after_queues(80, 10)), ms(26), "late as ever");
        assert_eq!(RoundTrips::assumed(ms(90)).way_back(base, true), Duration::ZERO, "nothing was measured");
    }

    #[test]
    fn as_a_rule_it_is_longer_than_the_fastest_round() {
        let (now, ms) = (Instant::now(), Duration::from_millis);
        let mut rtt = LoadedRtt::default();
        assert_eq!(rtt.typical(ms(10), ms(5)), ms(10), "nothing was seen");
        for cycle in [[25, 22], [23, 26], [24, 22], [16, 20]] {
            for least in cycle {
                rtt.on_round(ms(least), now);
                rtt.on_cruise(ms(least));
            }
            rtt.end_cycle();
        }
        assert_eq!(rtt.least(ms(10)), ms(16));
        assert!((ms(20)..ms(22)).contains(&rtt.typical(ms(10), ms(8))));
        assert_eq!(rtt.typical(ms(10), ms(3)), ms(19), "others may have a queue in all of them");
    }
}
