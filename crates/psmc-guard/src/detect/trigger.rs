//! What is usual for a signal of a service, learned while nothing is wrong, and whether there is too much of it for long
//! enough.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// From where on there is too much, and below what it is calm again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// More than this is too much.
    pub alarm: f64,
    /// Less than this is calm.
    pub calm: f64,
}

impl Limit {
    /// A limit that was learned: calm is half of it, above what is usual.
    #[must_use]
    pub fn learned(alarm: f64) -> Self {
        Self { alarm, calm: alarm / 2.0 }
    }

    /// A limit that a person has fixed, who may have it close to what is usual.
    #[must_use]
    pub fn fixed(alarm: f64) -> Self {
        Self { alarm, calm: alarm * 0.8 }
    }
}

/// Counts the time above a limit, and the time of calm.
///
/// ```text
///            PRESSURE of excess                    calm for long enough
///   quiet ────────────────────────▶ raised ──────────────────────────────▶ quiet
/// ```
///
/// Excess fades at an eighth of the speed at which it gathers. A single burst fades; pulses that come again and again, an
/// eighth of the time and more, add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trigger {
    excess: Duration,
    calm: Duration,
    smooth: f64,
    is_raised: bool,
}

/// How long it must be too much: five samples of 100 ms, even if one of them is a little short. A burst that TCP sends
/// on a line of a second's round trip is over by then.
const PRESSURE: Duration = Duration::from_millis(450);

/// More than two samples' worth of excess is not believed of one sample, however late it comes.
const MOST_AT_ONCE: Duration = Duration::from_millis(200);

/// The excess that gathers at most: a raised trigger forgets it soon enough.
const MOST_EXCESS: Duration = Duration::from_millis(900);

/// How slowly excess fades.
const FADING: u32 = 8;

/// Calm is judged on averages over this time: single packets are no storm.
const SMOOTH: Duration = Duration::from_secs(1);

impl Trigger {
    /// Takes a value that has held for `elapsed`. Raised ends after `calm` without a storm.
    pub fn handle_value(&mut self, value: f64, limit: Limit, elapsed: Duration, calm: Duration) {
        self.smooth += (value - self.smooth) * share(elapsed, SMOOTH);
        if value > limit.alarm {
            self.excess = (self.excess + elapsed.min(MOST_AT_ONCE)).min(MOST_EXCESS);
        } else {
            self.excess = self.excess.saturating_sub(elapsed / FADING);
        }
        self.calm = if self.smooth < limit.calm { self.calm + elapsed } else { Duration::ZERO };
        if self.is_raised {
            self.is_raised = self.calm < calm;
            if !self.is_raised {
                self.excess = Duration::ZERO;
            }
        } else {
            self.is_raised = self.excess >= PRESSURE;
        }
    }

    /// Whether there has been too much, and not calm since.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.is_raised
    }

    /// Whether nothing has been too much lately: what is seen may be learned.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        !self.is_raised && self.excess.is_zero()
    }

    /// The value, averaged over a second.
    #[must_use]
    pub fn smooth(&self) -> f64 {
        self.smooth
    }
}

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
fn share(elapsed: Duration, time_constant: Duration) -> f64 {
    -(-elapsed.as_secs_f64() / time_constant.as_secs_f64()).exp_m1()
}
