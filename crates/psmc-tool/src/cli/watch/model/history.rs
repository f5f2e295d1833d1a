//! The past of a path.

use std::collections::{BTreeMap, VecDeque};

use psmc_api::watch::Traffic;

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
}
