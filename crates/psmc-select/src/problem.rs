//! The problem: what is wanted of a selection, and what it must keep to.

mod constraints;
mod score;

use crate::network::{LinkId, Network};
use crate::{Bandwidth, Pool};

pub use constraints::{Constraints, ProblemError};
pub use score::{Objective, Score};
pub(crate) use score::{pairs, rounded};

/// A pool, an objective and constraints. Whatever speaks of a set means candidates by number, in ascending order.
#[derive(Clone, Debug)]
pub struct Problem {
    pool: Pool,
    objective: Objective,
    constraints: Constraints,
    /// The candidates that may be chosen, and those of them that must be.
    eligible: Vec<usize>,
    required: Vec<usize>,
    /// Links by which candidates leave the source.
    uplinks: Vec<Option<LinkId>>,
    /// For each pair of candidates, row by row, how joint they are, and whether they cannot be together.
    jointness: Vec<f64>,
    conflicts: Vec<bool>,
}

/// The choice of some candidates.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// The candidates by number, in ascending order.
    pub members: Vec<usize>,
    /// What it is worth.
    pub score: Score,
}

impl Problem {
    /// Fails if the constraints name relays that are not there, or contradict each other.
    pub fn new(
        network: &Network,
        pool: Pool,
        objective: Objective,
        constraints: Constraints,
    ) -> Result<Self, ProblemError> {
        if let Some(weight) = objective.weight().filter(|weight| !(0.0..f64::INFINITY).contains(weight)) {
            return Err(ProblemError::Weight(weight));
        }
        let eligible = constraints.eligible(network, &pool)?;
        let required = constraints.required(network, &pool, &eligible)?;
        let candidates = pool.candidates();
        let pairs = || candidates.iter().flat_map(|a| candidates.iter().map(move |b| (&a.path, &b.path)));
        let jointness = pairs().map(|(a, b)| a.jointness(b, objective.jointness_by())).collect();
        let conflicts = match constraints.disjoint {
            Some(kind) => pairs().map(|(a, b)| !a.is_disjoint(b, kind)).collect(),
            None => vec![false; candidates.len() * candidates.len()],
        };
        let uplinks = candidates.iter().map(|candidate| candidate.uplink(network)).collect();
        Ok(Self { pool, objective, constraints, eligible, required, uplinks, jointness, conflicts })
    }

    /// The candidates.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What is wanted.
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// What it must keep to.
    pub fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    /// The candidates that may be chosen: those that are not forbidden, and fast enough.
    pub fn eligible(&self) -> &[usize] {
        &self.eligible
    }

    /// The candidates that must be chosen.
    pub fn required(&self) -> &[usize] {
        &self.required
    }

    /// The candidate of that name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.pool.candidates().iter().position(|candidate| candidate.name == name)
    }

    /// How many candidates a selection may have.
    pub fn sizes(&self) -> std::ops::RangeInclusive<usize> {
        let least = self.constraints.min_paths.max(self.required.len()).max(1);
        least..=self.constraints.max_paths.min(self.eligible.len())
    }

    /// The set as a selection, if it meets the constraints.
    pub fn select(&self, mut members: Vec<usize>) -> Option<Selection> {
        members.sort_unstable();
        self.accepts(&members).then(|| Selection { score: self.score(&members), members })
    }

    /// Whether a set meets all constraints.
    pub fn accepts(&self, set: &[usize]) -> bool {
        self.sizes().contains(&set.len())
            && self.required.iter().all(|needed| set.contains(needed))
            && (0..set.len()).all(|place| self.admits(&set[..place], set[place]))
            && set.iter().all(|member| self.eligible.binary_search(member).is_ok())
            && self.is_even(set)
            && self.is_cheap(set)
    }

    /// Whether a further candidate breaks none of the constraints that no later one could repair.
    pub(crate) fn admits(&self, set: &[usize], new: usize) -> bool {
        let places = self.pool.candidates().len();
        let crowded = |most: Option<usize>, same: &dyn Fn(usize) -> bool| {
            most.is_some_and(|most| set.iter().filter(|member| same(**member)).count() >= most)
        };
        let provider = |number: usize| self.pool.candidates()[number].provider.as_deref();
        !set.iter().any(|member| self.conflicts[new * places + member])
            && !crowded(self.constraints.per_uplink, &|member| self.uplinks[member] == self.uplinks[new])
            && !crowded(self.constraints.per_provider, &|member| {
                provider(new).is_some() && provider(member) == provider(new)
            })
    }

    /// Whether a set with a further candidate keeps to all constraints but those of size. Later ones may still repair what
    /// it does not keep to.
    pub(crate) fn may_join(&self, set: &[usize], new: usize) -> bool {
        let set = [set, &[new]].concat();
        self.admits(&set[..set.len() - 1], new) && self.is_even(&set) && self.is_cheap(&set)
    }

    /// Constraint a: BW(p) > T × the mean of the selection.
    fn is_even(&self, set: &[usize]) -> bool {
        let Some(share) = self.constraints.least_share else { return true };
        let sum: f64 = set.iter().map(|member| self.width(*member).mbps()).sum();
        let least = share * sum / set.len() as f64;
        set.iter().all(|member| self.width(*member).mbps() > least)
    }

    /// Whether a gigabyte, spread by bandwidth, costs no more than it may.
    fn is_cheap(&self, set: &[usize]) -> bool {
        let Some(most) = self.constraints.max_price else { return true };
        let weight = |member: &usize| u128::from(self.width(*member).bits_per_second());
        let price = |member: &usize| u128::from(self.pool.candidates()[*member].price.millionths());
        let cost: u128 = set.iter().map(|member| weight(member) * price(member)).sum();
        cost <= u128::from(most.millionths()) * set.iter().map(weight).sum::<u128>()
    }

    /// BW(p) of a candidate.
    pub(crate) fn width(&self, member: usize) -> Bandwidth {
        self.pool.candidates()[member].path.bandwidth()
    }

    /// How joint two candidates are.
    pub(crate) fn jointness(&self, a: usize, b: usize) -> f64 {
        self.jointness[a * self.pool.candidates().len() + b]
    }
}
