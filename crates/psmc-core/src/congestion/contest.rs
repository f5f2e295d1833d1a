//! Competing as CUBIC does, where others keep the queue whatever we do.

use std::time::{Duration, Instant};

use super::chance::ChanceLoss;
use super::cubic::Cubic;
use super::filter::FILTER_ROUNDS;
use super::phase::{ACK_DELAY, CRUISE_ROUNDS, Phase};
use super::rate::ROUND_FLOOR;
use super::round::{Lowest, Steadiness, is_drained};
use super::{AckSample, Controller};

/// Whether others keep the bottleneck's queue, and the window to hold against them meanwhile.
///
/// A queue that is still there after ours has been taken away is not ours, nor is one that overflows with more in it than a
/// probe puts there: it is kept by senders that only losses stop. Who goes on to make room for those gets what they leave,
/// where queues are long; where they are short, who always comes back with all of a known rate leaves them next to nothing. So
/// the window is CUBIC's as long as they are there, which is tried from time to time.
///
/// Where all are of this kind, each takes the others for somebody who keeps a queue. So trials follow on the smallest round trip that
/// was seen since the last one, which everybody sees at the same time: after a while all try at once, and see that nobody is there.
#[derive(Debug)]
pub(crate) struct Contest {
    signs: Signs,
    /// The share that is lost while no queue overflows.
    stray: ChanceLoss,
    /// What a contest goes by.
    cubic: Option<Cubic>,
    /// The round trip without a queue as it was when the contest began, which nobody sees meanwhile, and when it ended.
    base: Option<Duration>,
    ended: Option<Instant>,
    /// When it was last tried whether the others are still there, and whether it is being tried.
    tried: Option<Instant>,
    trying: bool,
    /// The smallest round trips since trials began: since the last one, and since the last that was not to confirm another.
    dip: Lowest,
    valley: Lowest,
    /// Trials in a row that found nobody, that found others, and in which the round trip did not grow with our window.
    clear_trials: u32,
    kept_trials: u32,
    flat_trials: u32,
    /// Whether it has ended because of the first of these.
    was_left: bool,
    /// Rounds in a row, since the last trial, that met no queue although nothing was done to take one away, and since when.
    vacant_rounds: u32,
    vacant_since: Option<Instant>,
}

impl Default for Contest {
    fn default() -> Self {
        Self {
            signs: Signs::default(),
            stray: ChanceLoss::over(STRAY_ROUNDS),
            cubic: None,
            base: None,
            ended: None,
            tried: None,
            trying: false,
            dip: Lowest::default(),
            valley: Lowest::default(),
            clear_trials: 0,
            kept_trials: 0,
            flat_trials: 0,
            was_left: false,
            vacant_rounds: 0,
            vacant_since: None,
        }
    }
}

impl Contest {
    /// Whether there is one.
    pub(crate) fn is_on(&self) -> bool {
        self.cubic.is_some()
    }

    /// The round trip without a queue, as far as a contest hides it.
    pub(crate) fn base(&self) -> Option<Duration> {
        self.base
    }

    /// Bytes that may be in flight in a contest.
    pub(crate) fn window(&self) -> Option<u64> {
        self.cubic.as_ref().map(Cubic::window)
    }

