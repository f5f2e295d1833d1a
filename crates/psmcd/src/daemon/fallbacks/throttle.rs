//! Networks that let some UDP through and drop the rest, found by what paths carry.
//!
//! ```text
//!            much is lost, and a quarter gets through          a stream beside it carries much more
//!   trusted ────────────────────────────────────────▶ tried ────────────────────────────────────────▶ found
//!      ▲                                                │                                               │
//!      │       the stream is no better: not soon again  │              the stream has ended             │
//!      └────────────────────────────────────────────────┴───────────────────────────────────────────────┘
//! ```
//!
//! A link that is slow or full looks the same at first. But there a stream has no more than UDP has.

use std::time::{Duration, Instant};

/// How often paths are looked at.
pub(super) const INTERVAL: Duration = Duration::from_millis(500);

/// So many looks in a row must be bad: one is the loss of a moment.
const BAD_LOOKS: u32 = 2;

/// The share that is lost of what a path is given beyond its rate, at least, and how many datagrams that are.
const LOST_SHARE: f64 = 0.05;
const LOST: u64 = 3;

/// What is left of what a path has carried of late, at the most, in bytes per second: links vary by less from one second to the next.
const LEFT: f64 = 0.25;

/// A path that has never carried so much, in bytes per second, has nothing to lose.
const MUCH: f64 = 250_000.0;

/// What a path has carried is forgotten by half in this time.
const HALF_LIFE: Duration = Duration::from_secs(30);

/// How long a stream is tried, since when what it carries counts, and how soon that may be enough: it is dialled first, and finds its
/// rate, for which it needs longer where round trips are long.
const TRIAL: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_millis(1500);
const CLEAR_AFTER: Duration = Duration::from_millis(2500);

/// By so much more a stream must carry than UDP beside it, and both than UDP had.
const BETTER: f64 = 3.0;
const MORE: f64 = 2.0;

/// How long to wait after a trial that showed nothing, for there was nothing to carry; and after one that showed that UDP is as good
/// as a stream, the first time.
const SHORT_WAIT: Duration = Duration::from_secs(5);
const FIRST_WAIT: Duration = Duration::from_secs(30);

/// The longest: on a link that is slow again and again a stream is no better each time.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// UDP that carries so much more than it was found throttled to is not throttled any more; with so little more it still is.
const FREED: f64 = 3.0;
const HELD: f64 = 1.5;

/// What a path is taken to have been throttled to at the least, in bytes per second: of next to nothing any multiple is soon reached.
const LEAST_HELD: f64 = MUCH / 10.0;

/// How long a path is taken for throttled on what was seen, after which it is used beside the stream. If much of that is lost, it is
/// throttled still, and taken for that as long again. Beside a stream that fills the link UDP may have too little to show either; without
/// the stream it shows at once.
const BELIEVED: Duration = Duration::from_secs(12);

/// So often in a row it may have been losses that told, which chance may make as well, before UDP has to show it alone.
const TOLD_BY_LOSSES: u32 = 4;

/// What a path has carried in one direction so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Carried {
    /// Bytes that have arrived.
    pub(super) bytes: u64,
    /// Datagrams that have arrived, and those that have not.
    pub(super) arrived: u64,
    pub(super) lost: u64,
}

/// The same of both directions, and of the stream beside it, if there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Look {
    pub(super) path: [Carried; 2],
    pub(super) stream: Option<[Carried; 2]>,
}

/// One path by UDP: [look](Self::look) at it at each [`INTERVAL`], and say when its stream [has ended](Self::on_stream_end).
#[derive(Debug)]
pub(super) struct Throttle {
    seen: Option<(Instant, Look)>,
    /// What each direction has carried of late at its best, bytes per second.
    peaks: [f64; 2],
    /// In how many looks in a row a direction was bad.
    bad: [u32; 2],
    state: State,
    /// When a stream may be tried again, and how long to wait after that.
    not_before: Option<Instant>,
    wait: Duration,
}

/// What is thought of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Trusted,
    /// A stream is tried, as a direction carried so little.
    Tried {
        since: Instant,
        direction: usize,
        rate: f64,
        warm: Option<(Instant, Look)>,
    },
    /// A direction is throttled to this rate, or was.
    Found {
        direction: usize,
        rate: f64,
        since: Instant,
        is_free: bool,
        /// How often losses have told since.
        told: u32,
    },
}

impl Throttle {
    /// Of a path of which nothing is known.
    pub(super) fn new() -> Self {
        Self {
            seen: None,
            peaks: [0.0; 2],
            bad: [0; 2],
            state: State::Trusted,
            not_before: None,
            wait: FIRST_WAIT,
        }
    }

    /// Whether a stream is wanted beside it.
    pub(super) fn wants_stream(&self) -> bool {
        match self.state {
            State::Trusted => false,
            State::Tried { .. } => true,
            State::Found { is_free, .. } => !is_free,
        }
    }

    /// Whether it is so sure to be throttled that the stream had better carry everything.
    pub(super) fn is_to_be_spared(&self) -> bool {
        matches!(self.state, State::Found { is_free: false, .. })
    }

    /// Whether a stream has shown that it is throttled.
    pub(super) fn is_found(&self) -> bool {
        matches!(self.state, State::Found { .. })
    }

