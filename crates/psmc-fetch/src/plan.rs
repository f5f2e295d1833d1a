//! Which source gets which bytes: a state machine, with time as an argument.
//!
//! A file is fetched in blocks, each of which should take its source about a second: long beside a round trip, short
//! beside the whole. Near the end blocks become smaller, as there is less left to share. When there is nothing left to
//! give out, an idle source takes over the end of the block that would be ready last, so much of it that both are ready
//! at once (P. Rodriguez and E. Biersack, "Dynamic parallel access to replicated content in the Internet", 2002, give
//! idle servers what is outstanding; they send it twice).
//!
//! At any time each byte of the file has arrived, or is free, or belongs to one source.

mod ranges;
mod source;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

pub(super) use ranges::Ranges;
pub(super) use source::{Serves, Taken};
use source::{Source, State};

/// How long a block should take, in seconds.
const BLOCK: f64 = 1.0;

/// No block is smaller, unless nothing more is left: below it headers and round trips cost too much.
const LEAST_BLOCK: u64 = 64 << 10;

/// No block is larger: so much at most is fetched again when the program is killed.
const MOST_BLOCK: u64 = 256 << 20;

/// The first block of a source, whose rate is not known. Every other source begins with half of it, so that two
/// connections to one mirror do not pause together between blocks.
const FIRST_BLOCK: u64 = 256 << 10;

/// A part of a block is taken over if that makes it ready earlier by at least so many seconds.
const GAIN: f64 = 0.1;

/// How often idle sources look whether they should take over something.
const LOOK: Duration = Duration::from_millis(100);

/// A source in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SourceId(pub(super) usize);

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// This source is to fetch these bytes.
    Fetch(SourceId, Range<u64>),
    /// Nothing more is wanted of what this source was to fetch; its connection must be closed.
    Stop(SourceId, Why),
}

/// Why a source is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// No byte has arrived for too long.
    Stalled,
    /// Others fetch it sooner.
    Robbed,
}

/// The plan.
///
/// Tell it what has happened (`add`, `take`, `fail`, `retire`, `change`), then call `poll` until it says `None`; call it again
/// at the latest when `poll_timeout` says. Times are those since any moment, and do not go back.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    free: Ranges,
    done: Ranges,
    length: u64,
    sources: Vec<Source>,
}

impl Plan {
    /// For a file of which these bytes have arrived before.
    pub(super) fn new(length: u64, done: Ranges) -> Self {
        Self { free: done.missing_of(length), done, length, sources: Vec::new() }
    }

    /// A source more.
    pub(super) fn add(&mut self, serves: Serves) -> SourceId {
        self.sources.push(Source::new(serves));
        SourceId(self.sources.len() - 1)
    }

    /// So many bytes have arrived from a source, which follow those before; zero if it only shows that it is alive.
    pub(super) fn take(&mut self, id: SourceId, bytes: u64, now: Duration) -> Taken {
        let taken = self.sources[id.0].take(bytes, now);
        self.done.insert(taken.range.clone());
        taken
    }

    /// A source has broken off. It is asked again after a while, not earlier than it wants to be, or given up.
    pub(super) fn fail(&mut self, id: SourceId, after: Option<Duration>, now: Duration) {
        let rest = self.sources[id.0].fail(after, now);
        self.free.insert(rest.unwrap_or_default());
    }

    /// A source has answered fully, but with less than it was asked for: it may be asked for the rest, as anybody.
    pub(super) fn fall_short(&mut self, id: SourceId, now: Duration) {
        match self.sources[id.0].hold() {
            Some(hold) if hold.gained > 0 => {
                let rest = self.sources[id.0].release(State::Idle, now);
                self.free.insert(rest.unwrap_or_default());
            }
            _ => self.fail(id, None, now),
        }
    }

    /// A source is not to be asked again.
    pub(super) fn retire(&mut self, id: SourceId, now: Duration) {
        let rest = self.sources[id.0].release(State::Retired, now);
        self.free.insert(rest.unwrap_or_default());
    }

    /// A source serves something else than it seemed.
    pub(super) fn change(&mut self, id: SourceId, serves: Serves) {
        self.sources[id.0].serves = serves;
    }

    /// What is to be done next.
    pub(super) fn poll(&mut self, now: Duration) -> Option<Order> {
        self.wake(now);
        if let Some(id) = self.find(|source| source.stalls_at().is_some_and(|at| at <= now)) {
            self.fail(id, None, now);
            return Some(Order::Stop(id, Why::Stalled));
        }
        // One that was robbed of everything has nothing to fetch.
        if let Some(id) = self.find(|source| source.hold().is_some_and(|hold| hold.rest.is_empty())) {
            self.sources[id.0].release(State::Idle, now);
            return Some(Order::Stop(id, Why::Robbed));
        }
        let id = self.fastest_idle(now)?;
        let range = self.block(id, now).or_else(|| self.rob(id, now))?;
        self.sources[id.0].give(range.clone(), now);
        Some(Order::Fetch(id, range))
    }

