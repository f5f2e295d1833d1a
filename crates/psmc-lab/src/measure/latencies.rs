//! How long things took.

use std::time::Duration;

use super::ms;
use crate::results::{Distribution, Sample};

/// How many values are kept: beyond it percentiles gain nothing, and files and plots only grow.
const MAX_SAMPLES: usize = 100_000;

/// Values over time. All are kept up to a bound; beyond it every second one, then every fourth …
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    samples: Vec<Sample>,
    added: usize,
    /// One in two to the power of this is kept.
    thinned: u32,
    extremes: Option<[f64; 2]>,
}

impl Latencies {
    /// Takes down that something took so long. `at` is when it was over.
    pub fn add(&mut self, at: Duration, latency: Duration) {
        let value = ms(latency);
        let [min, max] = self.extremes.unwrap_or([value; 2]);
        self.extremes = Some([min.min(value), max.max(value)]);
        if self.added.trailing_zeros() >= self.thinned {
            self.keep(Sample { at_s: at.as_secs_f64(), value });
        }
        self.added += 1;
    }

    /// How the values are distributed; `None` if there are none.
    #[must_use]
    pub fn distribution(self) -> Option<Distribution> {
        let [min_ms, max_ms] = self.extremes?;
        let mut sorted: Vec<_> = self.samples.iter().map(|sample| sample.value).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let [p50_ms, p90_ms, p99_ms] = [50, 90, 99].map(|share| percentile(&sorted, share));
        Some(Distribution { min_ms, p50_ms, p90_ms, p99_ms, max_ms, samples_ms: self.samples })
    }

    /// The same with the smallest value taken off all of them.
    #[must_use]
    pub fn beyond_smallest(mut self) -> Self {
        if let Some([min, max]) = self.extremes {
            self.extremes = Some([0.0, max - min]);
            self.samples.iter_mut().for_each(|sample| sample.value -= min);
        }
        self
    }

    fn keep(&mut self, sample: Sample) {
        if self.samples.len() == MAX_SAMPLES {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.thinned += 1;
            if self.added.trailing_zeros() < self.thinned {
                return;
            }
        }
        self.samples.push(sample);
    }
}

/// The smallest value that no more than so many percent of all fall below (the nearest rank). 0 of no values.
#[must_use]
pub fn percentile(sorted: &[f64], share: usize) -> f64 {
    let rank = (sorted.len() * share).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        for (at, value) in values.into_iter().enumerate() {
            latencies.add(Duration::from_secs(at as u64), Duration::from_millis(value));
        }
        latencies
    }

    fn figures(distribution: &Distribution) -> [f64; 5] {
        let Distribution { min_ms, p50_ms, p90_ms, p99_ms, max_ms, .. } = *distribution;
        [min_ms, p50_ms, p90_ms, p99_ms, max_ms]
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let distribution = of((1..=100).rev()).distribution().unwrap();
        assert_eq!(figures(&distribution), [1.0, 50.0, 90.0, 99.0, 100.0]);
        assert_eq!(distribution.samples_ms[0], Sample { at_s: 0.0, value: 100.0 });
        assert_eq!(figures(&of([7]).distribution().unwrap()), [7.0; 5]);
        assert_eq!(of([]).distribution(), None);
    }

    #[test]
    fn the_smallest_can_be_taken_off() {
        let distribution = of([30, 20, 40]).beyond_smallest().distribution().unwrap();
        assert_eq!(figures(&distribution), [0.0, 10.0, 20.0, 20.0, 20.0]);
    }

    #[test]
    fn many_values_are_thinned_evenly() {
        let distribution = of(0..1_000_000).distribution().unwrap();
        let samples = &distribution.samples_ms;
        assert!((MAX_SAMPLES / 2..=MAX_SAMPLES).contains(&samples.len()), "{}", samples.len());
        let step = samples[1].value - samples[0].value;
        assert!(samples.windows(2).all(|pair| (pair[1].value - pair[0].value - step).abs() < 1e-6));
        assert!((distribution.p50_ms - 500_000.0).abs() <= step);
        assert!((distribution.max_ms - 999_999.0).abs() < 1e-6);
    }
}
