//! A source of bytes, as the plan sees it: a connection to a mirror; and how fast it is.

use std::ops::Range;
use std::time::Duration;

/// Which parts of the file a source can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Serves {
    /// Any, by byte ranges.
    Parts,
    /// Only all of it from its beginning; what comes before the part that is wanted is thrown away.
    Whole,
}

/// What a source does.
///
/// ```text
///           order               all arrived
///   Idle ─────────▶ Busy ───────────────────▶ Idle
///    ▲               │ failure, stall
///    └── Resting ◀───┴──────▶ Retired
/// ```
#[derive(Clone, Debug)]
pub(super) enum State {
    Idle,
    Busy(Hold),
    Resting { until: Duration },
    Retired,
}

/// What of the bytes that have arrived counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Those that the source was to fetch; what comes after them is to be thrown away.
    pub(crate) range: Range<u64>,
    /// Whether it has nothing to fetch any more.
    pub(crate) is_last: bool,
}

/// The bytes that are a source's to fetch.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    /// What has not arrived of them.
    pub(super) rest: Range<u64>,
    ordered: Duration,
    /// When anything arrived last.
    heard: Duration,
    pub(super) gained: u64,
}

/// A source.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) serves: Serves,
    pub(super) state: State,
    meter: Meter,
    /// From an order to the first byte, the last time.
    latency: Option<Duration>,
    failures: u32,
}

impl Source {
    pub(super) fn new(serves: Serves) -> Self {
        Self { serves, state: State::Idle, meter: Meter::default(), latency: None, failures: 0 }
    }

    /// In bytes per second, or a guess.
    pub(super) fn rate(&self, now: Duration) -> f64 {
        // Never nothing: it is a divisor.
        self.meter.rate(now).unwrap_or(ASSUMED).max(1.0)
    }

    pub(super) fn is_measured(&self) -> bool {
        self.latency.is_some()
    }

    /// From an order to the first byte, in seconds, as far as it is known.
    pub(super) fn latency(&self) -> f64 {
        self.latency.unwrap_or_default().as_secs_f64()
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    pub(super) fn is_retired(&self) -> bool {
        matches!(self.state, State::Retired)
    }

    pub(super) fn hold(&self) -> Option<&Hold> {
        match &self.state {
            State::Busy(hold) => Some(hold),
            State::Idle | State::Resting { .. } | State::Retired => None,
        }
    }

    pub(super) fn hold_mut(&mut self) -> Option<&mut Hold> {
        match &mut self.state {
            State::Busy(hold) => Some(hold),
            State::Idle | State::Resting { .. } | State::Retired => None,
        }
    }

    pub(super) fn give(&mut self, range: Range<u64>, now: Duration) {
        self.meter.start(now);
        self.state = State::Busy(Hold { rest: range, ordered: now, heard: now, gained: 0 });
    }

    /// Takes up to so many bytes into account. It is idle after the last that was its to fetch.
    pub(super) fn take(&mut self, bytes: u64, now: Duration) -> Taken {
        let State::Busy(hold) = &mut self.state else { return Taken { range: 0..0, is_last: true } };
        let end = hold.rest.end.min(hold.rest.start.saturating_add(bytes));
        let range = hold.rest.start..end;
        let count = end - range.start;
        if hold.gained == 0 && count > 0 {
            self.latency = Some(now.saturating_sub(hold.ordered));
        }
        hold.heard = now;
        hold.rest.start = end;
        hold.gained += count;
        let is_last = hold.rest.is_empty();
        self.meter.add(count, now);
        if is_last {
            self.failures = 0;
            self.release(State::Idle, now);
        }
        Taken { range, is_last }
    }

    /// Takes all of its bytes from it; what it did not fetch is returned.
    pub(super) fn release(&mut self, next: State, now: Duration) -> Option<Range<u64>> {
        self.meter.stop(now);
        match std::mem::replace(&mut self.state, next) {
            State::Busy(hold) => Some(hold.rest),
            State::Idle | State::Resting { .. } | State::Retired => None,
        }
    }

    /// It has failed: it rests, for so long at least, or is given up.
    pub(super) fn fail(&mut self, after: Option<Duration>, now: Duration) -> Option<Range<u64>> {
        if self.is_retired() {
            return None;
        }
        if self.hold().is_some_and(|hold| hold.gained >= WORTH) {
            self.failures = 0;
        }
        self.failures += 1;
        let rest = REST.saturating_mul(1 << (self.failures - 1).min(8)).min(LONGEST_REST);
        let rest = rest.max(after.unwrap_or_default());
        let is_over = self.failures >= MOST_FAILURES;
        self.release(if is_over { State::Retired } else { State::Resting { until: now + rest } }, now)
    }

    /// When it counts as stalled, if no byte arrives before.
    pub(super) fn stalls_at(&self) -> Option<Duration> {
        Some(self.hold()?.heard + self.patience())
    }

    /// Whether others may take bytes from it: not while its answer can still be on the way.
    pub(super) fn may_be_robbed(&self, now: Duration) -> bool {
        let Some(hold) = self.hold() else { return false };
        self.serves == Serves::Parts && (hold.gained > 0 || now >= hold.ordered + self.patience() / 2)
    }

    fn patience(&self) -> Duration {
        self.latency.map_or(STALL, |latency| STALL.max(latency * STALL_LATENCIES))
    }
}

/// The rate of a source over the time in which something was asked of it. What is long ago counts less and less.
#[derive(Clone, Debug, Default)]
struct Meter {
    bytes: f64,
    seconds: f64,
    /// Up to when both are counted, while something is asked of it.
    counted: Option<Duration>,
}

impl Meter {
    /// Something is asked.
    fn start(&mut self, now: Duration) {
        self.counted = Some(now);
    }

