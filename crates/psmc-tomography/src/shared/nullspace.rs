//! Which sums of segments all solutions agree on.

use nalgebra::{DMatrix, FullPivLU, RowDVector};

/// The null space of a routing matrix: how solutions can differ.
pub(super) struct NullSpace {
    /// Segments with a pivot.
    pivots: Vec<usize>,
    /// A row for each segment, a column for each vector.
    vectors: DMatrix<f64>,
}

/// Pivots below this are rounding: matrices of small whole numbers have none between that and much of 1.
const ROUNDING: f64 = 1e-9;

impl NullSpace {
    pub(super) fn of(routing: DMatrix<f64>) -> Self {
        let columns = routing.ncols();
        if routing.nrows() == 0 || columns == 0 {
            return Self { pivots: Vec::new(), vectors: DMatrix::identity(columns, columns) };
        }
        let elimination = FullPivLU::new(routing);
        let upper = elimination.u();
        let mut order = RowDVector::from_iterator(columns, 0..columns);
        elimination.q().permute_columns(&mut order);
        let rank = (0..upper.nrows()).take_while(|&place| upper[(place, place)].abs() > ROUNDING).count();

        // U = (T | R): T x = −R for each free segment set to 1.
        let (square, rest) =
            (upper.view((0, 0), (rank, rank)), upper.view((0, rank), (rank, columns - rank)));
        let mut solved = -rest.into_owned();
        square.solve_upper_triangular_mut(&mut solved);
        let mut vectors = DMatrix::zeros(columns, columns - rank);
        for (place, &segment) in order.iter().enumerate() {
            if place < rank {
                vectors.set_row(segment, &solved.row(place));
            } else {
                vectors[(segment, place - rank)] = 1.0;
            }
        }
        Self { pivots: order.iter().take(rank).copied().collect(), vectors }
    }

    /// Segments with a pivot: all others may be set to 0.
    pub(super) fn pivots(&self) -> &[usize] {
        &self.pivots
    }

    /// Whether a sum is the same in all solutions.
    pub(super) fn is_told(&self, segments: &[usize]) -> bool {
        let is_zero = |column: usize| {
            segments.iter().map(|&segment| self.vectors[(segment, column)]).sum::<f64>().abs() < ROUNDING
        };
        (0..self.vectors.ncols()).all(is_zero)
    }

    /// The smallest sum with a segment, of two or three, that is the same in all solutions.
    pub(super) fn smallest_sum(&self, segment: usize) -> Option<Vec<usize>> {
        let others: Vec<_> = (0..self.vectors.nrows()).filter(|&other| other != segment).collect();
        if let Some(&other) = others.iter().find(|&&other| self.is_told(&[segment, other])) {
            return Some(vec![segment, other]);
        }
        for (place, &second) in others.iter().enumerate() {
            let third = others[place + 1..].iter().find(|&&third| self.is_told(&[segment, second, third]));
            if let Some(&third) = third {
                return Some(vec![segment, second, third]);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DVector;
    use proptest::prelude::*;

    use super::*;

    fn matrix() -> impl Strategy<Value = DMatrix<f64>> {
        (0_usize..9, 0_usize..9).prop_flat_map(|(rows, columns)| {
            prop::collection::vec(prop_oneof![Just(0.0), Just(1.0)], rows * columns)
                .prop_map(move |cells| DMatrix::from_row_slice(rows, columns, &cells))
        })
    }

    fn rank(matrix: &DMatrix<f64>) -> usize {
        if matrix.is_empty() { 0 } else { matrix.rank(1e-9) }
    }

    proptest! {
        #[test]
        fn it_is_all_that_paths_do_not_see(routing in matrix()) {
            let space = NullSpace::of(routing.clone());
            prop_assert!((&routing * &space.vectors).iter().all(|cell| cell.abs() < 1e-9));
            prop_assert_eq!(space.vectors.ncols(), routing.ncols() - rank(&routing));
            prop_assert_eq!(rank(&routing.select_columns(space.pivots())), space.pivots().len());
        }

        /// A sum is told if, and only if, it is a combination of paths: as a path of its own it would add nothing.
        #[test]
        fn a_sum_is_told_if_it_is_a_combination_of_paths(
            routing in matrix(),
            sum in prop::collection::btree_set(0_usize..9, 1..4),
        ) {
            let sum: Vec<_> = sum.into_iter().filter(|&segment| segment < routing.ncols()).collect();
            let mut row = DVector::zeros(routing.ncols());
            sum.iter().for_each(|&segment| row[segment] = 1.0);
            let mut more = routing.clone().insert_row(0, 0.0);
            more.set_row(0, &row.transpose());
            prop_assert_eq!(NullSpace::of(routing.clone()).is_told(&sum), rank(&more) == rank(&routing));
        }
    }
}
