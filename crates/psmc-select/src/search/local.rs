//! Local search: ours. From good beginnings to the best neighbour, until none is better; then again from beside it.

use super::Budget;
use super::better;
use crate::dice::Dice;
use crate::{Problem, Score, Selection};

/// Looks for a good selection of any size, from `start` too if there is one.
///
/// A selection's neighbours have one candidate more, one less, or another one. Anytime: it ends with the budget, or once
/// many attempts to leave the best one have failed.
pub fn local(
    problem: &Problem,
    start: Option<&Selection>,
    seed: u64,
    budget: &mut dyn Budget,
) -> Option<Selection> {
    let mut climber = Climber { problem, budget, dice: Dice::new(seed), ended: false };
    let mut best = start.and_then(|start| problem.select(start.members.clone()));
    best = best.map(|start| climber.climb(start));
    for beginning in climber.beginnings() {
        let top = climber.climb(beginning);
        best = better(best, Some(top));
    }
    let mut failures = 0;
    while failures < if best.is_some() { ATTEMPTS } else { ATTEMPTS_AT_ANY } && !climber.ended {
        let top = climber.beside(best.as_ref()).map(|beginning| climber.climb(beginning));
        let is_better = top.as_ref().map(|top| top.score) > best.as_ref().map(|best| best.score);
        failures = if is_better { 0 } else { failures + 1 };
        best = better(best, top);
    }
    best
}

/// How many times in a row the search may fail to find anything better from beside the best: on random networks of up to
/// 14 nodes, these many find the optimum in all but few of a thousand.
const ATTEMPTS: u32 = 20;

/// And how many times for anything at all, where constraints are hard to meet.
const ATTEMPTS_AT_ANY: u32 = 200;

struct Climber<'a> {
    problem: &'a Problem,
    budget: &'a mut dyn Budget,
    dice: Dice,
    ended: bool,
}

impl Climber<'_> {
    /// A selection of each size that can be, made by adding the best candidate again and again.
    fn beginnings(&mut self) -> Vec<Selection> {
        let mut set = self.problem.required().to_vec();
        let mut beginnings = Vec::new();
        while set.len() < *self.problem.sizes().end() {
            let Some(added) = self.best_addition(&set) else { break };
            set = added;
            beginnings.extend(self.problem.select(set.clone()));
        }
        beginnings.extend(self.problem.select(self.problem.required().to_vec()));
        beginnings
    }

    /// The set with the candidate that makes it worth most.
    fn best_addition(&mut self, set: &[usize]) -> Option<Vec<usize>> {
        let mut best: Option<(Score, Vec<usize>)> = None;
        for new in self.problem.eligible() {
            if set.contains(new) || !self.problem.admits(set, *new) {
                continue;
            }
            let added = with(set, *new);
            let least = best.as_ref().map_or(Score::LEAST, |(score, _)| *score);
            let score = self.score_above(least, &added);
            best = score.map(|score| (score, added)).or(best);
            if self.ended {
                break;
            }
        }
        best.map(|(_, set)| set)
    }

    /// From neighbour to best neighbour, as long as that is better.
    fn climb(&mut self, mut at: Selection) -> Selection {
        while let Some(next) = self.best_neighbour(&at) {
            at = next;
        }
        at
    }

    fn best_neighbour(&mut self, at: &Selection) -> Option<Selection> {
        let mut best = None;
        let mut least = at.score;
        for dropped in std::iter::once(None).chain(at.members.iter().copied().map(Some)) {
            let rest: Vec<_> = at.members.iter().copied().filter(|member| Some(*member) != dropped).collect();
            let added = self.problem.eligible().iter().filter(|new| !at.members.contains(new));
            for new in std::iter::once(None).chain(added.copied().map(Some)) {
                let neighbour = new.map_or_else(|| rest.clone(), |new| with(&rest, new));
                let Some(score) = self.score_above(least, &neighbour) else { continue };
                if self.problem.accepts(&neighbour) {
                    least = score;
                    best = Some(Selection { members: neighbour, score });
                }
            }
            if self.ended {
                break;
            }
        }
        best
    }

    /// The score of a set, if that is more than `least`.
    fn score_above(&mut self, least: Score, set: &[usize]) -> Option<Score> {
        if self.ended || self.problem.ceiling(set) <= least {
            return None;
        }
        self.ended = !self.budget.allows(1);
        Some(self.problem.score(set)).filter(|score| *score > least && !self.ended)
    }

    /// A selection that has up to a half of its members in common with the best one.
    fn beside(&mut self, best: Option<&Selection>) -> Option<Selection> {
        let sizes = self.problem.sizes();
        let (least, most) = (*sizes.start(), *sizes.end());
        if least > most {
            return None;
        }
        let size = least + self.dice.below(most - least + 1);
        let members = best.map_or(&[][..], |best| &best.members);
        let mut set = self.problem.required().to_vec();
        let kept = self.dice.below(members.len() / 2 + 1);
        for member in self.dice.sample(members, kept) {
            if !set.contains(&member) && set.len() < size {
                set.push(member);
            }
        }
        let eligible = self.problem.eligible();
        let is_careful = self.dice.happens(0.5);
        for new in self.dice.sample(eligible, eligible.len()) {
            // What breaks a constraint may be made good by what follows, so half of the time that is risked.
            let fits = |set: &[usize]| match is_careful {
                true => self.problem.may_join(set, new),
                false => self.problem.admits(set, new),
            };
            if set.len() < size && !set.contains(&new) && fits(&set) {
                set.push(new);
            }
        }
        self.ended |= !self.budget.allows(1);
        self.problem.select(set)
    }
}

/// A set and one more, in ascending order.
fn with(set: &[usize], new: usize) -> Vec<usize> {
    let mut set = set.to_vec();
    let place = set.partition_point(|member| *member < new);
    set.insert(place, new);
    set
}
