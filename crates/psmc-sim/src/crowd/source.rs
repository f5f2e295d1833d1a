//! Who sends: applications that are on and off, and TCP below them.

use std::collections::BTreeSet;
use std::time::Duration;

use super::OnOffSetup;
use crate::link::Dice;

/// An application that has a packet at equal gaps while it is on.
pub(super) struct OnOff {
    setup: OnOffSetup,
    /// Until when it is on.
    until: Duration,
}

/// What an application does next.
pub(super) struct Next {
    /// Whether it has a packet at once.
    pub(super) is_packet: bool,
    /// When it is to be asked again.
    pub(super) at: Duration,
}

impl OnOff {
    /// Off until it is first asked.
    pub(super) fn new(setup: OnOffSetup, now: Duration) -> Self {
        Self { setup, until: now }
    }

    pub(super) fn tick(&mut self, dice: &mut Dice, now: Duration) -> Next {
        if now >= self.until {
            // A pause is over, and the next time on begins.
            self.until = now + self.pareto(self.setup.on, dice);
        }
        let gap = Duration::from_secs_f64(1.0 / self.setup.rate);
        let next = now + gap;
        let at =
            if next < self.until { next } else { self.until.max(next) + self.pareto(self.setup.off, dice) };
        Next { is_packet: true, at }
    }

    /// A random time of this mean.
    fn pareto(&self, mean: Duration, dice: &mut Dice) -> Duration {
        let shape = self.setup.shape;
        let least = mean.mul_f64((shape - 1.0) / shape);
        // 1 − u is never 0. Beyond a day nothing is simulated.
        let factor = (1.0 - dice.uniform()).powf(-1.0 / shape);
        least.mul_f64(factor.min(1e6))
    }
}

/// Both ends of a TCP connection in packets: NewReno (RFC 6582) with slow start, and timers by RFC 6298.
pub(super) struct Connection {
    /// Packets that the application has given.
    given: u64,
    /// The next to be sent, the first that is not acknowledged, and the first that was never sent.
    next: u64,
    first: u64,
    fresh: u64,
    window: f64,
    threshold: f64,
    duplicates: u32,
    /// Fast recovery lasts until this is acknowledged.
    recovers: Option<u64>,
    again: Option<u64>,
    /// A packet whose round trip is measured, and since when.
    timed: Option<(u64, Duration)>,
    round_trip: Option<(Duration, Duration)>,
    backoff: u32,
    deadline: Option<Duration>,
    /// There is a timer, which may run out before the deadline; or one is to be planned.
    has_timer: bool,
    expected: u64,
    /// What the receiver has got beyond.
    beyond: BTreeSet<u64>,
}

/// The window that a receiver offers, in packets: ns-2's default, which the literature's simulations have.
const RECEIVER: f64 = 20.0;

/// Before there is a round trip (RFC 6298 §2.1 before 2011, and ns-2).
const FIRST_TIMEOUT: Duration = Duration::from_secs(3);

/// As Linux and ns-2 have it.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Beyond this a timeout is the longest anyway.
const MOST_BACKOFF: u32 = 8;

/// Duplicate acknowledgements that say that a packet is lost (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;

impl Default for Connection {
    fn default() -> Self {
        Self {
            given: 0,
            next: 0,
            first: 0,
            fresh: 0,
            window: 2.0,
            threshold: RECEIVER,
            duplicates: 0,
            recovers: None,
            again: None,
            timed: None,
            round_trip: None,
            backoff: 0,
            deadline: None,
            has_timer: false,
            expected: 0,
            beyond: BTreeSet::new(),
        }
    }
}

impl Connection {
    /// The application has so many packets more.
    pub(super) fn give(&mut self, packets: u64) {
        self.given += packets;
    }

    /// The next packet that is to be sent now, by its number.
    pub(super) fn poll_transmit(&mut self, now: Duration) -> Option<u64> {
        if let Some(again) = self.again.take() {
            return Some(again);
        }
        let flight = (self.next - self.first) as f64;
        if self.next >= self.given || flight + 1.0 > self.window.min(RECEIVER) {
            return None;
        }
        let number = self.next;
        self.next += 1;
        if number >= self.fresh {
            self.fresh = self.next;
            self.timed.get_or_insert((number, now));
        }
        self.deadline.get_or_insert(now + self.timeout());
        Some(number)
    }

    /// When a timer must be planned; nothing if there is one, or none is needed.
    pub(super) fn new_timer(&mut self) -> Option<Duration> {
        let at = self.deadline.filter(|_| !self.has_timer)?;
        self.has_timer = true;
        Some(at)
    }

    /// A timer has run out. If that was too early, says when the next one must.
    pub(super) fn timer(&mut self, now: Duration) -> Option<Duration> {
        self.has_timer = false;
        let deadline = self.deadline?;
        if deadline > now {
            self.has_timer = true;
            return Some(deadline);
        }
        self.threshold = self.half();
        self.window = 1.0;
        self.next = self.first;
        self.duplicates = 0;
        self.recovers = None;
        self.timed = None;
        self.backoff = (self.backoff + 1).min(MOST_BACKOFF);
        self.deadline = None;
        None
    }

    /// The receiver has got a packet; says what it waits for.
    pub(super) fn receive(&mut self, number: u64) -> u64 {
        if number >= self.expected {
            self.beyond.insert(number);
        }
        while self.beyond.remove(&self.expected) {
            self.expected += 1;
        }
        self.expected
    }

    /// Everything before this number has come.
    pub(super) fn acknowledged(&mut self, before: u64, now: Duration) {
        if before > self.first {
            self.progress(before, now);
        } else if before == self.first && self.next > self.first {
            self.duplicates += 1;
            if self.duplicates == DUPLICATES && self.recovers.is_none() {
                self.threshold = self.half();
                self.window = self.threshold;
                self.recovers = Some(self.next);
                self.again = Some(self.first);
                self.timed = None;
            }
        }
    }

    fn progress(&mut self, before: u64, now: Duration) {
        if let Some((number, since)) = self.timed
            && number < before
        {
            self.measured(now - since);
            self.timed = None;
        }
        match self.recovers {
            Some(until) if before < until => self.again = Some(before),
            Some(_) => self.recovers = None,
            None if self.window < self.threshold => self.window += 1.0,
            None => self.window += 1.0 / self.window,
        }
        self.window = self.window.min(RECEIVER);
        self.first = before;
        self.next = self.next.max(before);
        self.duplicates = 0;
        self.backoff = 0;
        self.deadline = (self.next > before).then(|| now + self.timeout());
    }

    /// RFC 6298 §2.
    fn measured(&mut self, sample: Duration) {
        self.round_trip = Some(match self.round_trip {
            None => (sample, sample / 2),
            Some((mean, variation)) => (
                mean.mul_f64(0.875) + sample.mul_f64(0.125),
                variation.mul_f64(0.75) + mean.abs_diff(sample).mul_f64(0.25),
            ),
        });
    }

    fn timeout(&self) -> Duration {
        let base = self.round_trip.map_or(FIRST_TIMEOUT, |(mean, variation)| mean + 4 * variation);
        base.max(LEAST_TIMEOUT).saturating_mul(1 << self.backoff).min(LONGEST_TIMEOUT)
    }

    /// Half of what is on its way, and two at least (RFC 5681 §3.1).
    fn half(&self) -> f64 {
        ((self.next - self.first) as f64 / 2.0).max(2.0)
    }
}
