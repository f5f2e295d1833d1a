//! Sharing a short queue with others who would have a short one as well.

use std::time::{Duration, Instant};

use super::phase::Phase;
use super::round::{Lowest, Steadiness, is_drained};

/// The window to share a queue with others who leave it when all do.
///
/// Each of several models takes for the path's rate the largest that it was once left, and sends a quarter more from time to time. Where such have
/// competed, and have seen that nobody stays who does not, the window is made for a short queue, and made smaller for two rounds a while
/// after the smallest round trip that was seen since the last time. All who share the queue see that at the same time, and soon do so together.
/// If the queue is gone then, they are still of this kind; who only gives way to losses leaves none empty.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    share: Option<Share>,
    phase: Option<Phase>,
    /// The smallest round trip since our last refresh began.
    valley: Lowest,
    /// Refreshes in a row that found a queue still.
    kept: u32,
    /// What round trips vary by while the window stays.
    steadiness: Steadiness,
}

/// What a round carried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Bytes per second.
    pub(crate) rate: u64,
    pub(crate) datagram_size: u64,
}

impl Crowd {
    /// Whether the queue is shared with such.
    pub(crate) fn is_on(&self) -> bool {
        self.share.is_some()
    }

    /// The round trip without a queue, which is seen only when all leave.
    pub(crate) fn base(&self) -> Option<Duration> {
        self.share.as_ref().map(|share| share.base)
    }

    /// Bytes that may be in flight.
    pub(crate) fn window(&self) -> Option<u64> {
        self.share.as_ref().map(|share| share.window)
    }

    /// The rate of the path as it was when the queue began to be shared, bytes per second.
    pub(crate) fn found(&self) -> Option<u64> {
        self.share.as_ref().map(|share| share.found)
    }

    /// The queue is shared from now on, with `window` bytes at first; the path delivers `rate` bytes per second.
    pub(crate) fn begin(&mut self, rate: u64, window: u64, base: Duration) {
        self.share = Some(Share { window, base, found: rate, clear_rounds: 0, block: Block::default() });
        self.kept = 0;
        self.steadiness = Steadiness::default();
    }

    pub(crate) fn on_phase(&mut self, phase: Phase) {
        self.phase = Some(phase);
        self.steadiness.pause();
        match phase {
            Phase::Cruise => {}
            Phase::Refresh => self.valley = Lowest::default(),
            Phase::Compete => self.end(),
            Phase::Startup | Phase::Drain | Phase::Probe => self.share = None,
        }
    }

    /// A datagram took so long: all who share the queue see its shortest at the same time.
    pub(crate) fn on_rtt(&mut self, rtt: Duration, now: Instant) {
        self.valley.on_rtt(rtt, now);
        if let Some(share) = &mut self.share {
            share.base = share.base.min(rtt);
        }
    }

    /// A refresh ends; `base` is the path's best round trip.
    pub(crate) fn on_refreshed(&mut self, base: Duration) {
        if let Some(least) = self.valley.rtt() {
            self.kept = if is_drained(least, base) { 0 } else { self.kept + 1 };
        }
    }

    /// Whether it is time to see who leaves the queue.
    pub(crate) fn is_refresh_due(&self, now: Instant) -> bool {
        // Beside those who do not, each time costs a part of what we have.
        let interval = if self.kept == 0 { REFRESH_INTERVAL } else { 2 * REFRESH_INTERVAL };
        self.is_on() && self.valley.at().is_some_and(|at| now > at + interval)
    }

    /// Whether somebody keeps the queue, or pushes us out.
    pub(crate) fn is_crowded_out(&self) -> bool {
        let is_pushed = |share: &Share| self.kept >= KEPT || share.block.crowded >= CROWDED_BLOCKS;
        self.share.as_ref().is_some_and(is_pushed)
    }

    /// The phase's round of this number has ended, with `least` for its smallest round trip.
    pub(crate) fn on_round(&mut self, number: u32, least: Duration, load: Load) {
        // What was sent before has met what was there before.
        if self.phase != Some(Phase::Cruise) || number <= 1 {
            return;
        }
        let Some(share) = &mut self.share else { return };
        self.steadiness.on_round(least);
        let base = share.base;
        let tolerance = base / 16 + TOLERANCE + 4 * self.steadiness.alternation();
        share.on_round(least.saturating_sub(base), tolerance, load);
        // What looks like a queue may be delays that vary, of which the path is never rid.
        if share.clear_rounds >= CLEAR_ROUNDS
            || self.steadiness.alternates((base / 32).max(LEAST_ALTERNATION))
        {
            self.end();
        }
    }

