//! The seed's allocations of a server's processes to classes, as they stand (PSMC chapter VI): for comparison.
//!
//! Each class has processes of its own, and takes its requests in turn. The seed holds that a class is served at a rate in
//! proportion to its processes that are busy.

/// The rate of each class that makes response times be in the ratios of δ if classes are M/M/1 queues (eq. 6.4), as shares of the server.
/// `loads` are what classes ask for, as shares of it as well. `None` if they ask for all of it or more, for which the seed wants
/// admission control.
///
/// Eq. 6.3 gives the response time in two forms that differ by a factor; it is the second, 1/(μ − λ), that leads here.
#[must_use]
pub fn rates(loads: &[f64], deltas: &[f64]) -> Option<Vec<f64>> {
    let spare = 1.0 - loads.iter().sum::<f64>();
    if spare <= 0.0 {
        return None;
    }
    let inverse: f64 = deltas.iter().map(|delta| 1.0 / delta).sum();
    Some(loads.iter().zip(deltas).map(|(load, delta)| load + spare / (delta * inverse)).collect())
}

/// So many processes divided in proportion to rates; each class has one at least.
#[must_use]
pub fn fixed(processes: u32, rates: &[f64]) -> Vec<u32> {
    let sum: f64 = rates.iter().sum();
    rates.iter().map(|rate| whole(f64::from(processes) * rate / sum).max(1)).collect()
}

/// How many processes each class may have busy at most, `None` if that stays as it is: algorithm 6.1, for one allocation period.
///
/// `active` are the processes that are busy, `rates` those of [`rates`](fn@rates), which the seed turns into whole numbers, and
/// `threshold` is its H.
#[must_use]
pub fn adaptive(active: &[u32], rates: &[f64], threshold: u32) -> Vec<Option<u32>> {
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min).max(f64::MIN_POSITIVE);
    let parts: Vec<u32> = rates.iter().map(|rate| whole(rate / least).clamp(1, MOST_PARTS)).collect();
    let multiplier = active.iter().sum::<u32>() / parts.iter().sum::<u32>().max(1);
    let limit = |(active, part): (&u32, &u32)| {
        let most = multiplier * part + threshold;
        (*active > most).then_some(most)
    };
    active.iter().zip(&parts).map(limit).collect()
}

/// A class's processes by feedback (eq. 6.7): what theory says at first, and the error, its sum and its change beside it.
///
/// The sum has no bound, and each class has a controller of its own, though all share one server.
#[derive(Clone, Debug)]
pub struct Feedback {
    initial: f64,
    gain: f64,
    last: f64,
    sum: f64,
}

impl Feedback {
    /// `initial` processes; one gain for all three terms, as in the seed's experiments.
    #[must_use]
    pub fn new(initial: f64, gain: f64) -> Self {
        Self { initial, gain, last: 0.0, sum: 0.0 }
    }

    /// Processes for the next period, after one with this error: how much more the response time was than it should be. Not
    /// bounded: the caller takes what there is.
    pub fn update(&mut self, error: f64) -> f64 {
        // The sum ends before the last error.
        let processes = self.initial + self.gain * (error + self.sum + (error - self.last));
        self.sum += error;
        self.last = error;
        processes
    }
}

/// The greatest of the whole numbers that rates are turned into: the seed has 32 processes.
const MOST_PARTS: u32 = 32;

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped to what fits")]
fn whole(value: f64) -> u32 {
    value.round().clamp(0.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn response_times_are_as_theory_wants_them() {
        let (loads, deltas) = ([0.45, 0.15], [1.0, 3.0]);
        let rates = rates(&loads, &deltas).unwrap();
        let times: Vec<f64> = rates.iter().zip(&loads).map(|(rate, load)| 1.0 / (rate - load)).collect();
        assert!((times[1] / times[0] - 3.0).abs() < 1e-9);
        assert!((rates.iter().sum::<f64>() - 1.0).abs() < 1e-9, "eq. 6.2");
    }

    #[test]
    fn more_of_a_better_class_does_no_more_than_more_of_another() {
        // The seed's third property has it otherwise; eq. 6.5 depends on the sum of loads alone.
        let deltas = [1.0, 3.0];
        let time = |loads: [f64; 2]| 1.0 / (rates(&loads, &deltas).unwrap()[1] - loads[1]);
        assert!((time([0.5, 0.2]) - time([0.4, 0.3])).abs() < 1e-9);
    }

    #[test]
    fn processes_are_held_back_where_too_many_are_busy() {
        // 14 are busy and rates are as 3 to 1: m is 3.
        assert_eq!(adaptive(&[10, 4], &[0.75, 0.25], 1), [None, None]);
        assert_eq!(adaptive(&[6, 8], &[0.75, 0.25], 1), [None, Some(4)]);
        assert_eq!(fixed(32, &[0.75, 0.25]), [24, 8]);
        assert_eq!(rates(&[0.8, 0.2], &[1.0, 2.0]), None);
    }

    #[test]
    fn feedback_sums_what_cannot_be_undone() {
        let mut feedback = Feedback::new(8.0, 1.0);
        assert!((feedback.update(1.0) - 10.0).abs() < 1e-9);
        for _ in 0..100 {
            let _ = feedback.update(1.0);
        }
        assert!(feedback.update(0.0) > 100.0);
    }

    proptest! {
        #[test]
        fn nobody_is_without_a_process(shares in proptest::collection::vec(0.0..1.0_f64, 1..5), processes in 1..64u32) {
            prop_assume!(shares.iter().sum::<f64>() > 0.0);
            prop_assert!(fixed(processes, &shares).iter().all(|&one| one >= 1));
        }
    }
}
