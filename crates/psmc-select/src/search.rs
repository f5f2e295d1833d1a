//! Searches for the best selection.

mod exact;
mod genetic;
mod local;

use crate::problem::{pairs, rounded};
use crate::{Bandwidth, Objective, Problem, Score, Selection};
pub use exact::{Answer, exact, exact_of_size};
pub use genetic::{Chromosomes, Genetic, genetic};
pub use local::local;

/// The best way to a good selection: local search for a good one, then branch and bound for the proof that there is no
/// better one, or for the better one.
///
/// What the budget leaves open is the gap between the answer's selection and its bound.
pub fn best(problem: &Problem, seed: u64, budget: &mut dyn Budget) -> Answer {
    let found = local(problem, None, seed, budget);
    exact(problem, found, budget)
}

/// Whichever is worth more.
fn better(a: Option<Selection>, b: Option<Selection>) -> Option<Selection> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.score > a.score { b } else { a }),
        (a, b) => a.or(b),
    }
}

// How good a selection can become at best: what branch and bound prunes by.

/// Bounds for selections of one size.
struct Bounds<'a> {
    problem: &'a Problem,
    size: usize,
    /// For each candidate, its disjointness with others in descending order, summed up: with no others, with the best, with
    /// the best two …
    best_company: Vec<Vec<f64>>,
}

/// A set that is to be completed by `more` of `others`.
#[derive(Clone, Copy)]
struct Partial<'a> {
    chosen: &'a [usize],
    others: &'a [usize],
    more: usize,
}

impl<'a> Bounds<'a> {
    fn new(problem: &'a Problem, size: usize) -> Self {
        let best_company = match problem.objective() {
            Objective::Bandwidth | Objective::Latency => Vec::new(),
            Objective::Jointness(_) | Objective::Weighted { .. } | Objective::SeedWeighted { .. } => {
                let all = 0..problem.pool().candidates().len();
                all.map(|candidate| best_company(problem, candidate, size)).collect()
            }
        };
        Self { problem, size, best_company }
    }

    /// No completion is worth more. Cheap to compute.
    fn quick(&self, partial: Partial<'_>) -> Score {
        let widths = |number: &usize| self.problem.width(*number).bits_per_second();
        let flow = self.problem.carried(partial.chosen);
        let added = sum_of_most(partial.others.iter().map(widths).collect(), partial.more);
        let sum = Bandwidth::from_bits_per_second(flow.bits_per_second().saturating_add(added));
        self.score(partial, sum).min(self.joined(partial, flow))
    }

    /// No completion is worth more. Closer than [`Bounds::quick`], and dearer: a linear program.
    fn close(&self, partial: Partial<'_>) -> Score {
        let Partial { chosen, others, more } = partial;
        if self.problem.adds_widths() || others.len() > LARGEST_PROGRAM {
            return Score([f64::INFINITY; 3]);
        }
        self.score(partial, self.problem.pool().packing().flow_with(chosen, others, more))
    }

    /// Flow and disjointness, each at its best.
    fn score(&self, partial: Partial<'_>, flow: Bandwidth) -> Score {
        let problem = self.problem;
        let flow = if problem.adds_widths() { flow } else { flow.min(problem.pool().most()) };
        let disjointness = match problem.objective() {
            Objective::Bandwidth | Objective::Latency => 0.0,
            Objective::Jointness(_) => (self.disjointness(partial, |_| 0.0) - pairs(self.size)).min(0.0),
            Objective::Weighted { .. } | Objective::SeedWeighted { .. } => {
                self.disjointness(partial, |_| 0.0).min(pairs(self.size))
            }
        };
        problem.score_of(self.size, flow, problem.slowest(partial.chosen), disjointness)
    }

    /// Flow and disjointness of each candidate together, where they are added up: then no candidate counts for the one, and
    /// another for the other.
    fn joined(&self, partial: Partial<'_>, flow: Bandwidth) -> Score {
        let problem = self.problem;
        let (own, pair) = match problem.objective() {
            Objective::Bandwidth | Objective::Latency | Objective::Jointness(_) => {
                return Score([f64::INFINITY; 3]);
            }
            Objective::Weighted { .. } if self.size < 2 => return Score([f64::INFINITY; 3]),
            Objective::Weighted { .. } => (1.0, pairs(self.size).recip()),
            Objective::SeedWeighted { .. } => (self.size as f64 - 1.0, 2.0),
        };
        let per_mbps = own * problem.alpha();
        let sum = pair * self.disjointness(partial, |number| per_mbps * problem.width(number).mbps() / pair);
        Score([rounded(per_mbps * flow.mbps() + sum), -(self.size as f64), 0.0])
    }

    /// A bound of Σ disjointness over all pairs of a completion, plus what each new candidate has on its own.
    ///
    /// A pair of two new ones is counted half for each.
    fn disjointness(&self, partial: Partial<'_>, own: impl Fn(usize) -> f64) -> f64 {
        let Partial { chosen, others, more } = partial;
        let company = |number: usize| self.best_company[number][more.saturating_sub(1)] / 2.0;
        let gain = |number: &usize| {
            own(*number) + self.problem.disjointness_with(chosen, *number) + company(*number)
        };
        let mut gains: Vec<_> = others.iter().map(gain).collect();
        gains.sort_unstable_by(|a, b| b.total_cmp(a));
        self.problem.disjointness(chosen) + gains.iter().take(more).sum::<f64>()
    }
}

/// The most candidates that a linear program is made for. One for twice as many takes eight times as long, and above some
/// dozens the tree can be searched in part only, where the quick bound serves as well.
const LARGEST_PROGRAM: usize = 64;

fn best_company(problem: &Problem, candidate: usize, most: usize) -> Vec<f64> {
    let others = problem.eligible().iter().filter(|other| **other != candidate);
    let mut disjointness: Vec<_> = others.map(|other| 1.0 - problem.jointness(candidate, *other)).collect();
    disjointness.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut sum = 0.0;
    let mut sums = vec![0.0];
    for place in 0..most {
        sum += disjointness.get(place).copied().unwrap_or(0.0);
        sums.push(sum);
    }
    sums
}

fn sum_of_most(mut numbers: Vec<u64>, count: usize) -> u64 {
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.iter().take(count).sum()
}

// When to stop.

/// Asked before each step of a search. A search that is told to stop answers with the best that it has so far.
///
/// Any closure is one: a caller with a clock looks at it, one that wants the same answer every time counts [`Steps`].
pub trait Budget {
    /// Whether there is time for so many steps more; a step is about the valuation of one selection.
    fn allows(&mut self, steps: u64) -> bool;
}

impl<F: FnMut(u64) -> bool> Budget for F {
    fn allows(&mut self, steps: u64) -> bool {
        self(steps)
    }
}

/// A number of steps.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    most: u64,
    spent: u64,
}

impl Steps {
    /// At most so many.
    pub fn new(most: u64) -> Self {
        Self { most, spent: 0 }
    }

    /// As many as it takes.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX)
    }

    /// How many it took.
    pub fn spent(&self) -> u64 {
        self.spent
    }
}

impl Budget for Steps {
    fn allows(&mut self, steps: u64) -> bool {
        let allowed = self.spent.saturating_add(steps) <= self.most;
        if allowed {
            self.spent += steps;
        }
        allowed
    }
}