    /// Bytes per second at which to send in a contest.
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        self.cubic.as_ref().map(Cubic::pacing_rate)
    }

    /// Whether it is being tried whether the others are still there.
    pub(crate) fn is_trying(&self) -> bool {
        self.trying
    }

    /// Whether a contest has ended, since this was asked last, because nobody was there.
    pub(crate) fn take_left(&mut self) -> bool {
        std::mem::take(&mut self.was_left)
    }

    pub(crate) fn on_phase(&mut self, phase: Phase) {
        if self.is_on() && phase == Phase::Refresh {
            self.trying = true;
            self.dip = Lowest::default();
            if self.clear_trials == 0 {
                self.valley = Lowest::default();
            }
        }
        self.signs.on_phase(phase);
    }

    /// So little is in flight as the phase begins that no queue can be ours.
    pub(crate) fn on_drained(&mut self) {
        self.signs.drained = true;
    }

    /// The phase's round of this number has ended, with `least` for its smallest round trip; `base` is the path's best, and what is
    /// longer by more than `own` has met a queue of others.
    pub(crate) fn on_round(
        &mut self,
        number: u32,
        least: Duration,
        (base, own): (Duration, Duration),
        now: Instant,
    ) {
        if self.ended.is_some_and(|at| now > at + BASE_RENEWAL) {
            (self.base, self.ended) = (None, None);
        }
        self.signs.on_round(number, least, base, own);
        if self.is_on() && self.signs.phase == Some(Phase::Compete) {
            self.judge_vacancy(least > base + own, now);
        }
        if self.trying && self.is_on() && self.signs.phase == Some(Phase::Cruise) {
            self.judge_dip(number, base, now);
        }
    }

    /// A round has ended in which too little was in flight for a long queue: whether it met one nevertheless.
    pub(crate) fn on_vacated(&mut self, is_kept: bool) {
        self.signs.kept = if is_kept { self.signs.kept + 1 } else { 0 };
    }

    /// The queue has overflowed, with more in it than a probe puts there.
    pub(crate) fn on_overflow(&mut self, base: Duration, now: Instant) {
        self.signs.on_overflow(base, now);
    }

    /// A round in which no queue overflowed lost so many bytes of what was sent.
    pub(crate) fn on_stray_loss(&mut self, lost: u64, sent: u64) {
        self.stray.on_round(lost, sent);
    }

    /// Whether others could keep a queue on a path that holds `held` datagrams together with it. At the share of them that is lost
    /// anyhow a sender that only losses stop has a window of sqrt(3/2p) on average (Reno's: Mathis et al., The Macroscopic Behavior of
    /// the TCP Congestion Avoidance Algorithm, 1997).
    pub(crate) fn is_possible(&self, held: u64) -> bool {
        let share = self.stray.share();
        share < MOST_STRAY && share * (held as f64 / SHARERS).powi(2) < 1.5
    }

    /// The path has become slower: what was in the queue was sent at the rate of before.
    pub(crate) fn on_fall(&mut self) {
        self.signs.forget();
    }

    /// Whether there was a long queue when it could not be ours.
    pub(crate) fn is_kept(&self) -> bool {
        self.signs.kept >= KEPT_ROUNDS
    }

    /// Whether others have shown themselves often enough.
    pub(crate) fn is_seen(&self) -> bool {
        self.signs.sightings >= SIGHTINGS || self.signs.overflows >= OVERFLOWS
    }

    /// Whether it is time to see whether the others are still there. All who share a queue see about the same `round_trip`.
    pub(crate) fn is_trial_due(&self, round_trip: Duration, now: Instant) -> bool {
        if self.clear_trials > 0 {
            return self.dip.at().is_none_or(|at| now > at + AGAIN.max(AGAIN_ROUNDS * round_trip));
        }
        let mut interval = TRIAL_INTERVAL;
        if self.kept_trials >= KEPT_TRIALS {
            interval *= 2;
        }
        while interval < TRIAL_INTERVAL_ROUNDS * round_trip {
            interval *= 2;
        }
        let is_over = |since: Option<Instant>, time| since.is_none_or(|at| now > at + time);
        is_over(self.valley.at().or(self.tried), interval) || is_over(self.tried, 2 * interval)
    }

    /// A datagram took so long: all who share the queue see its shortest at the same time.
    pub(crate) fn on_rtt(&mut self, rtt: Duration, now: Instant) {
        self.dip.on_rtt(rtt, now);
        self.valley.on_rtt(rtt, now);
        if self.is_on() {
            self.base = self.base.map(|base| base.min(rtt));
        }
    }

    /// Begins with what the path delivers, or goes on after a trial.
    pub(crate) fn enter(
        &mut self,
        rate: u64,
        (base, round_trip): (Duration, Duration),
        datagram_size: u64,
        now: Instant,
    ) {
        if self.cubic.is_none() {
            let mut cubic = Cubic::new(u16::try_from(datagram_size).unwrap_or(u16::MAX));
            cubic.adopt(rate, round_trip, now);
            self.cubic = Some(cubic);
            (self.base, self.ended) = (Some(base), None);
            (self.clear_trials, self.kept_trials, self.flat_trials) = (0, 0, 0);
            self.valley = Lowest::default();
        }
        (self.tried, self.trying) = (Some(now), false);
        self.vacant_rounds = 0;
        self.signs.forget();
    }

    /// Who keeps a queue leaves none only for as long as he takes to fill it again. Where there is none for longer, our own window
    /// is the only one, and what makes it small is not what others send.
    fn judge_vacancy(&mut self, is_queued: bool, now: Instant) {
        if is_queued || self.vacant_rounds == 0 {
            self.vacant_since = Some(now);
        }
        self.vacant_rounds = if is_queued { 0 } else { self.vacant_rounds + 1 };
        let is_long = self.vacant_since.is_some_and(|at| now > at + VACANCY);
        if is_long && self.vacant_rounds >= VACANT_ROUNDS {
            self.end(now);
        }
    }

    /// The others have had the queue for themselves. Whether the round trip grows as our window does again is known from the trials
    /// before, as a rule: it takes rounds to see.
    fn judge_dip(&mut self, number: u32, base: Duration, now: Instant) {
        let is_clear = self.dip.rtt().is_some_and(|least| is_drained(least, base));
        self.signs.seen = !is_clear;
        self.signs.risen |=
            !is_clear && self.flat_trials == 0 && !self.kept_trials.is_multiple_of(RISE_TRIALS);
        if is_clear || self.signs.risen || number >= CRUISE_ROUNDS {
            self.judge_trial(now);
        }
    }

    /// Once more nobody may have been there by chance, just after everybody lost packets. On a path that has become longer it looks
    /// as if others kept a queue, but the link is not busy all the time, and the round trip does not grow with our window.
    fn judge_trial(&mut self, now: Instant) {
        let (seen, risen) = (self.signs.seen, self.signs.risen);
        self.clear_trials = if seen { 0 } else { self.clear_trials + 1 };
        self.kept_trials = if seen { self.kept_trials + 1 } else { 0 };
        self.flat_trials = if risen { 0 } else { self.flat_trials + 1 };
        (self.tried, self.trying) = (Some(now), false);
        let is_longer = self.flat_trials >= FLAT_TRIALS;
        if self.clear_trials >= CLEAR_TRIALS || is_longer {
            self.end(now);
            self.was_left = !is_longer;
            self.base = self.base.filter(|_| !is_longer);
        }
    }

    fn end(&mut self, now: Instant) {
        (self.cubic, self.ended) = (None, Some(now));
    }

    pub(crate) fn on_ack(&mut self, sample: &AckSample, now: Instant) {
        if let Some(cubic) = &mut self.cubic {
            cubic.on_ack(sample, now);
        }
    }

    pub(crate) fn on_loss(&mut self, lost_bytes: u64, inflight: u64, now: Instant) {
        if let Some(cubic) = &mut self.cubic {
            cubic.on_loss(lost_bytes, inflight, now);
        }
    }

    pub(crate) fn on_marks(&mut self, now: Instant) {
        if let Some(cubic) = &mut self.cubic {
            cubic.on_marks(now);
        }
    }
}

