//! What paths carry together that share links.

use std::collections::BTreeMap;

use super::Candidate;
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

// The simplex method, for the small packings that a selection is.

/// Which amounts to send, so that they sum up to the most: each row bounds a weighted sum of them.
pub(super) struct Program {
    columns: usize,
    /// A row has the coefficients of the amounts, of a slack for each row, and what it is bounded by.
    rows: Vec<Vec<f64>>,
}

impl Program {
    /// Of so many amounts.
    pub(super) fn new(columns: usize) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Bounds Σ coefficient × amount. Nothing may be negative, so sending nothing is always possible.
    pub(super) fn bound(&mut self, coefficients: impl IntoIterator<Item = (usize, f64)>, most: f64) {
        let mut row = vec![0.0; self.columns + 1];
        for (column, coefficient) in coefficients {
            row[column] += coefficient;
        }
        row[self.columns] = most;
        self.rows.push(row);
    }

    /// The most that the amounts can sum up to. Each amount must be bounded by some row.
    ///
    /// Dantzig's simplex method on the condensed tableau; by Bland's rule (1977) it cannot go round in circles.
    pub(super) fn maximum(mut self) -> f64 {
        let mut gains = vec![1.0; self.columns];
        gains.push(0.0);
        // Names of what stands in the columns and the rows: amounts first, then slacks.
        let mut outside: Vec<usize> = (0..self.columns).collect();
        let mut inside: Vec<usize> = (0..self.rows.len()).map(|row| self.columns + row).collect();
        while let Some(column) = entering(&gains[..self.columns], &outside) {
            let Some(row) = self.leaving(column, &inside) else { break };
            std::mem::swap(&mut outside[column], &mut inside[row]);
            self.pivot(row, column, &mut gains);
        }
        -gains[self.columns]
    }

    /// The row that bounds the column most, of equal ones that of the lowest name.
    fn leaving(&self, column: usize, inside: &[usize]) -> Option<usize> {
        let ratio = |row: &Vec<f64>| row[self.columns] / row[column];
        let bounding = (0..self.rows.len()).filter(|row| self.rows[*row][column] > TINY);
        bounding.min_by(|a, b| {
            let ratios = ratio(&self.rows[*a]).total_cmp(&ratio(&self.rows[*b]));
            ratios.then(inside[*a].cmp(&inside[*b]))
        })
    }

    fn pivot(&mut self, row: usize, column: usize, gains: &mut [f64]) {
        let mut pivot = std::mem::take(&mut self.rows[row]);
        let by = pivot[column];
        pivot[column] = 1.0;
        pivot.iter_mut().for_each(|cell| *cell /= by);
        for other in self.rows.iter_mut().filter(|other| !other.is_empty()) {
            eliminate(other, &pivot, column);
        }
        eliminate(gains, &pivot, column);
        self.rows[row] = pivot;
    }
}

/// A column that gains: that of the lowest name.
fn entering(gains: &[f64], outside: &[usize]) -> Option<usize> {
    (0..gains.len()).filter(|column| gains[*column] > TINY).min_by_key(|column| outside[*column])
}

fn eliminate(row: &mut [f64], pivot: &[f64], column: usize) {
    let factor = std::mem::replace(&mut row[column], 0.0);
    if factor != 0.0 {
        row.iter_mut().zip(pivot).for_each(|(cell, by)| *cell -= factor * by);
    }
}

/// What is smaller than this is what rounding left of 0. Coefficients are numbers of uses of a link, near 1.
const TINY: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_paths_that_share_links_by_twos_get_halves() {
        let mut program = Program::new(3);
        for (a, b) in [(0, 1), (1, 2), (0, 2)] {
            program.bound([(a, 1.0), (b, 1.0)], 1.0);
        }
        assert!((program.maximum() - 1.5).abs() < 1e-12);
    }

    #[test]
    fn a_link_that_is_used_twice_counts_twice() {
        let mut program = Program::new(1);
        program.bound([(0, 1.0), (0, 1.0)], 10.0);
        assert!((program.maximum() - 5.0).abs() < 1e-12);
    }
}
