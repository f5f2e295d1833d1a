//! Disjoint paths through the whole network: the seed's problems 2 to 4, solved exactly.
//!
//! How many there are is a matter of flows ([`most_disjoint_paths`]). Which of them carry most is
//! not: two disjoint paths of which one is to carry 2 and the other 1 are a flow of two commodities, and to find one is
//! NP-complete. So this is branch and bound.

mod walk;

use crate::flow::{UnitFlow, disjoint_paths, maximum_flow, most_disjoint_paths};
use crate::network::{ArcId, Network};
use crate::{Bandwidth, Budget, Disjointness, Latency, Path};
use walk::{Aim, Walk};

/// Disjoint paths, and how good others could be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisjointPaths {
    /// The paths, the widest first; none, if there are not so many, or none were found in time.
    pub paths: Vec<Path>,
    /// No such paths carry more together.
    pub most: Bandwidth,
    /// And of those that carry as much as these, none have a longest latency below this.
    pub fastest: Latency,
    /// Whether it is proven that there are no better ones.
    pub proven: bool,
}

impl DisjointPaths {
    /// What the paths carry together: Σ BW(p).
    pub fn bandwidth(&self) -> Bandwidth {
        sum(&self.paths)
    }

    /// The longest of their latencies.
    pub fn longest_latency(&self) -> Latency {
        longest(&self.paths)
    }
}

/// Problems 2 and 3: the disjoint paths that carry most together, `count` of them, or else the fewest that carry as much.
pub fn widest_disjoint_paths(
    network: &Network,
    kind: Disjointness,
    count: Option<usize>,
    budget: &mut dyn Budget,
) -> DisjointPaths {
    let mut task = Task::new(network, kind, count);
    for size in task.sizes(count) {
        if task.best.is_empty() || sum(&task.best) < task.most(size) {
            task.widest_of(size, budget);
        }
    }
    let carried = sum(&task.best);
    DisjointPaths {
        proven: task.is_complete,
        most: if task.is_complete { carried } else { task.most_of_all(count) },
        fastest: Latency::ZERO,
        paths: task.best,
    }
}

/// Problem 4: of the disjoint paths that carry most together those whose slowest is fastest, `count` of them or any number.
pub fn fastest_disjoint_paths(
    network: &Network,
    kind: Disjointness,
    count: Option<usize>,
    budget: &mut dyn Budget,
) -> DisjointPaths {
    let widest = widest_disjoint_paths(network, kind, count, budget);
    let mut task = Task::new(network, kind, count);
    let most = widest.bandwidth();
    let mut fastest = widest.longest_latency();
    task.best = widest.paths;
    for size in task.sizes(count).filter(|_| most > Bandwidth::ZERO) {
        if task.most(size) >= most {
            fastest = fastest.min(least_longest_latency(network, kind, size));
            task.fastest_of(size, most, budget);
        }
    }
    let proven = widest.proven && task.is_complete;
    let longest = longest(&task.best);
    DisjointPaths {
        fastest: if proven { longest } else { fastest.min(longest) },
        paths: task.best,
        proven,
        ..widest
    }
}

/// What is known on the way.
struct Task<'a> {
    network: &'a Network,
    kind: Disjointness,
    widths: Widths,
    flow: Bandwidth,
    best: Vec<Path>,
    is_complete: bool,
}

impl<'a> Task<'a> {
    fn new(network: &'a Network, kind: Disjointness, count: Option<usize>) -> Self {
        let count = count.unwrap_or(usize::MAX).min(most_disjoint_paths(network, kind).len());
        Self {
            network,
            kind,
            widths: Widths::new(network, kind, count, |_| true),
            flow: maximum_flow(network).bandwidth,
            best: Vec::new(),
            is_complete: true,
        }
    }

    fn sizes(&self, count: Option<usize>) -> std::ops::RangeInclusive<usize> {
        let there_are = self.widths.count();
        count.unwrap_or(1).max(1)..=count.unwrap_or(there_are).min(there_are)
    }

    /// No more can be carried by so many paths.
    fn most(&self, size: usize) -> Bandwidth {
        self.flow.min(self.widths.sum(size))
    }

    fn most_of_all(&self, count: Option<usize>) -> Bandwidth {
        self.sizes(count).map(|size| self.most(size)).max().unwrap_or_default()
    }

    fn widest_of(&mut self, size: usize, budget: &mut dyn Budget) {
        let wide = |arc| self.network.arc(arc).bandwidth >= self.widths.least(size);
        let start = disjoint_paths(self.network, self.kind, size, wide);
        if sum(&start) > sum(&self.best) {
            self.best = start;
        }
        let aim = Aim::Widest { most: self.most(size) };
        self.walk(size, aim, budget);
    }

    fn fastest_of(&mut self, size: usize, least: Bandwidth, budget: &mut dyn Budget) {
        self.walk(size, Aim::Fastest { least }, budget);
    }

    fn walk(&mut self, size: usize, aim: Aim, budget: &mut dyn Budget) {
        let mut walk = Walk::new(self.network, self.kind, size, aim, std::mem::take(&mut self.best));
        self.is_complete &= walk.run(budget);
        self.best = walk.best;
        self.best.sort_by_key(|path| std::cmp::Reverse(path.bandwidth()));
    }
}

fn sum(paths: &[Path]) -> Bandwidth {
    Bandwidth::from_bits_per_second(paths.iter().map(|path| path.bandwidth().bits_per_second()).sum())
}

fn longest(paths: &[Path]) -> Latency {
    paths.iter().map(Path::latency).max().unwrap_or_default()
}

// What disjoint paths can be at best, in polynomial time.

/// For each i the greatest width that i disjoint paths can have, all of them.
///
/// Of any disjoint paths the i-th widest is no wider than that: the first i are that wide. So sums of these widths bound
/// what disjoint paths carry together.
struct Widths(Vec<Bandwidth>);

impl Widths {
    /// Of up to `count` paths along arcs that are allowed.
    fn new(network: &Network, kind: Disjointness, count: usize, allowed: impl Fn(ArcId) -> bool) -> Self {
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
    fn count(&self) -> usize {
        self.0.len()
    }

    /// The width that so many paths can all have.
    fn least(&self, count: usize) -> Bandwidth {
        count.checked_sub(1).and_then(|last| self.0.get(last)).copied().unwrap_or_default()
    }

    /// A bound of what so many paths carry.
    fn sum(&self, count: usize) -> Bandwidth {
        self.sum_below(count, Bandwidth::from_bits_per_second(u64::MAX))
    }

    /// The same, if none is wider than `most`.
    fn sum_below(&self, count: usize, most: Bandwidth) -> Bandwidth {
        let widths = self.0.iter().take(count).map(|width| (*width).min(most).bits_per_second());
        Bandwidth::from_bits_per_second(widths.sum())
    }
}

/// A bound of the longest latency of so many disjoint paths: the mean of those whose sum is least.
fn least_longest_latency(network: &Network, kind: Disjointness, count: usize) -> Latency {
    let nanos = |arc| i64::try_from(network.arc(arc).latency.nanos()).unwrap_or(i64::MAX);
    let mut flow = UnitFlow::new(network, kind, |arc| Some(nanos(arc)));
    for _ in 0..count {
        flow.augment();
    }
    let sum: Latency = flow.paths().iter().map(crate::Path::latency).sum();
    Latency::from_nanos(sum.nanos().div_ceil(count.max(1) as u64))
}
