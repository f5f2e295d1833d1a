//! What arrives on each path, and the buffer that it takes (PSMC ch. IV, equations 4.1 to 4.3).

use std::time::{Duration, Instant};

use psmc_wire::PathId;

use super::buffer::Measured;

/// Measures the paths of a session, period by period.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    began: Option<Instant>,
    paths: Vec<Tally>,
    measured: Measured,
}

/// What came on a path in the present period.
#[derive(Debug)]
struct Tally {
    path: PathId,
    packets: u64,
    /// One-way delays added up, microseconds.
    delays_us: i64,
}

/// A path as the equations see it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rated {
    /// Packets per second (`BW_i`).
    rate: f64,
    /// One-way delay in seconds, on a scale that all paths share (`OWD_i`).
    delay: f64,
}

impl Sampling {
    /// A packet has arrived on `path`, `delay_us` after it was sent.
    pub(super) fn on_packet(&mut self, path: PathId, delay_us: i32) {
        let delay = i64::from(delay_us);
        match self.paths.iter_mut().find(|tally| tally.path == path) {
            Some(tally) => {
                tally.packets += 1;
                tally.delays_us += delay;
            }
            None => self.paths.push(Tally { path, packets: 1, delays_us: delay }),
        }
    }

    /// Whether the present period, which lasts `sampling`, is over.
    pub(super) fn is_due(&self, sampling: Duration, now: Instant) -> bool {
        self.began.is_none_or(|began| now >= began + sampling)
    }

    /// Ends the period: there are `paths` paths, the longest of whose round trips takes `round_trip`.
    pub(super) fn end_period(&mut self, paths: usize, round_trip: Duration, now: Instant) {
        let lasted = self.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        let round_trips = lasted.as_secs_f64() / round_trip.as_secs_f64().max(1e-6);
        let rated: Vec<_> = self.paths.drain(..).map(|tally| tally.rated(lasted)).collect();
        self.measured = Measured {
            period: self.measured.period.wrapping_add(1).max(1),
            paths: u32::try_from(paths).unwrap_or(u32::MAX),
            formula_4_3: (!rated.is_empty() && !lasted.is_zero()).then(|| packets(formula_4_3(&rated))),
            round_trips_permille: packets(round_trips * 1000.0),
        };
        self.began = Some(now);
    }

    /// What the last period has shown.
    pub(super) fn measured(&self) -> &Measured {
        &self.measured
    }
}

impl Tally {
    fn rated(&self, lasted: Duration) -> Rated {
        let packets = self.packets as f64;
        Rated { rate: packets / lasted.as_secs_f64().max(1e-6), delay: self.delays_us as f64 / packets / 1e6 }
    }
}

/// The least buffer, in packets: the larger of what waits before the slowest path's first packet is there (4.1)
/// and between two of the path with the least rate (4.2). Only paths that carried something count, or the second
/// would have no bound.
///
/// It is the seed's, too small in places: the two add up, and delays without the time that a packet takes to be
/// sent, or with jitter, make the first one larger. The policy `deadline` has no need of it.
fn formula_4_3(paths: &[Rated]) -> f64 {
    let largest = paths.iter().map(|path| path.delay).fold(f64::NEG_INFINITY, f64::max);
    let least = paths.iter().map(|path| path.rate).fold(f64::INFINITY, f64::min);
    let formula_4_1: f64 = paths.iter().map(|path| (largest - path.delay) * path.rate + 1.0).sum();
    let formula_4_2: f64 = paths.iter().map(|path| path.rate / least + 1.0).sum();
    formula_4_1.max(formula_4_2)
}

/// A whole number of packets that is not below `packets`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped, and saturates")]
fn packets(packets: f64) -> u32 {
    packets.ceil().clamp(0.0, f64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn rated(rate: f64, delay: f64) -> Rated {
        Rated { rate, delay }
    }

    #[test]
    fn the_larger_of_both_counts() {
        // (40 ms - 10 ms) * 1000/s + 1 + 1 = 32, and 1 + 1 + 1 + 1 = 4.
        assert_eq!(packets(formula_4_3(&[rated(1000.0, 0.010), rated(1000.0, 0.040)])), 32);
        // No difference in delay; 1 + 1 + 50 + 1.
        assert_eq!(packets(formula_4_3(&[rated(20.0, 0.01), rated(1000.0, 0.01)])), 53);
        assert_eq!(packets(formula_4_3(&[rated(20.0, 0.01)])), 2);
    }

    /// The most packets that wait while those of two paths, numbered as weighted round robin sends them, arrive.
    fn most_held(rates: [u64; 2], delays: [u64; 2]) -> usize {
        // Times in units of which both paths' intervals are multiples; each packet takes its interval to be sent.
        let unit = rates[0] * rates[1];
        let mut arrivals = Vec::new();
        let (mut number, mut sent) = (0, [0u64; 2]);
        for _ in 0..20 {
            for path in 0..2 {
                for _ in 0..rates[path] {
                    sent[path] += 1;
                    arrivals.push((delays[path] * unit + sent[path] * unit / rates[path], number));
                    number += 1;
                }
            }
        }
        arrivals.sort_unstable();
        let (mut next, mut held, mut most) = (0, BTreeSet::new(), 0);
        for (_, number) in arrivals {
            held.insert(number);
            while held.remove(&next) {
                next += 1;
            }
            most = most.max(held.len());
        }
        most
    }

    /// A known fault of the formula, kept on purpose: with one-way delays that leave out the time in which a
    /// packet is sent, it is too small.
    #[test]
    fn the_formula_says_13_where_round_robin_holds_20() {
        let paths = [rated(1.0, 1.0), rated(10.0, 0.0)];
        assert_eq!(packets(formula_4_3(&paths)), 13);
        assert!(most_held([1, 10], [1, 0]) >= 19, "{}", most_held([1, 10], [1, 0]));
    }

    #[test]
    fn a_period_ends_with_rates_and_mean_delays() {
        let start = Instant::now();
        let mut sampling = Sampling::default();
        let second = Duration::from_secs(1);
        assert!(sampling.is_due(second, start));
        sampling.end_period(2, Duration::from_millis(50), start);
        assert_eq!(*sampling.measured(), Measured { period: 1, paths: 2, ..Measured::default() });
        for n in 0..1000 {
            // 40 and 10 ms on average, on clocks that are not synchronised.
            sampling.on_packet(PathId(0), -60_000 + n % 3 - 1);
            sampling.on_packet(PathId(2), -90_000);
        }
        let end = start + second;
        assert!(!sampling.is_due(second, end - Duration::from_micros(1)) && sampling.is_due(second, end));
        sampling.end_period(2, Duration::from_millis(50), end);
        let measured = Measured { period: 2, paths: 2, formula_4_3: Some(32), round_trips_permille: 20_000 };
        assert_eq!(*sampling.measured(), measured);
        sampling.end_period(2, Duration::from_millis(50), end + second);
        assert_eq!(sampling.measured().formula_4_3, None);
    }
}