/// What tells of others.
#[derive(Debug, Default)]
struct Signs {
    phase: Option<Phase>,
    /// Whether the present phase began without any queue of ours, whether others have shown themselves in it, and whether the
    /// queue has overflowed.
    drained: bool,
    seen: bool,
    overflown: bool,
    /// Rounds in a row that met a queue since.
    stood: u32,
    /// The smallest round trip just after a drain, and whether it has grown since, as our own window did.
    drained_rtt: Option<Duration>,
    risen: bool,
    /// What round trips vary by while there is no queue of ours.
    steadiness: Steadiness,
    /// Rounds in which others have shown themselves, in phases in a row that keep no queue.
    sightings: u32,
    /// Rounds in a row that met a long queue of others while too little was in flight for one.
    kept: u32,
    /// Whether the startup's queue is gone; phases in which another overflowed, and when that last was.
    settled: bool,
    overflows: u32,
    overflown_at: Option<Instant>,
    /// Rounds since.
    rounds: usize,
}

impl Signs {
    fn on_phase(&mut self, phase: Phase) {
        let last = self.phase.replace(phase);
        if last == Some(Phase::Cruise) && !self.seen {
            self.sightings = 0;
        }
        self.settled = phase == Phase::Probe || (self.settled && phase != Phase::Startup);
        // Half a window leaves none.
        self.drained = last == Some(Phase::Refresh);
        (self.seen, self.overflown, self.stood) = (false, false, 0);
        (self.drained_rtt, self.risen) = (None, false);
        self.steadiness.pause();
    }

