//! Who asks: when requests of a class come, and what they ask for.

use std::time::Duration;

use crate::link::Dice;

/// A class of requests.
#[derive(Clone, Debug)]
pub struct ClassSetup {
    /// How many come in a second, on average.
    pub rate: f64,
    /// When.
    pub arrivals: Arrivals,
    /// What they ask for.
    pub work: Work,
}

/// When requests come.
#[derive(Clone, Copy, Debug)]
pub enum Arrivals {
    /// One apart from the other: a Poisson process.
    Poisson,
    /// The same, at a rate that is now higher, now lower, for exponentially distributed times of this mean.
    Bursty {
        /// How much above and below the average, as a share of it.
        swing: f64,
        /// How long each lasts on average.
        mean: Duration,
    },
}

/// Seconds of a processor of speed 1.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// All ask for as much.
    Constant(f64),
    /// Exponentially distributed, with this mean.
    Exponential(f64),
    /// Bounded Pareto: a few ask for most of the time.
    HeavyTailed {
        /// The mean.
        mean: f64,
        /// The less, the more of the time is asked for by few.
        shape: f64,
        /// The most over the least that is asked for.
        range: f64,
    },
}

/// A class in motion.
pub(super) struct Source {
    setup: ClassSetup,
    dice: Dice,
    factor: f64,
    /// When the next one comes, unless the rate changes before.
    next: Option<Duration>,
    /// Whether the rate is high, and until when it is what it is.
    burst: Option<(bool, Duration)>,
}

impl Source {
    pub(super) fn new(setup: ClassSetup, seed: u64) -> Self {
        Self { setup, dice: Dice::new(seed), factor: 1.0, next: None, burst: None }
    }

    /// `place` is where of a burst and its pause it begins, from 0 to 1.
    pub(super) fn begin(&mut self, place: f64) {
        if let Arrivals::Bursty { mean, .. } = self.setup.arrivals {
            self.burst = Some((place < 0.5, self.exponential(mean.as_secs_f64())));
        }
        self.draw(Duration::ZERO);
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<Duration> {
        let change = self.burst.map(|(_, until)| until);
        [self.next, change].into_iter().flatten().min()
    }

    /// What one that comes now asks for, unless it is only the rate that changes.
    pub(super) fn arrive(&mut self, now: Duration) -> Option<f64> {
        if let Some((is_high, until)) = self.burst
            && now >= until
            && let Arrivals::Bursty { mean, .. } = self.setup.arrivals
        {
            self.burst = Some((!is_high, now + self.exponential(mean.as_secs_f64())));
            // A Poisson process has no memory: the next one is drawn anew.
            self.draw(now);
            return None;
        }
        self.draw(now);
        Some(self.work())
    }

    /// From now on this multiple of the rate comes.
    pub(super) fn scale(&mut self, factor: f64, now: Duration) {
        self.factor = factor;
        self.draw(now);
    }

    fn draw(&mut self, now: Duration) {
        let rate = self.setup.rate * self.factor * self.swing();
        self.next = (rate > 0.0).then(|| now + self.exponential(1.0 / rate));
    }

    fn swing(&self) -> f64 {
        match (self.setup.arrivals, self.burst) {
            (Arrivals::Bursty { swing, .. }, Some((true, _))) => 1.0 + swing,
            (Arrivals::Bursty { swing, .. }, Some((false, _))) => 1.0 - swing,
            (Arrivals::Poisson | Arrivals::Bursty { .. }, _) => 1.0,
        }
    }

    fn work(&mut self) -> f64 {
        match self.setup.work {
            Work::Constant(work) => work,
            Work::Exponential(mean) => self.exponential(mean).as_secs_f64(),
            Work::HeavyTailed { mean, shape, range } => {
                // The least, from the mean of a bounded Pareto distribution.
                let all = 1.0 - range.powf(-shape);
                let least = mean * all * (shape - 1.0) / (shape * (1.0 - range.powf(1.0 - shape)));
                least * (1.0 - self.dice.uniform() * all).powf(-1.0 / shape)
            }
        }
    }

    fn exponential(&mut self, mean: f64) -> Duration {
        Duration::from_secs_f64(-mean * (1.0 - self.dice.uniform()).ln())
    }
}
