//! The queue of a link, and token buckets.

use std::collections::VecDeque;
use std::time::Duration;

use crate::link::Dice;

/// RED (Floyd and Jacobson 1993) in packets.
#[derive(Clone, Copy, Debug)]
pub struct QueueSetup {
    /// Packets that it holds, the one that is being sent not counted.
    pub limit: usize,
    /// The average above which some are dropped.
    pub min: f64,
    /// The average above which all are.
    pub max: f64,
    /// The share that is dropped just below `max`.
    pub most: f64,
    /// The weight of the present length in the average.
    pub weight: f64,
}

/// A queue and the transmitter behind it.
pub(super) struct RedQueue<P> {
    setup: QueueSetup,
    time: Duration,
    waiting: VecDeque<P>,
    sending: Option<P>,
    average: f64,
    /// Packets since the last drop.
    count: u32,
    /// Since when there is nothing to send.
    idle_since: Option<Duration>,
    offered: u64,
    dropped: u64,
}

/// What becomes of a packet that comes to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its bits leave from now on.
    Sending,
    Waiting,
    Dropped,
}

impl<P> RedQueue<P> {
    /// Of a link that carries so many packets per second.
    pub(super) fn new(setup: QueueSetup, rate: f64) -> Self {
        Self {
            setup,
            time: Duration::from_secs_f64(1.0 / rate),
            waiting: VecDeque::new(),
            sending: None,
            average: 0.0,
            count: 0,
            idle_since: Some(Duration::ZERO),
            offered: 0,
            dropped: 0,
        }
    }

    pub(super) fn enter(&mut self, packet: P, now: Duration, dice: &mut Dice) -> Verdict {
        self.offered += 1;
        self.follow(now);
        if self.waiting.len() >= self.setup.limit || self.drops(dice) {
            self.count = 0;
            self.dropped += 1;
            return Verdict::Dropped;
        }
        if self.sending.is_some() {
            self.waiting.push_back(packet);
            return Verdict::Waiting;
        }
        self.sending = Some(packet);
        Verdict::Sending
    }

    /// The packet that was being sent is gone, and the next one has its turn.
    pub(super) fn sent(&mut self, now: Duration) -> Option<P> {
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.idle_since = Some(now);
        }
        std::mem::replace(&mut self.sending, next)
    }

    pub(super) fn is_sending(&self) -> bool {
        self.sending.is_some()
    }

    /// How long a packet takes to be sent.
    pub(super) fn time(&self) -> Duration {
        self.time
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Packets that have come, and that were dropped.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.offered, self.dropped)
    }

    /// The average falls while there is nothing to send as if packets came all the time (§11 there).
    fn follow(&mut self, now: Duration) {
        if let Some(since) = self.idle_since.take() {
            let missed = (now - since).div_duration_f64(self.time);
            self.average *= (1.0 - self.setup.weight).powf(missed);
        }
        self.average += self.setup.weight * (self.waiting.len() as f64 - self.average);
    }

    fn drops(&mut self, dice: &mut Dice) -> bool {
        let QueueSetup { min, max, most, .. } = self.setup;
        if self.average < min {
            return false;
        }
        if self.average >= max {
            return true;
        }
        self.count += 1;
        let chance = most * (self.average - min) / (max - min);
        // Even gaps between drops: the chance grows with what has passed since the last one.
        let left = 1.0 - f64::from(self.count) * chance;
        left <= 0.0 || dice.uniform() < chance / left
    }
}

/// A token bucket: a rate, and how much may pass at once.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: f64,
    most: f64,
    tokens: f64,
    at: Duration,
}

impl TokenBucket {
    /// A full bucket of so many packets per second, and of so many seconds of them; of a packet at least.
    #[must_use]
    pub fn new(rate: f64, seconds: f64) -> Self {
        let most = (rate * seconds).max(1.0);
        Self { rate, most, tokens: most, at: Duration::ZERO }
    }

    /// Another rate from now on; what is in the bucket stays there, as far as there is room.
    pub fn set_rate(&mut self, rate: f64, seconds: f64, now: Duration) {
        self.fill(now);
        self.rate = rate;
        self.most = (rate * seconds).max(1.0);
        self.tokens = self.tokens.min(self.most);
    }

    /// Takes a packet out, if there is one.
    pub fn take(&mut self, now: Duration) -> bool {
        self.fill(now);
        let passes = self.tokens >= 1.0;
        self.tokens -= f64::from(u8::from(passes));
        passes
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(std::mem::replace(&mut self.at, now));
        self.tokens = (self.tokens + self.rate * passed.as_secs_f64()).min(self.most);
    }
}
