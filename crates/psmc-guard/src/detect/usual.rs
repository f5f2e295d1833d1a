//! What is usual for a signal of a service, learned while nothing is wrong.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What is usual: the level, and the highest that occurs.
///
/// The highest rises towards larger values within half a minute, and sinks towards smaller ones over a day. So it is
/// close to the largest value of the day, a night does not make it forget the day, and one outlier does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usual {
    /// The average of the last minutes.
    pub level: f64,
    /// The highest that occurs, but for outliers.
    pub high: f64,
    /// For how many seconds it has been learned.
    pub learned_s: f64,
}

/// The time constant of the level.
const LEVEL: Duration = Duration::from_secs(120);

/// The time constant with which the highest rises: a crowd that doubles in a minute is followed, a flood that takes
/// seconds is not.
const RISE: Duration = Duration::from_secs(30);

/// The same while nothing is known yet.
const FIRST_RISE: Duration = Duration::from_secs(1);

/// The time constant with which it sinks: a day, so that each day finds the last one's highest.
const FALL: Duration = Duration::from_secs(86_400);

impl Usual {
    /// Learns from a value that has held for `elapsed`.
    pub fn learn(&mut self, value: f64, elapsed: Duration, is_first_time: bool) {
        if self.learned_s == 0.0 {
            (self.level, self.high) = (value, value);
        }
        let (level, rise) = if is_first_time { (RISE, FIRST_RISE) } else { (LEVEL, RISE) };
        self.level += (value - self.level) * share(elapsed, level);
        let way = if value > self.high { rise } else { FALL };
        self.high += (value - self.high) * share(elapsed, way);
        self.learned_s += elapsed.as_secs_f64();
    }

    /// Whether it has been learned for so long.
    #[must_use]
    pub fn is_known(&self, learning: Duration) -> bool {
        self.learned_s >= learning.as_secs_f64()
    }

    /// Whether it can have been learned: a file may say anything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        [self.level, self.high, self.learned_s].into_iter().all(|value| value.is_finite() && value >= 0.0)
    }
}

/// How much of the way to its input an exponential average goes in a time.
pub(super) fn share(elapsed: Duration, time_constant: Duration) -> f64 {
    -(-elapsed.as_secs_f64() / time_constant.as_secs_f64()).exp_m1()
}
