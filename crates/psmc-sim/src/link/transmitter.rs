//! What sends the packets of a queue, one after another: when each has left.
//!
//! Logical time inside a link.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::Rate;
use super::trace::{OPPORTUNITY_BYTES, Trace};

/// Sends one packet at a time.
#[derive(Debug)]
pub(crate) struct Transmitter {
    pace: Pace,
    free_at: Nanos,
}

/// A rate, and what the last packet has left of a step of it.
#[derive(Debug)]
enum Pace {
    Unlimited,
    Fixed(Fixed),
    Trace(Replay),
}

/// Bits per second. Times are whole nanoseconds; what a packet has yet to send in its last one is owed, and sent
/// before the next packet, so that the rate is exact in the long run.
#[derive(Debug)]
struct Fixed {
    rate: u64,
    owed: Work,
}

/// A trace, which has begun at `start`.
#[derive(Debug)]
struct Replay {
    trace: Arc<Trace>,
    start: Nanos,
    /// The first opportunity that is not used.
    next: u64,
    /// Bytes that the opportunity before it still has.
    left: u64,
}

/// Something to send, in 10^-9 bit: as many leave in a nanosecond as the rate has bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Work(u128);

impl Transmitter {
    /// At this rate, free since `now`; a trace begins then.
    pub(crate) fn new(rate: &Rate, now: Nanos) -> Self {
        Self { pace: Pace::new(rate, now), free_at: now }
    }

    /// When what it was given last has left.
    pub(crate) fn free_at(&self) -> Nanos {
        self.free_at
    }

    /// Begins to send a packet at `now` or, if it is still busy then, as soon as it is free.
    pub(crate) fn send(&mut self, len: usize, now: Nanos) {
        if now > self.free_at {
            self.pace.rest();
            self.free_at = now;
        }
        self.free_at = self.pace.send(Work::of_bytes(len as u64), self.free_at);
    }

    /// Goes on at another rate. What is left of a packet that is being sent leaves at that one.
    pub(crate) fn set_rate(&mut self, rate: &Rate, now: Nanos) {
        let unsent = (self.free_at > now).then(|| self.pace.unsent(now, self.free_at));
        self.pace = Pace::new(rate, now);
        if let Some(unsent) = unsent {
            self.free_at = self.pace.send(unsent, now);
        }
    }

    /// Forgets what it was sending.
    pub(crate) fn stop(&mut self, now: Nanos) {
        self.pace.rest();
        self.free_at = self.free_at.min(now);
    }

    /// How many bytes can leave after `from` until `to`.
    pub(crate) fn capacity(&self, from: Nanos, to: Nanos) -> u64 {
        match &self.pace {
            Pace::Unlimited => u64::MAX,
            Pace::Fixed(fixed) => Work(u128::from(to.since(from).0) * u128::from(fixed.rate)).bytes(),
            Pace::Trace(replay) => replay.opportunities(from, to).saturating_mul(OPPORTUNITY_BYTES),
        }
    }
}

impl Pace {
    fn new(rate: &Rate, now: Nanos) -> Self {
        match rate {
            Rate::Unlimited => Self::Unlimited,
            Rate::Fixed(rate) => Self::Fixed(Fixed { rate: (*rate).max(1), owed: Work::default() }),
            Rate::Trace(trace) => {
                Self::Trace(Replay { trace: Arc::clone(trace), start: now, next: 0, left: 0 })
            }
        }
    }

    /// Nothing was to be sent for a while: what a step has left is gone.
    fn rest(&mut self) {
        match self {
            Self::Unlimited => {}
            Self::Fixed(fixed) => fixed.owed = Work::default(),
            Self::Trace(replay) => replay.left = 0,
        }
    }

    /// When `work` that begins at `from` is done.
    fn send(&mut self, work: Work, from: Nanos) -> Nanos {
        match self {
            Self::Unlimited => from,
            Self::Fixed(fixed) => fixed.send(work, from),
            Self::Trace(replay) => replay.send(work, from),
        }
    }

