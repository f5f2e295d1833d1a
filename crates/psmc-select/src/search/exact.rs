//! Branch and bound: the best selection, and the proof that it is.

use super::Budget;
use super::better;
use super::{Bounds, Partial};
use crate::{Problem, Score, Selection};

/// The outcome of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The best selection found; `None` if there is none, or none was found in time.
    pub selection: Option<Selection>,
    /// No selection is worth more than this. It is the selection's own score once that is proven to be optimal; `None` if
    /// it is proven that no selection meets the constraints.
    pub bound: Option<Score>,
}

impl Answer {
    /// Whether no better selection exists; or, if there is no selection, that none can be.
    pub fn is_proven(&self) -> bool {
        self.bound == self.selection.as_ref().map(|selection| selection.score)
    }

    /// By which share of the bound the selection may fall short of the optimum.
    pub fn gap(&self) -> Option<f64> {
        let (bound, score) = (self.bound?.leading(), self.selection.as_ref()?.score.leading());
        Some(if bound > 0.0 { ((bound - score) / bound).max(0.0) } else { 0.0 })
    }
}

/// Looks for a selection that is better than `known`, until it is proven that there is none.
pub fn exact(problem: &Problem, known: Option<Selection>, budget: &mut dyn Budget) -> Answer {
    let start = Answer { bound: known.as_ref().map(|selection| selection.score), selection: known };
    problem.sizes().fold(start, |answer, size| {
        let found = exact_of_size(problem, size, answer.selection.as_ref(), budget);
        let selection = better(answer.selection, found.selection);
        let score = selection.as_ref().map(|selection| selection.score);
        Answer { bound: answer.bound.max(found.bound).max(score), selection }
    })
}

/// The same among selections of one size. What it costs to search all sizes can so be spread over threads.
pub fn exact_of_size(
    problem: &Problem,
    size: usize,
    known: Option<&Selection>,
    budget: &mut dyn Budget,
) -> Answer {
    let mut others: Vec<_> =
        problem.eligible().iter().copied().filter(|number| !problem.required().contains(number)).collect();
    // Wide paths first: good selections are found early, and bounds fall fast.
    others.sort_by_key(|number| (std::cmp::Reverse(problem.width(*number)), *number));
    let mut tree = Branches {
        problem,
        bounds: Bounds::new(problem, size),
        budget,
        least: known.map_or(Score::LEAST, |selection| selection.score),
        best: None,
        open: None,
    };
    let more = size.saturating_sub(problem.required().len());
    tree.visit(&mut problem.required().to_vec(), &others, more);
    let bound = tree.open.max(tree.best.as_ref().map(|selection| selection.score));
    Answer { selection: tree.best, bound }
}

/// A walk through the tree of partial selections: at each node the next candidate is taken or left.
struct Branches<'a> {
    problem: &'a Problem,
    bounds: Bounds<'a>,
    budget: &'a mut dyn Budget,
    /// What a selection must surpass.
    least: Score,
    best: Option<Selection>,
    /// The most that a branch may hold that was not searched for want of time.
    open: Option<Score>,
}

impl Branches<'_> {
    fn visit(&mut self, chosen: &mut Vec<usize>, others: &[usize], more: usize) {
        if more == 0 {
            return self.value(chosen);
        }
        // What is in the way of those chosen is in their way in the whole branch.
        let others: Vec<_> =
            others.iter().copied().filter(|number| self.problem.admits(chosen, *number)).collect();
        for place in 0..others.len() {
            let partial = Partial { chosen, others: &others[place..], more };
            if partial.others.len() < more || !self.may_surpass(partial) {
                return;
            }
            chosen.push(others[place]);
            self.visit(chosen, &others[place + 1..], more - 1);
            chosen.pop();
        }
    }

    /// Whether a branch is to be searched. One for which there is no time counts as open.
    fn may_surpass(&mut self, partial: Partial<'_>) -> bool {
        let bound = self.bounds.quick(partial);
        if bound <= self.least {
            return false;
        }
        let bound = bound.min(self.bounds.close(partial));
        if bound <= self.least {
            return false;
        }
        let allowed = self.budget.allows(1);
        if !allowed {
            self.open = self.open.max(Some(bound));
        }
        allowed
    }

    fn value(&mut self, chosen: &[usize]) {
        if let Some(selection) = self.problem.select(chosen.to_vec())
            && selection.score > self.least
        {
            self.least = selection.score;
            self.best = Some(selection);
        }
    }
}
