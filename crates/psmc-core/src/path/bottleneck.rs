//! The queue before a path's bottleneck: what this site has sent, and what else makes datagrams late.
//!
//! How long datagrams stand in the queues of the direction in which a path carries them.

use std::time::{Duration, Instant};

use crate::clock::WindowedMin;
use crate::congestion::span_of;

/// When the queue that a datagram meets has drained.
///
/// The queue of our own datagrams is reckoned from what was sent and the rate at which the path forwards it, and corrected by each
/// acknowledgement: the newest datagram that has arrived left the queue when it had stood in it for as long as was measured, and what is in
/// flight follows it. Without that, a queue would be known only as it was a round trip ago: a path that has had a little more than its share
/// would be given more for as long, and then be left alone until its queue was seen to have gone.
///
/// What datagrams were late by beyond what was expected of them is another's queue, or what the path varies by.
#[derive(Debug)]
pub(crate) struct Bottleneck {
    /// When it will have forwarded what was sent.
    drained_at: Instant,
    excess: Option<Excess>,
}

/// After so much time what is known of a path that rests is worth half.
const FADING: Duration = Duration::from_millis(250);

/// What was measured beyond what was expected.
#[derive(Clone, Copy, Debug)]
struct Excess {
    latest: Duration,
    mean: Duration,
    /// Mean deviation from the mean.
    deviation: Duration,
    at: Instant,
}

impl Bottleneck {
    /// The empty queue of a new path.
    pub(crate) fn new(now: Instant) -> Self {
        Self { drained_at: now, excess: None }
    }

    /// `bytes` join what is forwarded at `rate` bytes per second. Returns how long they are expected to stand there.
    pub(crate) fn on_sent(&mut self, bytes: u64, rate: u64, now: Instant) -> Duration {
        self.drained_at = self.drained_at.max(now) + span_of(bytes, rate);
        self.drained_at - now
    }

    /// A datagram sent at `sent_at`, `expected` to stand there for some time, did so for `queueing`, and `later` bytes were sent after it.
    pub(crate) fn on_arrived(
        &mut self,
        (sent_at, expected): (Instant, Duration),
        queueing: Duration,
        (later, rate): (u64, u64),
        now: Instant,
    ) {
        self.drained_at = sent_at + queueing + span_of(later, rate);
        self.note_excess(queueing.saturating_sub(expected), now);
    }

    /// A datagram has stood for `queueing` before a bottleneck that the path shares with others of the session: what these have sent is in
    /// there too, and what is expected of one path's datagrams says little.
    pub(crate) fn on_coupled(&mut self, queueing: Duration, now: Instant) {
        self.note_excess(queueing, now);
    }

    fn note_excess(&mut self, latest: Duration, now: Instant) {
        let old = self.excess.unwrap_or(Excess { latest, mean: latest, deviation: Duration::ZERO, at: now });
        let mean = (old.mean * 7 + latest) / 8;
        let deviation = (old.deviation * 7 + old.mean.abs_diff(latest)) / 8;
        self.excess = Some(Excess { latest, mean, deviation, at: now });
    }

    /// When the queues have drained, if nothing newer is learnt. Others' are gone when a path has rested: then the mean still tells of
    /// them, the latest measurement doesn't.
    pub(crate) fn drained_at(&self) -> Instant {
        let others = self.excess.map(|excess| excess.at + excess.mean.min(excess.latest));
        others.map_or(self.drained_at, |at| at.max(self.drained_at))
    }

    /// By how much delays vary that were not expected, if by more than is `usual`. Of a path that rests this is worth less with time: nothing
    /// else would make good for what it was believed to forward before it was known.
    pub(crate) fn deviation_beyond(&self, usual: Duration, now: Instant) -> Duration {
        let Some(excess) = self.excess.filter(|excess| excess.deviation > usual) else {
            return Duration::ZERO;
        };
        let rested = now.saturating_duration_since(excess.at + excess.latest);
        let faded = excess.deviation.mul_f64((-rested.as_secs_f64() / FADING.as_secs_f64()).exp2());
        faded.saturating_sub(usual)
    }
}

/// Queueing delay, from differences between the peer's clock and ours.
///
/// A round trip grows with the queues of both directions, and with late acknowledgements; what this site sends
/// stands only in those of its own direction.
#[derive(Debug, Default)]
pub(crate) struct ForwardDelay {
    least: WindowedMin,
    /// The newest one, on a scale of its own.
    latest: Duration,
}

