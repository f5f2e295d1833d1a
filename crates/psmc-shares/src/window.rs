//! What was measured of a class in a sampling period.

use std::time::Duration;

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// From its arrival to its place at a server.
    pub waiting: Duration,
    /// From there to its answer.
    pub service: Duration,
}

/// Counts and sums of a class, since they were last [taken](Self::take).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Requests that have come.
    pub arrivals: u64,
    samples: u64,
    /// Seconds.
    waiting: f64,
    /// Seconds.
    service: f64,
}

/// Means of the requests of a class that were answered in a sampling period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// How many there were; at least one.
    pub samples: u64,
    /// From arrival to a place at a server.
    pub waiting: Duration,
    /// From there to the answer.
    pub service: Duration,
    /// The sum of both.
    pub response: Duration,
    /// All response times over all service times. The mean of each request's quotient has no bound where short requests wait.
    pub slowdown: f64,
}

/// What ratios are held of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// The time from a request's arrival to its answer, as the seed has it (eq. 6.1).
    #[default]
    ResponseTime,
    /// That over the time which the server takes: whoever asks for little waits little.
    Slowdown,
}

impl Sample {
    /// From its arrival to its answer.
    #[must_use]
    pub fn response(&self) -> Duration {
        self.waiting + self.service
    }
}

impl Window {
    /// A request has been answered.
    pub fn answered(&mut self, sample: Sample) {
        self.samples += 1;
        self.waiting += sample.waiting.as_secs_f64();
        self.service += sample.service.as_secs_f64();
    }

    /// How many were answered.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The means; `None` if nothing was answered.
    #[must_use]
    pub fn means(&self) -> Option<Means> {
        if self.samples == 0 {
            return None;
        }
        let mean = |sum: f64| Duration::from_secs_f64(sum / self.samples as f64);
        let (waiting, service) = (mean(self.waiting), mean(self.service));
        let slowdown = (self.waiting + self.service) / self.service.max(f64::MIN_POSITIVE);
        Some(Means { samples: self.samples, waiting, service, response: waiting + service, slowdown })
    }

    /// Begins anew.
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }
}

impl Means {
    /// What is held in ratios: seconds, or a quotient.
    #[must_use]
    pub fn of(&self, measure: Measure) -> f64 {
        match measure {
            Measure::ResponseTime => self.response.as_secs_f64(),
            Measure::Slowdown => self.slowdown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_what_was_answered() {
        let mut window = Window { arrivals: 7, ..Window::default() };
        assert_eq!(window.means(), None);
        for (waiting, service) in [(10, 10), (30, 20)] {
            let [waiting, service] = [waiting, service].map(Duration::from_millis);
            window.answered(Sample { waiting, service });
        }
        let means = window.take().means().unwrap();
        assert_eq!((means.samples, means.waiting, means.response), (2, ms(20), ms(35)));
        assert!((means.slowdown - 70.0 / 30.0).abs() < 1e-9);
        assert!((means.of(Measure::ResponseTime) - 0.035).abs() < 1e-9);
        assert_eq!(window, Window::default());
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }
}
