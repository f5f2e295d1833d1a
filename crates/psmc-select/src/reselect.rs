//! What to do about a running selection when measurements have changed.

use crate::search::Budget;
use crate::{Problem, Selection};

/// When to change, and how far: both as shares of what the best selection is worth. That there is a gap between the two
/// keeps selections from being changed to and fro.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hysteresis {
    /// A selection that is worth this share or more stays.
    pub keep: f64,
    /// Otherwise it is changed such that it is worth this share or more.
    pub regain: f64,
}

impl Hysteresis {
    /// A selection may lose this share of its worth before it is changed; then half of that loss is tolerated.
    pub fn new(loss: f64) -> Self {
        Self { keep: 1.0 - loss, regain: 1.0 - loss / 2.0 }
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Reselection {
    /// Candidates to add, by number.
    pub add: Vec<usize>,
    /// Candidates to remove.
    pub remove: Vec<usize>,
    /// What results; `None` if nothing meets the constraints, in which case nothing changes.
    pub selection: Option<Selection>,
    /// Whether it is proven that no fewer additions and removals will do.
    pub cheapest: bool,
}

/// The cheapest change of a running selection, counted in paths added and removed, that regains the objective; no change, if
/// it is still good enough.
///
/// `running` are candidates by number; those that may no longer be chosen are removed whatever it costs. `best` is the best
/// selection that is known for the problem as it is now.
pub fn reselect(
    problem: &Problem,
    running: &[usize],
    best: Option<&Selection>,
    hysteresis: Hysteresis,
    budget: &mut dyn Budget,
) -> Reselection {
    let Some(best) = best else {
        return Reselection { add: Vec::new(), remove: Vec::new(), selection: None, cheapest: true };
    };
    let still: Vec<_> =
        running.iter().copied().filter(|member| problem.eligible().binary_search(member).is_ok()).collect();
    let worth = |share: f64| share * best.score.leading();
    let kept = problem.select(still.clone()).filter(|kept| kept.score.leading() >= worth(hysteresis.keep));
    let (selection, cheapest) = match kept {
        Some(kept) => (kept, true),
        None => cheapest_change(problem, &still, best, worth(hysteresis.regain), budget),
    };
    let missing =
        |from: &[usize], of: &[usize]| of.iter().copied().filter(|one| !from.contains(one)).collect();
    Reselection {
        add: missing(running, &selection.members),
        remove: missing(&selection.members, running),
        selection: Some(selection),
        cheapest,
    }
}

/// And whether it is proven to be the cheapest.
fn cheapest_change(
    problem: &Problem,
    still: &[usize],
    best: &Selection,
    least: f64,
    budget: &mut dyn Budget,
) -> (Selection, bool) {
    let start = nearer(problem, still, best.clone(), least);
    let mut search = Changes { problem, least, budget, best: None, is_stopped: false };
    for changes in 0..distance(still, &start.members) {
        search.visit(still, problem.eligible(), changes);
        if search.is_stopped {
            return (search.best.unwrap_or(start), false);
        }
        if let Some(found) = search.best {
            return (found, true);
        }
    }
    (start, true)
}

/// From a selection towards the running one, change by change, as long as it is worth enough.
fn nearer(problem: &Problem, still: &[usize], mut at: Selection, least: f64) -> Selection {
    loop {
        let differing: Vec<_> = differences(still, &at.members);
        let steps = differing.into_iter().filter_map(|number| problem.select(toggled(&at.members, number)));
        let good = steps.filter(|selection| selection.score.leading() >= least);
        match good.max_by_key(|selection| selection.score) {
            Some(next) => at = next,
            None => return at,
        }
    }
}

/// A search through all changes of one size.
struct Changes<'a> {
    problem: &'a Problem,
    least: f64,
    budget: &'a mut dyn Budget,
    best: Option<Selection>,
    is_stopped: bool,
}

impl Changes<'_> {
    /// Adds or removes so many of the candidates in all ways.
    fn visit(&mut self, set: &[usize], candidates: &[usize], changes: usize) {
        if changes == 0 {
            return self.value(set);
        }
        for (place, number) in candidates.iter().enumerate() {
            if candidates.len() - place < changes || self.is_stopped {
                return;
            }
            self.visit(&toggled(set, *number), &candidates[place + 1..], changes - 1);
        }
    }

    fn value(&mut self, set: &[usize]) {
        self.is_stopped |= !self.budget.allows(1);
        let selection = self.problem.select(set.to_vec()).filter(|_| !self.is_stopped);
        let good = selection.filter(|selection| selection.score.leading() >= self.least);
        let known = self.best.as_ref().map(|best| best.score);
        if let Some(good) = good.filter(|good| Some(good.score) > known) {
            self.best = Some(good);
        }
    }
}

fn toggled(set: &[usize], number: usize) -> Vec<usize> {
    let mut set = set.to_vec();
    match set.iter().position(|member| *member == number) {
        Some(place) => drop(set.remove(place)),
        None => set.push(number),
    }
    set
}

fn differences(a: &[usize], b: &[usize]) -> Vec<usize> {
    let only = |these: &[usize], those: &[usize]| -> Vec<usize> {
        these.iter().copied().filter(|one| !those.contains(one)).collect()
    };
    [only(a, b), only(b, a)].concat()
}

fn distance(a: &[usize], b: &[usize]) -> usize {
    differences(a, b).len()
}
