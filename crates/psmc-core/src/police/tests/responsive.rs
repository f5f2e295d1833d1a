//! Senders that heed losses, as simple as they can be and still do so.

use std::collections::VecDeque;
use std::time::Duration;

use super::Facts;
use super::bottleneck::{PACKET, Source};

/// The window of a TCP connection, whatever its growth: slow start, one decrease a round trip, a timeout with back-off where too
/// little is on its way to tell a loss otherwise.
struct Window {
    facts: Facts,
    round_trip: Duration,
    size: f64,
    threshold: f64,
    in_flight: u32,
    recovers_until: Duration,
    silent_until: Duration,
    backoff: u32,
}

impl Window {
    fn new(facts: Facts, round_trip: Duration) -> Self {
        Self {
            facts,
            round_trip,
            size: 10.0,
            threshold: f64::MAX,
            in_flight: 0,
            recovers_until: Duration::ZERO,
            silent_until: Duration::ZERO,
            backoff: 0,
        }
    }

    fn poll(&mut self, now: Duration) -> (Option<Facts>, Option<Duration>) {
        if now < self.silent_until {
            return (None, Some(self.silent_until));
        }
        if f64::from(self.in_flight) >= self.size.floor().max(1.0) {
            return (None, None);
        }
        self.in_flight += 1;
        (Some(self.facts), None)
    }

    /// Whether the window has to be reduced to a share.
    fn settle(&mut self, arrived: bool, share: f64, now: Duration) -> bool {
        self.in_flight = self.in_flight.saturating_sub(1);
        if arrived {
            self.backoff = 0;
            return false;
        }
        if now < self.recovers_until {
            return false;
        }
        self.recovers_until = now + self.round_trip;
        self.threshold = (self.size * share).max(2.0);
        if self.size < 4.0 {
            let timeout = (self.round_trip * 2).max(Duration::from_millis(200)) * (1 << self.backoff.min(6));
            self.backoff += 1;
            self.silent_until = now + timeout;
            self.recovers_until = self.silent_until + self.round_trip;
            self.size = 1.0;
        } else {
            self.size = self.threshold;
        }
        true
    }
}

/// RFC 5681.
pub(super) struct Reno(Window);

impl Reno {
    pub(super) fn new(facts: Facts, round_trip: Duration) -> Self {
        Self(Window::new(facts, round_trip))
    }
}

impl Source for Reno {
    fn poll(&mut self, now: Duration) -> (Option<Facts>, Option<Duration>) {
        self.0.poll(now)
    }

    fn settle(&mut self, arrived: bool, now: Duration) -> bool {
        if !self.0.settle(arrived, 0.5, now) && arrived {
            let window = &mut self.0;
            window.size += if window.size < window.threshold { 1.0 } else { 1.0 / window.size };
        }
        true
    }

    fn round_trip(&self) -> Option<Duration> {
        Some(self.0.round_trip)
    }
}

/// RFC 9438.
pub(super) struct Cubic {
    window: Window,
    largest: f64,
    since: Duration,
}

impl Cubic {
    pub(super) fn new(facts: Facts, round_trip: Duration) -> Self {
        Self { window: Window::new(facts, round_trip), largest: 0.0, since: Duration::ZERO }
    }
}

impl Source for Cubic {
    fn poll(&mut self, now: Duration) -> (Option<Facts>, Option<Duration>) {
        self.window.poll(now)
    }

    fn settle(&mut self, arrived: bool, now: Duration) -> bool {
        let before = self.window.size;
        if self.window.settle(arrived, 0.7, now) {
            (self.largest, self.since) = (before, now);
        } else if arrived && self.window.size < self.window.threshold {
            self.window.size += 1.0;
        } else if arrived {
            let k = (self.largest * 0.3 / 0.4).cbrt();
            let at = (now.saturating_sub(self.since) + self.window.round_trip).as_secs_f64();
            let target = 0.4 * (at - k).powi(3) + self.largest;
            let friendly = 1.0 / self.window.size;
            let step = ((target - self.window.size) / self.window.size).min(0.5);
            self.window.size += step.max(friendly);
        }
        true
    }

    fn round_trip(&self) -> Option<Duration> {
        Some(self.window.round_trip)
    }
}

/// BBR (draft-ietf-ccwg-bbr): the largest rate of ten round trips, paced, and less in flight after a round that lost more than 2 %.
pub(super) struct Bbr {
    facts: Facts,
    round_trip: Duration,
    in_flight: u32,
    delivered: u32,
    lost: u32,
    /// Packets in flight at most.
    ceiling: f64,
    round_since: Duration,
    /// Packets per second, of the last ten round trips, and when that was.
    rates: VecDeque<(Duration, f64)>,
    full: f64,
    full_rounds: u32,
    rounds: usize,
    next_at: Duration,
}