impl ForwardDelay {
    /// A datagram sent at `sent_us` by our clock arrived at `received_us` by the peer's: microseconds, wrapping,
    /// from origins that have nothing to do with each other. Returns its queueing delay.
    pub(crate) fn update(&mut self, sent_us: u32, received_us: u32, now: Instant) -> Duration {
        let difference = i64::from(received_us.wrapping_sub(sent_us).cast_signed());
        // Only differences between differences mean anything: moved to where none is negative.
        let moved = Duration::from_micros(difference.abs_diff(i64::from(i32::MIN)));
        self.least.update(moved, now);
        self.latest = moved;
        moved.saturating_sub(self.least.get().unwrap_or(moved))
    }

    /// The newest delay, propagation and an offset included that is always the same: unlike the queueing delay it does not
    /// jump when the least delay is forgotten.
    pub(crate) fn latest_delay(&self) -> Duration {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes per second: a datagram of 1000 bytes takes 10 ms.
    const RATE: u64 = 100_000;

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn what_is_in_flight_follows_what_has_arrived() {
        let now = Instant::now();
        let mut bottleneck = Bottleneck::new(now);
        let expected: Vec<_> = (0..4).map(|_| bottleneck.on_sent(1000, 2 * RATE, now)).collect();
        assert_eq!(expected, [5, 10, 15, 20].map(ms), "it was thought to be twice as fast");
        assert_eq!(bottleneck.drained_at(), now + ms(20));
        bottleneck.on_arrived((now, expected[0]), ms(10), (3000, RATE), now + ms(30));
        assert_eq!(bottleneck.drained_at(), now + ms(40), "10 ms each");
        assert_eq!(bottleneck.on_sent(1000, RATE, now + ms(30)), ms(20), "behind them");
    }

    #[test]
    fn what_was_not_expected_is_the_queue_of_others() {
        let now = Instant::now();
        let mut bottleneck = Bottleneck::new(now);
        let expected = bottleneck.on_sent(1000, RATE, now);
        bottleneck.on_arrived((now, expected), ms(60), (0, RATE), now + ms(80));
        assert_eq!(bottleneck.drained_at(), now + ms(130), "50 ms beyond the 10 that were expected");
        let at = now + ms(100);
        let expected = bottleneck.on_sent(1000, RATE, at);
        bottleneck.on_arrived((at, expected), ms(10), (0, RATE), at + ms(30));
        assert!(bottleneck.drained_at() <= at + ms(30), "it is gone");
    }

    #[test]
    fn where_paths_share_a_bottleneck_all_that_was_measured_counts() {
        let now = Instant::now();
        let mut bottleneck = Bottleneck::new(now);
        bottleneck.on_sent(3000, RATE, now);
        bottleneck.on_coupled(ms(30), now + ms(50));
        assert_eq!(bottleneck.drained_at(), now + ms(80));
    }

    #[test]
    fn our_own_queue_does_not_make_delays_vary() {
        let now = Instant::now();
        let mut bottleneck = Bottleneck::new(now);
        let expected: Vec<_> = (0..20).map(|_| bottleneck.on_sent(1000, RATE, now)).collect();
        for (later, expected) in (0..20).rev().zip(expected) {
            let at = now + ms(20) + expected;
            bottleneck.on_arrived((now, expected), expected, (later * 1000, RATE), at);
            assert_eq!(bottleneck.deviation_beyond(Duration::ZERO, at), Duration::ZERO);
        }
    }

    #[test]
    fn what_a_path_varied_by_before_it_rested_is_forgotten() {
        let now = Instant::now();
        let mut bottleneck = Bottleneck::new(now);
        for late in [0, 100, 0, 100] {
            bottleneck.on_arrived((now, Duration::ZERO), ms(late), (0, RATE), now);
        }
        let beyond = |usual, rested| bottleneck.deviation_beyond(usual, now + ms(100) + rested);
        let (before, after) = (beyond(Duration::ZERO, Duration::ZERO), beyond(Duration::ZERO, 2 * FADING));
        assert!(before > ms(20), "{before:?}");
        assert_eq!(after, before / 4);
        assert_eq!(beyond(ms(20), Duration::ZERO), before - ms(20));
        assert_eq!(beyond(ms(20), 2 * FADING), Duration::ZERO, "{after:?} are usual");
    }

    #[test]
    fn clocks_with_any_offset_show_the_same_queue() {
        let now = Instant::now();
        for offset in [0u32, 1, 5_000_000, u32::MAX - 3, 1 << 30, 3 << 30] {
            let mut forward = ForwardDelay::default();
            let mut measure = |sent: u32, delay: u32| {
                forward.update(sent, sent.wrapping_add(delay).wrapping_add(offset), now).as_micros()
            };
            assert_eq!(measure(100, 10_000), 0, "{offset}");
            assert_eq!(measure(u32::MAX, 12_000), 2_000, "{offset}");
            assert_eq!(measure(5, 10_000), 0, "{offset}");
        }
    }
}