    /// Bytes have arrived.
    fn add(&mut self, bytes: u64, now: Duration) {
        self.advance(now);
        self.bytes += bytes as f64;
    }

    /// Nothing is asked any more.
    fn stop(&mut self, now: Duration) {
        self.advance(now);
        self.counted = None;
    }

    /// In bytes per second; `None` if nothing is known.
    fn rate(&self, now: Duration) -> Option<f64> {
        let mut meter = self.clone();
        meter.advance(now);
        (meter.seconds > 0.0 && meter.bytes > 0.0).then(|| meter.bytes / meter.seconds)
    }

    fn advance(&mut self, now: Duration) {
        let Some(counted) = self.counted else { return };
        let kept = (-now.saturating_sub(counted).as_secs_f64() / MEMORY).exp();
        self.bytes *= kept;
        self.seconds = self.seconds * kept + MEMORY * (1.0 - kept);
        self.counted = Some(now.max(counted));
    }
}

/// After so long without a byte a source has stalled, if it is not known to answer late.
const STALL: Duration = Duration::from_secs(5);

/// It has stalled in any case after so many times what its first byte took the last time.
const STALL_LATENCIES: u32 = 5;

/// How long a source that has failed is left alone at first. It doubles with each failure.
const REST: Duration = Duration::from_millis(500);

/// It is asked again after this time at the latest: people wait.
const LONGEST_REST: Duration = Duration::from_secs(15);

/// So many failures in succession without anything worth mentioning, and it is given up: a minute and a half in all.
const MOST_FAILURES: u32 = 8;

/// What counts as something worth mentioning: a source that breaks off after so much is slow, but it works.
const WORTH: u64 = 64 << 10;

/// Until a source has been measured it is taken to carry so many bytes per second.
const ASSUMED: f64 = 256.0 * 1024.0;

/// Over what time bytes are averaged, in seconds: long enough for several round trips, short enough that a source that
/// has fallen silent soon looks slow.
const MEMORY: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(seconds: u32) -> Meter {
        let mut meter = Meter::default();
        meter.start(Duration::ZERO);
        for number in 1..=seconds * 100 {
            meter.add(1000, SECOND * number / 100);
        }
        meter
    }

    #[test]
    fn a_steady_rate_is_seen_from_the_start() {
        for seconds in [1, 10] {
            let rate = after(seconds).rate(SECOND * seconds).unwrap();
            assert!((rate / 100_000.0 - 1.0).abs() < 0.01, "{rate} after {seconds} s");
        }
        assert_eq!(Meter::default().rate(SECOND), None);
    }

    #[test]
    fn silence_counts_if_something_is_asked() {
        let mut meter = after(4);
        let slow = meter.rate(SECOND * 8).unwrap();
        assert!(slow < 20_000.0, "{slow}");
        meter.stop(SECOND * 4);
        assert_eq!(meter.rate(SECOND * 4), meter.rate(SECOND * 100));
    }
}
