//! What a selection is worth.

use std::cmp::Ordering;

use super::Problem;
use crate::{Bandwidth, JointnessBy, Latency};

/// Three numbers, the first of which decides, then the second, then the third. More is better.
///
/// Bandwidths stand here in Mbit/s, latencies and counts below zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score(pub [f64; 3]);

impl Score {
    /// Worse than any selection.
    pub const LEAST: Self = Self([f64::NEG_INFINITY; 3]);

    /// What counts most: Mbit/s, or the weighted sum.
    pub fn leading(self) -> f64 {
        self.0[0]
    }
}

impl Eq for Score {}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = self.0.iter().zip(&other.0);
        numbers.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Problem {
    /// What a set is worth, constraints aside.
    pub fn score(&self, set: &[usize]) -> Score {
        self.score_with(set, self.carried(set))
    }

    /// No less than the score of a set, without the linear program.
    pub(crate) fn ceiling(&self, set: &[usize]) -> Score {
        let widths = self.widths(set);
        self.score_with(set, if self.adds_widths() { widths } else { widths.min(self.pool.most()) })
    }

    fn score_with(&self, set: &[usize], flow: Bandwidth) -> Score {
        let disjointness = match self.objective {
            Objective::Bandwidth | Objective::Latency => 0.0,
            Objective::Jointness(_) => -self.joint_sum(set),
            Objective::Weighted { .. } | Objective::SeedWeighted { .. } => self.disjointness(set),
        };
        self.score_of(set.len(), flow, self.slowest(set), disjointness)
    }

    /// The bandwidth that the objective counts.
    pub(crate) fn carried(&self, set: &[usize]) -> Bandwidth {
        if self.adds_widths() { self.widths(set) } else { self.pool.flow(set) }
    }

    /// Whether the objective adds up bandwidths although links may be shared.
    pub(crate) fn adds_widths(&self) -> bool {
        matches!(self.objective, Objective::SeedWeighted { .. })
    }

    /// The score of so many paths with these figures. `disjointness` is that of all pairs together, or, below zero, their
    /// jointness, as the objective asks; `flow` is what they carry together, or, for the seed's objective, the sum of
    /// what each carries.
    pub(crate) fn score_of(
        &self,
        size: usize,
        flow: Bandwidth,
        slowest: Latency,
        disjointness: f64,
    ) -> Score {
        let (mbps, latency, count) = (flow.mbps(), -slowest.ms(), -(size as f64));
        Score(match self.objective {
            Objective::Bandwidth => [mbps, count, latency],
            Objective::Latency => [mbps, latency, count],
            Objective::Jointness(_) => [mbps, rounded(disjointness), count],
            Objective::Weighted { .. } => {
                [rounded(self.alpha() * mbps + mean(disjointness, size)), count, 0.0]
            }
            Objective::SeedWeighted { .. } => {
                let others = -count - 1.0;
                [rounded(others * self.alpha() * mbps + 2.0 * disjointness), count, 0.0]
            }
        })
    }

    /// The longest latency in a set.
    pub(crate) fn slowest(&self, set: &[usize]) -> Latency {
        let latencies = set.iter().map(|member| self.pool().candidates()[*member].path.latency());
        latencies.max().unwrap_or_default()
    }

    /// Σ BW(p) of a set.
    pub(crate) fn widths(&self, set: &[usize]) -> Bandwidth {
        let sum = set.iter().map(|member| self.width(*member).bits_per_second()).sum();
        Bandwidth::from_bits_per_second(sum)
    }
}

/// A sum of fractions to a millionth, without what the order of its terms made of the last bits. What is equal is equal then,
/// and the next number decides; and a bound, which adds up in another order, is no less than what it bounds.
pub(crate) fn rounded(sum: f64) -> f64 {
    const PARTS: f64 = 1_048_576.0;
    (sum * PARTS).round() / PARTS
}

/// Of pairs; a single path is disjoint from nothing.
fn mean(sum: f64, size: usize) -> f64 {
    if size > 1 { sum / pairs(size) } else { 0.0 }
}

// What a selection is to be good at.

/// What is maximised; of selections that are equal in it, the second thing decides, and so on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Objective {
    /// The bandwidth of all paths together; then the fewest paths; then the least longest latency.
    Bandwidth,
    /// The bandwidth of all paths together; then the least longest latency; then the fewest paths.
    Latency,
    /// The bandwidth of all paths together; then the least sum of the jointness of pairs; then the fewest paths.
    Jointness(JointnessBy),
    /// `weight` × the bandwidth of all paths together, as a share of the most that there is, plus the mean disjointness of
    /// pairs (of a single path: none); then the fewest paths.
    Weighted {
        /// The seed's α, as a multiple of 1/W.
        weight: f64,
        /// What counts as joint.
        by: JointnessBy,
    },
    /// The seed's Σ (α·BW(p_i) + Disjoint(i, j)) over pairs: each bandwidth counts once for each other path, and links that
    /// are shared count in full for each path. Kept to compare with.
    SeedWeighted {
        /// The seed's α, as a multiple of 1/W.
        weight: f64,
        /// What counts as joint.
        by: JointnessBy,
    },
}

impl Objective {
    /// What counts as joint.
    pub fn jointness_by(self) -> JointnessBy {
        match self {
            Self::Bandwidth | Self::Latency => JointnessBy::Links,
            Self::Jointness(by) | Self::Weighted { by, .. } | Self::SeedWeighted { by, .. } => by,
        }
    }

    /// The weight of the bandwidth, where there is one.
    pub(super) fn weight(self) -> Option<f64> {
        match self {
            Self::Bandwidth | Self::Latency | Self::Jointness(_) => None,
            Self::Weighted { weight, .. } | Self::SeedWeighted { weight, .. } => Some(weight),
        }
    }
}

impl Problem {
    /// α, per Mbit/s.
    pub(crate) fn alpha(&self) -> f64 {
        let most = self.pool.most().mbps();
        self.objective.weight().filter(|_| most > 0.0).map_or(0.0, |weight| weight / most)
    }

    /// Σ (1 − jointness) over pairs.
    pub(crate) fn disjointness(&self, set: &[usize]) -> f64 {
        pairs(set.len()) - self.joint_sum(set)
    }

    /// Σ jointness over pairs.
    pub(crate) fn joint_sum(&self, set: &[usize]) -> f64 {
        let later = |place: usize| set[place + 1..].iter().map(move |other| (set[place], *other));
        (0..set.len()).flat_map(later).map(|(a, b)| self.jointness(a, b)).sum()
    }

    /// Σ (1 − jointness) of a candidate and each of a set.
    pub(crate) fn disjointness_with(&self, set: &[usize], one: usize) -> f64 {
        set.iter().map(|member| 1.0 - self.jointness(*member, one)).sum()
    }
}

/// How many pairs there are.
pub(crate) fn pairs(size: usize) -> f64 {
    let size = size as f64;
    size * (size - 1.0) / 2.0
}
