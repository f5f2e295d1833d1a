//! Quantiles of what many networks have.

/// Values in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sorted(Vec<f64>);

impl Sorted {
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// What so many percent of them are at most, between two of them in proportion; `None` if there are no values.
    pub(super) fn quantile(&self, percent: f64) -> Option<f64> {
        let place = percent / 100.0 * self.0.len().checked_sub(1)? as f64;
        #[expect(clippy::cast_possible_truncation, reason = "it is the number of a value")]
        let below = place as usize;
        let lower = *self.0.get(below)?;
        let upper = self.0.get(below + 1).copied().unwrap_or(lower);
        Some(lower + (upper - lower) * place.fract())
    }

    /// The mean of their logarithms, as a value; `None` if there are none.
    pub(super) fn geometric_mean(&self) -> Option<f64> {
        let logarithms: f64 = self.0.iter().map(|value| value.max(LEAST).ln()).sum();
        (!self.0.is_empty()).then(|| (logarithms / self.0.len() as f64).exp())
    }
}

/// The part of all for which it holds, in percent; `None` if there are none.
pub(super) fn percent<T>(all: &[T], holds: impl Fn(&T) -> bool) -> Option<f64> {
    let those = all.iter().filter(|one| holds(one)).count();
    (!all.is_empty()).then(|| 100.0 * those as f64 / all.len() as f64)
}

/// One that has nothing left must not make a mean nothing.
const LEAST: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_between_two_values() {
        let values = Sorted::of([4.0, 1.0, 2.0, 3.0, 5.0]);
        let quantiles = [0.0, 10.0, 25.0, 50.0, 90.0, 100.0].map(|percent| values.quantile(percent));
        assert_eq!(quantiles, [1.0, 1.4, 2.0, 3.0, 4.6, 5.0].map(Some));
        assert_eq!(Sorted::of([7.0]).quantile(75.0), Some(7.0));
        assert_eq!(Sorted::of([]).quantile(50.0), None);
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        let mean = Sorted::of([0.25, 4.0, 1.0]).geometric_mean();
        assert!(mean.is_some_and(|mean| (mean - 1.0).abs() < 1e-12), "{mean:?}");
        assert!(Sorted::of([0.0, 1.0]).geometric_mean().is_some_and(|mean| mean > 0.0));
        assert_eq!(Sorted::of([]).geometric_mean(), None);
    }

    #[test]
    fn a_share_is_of_all() {
        assert_eq!(percent(&[1, 2, 3, 4], |&number| number > 1), Some(75.0));
        assert_eq!(percent(&[], |_: &i32| true), None);
    }
}