    /// The queue is shared no more.
    pub(crate) fn end(&mut self) {
        (self.share, self.kept) = (None, 0);
    }
}

impl Load {
    /// What one keeps in the queue, bytes: what it takes to see it, and more datagrams the faster the path is, but fewer for each
    /// byte per second. So who has less of the path has more of the queue in proportion, and gains until all have the same.
    fn own(self, tolerance: Duration) -> f64 {
        let (rate, size) = (self.rate as f64, self.datagram_size as f64);
        rate * tolerance.as_secs_f64() + OWN_DATAGRAMS * (rate / size).sqrt() * size
    }

    /// How long that takes.
    fn own_queue(self, tolerance: Duration) -> Duration {
        Duration::from_secs_f64(self.own(tolerance) / self.rate.max(1) as f64)
    }
}

/// Our part of a path, and of its queue.
#[derive(Debug)]
struct Share {
    /// Bytes.
    window: u64,
    base: Duration,
    /// Bytes per second when this began.
    found: u64,
    /// Rounds in a row without a queue.
    clear_rounds: u32,
    block: Block,
}

impl Share {
    /// A round met a `queue`, of which `tolerance` is nobody's.
    fn on_round(&mut self, queue: Duration, tolerance: Duration, load: Load) {
        self.clear_rounds = if queue > tolerance { 0 } else { self.clear_rounds + 1 };
        let found = Load { rate: self.found, ..load };
        self.block.on_round(queue, found.own_queue(tolerance), load.rate < self.found / LITTLE_SHARE);
        self.adapt(load.own(tolerance), load.rate as f64 * queue.as_secs_f64(), load.datagram_size);
    }

    /// Towards the window that keeps `own` bytes in the queue rather than `kept`, as TCP Vegas does (Brakmo and Peterson, TCP Vegas:
    /// End to End Congestion Avoidance on a Global Internet, 1995).
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, more than none")]
    fn adapt(&mut self, own: f64, kept: f64, datagram_size: u64) {
        let window = self.window as f64;
        let most = window / STEP;
        self.window = ((window + (own - kept).clamp(-most, most)) as u64).max(datagram_size);
    }
}

/// The mean queue of some rounds.
#[derive(Debug, Default)]
struct Block {
    rounds: u32,
    sum: Duration,
    /// That of the block before.
    last: Option<Duration>,
    /// Blocks in a row that told of somebody who does not share.
    crowded: u32,
}

impl Block {
    /// A round met a `queue`, where `own` were there if we were alone, and had little of the path or not.
    fn on_round(&mut self, queue: Duration, own: Duration, is_little: bool) {
        self.rounds += 1;
        self.sum += queue;
        if self.rounds < BLOCK_ROUNDS {
            return;
        }
        let mean = self.sum / self.rounds;
        let stays = self.last.is_some_and(|last| mean > last * 7 / 8);
        self.crowded = if is_little || (stays && mean > LONG * own) { self.crowded + 1 } else { 0 };
        (self.rounds, self.sum, self.last) = (0, Duration::ZERO, Some(mean));
    }
}

/// How many refreshes in a row must agree that somebody does not leave.
const KEPT: u32 = 2;

/// How long after the smallest round trip the next refresh is due. They cost two rounds each.
const REFRESH_INTERVAL: Duration = Duration::from_secs(3);

/// A shorter queue, and a sixteenth of the round trip, is nobody's.
const TOLERANCE: Duration = Duration::from_millis(2);

/// Square roots of datagrams. At 50 Mb/s they are 3.5 ms, at 5 Mb/s 11 ms.
const OWN_DATAGRAMS: f64 = 0.236;

/// A round changes the window by a sixteenth at most: what it does is seen a round later.
const STEP: f64 = 16.0;

/// So many rounds without a queue show that there is room.
const CLEAR_ROUNDS: u32 = 5;

/// Two blocks of rounds whose queue is so many times as long as ours were alone, and does not become shorter, are no crowd, nor is who
/// leaves us less than such a part of the path.
const BLOCK_ROUNDS: u32 = 8;
const CROWDED_BLOCKS: u32 = 2;
const LONG: u32 = 2;
const LITTLE_SHARE: u64 = 3;

/// In a crowd round trips alternate by less, on the shortest paths as well.
const LEAST_ALTERNATION: Duration = Duration::from_millis(2);
