//! What paths carry together that share links.

use std::collections::BTreeMap;

use super::Candidate;
use super::simplex::Program;
use crate::Bandwidth;
use crate::network::{ArcId, Network};

/// The links that candidates share.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    widths: Vec<f64>,
    /// What the shared arcs carry. Arcs that the same candidates use are one: the narrowest.
    capacities: Vec<f64>,
    /// For each candidate the shared arcs that it uses, and how many times.
    uses: Vec<Vec<(usize, u32)>>,
}

/// A candidate's number, and how many times it uses an arc: rarely more than once, on the way to the relay and back.
type Uses = Vec<(usize, u32)>;

impl Packing {
    pub(super) fn new(network: &Network, candidates: &[Candidate]) -> Self {
        let bits = |bandwidth: Bandwidth| bandwidth.bits_per_second() as f64;
        let mut shared: BTreeMap<Uses, f64> = BTreeMap::new();
        for (arc, users) in users(candidates) {
            if users.iter().map(|(_, count)| count).sum::<u32>() > 1 {
                let capacity = bits(network.arc(arc).bandwidth);
                shared.entry(users).and_modify(|least| *least = least.min(capacity)).or_insert(capacity);
            }
        }
        let mut uses = vec![Vec::new(); candidates.len()];
        for (row, users) in shared.keys().enumerate() {
            users.iter().for_each(|(candidate, count)| uses[*candidate].push((row, *count)));
        }
        let widths = candidates.iter().map(|candidate| bits(candidate.path.bandwidth())).collect();
        Self { widths, capacities: shared.into_values().collect(), uses }
    }

    /// What they carry together, at most.
    pub(crate) fn flow(&self, set: &[usize]) -> Bandwidth {
        self.maximum(set, None)
    }

    /// A bound of what `chosen` carry together with any `more` of the `others`: a path may be chosen in part.
    pub(crate) fn flow_with(&self, chosen: &[usize], others: &[usize], more: usize) -> Bandwidth {
        let set = [chosen, others].concat();
        self.maximum(&set, Some((chosen.len(), more)))
    }

    /// `parts`: of which place on the candidates are chosen in part, and how many they may sum up to.
    fn maximum(&self, set: &[usize], parts: Option<(usize, usize)>) -> Bandwidth {
        let full: f64 = set.iter().map(|candidate| self.widths[*candidate]).sum();
        let rows = self.binding_rows(set);
        let limited = parts.filter(|(first, more)| first + more < set.len());
        if rows.is_empty() && limited.is_none() {
            return whole(full);
        }
        let mut program = Program::new(set.len());
        for (place, candidate) in set.iter().enumerate() {
            program.bound([(place, 1.0)], self.widths[*candidate] / UNIT);
        }
        for (row, users) in rows {
            program.bound(users, self.capacities[row] / UNIT);
        }
        if let Some((first, more)) = limited {
            let part = |place: usize| (place, UNIT / self.widths[set[place]]);
            program.bound((first..set.len()).map(part), more as f64);
        }
        whole(program.maximum() * UNIT)
    }

    /// The shared arcs that are too narrow for all of their users in the set: users by their place in it.
    fn binding_rows(&self, set: &[usize]) -> BTreeMap<usize, Vec<(usize, f64)>> {
        let mut rows: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        for (place, candidate) in set.iter().enumerate() {
            for (row, count) in &self.uses[*candidate] {
                rows.entry(*row).or_default().push((place, f64::from(*count)));
            }
        }
        rows.retain(|row, users| {
            let load: f64 = users.iter().map(|(place, count)| self.widths[set[*place]] * count).sum();
            load > self.capacities[*row]
        });
        rows
    }
}

/// For each arc the candidates that use it, in order.
fn users(candidates: &[Candidate]) -> Vec<(ArcId, Uses)> {
    let of_one = |(number, candidate): (usize, &Candidate)| {
        candidate.path.arcs().iter().map(move |arc| (*arc, number)).collect::<Vec<_>>()
    };
    let mut uses: Vec<(ArcId, usize)> = candidates.iter().enumerate().flat_map(of_one).collect();
    uses.sort_unstable();
    let of_arc = |uses: &[(ArcId, usize)]| {
        let users = uses.chunk_by(|a, b| a.1 == b.1);
        (uses[0].0, users.map(|same| (same[0].1, u32::try_from(same.len()).unwrap_or(u32::MAX))).collect())
    };
    uses.chunk_by(|a, b| a.0 == b.0).map(of_arc).collect()
}

/// Whole bit/s, rounded down; what rounding left of a whole number counts as that.
fn whole(bits: f64) -> Bandwidth {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a sum of bandwidths")]
    let whole = (bits + ROUNDING).floor() as u64;
    Bandwidth::from_bits_per_second(whole)
}

/// The unit of the simplex tableau in bit/s: with Mbit/s its numbers are near 1.
const UNIT: f64 = 1e6;

/// In bit/s. The simplex errs by less at 100 Gbit/s; and a flow that is no whole number differs from the next by a small
/// fraction, such as a half or a third.
const ROUNDING: f64 = 1e-3;
