//! A server: processors shared evenly by what it has at once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{RequestId, ServerSetup};

/// A server in motion. What it has advances alike, so one number says how far: the work that each has had since the beginning.
pub(super) struct Server {
    setup: ServerSetup,
    /// Nanoseconds of work that each has had.
    had: f64,
    /// When that was.
    at: Duration,
    /// At how much of it which request is answered.
    ends: BTreeSet<(Work, RequestId)>,
}

/// Nanoseconds of work, whole so that they are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work(u64);

impl Server {
    pub(super) fn new(setup: ServerSetup) -> Self {
        Self { setup, had: 0.0, at: Duration::ZERO, ends: BTreeSet::new() }
    }

    /// It has one more request, which asks for so many seconds of work.
    pub(super) fn start(&mut self, id: RequestId, work: f64, now: Duration) {
        self.progress(now);
        self.ends.insert((Work::from_nanoseconds(self.had + work * NANOSECONDS), id));
    }

    pub(super) fn set_speed(&mut self, speed: f64, now: Duration) {
        self.progress(now);
        self.setup.speed = speed;
    }

    /// When the next one is answered.
    pub(super) fn next(&self, now: Duration) -> Option<Duration> {
        let (Work(end), _) = self.ends.first()?;
        let left = (*end as f64 - self.had).max(0.0) / NANOSECONDS;
        Some((self.at + Duration::from_secs_f64(left / self.speed()) + NANOSECOND).max(now))
    }

    /// What is answered by then.
    pub(super) fn advance(&mut self, now: Duration) -> Vec<RequestId> {
        self.progress(now);
        let mut answered = Vec::new();
        while let Some((Work(end), id)) = self.ends.first().copied()
            && end as f64 <= self.had
        {
            self.ends.pop_first();
            answered.push(id);
        }
        answered
    }

    fn progress(&mut self, now: Duration) {
        self.had += now.saturating_sub(self.at).as_secs_f64() * self.speed() * NANOSECONDS;
        self.at = now;
    }

    /// Of each that it has: seconds of work in a second.
    fn speed(&self) -> f64 {
        let ServerSetup { processors, speed } = self.setup;
        (processors / self.ends.len().max(1) as f64).min(1.0) * speed
    }
}

const NANOSECONDS: f64 = 1e9;

/// Times are whole nanoseconds: what is rounded up is over for sure.
const NANOSECOND: Duration = Duration::from_nanos(1);

impl Work {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "nothing is simulated for centuries"
    )]
    fn from_nanoseconds(nanoseconds: f64) -> Self {
        Self(nanoseconds.max(0.0) as u64)
    }
}