impl Bbr {
    pub(super) fn new(facts: Facts, round_trip: Duration) -> Self {
        Self {
            facts,
            round_trip,
            in_flight: 0,
            delivered: 0,
            lost: 0,
            ceiling: f64::MAX,
            round_since: Duration::ZERO,
            rates: VecDeque::from([(Duration::ZERO, 10.0 / round_trip.as_secs_f64().max(0.001))]),
            full: 0.0,
            full_rounds: 0,
            rounds: 0,
            next_at: Duration::ZERO,
        }
    }

    fn rate(&self) -> f64 {
        self.rates.iter().map(|&(_, rate)| rate).fold(1.0, f64::max)
    }

    fn gain(&self) -> f64 {
        match (self.full_rounds, self.rounds % 8) {
            (..3, _) => 2.885,
            (3, _) => 0.35,
            (_, 0) => 1.25,
            (_, 1) => 0.75,
            (..) => 1.0,
        }
    }

    fn end_round(&mut self, now: Duration) {
        let took = now.saturating_sub(self.round_since);
        // Of fewer packets a rate would be a guess; its real samples are longer where the queue is.
        if took < self.round_trip || (self.delivered < 8 && took < Duration::from_secs(1)) {
            return;
        }
        if self.rounds == 0 {
            self.rates.clear();
        }
        self.rates.push_back((now, f64::from(self.delivered) / took.as_secs_f64()));
        let oldest = now.saturating_sub(self.round_trip * 10);
        while self.rates.len() > 1 && self.rates[0].0 < oldest {
            self.rates.pop_front();
        }
        if f64::from(self.lost) > 0.02 * f64::from(self.lost + self.delivered) {
            self.ceiling = (f64::from(self.in_flight) * 0.7).max(4.0);
            self.full_rounds = self.full_rounds.max(3);
        } else {
            self.ceiling *= 1.1;
        }
        (self.delivered, self.lost, self.round_since) = (0, 0, now);
        self.rounds += 1;
        if self.full_rounds >= 3 {
            self.full_rounds = 4;
        } else if self.rate() > self.full * 1.25 {
            (self.full, self.full_rounds) = (self.rate(), 0);
        } else {
            self.full_rounds += 1;
        }
    }
}

impl Source for Bbr {
    fn poll(&mut self, now: Duration) -> (Option<Facts>, Option<Duration>) {
        self.end_round(now);
        let most = (2.0 * self.rate() * self.round_trip.as_secs_f64()).min(self.ceiling).max(4.0);
        if f64::from(self.in_flight) >= most {
            return (None, None);
        }
        if now < self.next_at {
            return (None, Some(self.next_at));
        }
        self.in_flight += 1;
        self.next_at = now + Duration::from_secs_f64(1.0 / (self.rate() * self.gain()));
        (Some(self.facts), Some(self.next_at))
    }

    fn settle(&mut self, arrived: bool, _: Duration) -> bool {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.delivered += u32::from(arrived);
        self.lost += u32::from(!arrived);
        true
    }

    fn round_trip(&self) -> Option<Duration> {
        Some(self.round_trip)
    }
}

/// A call of 5 Mb/s that follows the losses that it hears of each second (draft-ietf-rmcat-gcc, section 6).
pub(super) struct Video {
    facts: Facts,
    round_trip: Duration,
    rate: f64,
    arrived: u32,
    lost: u32,
    heard_at: Duration,
}

/// In bits per second.
const MOST: f64 = 5e6;
const LEAST: f64 = 100e3;

impl Video {
    pub(super) fn new(facts: Facts, round_trip: Duration) -> Self {
        Self { facts, round_trip, rate: 1e6, arrived: 0, lost: 0, heard_at: Duration::ZERO }
    }
}

impl Source for Video {
    fn poll(&mut self, now: Duration) -> (Option<Facts>, Option<Duration>) {
        (Some(self.facts), Some(now + Duration::from_secs_f64(PACKET as f64 * 8.0 / self.rate)))
    }

    fn settle(&mut self, arrived: bool, now: Duration) -> bool {
        self.arrived += u32::from(arrived);
        self.lost += u32::from(!arrived);
        if now < self.heard_at + Duration::from_secs(1) {
            return false;
        }
        let loss = f64::from(self.lost) / f64::from((self.arrived + self.lost).max(1));
        if loss > 0.1 {
            self.rate *= 1.0 - loss / 2.0;
        } else if loss < 0.02 {
            self.rate *= 1.05;
        }
        self.rate = self.rate.clamp(LEAST, MOST);
        (self.arrived, self.lost, self.heard_at) = (0, 0, now);
        false
    }

    fn round_trip(&self) -> Option<Duration> {
        Some(self.round_trip)
    }
}
