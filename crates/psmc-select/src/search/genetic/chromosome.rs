//! Chromosomes: lists of relays, how they cross and how they mutate.

use super::{Genetic, Living};
use crate::Problem;
use crate::dice::Dice;

/// Whether all chromosomes have the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chromosomes {
    /// All have the greatest length that is allowed.
    Fixed,
    /// From the least to the greatest length that is allowed.
    Variable,
}

/// What breeds.
pub(super) struct Breed<'a> {
    problem: &'a Problem,
    genetic: &'a Genetic,
    dice: Dice,
    /// The candidates that are no matter of course.
    genes: Vec<usize>,
    least: usize,
    most: usize,
}

impl<'a> Breed<'a> {
    pub(super) fn new(problem: &'a Problem, genetic: &'a Genetic, dice: Dice) -> Self {
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
    pub(super) fn born(&self, genes: Vec<usize>) -> Living {
        let set = [self.problem.required(), &genes].concat();
        Living { selection: self.problem.select(set), genes }
    }

    /// Any chromosome.
    pub(super) fn random(&mut self) -> Vec<usize> {
        let length = self.least + self.dice.below(self.most - self.least + 1);
        self.dice.sample(&self.genes, length)
    }

    /// The fitter of two.
    pub(super) fn parent<'b>(&mut self, living: &'b [Living]) -> &'b Living {
        let one = &living[self.dice.below(living.len())];
        let other = &living[self.dice.below(living.len())];
        if other.is_fitter(one) { other } else { one }
    }

    pub(super) fn child(&mut self, one: &[usize], other: &[usize]) -> Vec<usize> {
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