    fn on_round(&mut self, number: u32, least: Duration, base: Duration, own: Duration) {
        self.rounds += 1;
        if self.phase != Some(Phase::Cruise) {
            return;
        }
        // What was sent before has met what was there before.
        if number <= 1 {
            self.drained_rtt = Some(least).filter(|_| self.drained);
            return;
        }
        self.steadiness.on_round(least);
        let growth = (base + ACK_DELAY) / 8 + HOST_LATENESS;
        self.risen |= self.drained_rtt.is_some_and(|drained| least > drained + growth);
        self.stood = if self.is_steady(base) && least > base + own { self.stood + 1 } else { 0 };
        if self.drained && self.stood >= TRIAL_ROUNDS {
            self.seen = true;
            self.sightings += 1;
        }
    }

    fn on_overflow(&mut self, base: Duration, now: Instant) {
        if !self.settled || !self.is_steady(base) || std::mem::replace(&mut self.overflown, true) {
            return;
        }
        match self.overflown_at {
            Some(at) if now <= at + OVERFLOW_MEMORY => {
                if self.rounds < FILTER_ROUNDS {
                    return;
                }
            }
            _ => self.overflows = 0,
        }
        self.overflown_at = Some(now);
        self.overflows += 1;
        self.rounds = 0;
    }

    /// Where delays vary by more, whatever there is of a queue, a queue of others can't be told from that.
    fn is_steady(&self, base: Duration) -> bool {
        self.steadiness.is_even(base / 128)
    }

    fn forget(&mut self) {
        (self.sightings, self.overflows, self.kept) = (0, 0, 0);
    }
}

/// Whether a round trip on a path of `base` shows a queue of others: what is in flight of ours takes `own` to leave, and delays alternate by so
/// much.
pub(crate) fn is_long(round_trip: Duration, base: Duration, own: Duration, alternation: Duration) -> bool {
    let queue = base.max(ROUND_FLOOR).max(LONG_QUEUES * own).max(LONG_ALTERNATIONS * alternation);
    round_trip > base + queue
}

/// A queue of others is so many times longer than what our own datagrams take, and than what delays alternate by.
const LONG_QUEUES: u32 = 3;
const LONG_ALTERNATIONS: u32 = 4;

/// So many rounds in a row the queue must outlast ours, and so many there must be of such before it is believed.
const TRIAL_ROUNDS: u32 = 3;
const SIGHTINGS: u32 = 8;

/// A refresh has so many of them.
const KEPT_ROUNDS: u32 = 2;

/// One overflow may have other reasons: the link has become slower. CUBIC's are some seconds apart.
const OVERFLOWS: u32 = 2;
const OVERFLOW_MEMORY: Duration = Duration::from_secs(30);

/// CUBIC's own periods are some seconds long. A trial costs a few rounds. Intervals are doubled only, so that those of all coincide:
/// on long paths, and once so many trials in a row have seen others.
const TRIAL_INTERVAL: Duration = Duration::from_secs(6);
const TRIAL_INTERVAL_ROUNDS: u32 = 20;
const KEPT_TRIALS: u32 = 2;

/// What a trial finds is confirmed after so long, rather than with the next one: who has just come would be one behind, and go on
/// when all others end. CUBIC's window has grown again by then.
const AGAIN: Duration = Duration::from_millis(1500);
const AGAIN_ROUNDS: u32 = 4;

/// One in so many trials that see others also looks whether round trips grow with our window.
const RISE_TRIALS: u32 = 4;

/// How many trials in a row must agree that nobody is there, and that the path has become longer.
const CLEAR_TRIALS: u32 = 2;
const FLAT_TRIALS: u32 = 3;

/// So many rounds without a queue, which nobody has drained, show that nobody keeps one, if they take longer than CUBIC does to fill a
/// short one again after a loss.
const VACANT_ROUNDS: u32 = 8;
const VACANCY: Duration = Duration::from_secs(2);

/// Of rounds of a hundred datagrams one in ten meets a loss of 0.1 %: so many tell how much is lost.
const STRAY_ROUNDS: u32 = 64;

/// Where more is lost anyhow, on whatever path, nobody keeps a queue.
const MOST_STRAY: f64 = 0.005;

/// The others are taken for one, whose share is the half.
const SHARERS: f64 = 2.0;

/// By so much hosts are late.
const HOST_LATENESS: Duration = Duration::from_millis(1);

/// What the contest has hidden is believed for so long after it, in which it can be seen again.
const BASE_RENEWAL: Duration = Duration::from_secs(10);