    /// What is not done at `now` of the work that will be at `end`, which is later.
    fn unsent(&self, now: Nanos, end: Nanos) -> Work {
        match self {
            Self::Unlimited => Work::default(),
            Self::Fixed(fixed) => Work(u128::from(end.since(now).0) * u128::from(fixed.rate) + fixed.owed.0),
            Self::Trace(replay) => replay.unsent(now),
        }
    }
}

impl Fixed {
    fn send(&mut self, work: Work, from: Nanos) -> Nanos {
        let total = work.0 + self.owed.0;
        let rate = u128::from(self.rate);
        self.owed = Work(total % rate);
        from.after(Nanos(u64::try_from(total / rate).unwrap_or(u64::MAX)))
    }
}

impl Replay {
    fn send(&mut self, work: Work, from: Nanos) -> Nanos {
        let bytes = work.bytes_begun();
        let Some(beyond) = bytes.checked_sub(self.left).filter(|&beyond| beyond > 0) else {
            self.left -= bytes;
            return from;
        };
        let needed = beyond.div_ceil(OPPORTUNITY_BYTES);
        self.left = needed * OPPORTUNITY_BYTES - beyond;
        let first = self.next.max(self.trace.opportunities_before(from.since(self.start)));
        self.next = first.saturating_add(needed);
        self.start.after(self.trace.opportunity(self.next - 1))
    }

    fn unsent(&self, now: Nanos) -> Work {
        let ahead = self.next.saturating_sub(self.opportunities_until(now));
        Work::of_bytes((ahead * OPPORTUNITY_BYTES).saturating_sub(self.left))
    }

    /// How many opportunities there are after `from` until `to`.
    fn opportunities(&self, from: Nanos, to: Nanos) -> u64 {
        self.opportunities_until(to).saturating_sub(self.opportunities_until(from))
    }

    /// How many opportunities there have been at `at`, one at that moment included.
    fn opportunities_until(&self, at: Nanos) -> u64 {
        self.trace.opportunities_before(at.since(self.start).after(Nanos(1)))
    }
}

impl Work {
    const PER_BYTE: u64 = 8_000_000_000;

    fn of_bytes(bytes: u64) -> Self {
        Self(u128::from(bytes) * u128::from(Self::PER_BYTE))
    }

    /// Whole bytes.
    fn bytes(self) -> u64 {
        u64::try_from(self.0 / u128::from(Self::PER_BYTE)).unwrap_or(u64::MAX)
    }

    /// Bytes, one of which only a part is left counted in full.
    fn bytes_begun(self) -> u64 {
        u64::try_from(self.0.div_ceil(u128::from(Self::PER_BYTE))).unwrap_or(u64::MAX)
    }
}

/// Nanoseconds since a link began. They last for 584 years; sums that would be later stay at the end of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Nanos(pub(crate) u64);

impl Nanos {
    /// So much later.
    pub(crate) fn after(self, later: Self) -> Self {
        Self(self.0.saturating_add(later.0))
    }

    /// The time from `earlier` to this one; zero if it is the other way round.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Rounded down; zero if it is negative.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast from a float stays within the integer's bounds"
    )]
    pub(crate) fn from_float(nanos: f64) -> Self {
        Self(nanos as u64)
    }

    /// To calculate with.
    pub(crate) fn to_float(self) -> f64 {
        self.0 as f64
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

/// Between the time of drivers and that of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// Logical time begins at `start`.
    pub(crate) fn new(start: Instant) -> Self {
        Self { start }
    }

    /// What was before the start is at it.
    pub(crate) fn nanos(self, at: Instant) -> Nanos {
        at.saturating_duration_since(self.start).into()
    }

    /// The reverse. No packet lives long enough for the sum to overflow.
    pub(crate) fn instant(self, at: Nanos) -> Instant {
        self.start + Duration::from(at)
    }
}
