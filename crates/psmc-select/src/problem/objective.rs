//! What a selection is to be good at.

use super::Problem;
use crate::JointnessBy;

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
