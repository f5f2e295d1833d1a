//! What is measured several times.

/// The middle one of an odd number of values, the higher one of the two in the middle of an even number; `None` if one is
/// missing.
pub(in crate::experiment) fn median(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let mut values = values.into_iter().collect::<Option<Vec<_>>>()?;
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_failed_has_no_median() {
        assert_eq!(median([Some(3.0), Some(1.0), Some(2.0)]), Some(2.0));
        assert_eq!(median([Some(3.0), None]), None);
        assert_eq!(median([]), None);
    }
}
