//! What is measured several times.

/// The median of all runs, and between what they lay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The least.
    pub low: f64,
    /// The mean of the two in the middle if the number of values is even.
    pub median: f64,
    /// The most.
    pub high: f64,
}

impl Spread {
    /// `None` if there are no values.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let median =
            if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], upper) } else { upper };
        Some(Self { low: *values.first()?, median, high: *values.last()? })
    }

    /// The least and the most.
    #[must_use]
    pub fn range(self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// `None` if one is missing as well.
    #[must_use]
    pub fn of_all(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        values.into_iter().collect::<Option<Vec<_>>>().and_then(Self::of)
    }
}

/// The median of all values; `None` if one is missing, or there are none.
#[must_use]
pub fn median(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    Spread::of_all(values).map(|spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_between_the_extremes() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0]), Some(Spread { low: 3.0, median: 3.0, high: 3.0 }));
        assert_eq!(Spread::of([3.0, 1.0, 9.0]), Some(Spread { low: 1.0, median: 3.0, high: 9.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 9.0, 2.0]), Some(Spread { low: 1.0, median: 3.0, high: 9.0 }));
    }

    #[test]
    fn a_run_that_failed_has_no_median() {
        assert_eq!(median([Some(3.0), Some(1.0), Some(2.0)]), Some(2.0));
        assert_eq!(median([Some(3.0), None]), None);
        assert_eq!(median([]), None);
    }
}
