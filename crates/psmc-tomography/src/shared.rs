//! Paths that share segments in any way: an uplink, a relay, an access line.
//!
//! What a path takes is the sum of what its segments take: delays add, and so do the logarithms of the shares that pass. With a row
//! for each path and a column for each segment, the paths are a *routing matrix* `A`, and the segments are the solution of `A x = y`
//! by least squares, each path weighted by the inverse of its variance.
//!
//! Mostly there are several solutions. A segment is told if it is the same in all of them, which is so if it is 0 in every vector of
//! the null space of `A`; otherwise it is [`Unknown::NotSeparable`], and [`Solution::sums`] has the smallest sums with it that are
//! the same in all. If no values of the segments fit the paths as well as their variances say they should, the paths contradict each
//! other, and nothing is told. A path that lies by less than that moves what is told of others: least squares trust all paths alike.
//!
//! The null space is found by Gaussian elimination with full pivoting, and the solution by Cholesky's method on the columns that have
//! a pivot; both are nalgebra's. (faer is as good, and made for matrices a hundred times as large, with many more dependencies.)
//!
//! ```
//! use psmc_tomography::shared::{Path, as_loss, solve};
//!
//! // Two uplinks (0, 1), two relays (2, 3), and each by each: 10 % is lost on uplink 1.
//! let path = |uplink, relay, lost| Path::of_loss(vec![uplink, relay], 1000, lost).unwrap();
//! let solution = solve(4, &[path(0, 2, 0), path(0, 3, 0), path(1, 2, 100), path(1, 3, 100)]).unwrap();
//! // Any loss might as well be that of both relays …
//! assert!(solution.segments[1].is_err());
//! // … but not that of an uplink with one of them.
//! let sum = solution.sums.iter().find(|sum| sum.segments == [1, 2]).unwrap();
//! assert!(as_loss(sum.estimate).unwrap().covers(0.1));
//! ```

mod nullspace;

use std::collections::BTreeSet;

use crate::interval::{Z, chance_of_chi_square};
use crate::{Answer, Estimate, Unknown};
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use nullspace::NullSpace;

/// What was measured on a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    segments: Vec<usize>,
    sum: f64,
    variance: f64,
}

/// Why a path cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It crosses a segment that there is not.
    #[error("a path crosses segment {0}; segments are numbered from 0 to {1}, not included")]
    NoSuchSegment(usize, usize),
    /// A measurement is out of its range.
    #[error("a path was measured as no usable number; values must be finite, and variances above zero")]
    NotANumber,
    /// Nothing was measured.
    #[error("nothing was sent on a path; leave it out until something was")]
    NothingSent,
}

/// What paths tell of their segments, in the unit of the paths' sums.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Of each segment.
    pub segments: Vec<Answer>,
    /// For each segment that cannot be told and is crossed by a path, the smallest sum with it that can. No sum is there twice.
    pub sums: Vec<Sum>,
}

/// Segments that can only be told together.
#[derive(Clone, Debug, PartialEq)]
pub struct Sum {
    /// Which segments, in ascending order.
    pub segments: Vec<usize>,
    /// What they take together.
    pub estimate: Answer,
}

/// If a path fits worse than by this chance, the paths contradict each other.
const MISFIT: f64 = 1e-4;

impl Path {
    /// A path over these segments that takes a sum of which the variance is known, such as a mean delay.
    ///
    /// # Errors
    /// [`PathError::NotANumber`].
    pub fn new(segments: Vec<usize>, sum: f64, variance: f64) -> Result<Self, PathError> {
        if !sum.is_finite() || !variance.is_normal() || variance < 0.0 {
            return Err(PathError::NotANumber);
        }
        Ok(Self { segments, sum, variance })
    }

