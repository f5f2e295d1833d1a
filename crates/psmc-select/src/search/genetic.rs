//! The seed's genetic algorithm (PSMC ch. V, "Genetic Algorithm"), with chromosomes of fixed and of variable length.

mod chromosome;

use super::budget::Budget;
use crate::dice::Dice;
use crate::{Problem, Selection};
use chromosome::Breed;

pub use chromosome::Chromosomes;

/// How it breeds. The seed prints only the number of generations; the rest are the usual figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Genetic {
    /// Whether all selections have the same size.
    pub chromosomes: Chromosomes,
    /// How many selections live at a time.
    pub population: usize,
    /// How many generations there are.
    pub generations: u32,
    /// The chance that a child has two parents.
    pub crossover: f64,
    /// The chance that a child mutates.
    pub mutation: f64,
    /// "We put the last known best results into the first generation": candidates by number.
    pub known: Vec<Vec<usize>>,
}

impl Genetic {
    /// The seed's.
    pub fn new(chromosomes: Chromosomes) -> Self {
        Self {
            chromosomes,
            population: 50,
            generations: 100,
            crossover: 0.8,
            mutation: 0.2,
            known: Vec::new(),
        }
    }
}

/// A set of candidates and what came of it; `None` if it breaks a constraint.
#[derive(Clone)]
struct Living {
    genes: Vec<usize>,
    selection: Option<Selection>,
}

impl Living {
    fn is_fitter(&self, other: &Self) -> bool {
        let score = |living: &Self| living.selection.as_ref().map(|selection| selection.score);
        score(self) > score(other)
    }
}

/// The best selection of all generations; `None` if no set that lived met the constraints.
pub fn genetic(
    problem: &Problem,
    genetic: &Genetic,
    seed: u64,
    budget: &mut dyn Budget,
) -> Option<Selection> {
    let mut breed = Breed::new(problem, genetic, Dice::new(seed));
    let mut living = Vec::new();
    let known = genetic.known.iter().cloned().map(Some);
    for known in known.chain(std::iter::repeat(None)).take(genetic.population.max(1)) {
        if !budget.allows(1) {
            break;
        }
        let genes = known.unwrap_or_else(|| breed.random());
        living.push(breed.born(genes));
    }
    for _ in 0..genetic.generations {
        let Some(next) = next_generation(&mut breed, &living, budget) else { break };
        living = next;
    }
    fittest(&living)?.selection.clone()
}

/// Children of the fit; the fittest lives on. `None` if there is no time.
fn next_generation(breed: &mut Breed<'_>, living: &[Living], budget: &mut dyn Budget) -> Option<Vec<Living>> {
    let mut next = vec![fittest(living)?.clone()];
    while next.len() < living.len() {
        if !budget.allows(1) {
            return None;
        }
        let (one, other) = (breed.parent(living), breed.parent(living));
        let genes = breed.child(&one.genes, &other.genes);
        next.push(breed.born(genes));
    }
    Some(next)
}

fn fittest(living: &[Living]) -> Option<&Living> {
    living.iter().reduce(|best, next| if next.is_fitter(best) { next } else { best })
}
