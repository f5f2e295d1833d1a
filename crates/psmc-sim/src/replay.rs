//! What has become of packets in a device, beside what the model makes of the same ones: the publication called ROUTER, chapter 6.

use std::time::{Duration, Instant};

use crate::link::PacketInfo;
use crate::router::{Router, RouterConfig};

/// A packet that has entered a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When, after any beginning.
    pub at: Duration,
    /// The port by which it came, from 0.
    pub input: usize,
    /// The port by which it left, or should have.
    pub output: usize,
    /// Bytes, from the IP header on.
    pub len: usize,
    /// How long until it left; `None` if it was lost.
    pub delay: Option<Duration>,
}

/// How delays and losses of the same packets compare: what was observed, and the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Packets that entered.
    pub packets: usize,
    /// What was observed.
    pub observed: Summary,
    /// What the model makes of it.
    pub modelled: Summary,
    /// The statistic of Kolmogorov and Smirnov: the largest difference between the distributions of delays, from 0 to 1.
    pub distance: f64,
}

/// What has become of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The share that was lost.
    pub loss: f64,
    /// The mean of the delays, in seconds; 0 without any.
    pub mean: f64,
    /// Their standard deviation as a share of the mean, the coefficient of variation.
    pub variation: f64,
    /// Their 99th percentile, in seconds.
    pub high: f64,
}

/// For each packet how long the model has it, in the order of `entries`, which is that of time; `None` if it is dropped. When the
/// first one enters, `start` and its own time, makes no difference.
#[must_use]
pub fn replay(config: &RouterConfig, entries: &[Entry], start: Instant) -> Vec<Option<Duration>> {
    let mut router = Router::new(config.clone(), 1, start);
    let mut delays = vec![None; entries.len()];
    for (number, entry) in entries.iter().enumerate() {
        let at = start + entry.at;
        router.handle_packet(number, PacketInfo::new(entry.len), entry.input, Some(entry.output), at);
        settle(&mut router, at, start, entries, &mut delays);
    }
    while let Some(at) = router.poll_timeout() {
        settle(&mut router, at, start, entries, &mut delays);
    }
    delays
}

fn settle(
    router: &mut Router<usize>,
    now: Instant,
    start: Instant,
    entries: &[Entry],
    delays: &mut [Option<Duration>],
) {
    while let Some(departure) = router.poll_packet(now) {
        let entered = start + entries[departure.packet].at;
        delays[departure.packet] = Some(departure.at.saturating_duration_since(entered));
    }
    while router.poll_dropped().is_some() {}
}

impl Comparison {
    /// Of the same packets.
    #[must_use]
    pub fn of(observed: &[Option<Duration>], modelled: &[Option<Duration>]) -> Self {
        let [seen, made] = [observed, modelled].map(delays);
        Self {
            packets: observed.len(),
            observed: Summary::of(&seen, observed.len()),
            modelled: Summary::of(&made, modelled.len()),
            distance: distance(&seen, &made),
        }
    }
}

impl Summary {
    /// Of delays that are in order, of so many packets.
    fn of(delays: &[f64], packets: usize) -> Self {
        let count = delays.len() as f64;
        let mean = if delays.is_empty() { 0.0 } else { delays.iter().sum::<f64>() / count };
        let squares: f64 = delays.iter().map(|delay| (delay - mean).powi(2)).sum();
        let deviation = (squares / (count - 1.0).max(1.0)).sqrt();
        Self {
            loss: 1.0 - count / packets.max(1) as f64,
            mean,
            variation: if mean > 0.0 { deviation / mean } else { 0.0 },
            high: delays.get(delays.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(0.0),
        }
    }
}

/// In seconds, in order.
fn delays(all: &[Option<Duration>]) -> Vec<f64> {
    let mut delays: Vec<f64> = all.iter().flatten().map(Duration::as_secs_f64).collect();
    delays.sort_by(f64::total_cmp);
    delays
}

/// The largest difference between two distributions, whose values are in order; 1 if only one has any.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return if a.len() == b.len() { 0.0 } else { 1.0 };
    }
    let (mut i, mut j, mut most) = (0, 0, 0.0_f64);
    while i < a.len() && j < b.len() {
        let value = a[i].min(b[j]);
        while i < a.len() && a[i] <= value {
            i += 1;
        }
        while j < b.len() && b[j] <= value {
            j += 1;
        }
        most = most.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    most
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::router::{Amount, PortConfig, Table, Tables};

    #[test]
    fn the_model_is_like_itself() {
        let port = PortConfig::new(10_000_000, Amount::new(5.0).unwrap());
        let tables = Tables {
            delay: Table::<Duration>::constant(Duration::from_micros(200)),
            servers: Table::<Amount>::constant(Amount::ONE),
            slots: Table::<Amount>::constant(Amount::ONE),
        };
        let config = RouterConfig::new(vec![port; 3], Amount::new(2.0).unwrap(), tables, None).unwrap();
        let entry = |number: u32| Entry {
            at: Duration::from_micros(300) * number,
            input: number as usize % 2,
            output: 2,
            len: 482,
            delay: None,
        };
        let entries: Vec<_> = (0..1000).map(entry).collect();
        let delays = replay(&config, &entries, Instant::now());
        let Comparison { packets, observed, modelled, distance } = Comparison::of(&delays, &delays);
        assert_eq!((packets, observed, distance), (1000, modelled, 0.0));
        // The line carries one in 400 µs, and one comes in 300.
        assert!((0.23..0.26).contains(&observed.loss), "{observed:?}");
        assert!(observed.high < 6.0 * 400e-6 + 200e-6, "{observed:?}");
        let longer: Vec<_> = delays.iter().map(|delay| delay.map(|delay| delay * 10)).collect();
        assert!(Comparison::of(&delays, &longer).distance > 0.9);
    }

    proptest! {
        #[test]
        fn the_distance_is_that_of_the_distributions(
            a in proptest::collection::vec(0..20u32, 1..30),
            b in proptest::collection::vec(0..20u32, 1..30),
        ) {
            let share = |values: &[u32], most: u32| {
                values.iter().filter(|value| **value <= most).count() as f64 / values.len() as f64
            };
            let expected = (0..20).map(|most| (share(&a, most) - share(&b, most)).abs()).fold(0.0, f64::max);
            let sorted = |values: &[u32]| {
                let mut values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
                values.sort_by(f64::total_cmp);
                values
            };
            prop_assert!((distance(&sorted(&a), &sorted(&b)) - expected).abs() < 1e-12);
        }
    }
}
