//! What the estimators answer with.

/// An estimate with its 95 % confidence interval: `low ≤ value ≤ high`, all finite.
///
/// The unit is that of the quantity: a share from 0 to 1 for loss, microseconds for delay.
///
/// ```
/// use psmc_tomography::Estimate;
///
/// // 5 of 100 packets were lost.
/// let loss = Estimate::of_share(5, 100).unwrap();
/// assert_eq!(loss.value(), 0.05);
/// assert!(loss.low() > 0.016 && loss.high() < 0.113);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    value: f64,
    low: f64,
    high: f64,
}

/// An estimate, or why it cannot be told.
pub type Answer = Result<Estimate, Unknown>;

/// Why a quantity cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// There is too little to go by.
    #[error("cannot be told from {have} samples: at least {need} are needed")]
    TooFew {
        /// Samples that there are.
        have: u64,
        /// Samples that are needed.
        need: u64,
    },
    /// A witness has not reported.
    #[error("cannot be told: witness {0} has not reported")]
    Silent(usize),
    /// A witness says what cannot be, whatever all others say.
    #[error("cannot be told: witness {0} contradicts itself")]
    SelfContradiction(usize),
    /// Two witnesses cannot both be right.
    #[error("cannot be told: witnesses {0} and {1} contradict each other")]
    Contradiction(usize, usize),
    /// The clock of one of two witnesses was set; what was measured before is of no use.
    #[error("cannot be told: the clock of witness {0} or {1} was set, and measuring has begun anew")]
    ClockSet(usize, usize),
    /// The times of one of two witnesses follow no clock.
    #[error("cannot be told: the times of witness {0} or {1} follow no clock")]
    NoClock(usize, usize),
    /// Every path that crosses the segment also crosses another one with it.
    #[error("cannot be told: no observed paths tell this segment from others")]
    NotSeparable,
    /// The measurements do not fit any values of the segments.
    #[error("cannot be told: the paths contradict each other")]
    PathsContradict,
    /// The interval of the estimate holds the limit that it is compared with.
    #[error("cannot be told yet: the estimate is too near to the limit for what was measured")]
    TooNear,
    /// A number that was handed in is not finite, or is out of its range.
    #[error("cannot be told: a measurement is no usable number")]
    NotANumber,
}

impl Estimate {
    /// An estimate of which the interval is known.
    ///
    /// # Errors
    /// [`Unknown::NotANumber`], unless all are finite and in order.
    pub fn new(value: f64, low: f64, high: f64) -> Answer {
        let in_order = low <= value && value <= high;
        if !in_order || !low.is_finite() || !high.is_finite() {
            return Err(Unknown::NotANumber);
        }
        Ok(Self { value, low, high })
    }

    /// The rate behind `hits` of `trials`, with the interval of Clopper and Pearson, which covers in no less than 95 %.
    ///
    /// # Errors
    /// [`Unknown::TooFew`] without trials, [`Unknown::NotANumber`] for more hits than trials.
    pub fn of_share(hits: u64, trials: u64) -> Answer {
        if trials == 0 {
            return Err(Unknown::TooFew { have: 0, need: 1 });
        }
        if hits > trials {
            return Err(Unknown::NotANumber);
        }
        let (low, high) = crate::interval::clopper_pearson(hits, trials);
        let value = hits as f64 / trials as f64;
        Self::new(value, low.min(value), high.max(value))
    }

    /// What is most likely.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The lower end of the interval.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.low
    }

    /// The upper end of the interval.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.high
    }

    /// Whether the interval holds a number.
    #[must_use]
    pub fn covers(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    /// The same under a function that only ever rises.
    ///
    /// # Errors
    /// [`Unknown::NotANumber`], where the function does not rise or is not finite.
    pub fn rising(self, function: impl Fn(f64) -> f64) -> Answer {
        Self::new(function(self.value), function(self.low), function(self.high))
    }

    /// The same under a function that only ever falls.
    ///
    /// # Errors
    /// [`Unknown::NotANumber`], where the function does not fall or is not finite.
    pub fn falling(self, function: impl Fn(f64) -> f64) -> Answer {
        Self::new(function(self.value), function(self.high), function(self.low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_out_of_order_is_none() {
        assert!(Estimate::new(1.0, 0.5, 2.0).is_ok());
        for (value, low, high) in
            [(0.0, 1.0, 2.0), (3.0, 1.0, 2.0), (f64::NAN, 0.0, 1.0), (1.0, 0.0, f64::INFINITY)]
        {
            assert_eq!(Estimate::new(value, low, high), Err(Unknown::NotANumber));
        }
    }

    #[test]
    fn no_trials_tell_nothing() {
        assert_eq!(Estimate::of_share(0, 0), Err(Unknown::TooFew { have: 0, need: 1 }));
        assert_eq!(Estimate::of_share(2, 1), Err(Unknown::NotANumber));
    }

    #[test]
    fn functions_keep_the_order() {
        let estimate = Estimate::new(0.5, 0.25, 1.0).unwrap();
        assert_eq!(estimate.rising(|x| 2.0 * x), Estimate::new(1.0, 0.5, 2.0));
        assert_eq!(estimate.falling(|x| 1.0 - x), Estimate::new(0.5, 0.0, 0.75));
    }
}
