//! Values with intervals.

/// A value that was measured, and between what it most likely is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The value.
    pub value: f64,
    /// It is hardly less than this.
    pub low: f64,
    /// It is hardly more than this; infinite if nothing limits it.
    pub high: f64,
}

impl Estimate {
    /// A value that is certain.
    #[must_use]
    pub fn exactly(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// This one by another, both above zero.
    #[must_use]
    pub fn over(self, other: Self) -> Self {
        Self { value: self.value / other.value, low: self.low / other.high, high: self.high / other.low }
    }
}

/// The value that this share of values is below, which are put into their order; `None` if there are none.
pub(super) fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let index = (values.len().saturating_sub(1) as f64 * share).round() as usize;
    values.get(index).copied()
}

/// The mean of values, and twice its standard error to both sides; `None` if there are none.
pub(super) fn interval_of_mean(values: &[f64]) -> Option<Estimate> {
    let count = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = 2.0 * (squares / (count - 1.0).max(1.0) / count).sqrt();
    Some(Estimate { value: mean, low: (mean - error).max(f64::MIN_POSITIVE), high: mean + error })
}