    /// A path on which so many packets were sent and lost. Its sum is −ln of the share that passed.
    ///
    /// The variance is that of the delta method for one loss more than there were: no loss is no proof of none.
    ///
    /// # Errors
    /// [`PathError::NothingSent`], [`PathError::NotANumber`] if more were lost.
    pub fn of_loss(segments: Vec<usize>, sent: u64, lost: u64) -> Result<Self, PathError> {
        if sent == 0 {
            return Err(PathError::NothingSent);
        }
        let passed = sent.checked_sub(lost).ok_or(PathError::NotANumber)? as f64;
        let (sent, lost) = (sent as f64, lost as f64);
        // If nothing passed, half a packet: the logarithm of none is infinite.
        let passed = passed.max(0.5);
        Self::new(segments, -(passed / sent).ln(), (lost + 1.0) / (sent * passed))
    }
}

/// A loss from a sum of [`Path::of_loss`].
///
/// # Errors
/// Those of the sum.
pub fn as_loss(sum: Answer) -> Answer {
    sum?.rising(|sum| -(-sum).exp_m1())
}

/// What paths tell of so many segments. Takes time of the third power of their number.
///
/// No segment takes less than nothing: values and intervals end at 0.
///
/// # Errors
/// [`PathError::NoSuchSegment`].
pub fn solve(segments: usize, paths: &[Path]) -> Result<Solution, PathError> {
    for path in paths {
        if let Some(&segment) = path.segments.iter().find(|&&segment| segment >= segments) {
            return Err(PathError::NoSuchSegment(segment, segments));
        }
    }
    let mut routing = DMatrix::zeros(paths.len(), segments);
    for (row, path) in paths.iter().enumerate() {
        path.segments.iter().for_each(|&segment| routing[(row, segment)] += 1.0);
    }
    let space = NullSpace::of(routing.clone());
    let fit = Fit::of(&routing, paths, &space);
    let of_sum = |sum: &[usize]| fit.as_ref().map_err(|&unknown| unknown).and_then(|fit| fit.estimate(sum));
    let told =
        |segment| if space.is_told(&[segment]) { of_sum(&[segment]) } else { Err(Unknown::NotSeparable) };
    let sums = smallest_sums(segments, paths, &space).into_iter();
    Ok(Solution {
        segments: (0..segments).map(told).collect(),
        sums: sums.map(|segments| Sum { estimate: of_sum(&segments), segments }).collect(),
    })
}

/// For each segment that is crossed and cannot be told alone, the smallest sum of up to three segments that can; if there is none,
/// its shortest path, which always can.
fn smallest_sums(segments: usize, paths: &[Path], space: &NullSpace) -> BTreeSet<Vec<usize>> {
    let mut sums = BTreeSet::new();
    for segment in (0..segments).filter(|&segment| !space.is_told(&[segment])) {
        let crossing = paths.iter().map(|path| &path.segments).filter(|path| path.contains(&segment));
        // A segment that no path crosses is in no sum.
        let Some(shortest) = crossing.min_by_key(|path| path.len()) else { continue };
        let mut sum = space.smallest_sum(segment).unwrap_or_else(|| shortest.clone());
        sum.sort_unstable();
        sums.insert(sum);
    }
    sums
}

/// A solution, one of many, in which the segments without a pivot are 0. What is the same in all solutions can be read off it.
struct Fit {
    /// Of each segment, its place among those with a pivot.
    places: Vec<Option<usize>>,
    solution: DVector<f64>,
    precision: Cholesky<f64, Dyn>,
}

impl Fit {
    fn of(routing: &DMatrix<f64>, paths: &[Path], space: &NullSpace) -> Result<Self, Unknown> {
        let mut places = vec![None; routing.ncols()];
        space.pivots().iter().enumerate().for_each(|(place, &segment)| places[segment] = Some(place));
        let basis = routing.select_columns(space.pivots());
        let sums = DVector::from_iterator(paths.len(), paths.iter().map(|path| path.sum));
        let weights = DVector::from_iterator(paths.len(), paths.iter().map(|path| path.variance.recip()));
        let mut weighted = basis.clone();
        for mut column in weighted.column_iter_mut() {
            column.component_mul_assign(&weights);
        }
        let precision = Cholesky::new(weighted.tr_mul(&basis)).ok_or(Unknown::NotSeparable)?;
        let solution = precision.solve(&weighted.tr_mul(&sums));
        let misfit = (sums - basis * &solution).map(|difference| difference * difference).dot(&weights);
        if chance_of_chi_square(paths.len() - space.pivots().len(), misfit) < MISFIT {
            return Err(Unknown::PathsContradict);
        }
        Ok(Self { places, solution, precision })
    }