    /// When the next look is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.seen.map(|(at, _)| at + INTERVAL)
    }

    /// The stream beside it is no more.
    pub(super) fn on_stream_end(&mut self) {
        self.state = State::Trusted;
    }

    /// So much has been carried by now. Nothing, if the last look was just before.
    pub(super) fn look(&mut self, look: Look, now: Instant) {
        let Some((at, before)) = self.seen else {
            self.seen = Some((now, look));
            return;
        };
        let span = now.saturating_duration_since(at);
        if span < INTERVAL {
            return;
        }
        self.seen = Some((now, look));
        let rates = [0, 1].map(|direction| rate(before.path[direction], look.path[direction], span));
        let by_stream = [0, 1].map(|direction| stream_rate(&before, &look, direction, span));
        let kept = 0.5_f64.powf(span.div_duration_f64(HALF_LIFE));
        let peaks = self.peaks.map(|peak| peak * kept);
        self.peaks = [0, 1].map(|direction| peaks[direction].max(rates[direction] + by_stream[direction]));
        match self.state {
            State::Trusted => self.suspect((rates, peaks), &before, &look, now),
            State::Tried { .. } => self.judge(&look, now),
            State::Found { direction, .. } => {
                let is_lost = loses_much(before.path[direction], look.path[direction]);
                self.follow(rates[direction], by_stream[direction], is_lost, now);
            }
        }
    }

    /// `rates` are those since the look `before`, and what they were at their best until then.
    fn suspect(&mut self, (rates, peaks): ([f64; 2], [f64; 2]), before: &Look, look: &Look, now: Instant) {
        for direction in [0, 1] {
            let (rate, peak) = (rates[direction], peaks[direction]);
            let little = peak >= MUCH && rate <= peak * LEFT;
            let is_bad = little && loses_much(before.path[direction], look.path[direction]);
            self.bad[direction] = if is_bad { self.bad[direction] + 1 } else { 0 };
        }
        let may = self.not_before.is_none_or(|at| at <= now);
        if let Some(direction) = self.bad.iter().position(|bad| *bad >= BAD_LOOKS).filter(|_| may) {
            self.bad = [0; 2];
            self.state = State::Tried { since: now, direction, rate: rates[direction], warm: None };
        }
    }

    fn judge(&mut self, look: &Look, now: Instant) {
        let State::Tried { since, direction, rate: before, warm } = &mut self.state else { return };
        let (began, warm) = match warm {
            Some(warm) => *warm,
            None if now >= *since + WARM_UP => *warm.insert((now, *look)),
            None => return,
        };
        if now < *since + CLEAR_AFTER {
            return;
        }
        let is_over = now >= *since + TRIAL;
        let (direction, before) = (*direction, *before);
        let span = now - began;
        let by_udp = rate(warm.path[direction], look.path[direction], span);
        let by_stream = stream_rate(&warm, look, direction, span);
        if by_stream >= by_udp * BETTER && by_stream + by_udp >= before * MORE {
            self.wait = FIRST_WAIT;
            self.state = State::Found { direction, rate: by_udp, since: now, is_free: false, told: 0 };
            return;
        }
        if !is_over {
            return;
        }
        let was_used = by_stream + by_udp >= before / MORE;
        self.not_before = Some(now + if was_used { self.wait } else { SHORT_WAIT });
        if was_used {
            self.wait = (self.wait * 2).min(LONGEST_WAIT);
        }
        self.state = State::Trusted;
    }

    fn follow(&mut self, by_udp: f64, by_stream: f64, is_lost: bool, now: Instant) {
        let State::Found { rate, since, is_free, told, .. } = &mut self.state else { return };
        let floor = rate.max(LEAST_HELD);
        let is_believed = now < *since + BELIEVED;
        let is_held = by_udp < floor * HELD && by_udp + by_stream >= floor * FREED;
        if is_held && is_believed {
            *is_free = false;
        } else if is_held && is_lost && *is_free && *told < TOLD_BY_LOSSES {
            (*since, *is_free) = (now, false);
            *told += 1;
        } else if !is_believed || by_udp >= floor * FREED {
            *is_free = true;
        }
    }
}

/// Bytes per second between two looks.
fn rate(before: Carried, after: Carried, span: Duration) -> f64 {
    after.bytes.saturating_sub(before.bytes) as f64 / span.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// The same of a stream that may have begun in between.
fn stream_rate(before: &Look, after: &Look, direction: usize, span: Duration) -> f64 {
    let of = |look: &Look| look.stream.map_or(Carried::default(), |stream| stream[direction]);
    rate(of(before), of(after), span)
}

fn loses_much(before: Carried, after: Carried) -> bool {
    let lost = after.lost.saturating_sub(before.lost);
    let arrived = after.arrived.saturating_sub(before.arrived);
    lost >= LOST && lost as f64 >= (lost + arrived) as f64 * LOST_SHARE
}

#[cfg(test)]
impl Throttle {
    /// Of a path that was found to be throttled just now.
    pub(super) fn found(now: Instant) -> Self {
        let state = State::Found { direction: 0, rate: LEAST_HELD, since: now, is_free: false, told: 0 };
        Self { state, ..Self::new() }
    }
}

#[cfg(test)]
mod tests;
