//! Searches for the best selection.

mod bound;
mod budget;
mod exact;
mod genetic;
mod local;

pub use budget::{Budget, Steps};
pub use exact::{Answer, exact, exact_of_size};
pub use genetic::{Chromosomes, Genetic, genetic};
pub use local::local;

use crate::{Problem, Selection};

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