    /// When `poll` may have something to say, if nothing else happens.
    pub(super) fn poll_timeout(&self, now: Duration) -> Option<Duration> {
        let wakes = self.sources.iter().filter_map(|source| match source.state {
            State::Resting { until } => Some(until),
            State::Idle | State::Busy(_) | State::Retired => source.stalls_at(),
        });
        let may_rob = self.fastest_idle(now).is_some() && self.sources.iter().any(|it| it.hold().is_some());
        wakes.chain(may_rob.then(|| now + LOOK)).min()
    }

    /// Whether every byte has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.done.total() == self.length
    }

    /// Whether a source was given up, or retired.
    pub(super) fn is_retired(&self, id: SourceId) -> bool {
        self.sources[id.0].is_retired()
    }

    /// What has arrived.
    pub(super) fn done(&self) -> &Ranges {
        &self.done
    }

    fn find(&self, is_such: impl Fn(&Source) -> bool) -> Option<SourceId> {
        self.sources.iter().position(is_such).map(SourceId)
    }

    fn wake(&mut self, now: Duration) {
        for source in &mut self.sources {
            match source.state {
                State::Resting { until } if until <= now => source.state = State::Idle,
                State::Resting { .. } | State::Idle | State::Busy(_) | State::Retired => {}
            }
        }
    }

    /// Sources that serve the whole file only wait until no other is left.
    fn fastest_idle(&self, now: Duration) -> Option<SourceId> {
        let parts = self.sources.iter().any(|it| it.serves == Serves::Parts && !it.is_retired());
        let idle = self
            .sources
            .iter()
            .enumerate()
            .filter(|(_, source)| source.is_idle() && (source.serves == Serves::Parts || !parts));
        let fastest = idle.max_by(|(_, one), (_, other)| one.rate(now).total_cmp(&other.rate(now)));
        fastest.map(|(index, _)| SourceId(index))
    }

    /// A block of what is free.
    fn block(&mut self, id: SourceId, now: Duration) -> Option<Range<u64>> {
        let Range { start, end } = self.free.first()?;
        let size = match self.sources[id.0].serves {
            Serves::Parts => self.block_size(id, now),
            Serves::Whole => u64::MAX,
        };
        let range = start..end.min(start.saturating_add(size));
        self.free.remove(range.clone());
        Some(range)
    }

    fn block_size(&self, id: SourceId, now: Duration) -> u64 {
        let source = &self.sources[id.0];
        let live = self.sources.iter().filter(|it| it.serves == Serves::Parts && !it.is_retired());
        let sum: f64 = live.map(|it| it.rate(now)).sum();
        let rate = source.rate(now);
        let share = to_bytes(self.free.total() as f64 * rate / sum);
        let wanted = if source.is_measured() {
            to_bytes(rate * BLOCK)
        } else if id.0.is_multiple_of(2) {
            FIRST_BLOCK
        } else {
            FIRST_BLOCK / 2
        };
        wanted.min(share).clamp(LEAST_BLOCK, MOST_BLOCK)
    }

    /// The end of the block that would be ready last, if this source makes it ready earlier.
    fn rob(&mut self, id: SourceId, now: Duration) -> Option<Range<u64>> {
        let thief = &self.sources[id.0];
        if thief.serves == Serves::Whole {
            return None;
        }
        let victims = self.sources.iter().enumerate().filter(|(_, source)| source.may_be_robbed(now));
        let ready_in = |source: &Source| left(source) as f64 / source.rate(now);
        let (victim, source) =
            victims.max_by(|(_, one), (_, other)| ready_in(one).total_cmp(&ready_in(other)))?;
        let kept = fair_cut(left(source), source.rate(now), thief.rate(now), thief.latency())?;
        let hold = self.sources[victim].hold_mut()?;
        let taken = hold.rest.start + kept..hold.rest.end;
        hold.rest.end = taken.start;
        Some(taken)
    }
}

/// Of bytes that one source has left, how many it should keep so that it is ready together with another one that takes the
/// end of them; `None` if that is not worth it.
fn fair_cut(left: u64, owner: f64, thief: f64, thief_latency: f64) -> Option<u64> {
    let alone = left as f64 / owner;
    // kept / owner = latency + (left − kept) / thief, solved for kept / owner.
    let together = (thief_latency * thief + left as f64) / (owner + thief);
    (alone - together >= GAIN).then(|| to_bytes(together * owner).min(left))
}

fn left(source: &Source) -> u64 {
    source.hold().map_or(0, |hold| hold.rest.end - hold.rest.start)
}

#[expect(clippy::cast_possible_truncation, reason = "a cast from a float saturates, which is what is wanted")]
fn to_bytes(bytes: f64) -> u64 {
    bytes as u64
}
