//! Round-trip time of a path, after RFC 9002 §5.

use std::time::{Duration, Instant};

use crate::clock::WindowedMin;

/// Smoothed, smallest and varying round-trip time.
///
/// Feed it one sample per acknowledgement frame that newly acknowledges its largest packet (RFC 9002 §5.1).
#[derive(Debug, Default)]
pub(crate) struct RttEstimator {
    smoothed: Option<Smoothed>,
    min: WindowedMin,
    recent: RoundTrips,
}

/// Samples that are kept: of a path with 100 packets/s, those of a third of a second.
const KEPT: usize = 32;

/// The newest samples of a round trip, less what the receiver waited before it acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrips {
    /// Microseconds; a sample's place is its number modulo [`KEPT`].
    samples: [u32; KEPT],
    taken: u64,
}

impl RoundTrips {
    /// Adds a sample.
    pub fn add(&mut self, sample: Duration) {
        self.samples[place(self.taken)] = u32::try_from(sample.as_micros()).unwrap_or(u32::MAX);
        self.taken += 1;
    }

    /// How many there were in all.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Those that came after the first `taken`, in microseconds, the oldest first; of many only the newest 32.
    pub fn since(&self, taken: u64) -> impl Iterator<Item = u32> {
        (taken.max(self.taken.saturating_sub(KEPT as u64))..self.taken)
            .map(|number| self.samples[place(number)])
    }
}

#[expect(clippy::cast_possible_truncation, reason = "what is left of a division by 32")]
fn place(number: u64) -> usize {
    (number % KEPT as u64) as usize
}

#[derive(Clone, Copy, Debug)]
struct Smoothed {
    latest: Duration,
    mean: Duration,
    variation: Duration,
}

impl RttEstimator {
    /// Takes a sample in (RFC 9002 §5.3). `ack_delay` is what the receiver says it waited before it
    /// acknowledged; limit it to what the protocol allows before the call.
    pub(crate) fn update(&mut self, sample: Duration, ack_delay: Duration, now: Instant) {
        self.min.update(sample, now);
        // "MUST NOT subtract the acknowledgment delay from the RTT sample if the resulting value is
        // smaller than the min_rtt."
        let adjusted = match self.min() {
            Some(min) if sample >= min + ack_delay => sample - ack_delay,
            Some(_) | None => sample,
        };
        self.recent.add(adjusted);
        self.smoothed = Some(match self.smoothed {
            None => Smoothed { latest: sample, mean: sample, variation: sample / 2 },
            Some(old) => Smoothed {
                latest: sample,
                mean: (old.mean * 7 + adjusted) / 8,
                variation: (old.variation * 3 + old.mean.abs_diff(adjusted)) / 4,
            },
        });
    }

    /// The newest sample, its acknowledgement delay included.
    pub(crate) fn latest(&self) -> Option<Duration> {
        self.smoothed.map(|s| s.latest)
    }

    /// The newest samples.
    pub(crate) fn recent(&self) -> RoundTrips {
        self.recent
    }

    /// Exponentially weighted mean (`smoothed_rtt`).
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed.map(|s| s.mean)
    }

    /// Mean deviation (`rttvar`).
    pub(crate) fn variation(&self) -> Option<Duration> {
        self.smoothed.map(|s| s.variation)
    }

    /// By how much the latest samples exceed the mean: four mean deviations, which timers allow for too (RFC 9002 §6.2.1), but no
    /// more than the mean itself.
    pub(crate) fn lateness(&self) -> Duration {
        self.smoothed.map(|s| (4 * s.variation).min(s.mean)).unwrap_or_default()
    }

    /// The smallest sample of the last 8 to 10 s. It is forgotten because routes change under a path.
    pub(crate) fn min(&self) -> Option<Duration> {
        self.min.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_first_sample_sets_everything() {
        let mut rtt = RttEstimator::default();
        assert_eq!((rtt.latest(), rtt.smoothed(), rtt.variation(), rtt.min()), (None, None, None, None));
        rtt.update(ms(100), ms(5), Instant::now());
        assert_eq!((rtt.latest(), rtt.smoothed()), (Some(ms(100)), Some(ms(100))));
        assert_eq!((rtt.variation(), rtt.min()), (Some(ms(50)), Some(ms(100))));
    }

    #[test]
    fn follows_the_equations_of_rfc_9002() {
        let now = Instant::now();
        let mut rtt = RttEstimator::default();
        rtt.update(ms(100), ms(0), now);
        rtt.update(ms(190), ms(10), now);
        assert_eq!(rtt.smoothed(), Some(ms(110)));
        assert_eq!(rtt.variation(), Some((ms(50) * 3 + ms(80)) / 4));
    }

    #[test]
    fn the_latest_are_four_deviations_late_or_once_the_mean() {
        let now = Instant::now();
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.lateness(), Duration::ZERO);
        rtt.update(ms(100), ms(0), now);
        assert_eq!(rtt.lateness(), ms(100), "half of the first sample is its deviation");
        (0..100).for_each(|n| rtt.update(ms(95 + n % 2 * 10), ms(0), now));
        assert!((ms(19)..ms(22)).contains(&rtt.lateness()), "{:?}", rtt.lateness());
    }

    #[test]
    fn the_newest_samples_are_kept_in_their_order() {
        let mut recent = RoundTrips::default();
        assert_eq!(recent.since(0).count(), 0);
        (1..=5).for_each(|n| recent.add(ms(n)));
        assert_eq!((recent.taken(), recent.since(3).collect::<Vec<_>>()), (5, vec![4000, 5000]));
        assert_eq!(recent.since(6).count(), 0, "of an estimator that was there before");
        (6..=100).for_each(|n| recent.add(ms(n)));
        assert_eq!(recent.since(5).collect::<Vec<_>>(), (69..=100).map(|n| n * 1000).collect::<Vec<_>>());
    }

    #[test]
    fn an_ack_delay_never_takes_a_sample_below_the_minimum() {
        let now = Instant::now();
        let mut rtt = RttEstimator::default();
        rtt.update(ms(100), ms(0), now);
        rtt.update(ms(104), ms(5), now);
        assert_eq!(rtt.smoothed(), Some((ms(700) + ms(104)) / 8));
    }

    #[test]
    fn the_minimum_is_forgotten_after_ten_seconds() {
        let start = Instant::now();
        let mut rtt = RttEstimator::default();
        rtt.update(ms(20), ms(0), start);
        for second in 1..=7 {
            rtt.update(ms(80), ms(0), start + Duration::from_secs(second));
            assert_eq!(rtt.min(), Some(ms(20)), "after {second} s");
        }
        rtt.update(ms(80), ms(0), start + Duration::from_secs(8));
        rtt.update(ms(80), ms(0), start + Duration::from_secs(10));
        assert_eq!(rtt.min(), Some(ms(80)));
        rtt.update(ms(90), ms(0), start + Duration::from_secs(60));
        assert_eq!(rtt.min(), Some(ms(90)));
    }
}
