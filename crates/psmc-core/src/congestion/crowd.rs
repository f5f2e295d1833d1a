//! Sharing a short queue with others who would have a short one as well.

use std::time::{Duration, Instant};

use super::phase::Phase;
use super::round::{Lowest, Steadiness, is_drained};

/// Whether all who keep the bottleneck's queue leave it when all others do, and the window to share it with them meanwhile.
///
/// Each of several models takes for the path's rate the largest that it was once left, and sends a quarter more from time to time:
/// their queue is long, though none of them wants it. So where a queue outlasts ours the window is made smaller for two rounds, a
/// while after the smallest round trip that was seen since the last time. All who share the queue see that at the same time, and soon
/// do so together. If the queue is gone then, they are of this kind; who only gives way to losses leaves none empty.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    share: Option<Share>,
    phase: Option<Phase>,
    /// The smallest round trip since our last refresh began.
    valley: Lowest,
    /// Rounds since then whose queue was longer than ours.
    queued_rounds: u32,
    /// Refreshes in a row after such rounds that found none, and that found one still.
    left: u32,
    kept: u32,
    /// What round trips vary by while the window stays.
    steadiness: Steadiness,
    /// Until when no queue is looked for where delays vary, and for how long that was.
    idle_until: Option<Instant>,
    idle_for: Duration,
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

    /// Whether others have left the queue often enough when we did.
    pub(crate) fn is_seen(&self) -> bool {
        !self.is_on() && self.left >= SIGHTINGS
    }

    /// The queue is shared from now on, with `window` bytes at first; the path delivers `rate` bytes per second.
    pub(crate) fn begin(&mut self, rate: u64, window: u64, base: Duration) {
        self.share = Some(Share { window, base, found: rate, clear_rounds: 0, block: Block::default() });
        (self.queued_rounds, self.left, self.kept) = (0, 0, 0);
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
    pub(crate) fn on_refreshed(&mut self, base: Duration, now: Instant) {
        let Some(least) = self.valley.rtt() else { return };
        let looked = self.is_on() || self.is_due(now);
        self.queued_rounds = 0;
        if !looked {
            self.left = 0;
        } else if is_drained(least, base) {
            (self.left, self.kept) = (self.left + 1, 0);
        } else {
            (self.left, self.kept) = (0, self.kept + 1);
            if !self.is_on() && self.kept >= KEPT && self.steadiness.alternates(base / 64) {
                self.give_up(now);
            }
        }
    }

    /// Whether a queue outlasts ours.
    pub(crate) fn is_suspicious(&self) -> bool {
        !self.is_on() && self.queued_rounds >= QUEUED_ROUNDS
    }

    /// The same, unless it has turned out of late to be delays that vary.
    fn is_due(&self, now: Instant) -> bool {
        self.is_suspicious() && self.idle_until.is_none_or(|at| now > at)
    }

    /// Whether it is time to see who leaves the queue.
    pub(crate) fn is_refresh_due(&self, now: Instant) -> bool {
        // Beside those who do not, each time costs a part of what we have.
        let interval = if self.is_on() || self.kept == 0 { REFRESH_INTERVAL } else { 2 * REFRESH_INTERVAL };
        (self.is_on() || self.is_due(now)) && self.valley.at().is_some_and(|at| now > at + interval)
    }

    /// Whether somebody keeps the queue, or pushes us out.
    pub(crate) fn is_crowded_out(&self) -> bool {
        match &self.share {
            Some(share) => self.kept >= KEPT || share.block.crowded >= CROWDED_BLOCKS,
            None => self.kept > KEPT,
        }
    }

    /// The phase's round of this number has ended, with `least` for its smallest round trip; `base` is the path's best.
    pub(crate) fn on_round(
        &mut self,
        number: u32,
        least: Duration,
        base: Duration,
        load: Load,
        now: Instant,
    ) {
        // What was sent before has met what was there before.
        if self.phase != Some(Phase::Cruise) || number <= 1 {
            return;
        }
        self.steadiness.on_round(least);
        let base = self.base().unwrap_or(base);
        let tolerance = base / 16 + TOLERANCE + 4 * self.steadiness.alternation();
        let queue = least.saturating_sub(base);
        match &mut self.share {
            Some(_) if self.steadiness.alternates((base / 32).max(LEAST_ALTERNATION)) => self.give_up(now),
            Some(share) => {
                share.on_round(queue, tolerance, load);
                self.share.take_if(|share| share.clear_rounds >= CLEAR_ROUNDS);
            }
            None => self.queued_rounds += u32::from(queue > load.own_queue(tolerance)),
        }
    }

    fn end(&mut self) {
        self.share = None;
        (self.queued_rounds, self.left, self.kept) = (0, 0, 0);
    }

    /// What looks like a queue are delays that vary, of which the path is never rid, or one that nobody can hold his own in.
    pub(crate) fn give_up(&mut self, now: Instant) {
        self.end();
        self.idle_for = (4 * self.idle_for).clamp(LEAST_IDLE, MOST_IDLE);
        self.idle_until = Some(now + self.idle_for);
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

/// So many rounds that meet a queue between two refreshes make one suspicious.
const QUEUED_ROUNDS: u32 = 6;

/// How many refreshes in a row must agree that all leave, and that somebody does not.
const SIGHTINGS: u32 = 2;
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

/// Each time it is four times as long until it is looked again for a queue where there was none.
const LEAST_IDLE: Duration = Duration::from_secs(20);
const MOST_IDLE: Duration = Duration::from_secs(320);
