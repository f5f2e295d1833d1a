//! The seed's genetic algorithm (PSMC ch. V, "Genetic Algorithm"), with chromosomes of fixed and of variable length.

use super::Budget;
use crate::dice::Dice;
use crate::{Problem, Selection};

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

// Chromosomes: lists of relays, how they cross and how they mutate.

/// Whether all chromosomes have the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chromosomes {
    /// All have the greatest length that is allowed.
    Fixed,
    /// From the least to the greatest length that is allowed.
    Variable,
}

/// What breeds.
struct Breed<'a> {
    problem: &'a Problem,
    genetic: &'a Genetic,
    dice: Dice,
    /// The candidates that are no matter of course.
    genes: Vec<usize>,
    least: usize,
    most: usize,
}

impl<'a> Breed<'a> {
    fn new(problem: &'a Problem, genetic: &'a Genetic, dice: Dice) -> Self {
        let required = problem.required();
        let genes: Vec<_> =
            problem.eligible().iter().copied().filter(|gene| !required.contains(gene)).collect();
        let sizes = problem.sizes();
        let most = sizes.end().saturating_sub(required.len()).min(genes.len());
        let least = match genetic.chromosomes {
            Chromosomes::Fixed => most,
            Chromosomes::Variable => sizes.start().saturating_sub(required.len()).min(most),
        };
        Self { problem, genetic, dice, genes, least, most }
    }

    /// Its value for the problem.
    fn born(&self, genes: Vec<usize>) -> Living {
        let set = [self.problem.required(), &genes].concat();
        Living { selection: self.problem.select(set), genes }
    }

    /// Any chromosome.
    fn random(&mut self) -> Vec<usize> {
        let length = self.least + self.dice.below(self.most - self.least + 1);
        self.dice.sample(&self.genes, length)
    }

    /// The fitter of two.
    fn parent<'b>(&mut self, living: &'b [Living]) -> &'b Living {
        let one = &living[self.dice.below(living.len())];
        let other = &living[self.dice.below(living.len())];
        if other.is_fitter(one) { other } else { one }
    }

    fn child(&mut self, one: &[usize], other: &[usize]) -> Vec<usize> {
        let crossed = self.dice.happens(self.genetic.crossover);
        let mut child = if crossed { self.cross(one, other) } else { one.to_vec() };
        if self.dice.happens(self.genetic.mutation) {
            self.mutate(&mut child);
        }
        child
    }

    /// The beginning of one and the end of the other, without doubles, in a length that is allowed.
    fn cross(&mut self, one: &[usize], other: &[usize]) -> Vec<usize> {
        let cut = self.dice.below(one.len() + 1);
        let from = match self.genetic.chromosomes {
            Chromosomes::Fixed => cut,
            Chromosomes::Variable => self.dice.below(other.len() + 1),
        };
        let wanted = (cut + other.len().saturating_sub(from)).clamp(self.least, self.most);
        // What follows the end of the other fills up what doubles leave open.
        let (start, end) = other.split_at(from.min(other.len()));
        let mut child = one[..cut].to_vec();
        for gene in end.iter().chain(&one[cut..]).chain(start) {
            if child.len() < wanted && !child.contains(gene) {
                child.push(*gene);
            }
        }
        child.truncate(wanted);
        child
    }

    /// Exchanges a gene; where lengths differ, it may also add or remove one.
    fn mutate(&mut self, child: &mut Vec<usize>) {
        let kinds = match self.genetic.chromosomes {
            Chromosomes::Fixed => 1,
            Chromosomes::Variable => 3,
        };
        let kind = self.dice.below(kinds);
        if kind != 1 && child.len() > self.least.saturating_sub(usize::from(kind == 0)) {
            let place = self.dice.below(child.len());
            child.swap_remove(place);
        }
        let unused: Vec<_> = self.genes.iter().copied().filter(|gene| !child.contains(gene)).collect();
        if kind != 2 && child.len() < self.most && !unused.is_empty() {
            child.push(unused[self.dice.below(unused.len())]);
        }
    }
}
