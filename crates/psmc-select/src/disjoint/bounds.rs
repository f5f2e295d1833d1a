//! What disjoint paths can be at best, in polynomial time.

use crate::flow::{UnitFlow, disjoint_paths};
use crate::network::{ArcId, Network};
use crate::{Bandwidth, Disjointness, Latency};

/// For each i the greatest width that i disjoint paths can have, all of them.
///
/// Of any disjoint paths the i-th widest is no wider than that: the first i are that wide. So sums of these widths bound
/// what disjoint paths carry together.
pub(super) struct Widths(Vec<Bandwidth>);

impl Widths {
    /// Of up to `count` paths along arcs that are allowed.
    pub(super) fn new(
        network: &Network,
        kind: Disjointness,
        count: usize,
        allowed: impl Fn(ArcId) -> bool,
    ) -> Self {
        let arcs = network.graph().edge_indices().filter(|arc| allowed(*arc));
        let mut steps: Vec<_> = arcs.map(|arc| network.arc(arc).bandwidth).collect();
        steps.sort_unstable_by(|a, b| b.cmp(a));
        steps.dedup();
        let mut widths = Vec::new();
        let mut next = 0;
        while widths.len() < count {
            let wanted = widths.len() + 1;
            let is_too_wide = |step: &Bandwidth| {
                let wide = |arc| allowed(arc) && network.arc(arc).bandwidth >= *step;
                disjoint_paths(network, kind, wanted, wide).len() < wanted
            };
            // More paths are not wider, so the search goes on from where it was.
            next += steps[next..].partition_point(is_too_wide);
            let Some(width) = steps.get(next) else { break };
            widths.push(*width);
        }
        Self(widths)
    }

    /// How many disjoint paths there are, up to as many as were asked for.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The width that so many paths can all have.
    pub(super) fn least(&self, count: usize) -> Bandwidth {
        count.checked_sub(1).and_then(|last| self.0.get(last)).copied().unwrap_or_default()
    }

    /// A bound of what so many paths carry.
    pub(super) fn sum(&self, count: usize) -> Bandwidth {
        self.sum_below(count, Bandwidth::from_bits_per_second(u64::MAX))
    }

    /// The same, if none is wider than `most`.
    pub(super) fn sum_below(&self, count: usize, most: Bandwidth) -> Bandwidth {
        let widths = self.0.iter().take(count).map(|width| (*width).min(most).bits_per_second());
        Bandwidth::from_bits_per_second(widths.sum())
    }
}

/// A bound of the longest latency of so many disjoint paths: the mean of those whose sum is least.
pub(super) fn least_longest_latency(network: &Network, kind: Disjointness, count: usize) -> Latency {
    let nanos = |arc| i64::try_from(network.arc(arc).latency.nanos()).unwrap_or(i64::MAX);
    let mut flow = UnitFlow::new(network, kind, |arc| Some(nanos(arc)));
    for _ in 0..count {
        flow.augment();
    }
    let sum: Latency = flow.paths().iter().map(crate::Path::latency).sum();
    Latency::from_nanos(sum.nanos().div_ceil(count.max(1) as u64))
}