    /// What segments take together, if that is the same in all solutions.
    fn estimate(&self, segments: &[usize]) -> Answer {
        let mut sum = DVector::zeros(self.solution.len());
        segments.iter().filter_map(|&segment| self.places[segment]).for_each(|place| sum[place] += 1.0);
        let value = sum.dot(&self.solution);
        let deviation = sum.dot(&self.precision.solve(&sum)).sqrt();
        let [value, low, high] =
            [value, value - Z * deviation, value + Z * deviation].map(|end| end.max(0.0));
        Estimate::new(value, low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(segments: &[usize], sum: f64) -> Path {
        Path::new(segments.to_vec(), sum, 0.01).unwrap()
    }

    /// Three unknowns, three paths.
    #[test]
    fn a_triangle_of_paths_tells_all_its_segments() {
        let paths = [path(&[0, 1], 3.0), path(&[1, 2], 5.0), path(&[0, 2], 4.0)];
        let solution = solve(3, &paths).unwrap();
        for (answer, expected) in solution.segments.iter().zip([1.0, 2.0, 3.0]) {
            let estimate = answer.unwrap();
            // Half of ± each of three paths: a variance of 3 × 0.01 / 4.
            let half = Z * 0.0075_f64.sqrt();
            assert!((estimate.value() - expected).abs() < 1e-9, "{estimate:?}");
            assert!((estimate.high() - expected - half).abs() < 1e-9, "{estimate:?}");
        }
        assert_eq!(solution.sums, []);
    }

    #[test]
    fn segments_that_are_always_crossed_together_are_told_together() {
        let paths = [path(&[0, 1, 2], 6.0), path(&[0, 3], 5.0), path(&[3], 4.0)];
        let solution = solve(5, &paths).unwrap();
        assert!(solution.segments[0].unwrap().covers(1.0) && solution.segments[3].unwrap().covers(4.0));
        assert_eq!([1, 2, 4].map(|segment| solution.segments[segment]), [Err(Unknown::NotSeparable); 3]);
        let [sum] = &solution.sums[..] else { panic!("{:?}", solution.sums) };
        assert_eq!(sum.segments, [1, 2]);
        assert!(sum.estimate.unwrap().covers(5.0));
    }

    #[test]
    fn a_path_that_lies_is_contradicted() {
        let mut paths: Vec<_> = (0..5).map(|_| path(&[0], 1.0)).collect();
        assert!(solve(1, &paths).unwrap().segments[0].is_ok());
        paths.push(path(&[0], 9.0));
        assert_eq!(solve(1, &paths).unwrap().segments[0], Err(Unknown::PathsContradict));
    }

    #[test]
    fn nothing_tells_nothing() {
        let solution = solve(2, &[]).unwrap();
        assert_eq!(solution.segments, [Err(Unknown::NotSeparable); 2]);
        assert_eq!(solution.sums, []);
        assert_eq!(solve(0, &[]).unwrap().segments, []);
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        assert_eq!(solve(1, &[path(&[1], 1.0)]), Err(PathError::NoSuchSegment(1, 1)));
        for (sum, variance) in [(f64::NAN, 1.0), (1.0, 0.0), (1.0, -1.0), (1.0, f64::INFINITY)] {
            assert_eq!(Path::new(vec![0], sum, variance), Err(PathError::NotANumber));
        }
        assert_eq!(Path::of_loss(vec![0], 0, 0), Err(PathError::NothingSent));
        assert_eq!(Path::of_loss(vec![0], 1, 2), Err(PathError::NotANumber));
        assert!(Path::of_loss(vec![0], 10, 10).is_ok());
    }
}
