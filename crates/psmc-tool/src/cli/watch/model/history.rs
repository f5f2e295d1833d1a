//! Rates, from the counts of two answers.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use psmc_api::{PathStatus, PeerStatus};

/// How fast the counts of a peer grow.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::cli::watch) struct PeerRates {
    /// Of inner bytes.
    pub(in crate::cli::watch) traffic: Traffic,
    /// Of outer bytes, by the path's name.
    pub(in crate::cli::watch) paths: BTreeMap<String, Traffic>,
    /// Packets per second that a class has sent, by its name.
    pub(in crate::cli::watch) classes: BTreeMap<String, f64>,
    /// What is counted of repair, per second, by its name.
    pub(in crate::cli::watch) repair: BTreeMap<String, f64>,
}

/// What is sent and received, in Mbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::cli::watch) struct Traffic {
    pub(in crate::cli::watch) up_mbps: f64,
    pub(in crate::cli::watch) down_mbps: f64,
}

impl PeerRates {
    /// Those between two answers, `elapsed` apart. What only one of them has is in none of the maps.
    pub(super) fn between(before: &PeerStatus, now: &PeerStatus, elapsed: Duration) -> Self {
        let traffic = |before: (u64, u64), now: (u64, u64)| Traffic {
            up_mbps: mbps(before.0, now.0, elapsed),
            down_mbps: mbps(before.1, now.1, elapsed),
        };
        let path = |path: &PathStatus| {
            let before = before.paths.iter().find(|other| other.name == path.name && other.id == path.id)?;
            let counts = [before, path].map(|path| (path.tx_bytes, path.rx_bytes));
            Some((path.name.clone(), traffic(counts[0], counts[1])))
        };
        let class = |name: &str| before.classes.iter().find(|class| class.name == name);
        Self {
            traffic: traffic((before.tx_bytes, before.rx_bytes), (now.tx_bytes, now.rx_bytes)),
            paths: now.paths.iter().filter_map(path).collect(),
            classes: (now.classes.iter())
                .filter_map(|now| {
                    let before = class(&now.name)?;
                    Some((now.name.clone(), per_second(before.tx_packets, now.tx_packets, elapsed)))
                })
                .collect(),
            repair: (now.repair.iter())
                .filter_map(|(name, count)| {
                    Some((name.clone(), per_second(*before.repair.get(name)?, *count, elapsed)))
                })
                .collect(),
        }
    }
}

/// How fast a count grows. One that began anew does not count.
fn per_second(before: u64, now: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 }
}

fn mbps(before: u64, now: u64, elapsed: Duration) -> f64 {
    per_second(before, now, elapsed) * 8.0 / 1e6
}

/// The rates of the last answers, up and down together, in Mbit/s.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct History {
    samples: VecDeque<f64>,
    /// How many there were before the oldest of them.
    forgotten: usize,
}

impl History {
    /// Adds the latest of at most `span`.
    pub(super) fn add(&mut self, rate: Traffic, span: usize) {
        self.samples.push_back(rate.up_mbps + rate.down_mbps);
        while self.samples.len() > span {
            self.samples.pop_front();
            self.forgotten += 1;
        }
    }

    /// The means of groups of samples, so that `span` of them fit into so many columns, the latest last.
    ///
    /// A sample stays in its group, so that only the last column changes its height.
    pub(super) fn columns(&self, span: usize, columns: usize) -> Vec<f64> {
        if columns == 0 {
            return Vec::new();
        }
        let each = span.div_ceil(columns).max(1);
        let mut groups: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for (sample, number) in self.samples.iter().zip(self.forgotten..) {
            let (sum, count) = groups.entry(number / each).or_default();
            *sum += sample;
            *count += 1.0;
        }
        let means: Vec<_> = groups.into_values().map(|(sum, count)| sum / count).collect();
        means[means.len().saturating_sub(columns)..].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(rates: &[f64], span: usize) -> History {
        let mut history = History::default();
        for &up_mbps in rates {
            history.add(Traffic { up_mbps, down_mbps: 0.0 }, span);
        }
        history
    }

    #[test]
    fn a_history_forgets_what_is_older_than_its_span() {
        assert_eq!(history(&[1.0, 2.0, 3.0, 4.0], 3).columns(3, 10), [2.0, 3.0, 4.0]);
    }

    #[test]
    fn few_columns_have_the_means_of_several_samples() {
        assert_eq!(history(&[1.0, 3.0, 5.0, 7.0], 4).columns(4, 2), [2.0, 6.0]);
        // The oldest group has lost a sample, the latest waits for its second.
        assert_eq!(history(&[1.0, 3.0, 5.0, 7.0, 9.0], 4).columns(4, 3), [3.0, 6.0, 9.0]);
        assert_eq!(history(&[1.0], 4).columns(4, 0), [0.0; 0]);
    }

    #[test]
    fn a_count_that_begins_anew_is_no_rate() {
        assert_eq!(mbps(1_000_000, 2_250_000, Duration::from_secs(2)), 5.0);
        assert_eq!(per_second(100, 3, Duration::from_secs(1)), 0.0);
        assert_eq!(per_second(1, 3, Duration::ZERO), 0.0);
    }
}
