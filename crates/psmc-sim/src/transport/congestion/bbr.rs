//! BBR: what a path carries and how long it takes say how much is sent, and when
//! (draft-cardwell-iccrg-bbr-congestion-control-00, called the draft below).
//!
//! It is version 1, which Linux has, and as Linux has it: with an allowance for acknowledgements in bunches, and a search for policers.

mod bunches;
mod policer;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Controller, Delivered, INITIAL_WINDOW};
use bunches::Bunches;
use policer::Policer;

/// The gain that doubles the rate each round trip (2 / ln 2, `BBRHighGain`), and the one that takes the queue away which that makes.
const HIGH_GAIN: f64 = 2.885;
const DRAIN_GAIN: f64 = 1.0 / HIGH_GAIN;

/// Round trips' worth that may be on their way: acknowledgements are late, and come for several segments.
const WINDOW_GAIN: f64 = 2.0;

/// Gains of the rate, for a round trip each: more to find out, less to drain that, then as it is.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

/// So many round trips the largest rate is remembered: longer than a cycle.
const RATE_ROUNDS: u64 = 10;

/// So long the shortest round trip is believed.
const RTT_AGE: Duration = Duration::from_secs(10);

/// How long a queue of one's own is given to drain.
const PROBE_TIME: Duration = Duration::from_millis(200);

/// Segments on their way in that time, and at least.
const MIN_WINDOW: f64 = 4.0;

/// A rate that has not grown to so much in so many rounds is what the path carries.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

/// Linux sends at less than the rate it has found, so that no queue grows from errors of clocks.
const MARGIN: f64 = 0.99;

/// Linux hands a network card what leaves in this time at once, and two segments at least if there are so many a second.
const BURST_TIME: f64 = 0.001;
const TWO_SEGMENTS_FROM: f64 = 100.0;

/// The round trip that is assumed before there is one.
const ASSUMED_RTT: Duration = Duration::from_millis(1);

/// The model, and what is made of it. Rates are in segments per second, windows in segments.
#[derive(Debug)]
pub(super) struct Bbr {
    mode: Mode,
    rates: Largest,
    /// The shortest round trip, and when it was seen.
    min_rtt: Option<(Duration, Instant)>,
    rounds: Rounds,
    full: Full,
    bunches: Bunches,
    policer: Policer,
    repair: Repair,
    window: f64,
    /// What it was before losses or a small window.
    window_before: f64,
    pacing: f64,
    has_paced_by_rtt: bool,
    /// Nothing was on its way: what comes next says nothing of queues.
    was_idle: bool,
    rng: Pcg64Mcg,
}

/// What it is doing (the draft, section 3.4).
///
/// ```text
/// Startup ──full──▶ Drain ──empty──▶ Cycle ◀──▶ ProbeRtt
///    ▲                                             │
///    └──────────────────not full───────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// It doubles its rate each round trip.
    Startup,
    /// It lets the queue drain.
    Drain,
    /// It looks for more at times (`BBRProbeBW`).
    Cycle { phase: usize, since: Instant },
    /// It lets queues drain, to see the round trip without them.
    ProbeRtt { until: Option<Instant>, round_has_ended: bool },
}

/// What becomes of the window while losses are repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    /// There are none.
    None,
    /// They were just found.
    Begins,
    /// In the first round trip a segment leaves for each that has arrived.
    Conserves,
    /// Then, or after everything was lost, the window grows to what it would be.
    Grows,
}

/// Round trips: one is over when something arrives that was sent after it had begun.
#[derive(Clone, Copy, Debug, Default)]
struct Rounds {
    count: u64,
    /// What had arrived when it began, in bytes.
    begun_at: u64,
    /// Whether one has just begun.
    has_begun: bool,
}

/// Whether the rate still grows.
#[derive(Clone, Copy, Debug, Default)]
struct Full {
    rate: f64,
    rounds: u32,
    is_reached: bool,
}

impl Bbr {
    /// At the beginning.
    pub(super) fn new(seed: u64) -> Self {
        Self {
            mode: Mode::Startup,
            rates: Largest::default(),
            min_rtt: None,
            rounds: Rounds::default(),
            full: Full::default(),
            bunches: Bunches::default(),
            policer: Policer::default(),
            repair: Repair::None,
            window: INITIAL_WINDOW,
            window_before: INITIAL_WINDOW,
            pacing: HIGH_GAIN * INITIAL_WINDOW / ASSUMED_RTT.as_secs_f64(),
            has_paced_by_rtt: false,
            was_idle: false,
            rng: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    fn update_rate(&mut self, seen: &Delivered, now: Instant) {
        self.rounds.has_begun = false;
        let Some(rate) = seen.rate else {
            return;
        };
        if rate.before >= self.rounds.begun_at {
            self.begin_round(seen.total);
            self.rounds.count += 1;
            self.rounds.has_begun = true;
            if self.repair == Repair::Conserves {
                self.repair = Repair::Grows;
            }
        }
        let probes = matches!(self.mode, Mode::Cycle { .. });
        if self.policer.update(seen, self.rounds.has_begun, probes, now) {
            self.begin_cycle(now);
        }
        if !rate.is_limited || rate.segments_per_s >= self.rates.largest() {
            self.rates.insert(self.rounds.count, rate.segments_per_s);
        }
        self.bunches.update(seen.segments, self.rate(), self.window, self.rounds.has_begun, now);
    }

    fn begin_round(&mut self, total: u64) {
        self.rounds.begun_at = total;
    }

    /// A phase lasts a round trip; more is sent until it is on its way or lost, less until the queue is gone.
    fn update_cycle(&mut self, seen: &Delivered, now: Instant) {
        let Mode::Cycle { phase, since } = self.mode else {
            return;
        };
        let is_long = self.min_rtt.is_none_or(|(rtt, _)| now.saturating_duration_since(since) > rtt);
        let gain = CYCLE[phase];
        let is_over = if gain > 1.0 {
            is_long && (seen.lost > 0.0 || seen.in_flight_before >= self.in_flight_at(gain))
        } else if gain < 1.0 {
            is_long || seen.in_flight_before <= self.in_flight_at(1.0)
        } else {
            is_long
        };
        if is_over {
            self.mode = Mode::Cycle { phase: (phase + 1) % CYCLE.len(), since: now };
        }
    }

    fn look_whether_full(&mut self, seen: &Delivered) {
        let is_limited = seen.rate.is_some_and(|rate| rate.is_limited);
        if self.full.is_reached || !self.rounds.has_begun || is_limited {
            return;
        }
        let rate = self.rates.largest();
        if rate >= self.full.rate * FULL_GROWTH {
            self.full = Full { rate, ..Full::default() };
        } else {
            self.full.rounds += 1;
            self.full.is_reached = self.full.rounds >= FULL_ROUNDS;
        }
    }

    fn look_whether_drained(&mut self, seen: &Delivered, now: Instant) {
        if self.mode == Mode::Startup && self.full.is_reached {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && seen.in_flight <= self.in_flight_at(1.0) {
            self.begin_cycle(now);
        }
    }

    /// In any phase but that which drains, so that connections do not look for more at the same time.
    fn begin_cycle(&mut self, now: Instant) {
        let others = CYCLE.len() as u64 - 1;
        let phase = match usize::try_from(self.rng.next_u64() % others).unwrap_or(0) {
            0 => 0,
            number => number + 1,
        };
        self.mode = Mode::Cycle { phase, since: now };
    }

    fn update_min_rtt(&mut self, seen: &Delivered, now: Instant) {
        let is_old = self.min_rtt.is_some_and(|(_, at)| now.saturating_duration_since(at) > RTT_AGE);
        if let Some(rtt) = seen.rtt
            && (is_old || self.min_rtt.is_none_or(|(min, _)| rtt < min))
        {
            self.min_rtt = Some((rtt, now));
        }
        if is_old && !self.was_idle && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.keep_window();
            self.mode = Mode::ProbeRtt { until: None, round_has_ended: false };
        }
        self.probe_rtt(seen, now);
        if seen.segments > 0.0 {
            self.was_idle = false;
        }
    }

    fn probe_rtt(&mut self, seen: &Delivered, now: Instant) {
        let Mode::ProbeRtt { until, round_has_ended } = &mut self.mode else {
            return;
        };
        if until.is_some() {
            *round_has_ended |= self.rounds.has_begun;
            if *round_has_ended {
                self.end_probe(now);
            }
        } else if seen.in_flight <= MIN_WINDOW {
            *until = Some(now + PROBE_TIME);
            self.begin_round(seen.total);
        }
    }

    fn end_probe(&mut self, now: Instant) {
        if let Mode::ProbeRtt { until: Some(until), .. } = self.mode
            && now > until
        {
            self.min_rtt = self.min_rtt.map(|(rtt, _)| (rtt, now));
            self.window = self.window.max(self.window_before);
            if self.full.is_reached {
                self.begin_cycle(now);
            } else {
                self.mode = Mode::Startup;
            }
        }
    }

    fn keep_window(&mut self) {
        let is_reduced = self.repair != Repair::None || matches!(self.mode, Mode::ProbeRtt { .. });
        self.window_before = if is_reduced { self.window.max(self.window_before) } else { self.window };
    }

    fn update_pacing(&mut self, gain: f64, smoothed_rtt: Option<Duration>) {
        if let Some(rtt) = smoothed_rtt
            && !std::mem::replace(&mut self.has_paced_by_rtt, true)
        {
            self.pacing = HIGH_GAIN * self.window / rtt.max(Duration::from_micros(1)).as_secs_f64();
        }
        let pacing = gain * self.rate() * MARGIN;
        if self.full.is_reached || pacing > self.pacing {
            self.pacing = pacing;
        }
    }

    fn update_window(&mut self, seen: &Delivered) {
        if seen.segments > 0.0 && !self.repair_window(seen) {
            let (_, gain) = self.gains();
            let bunch = if self.full.is_reached { self.bunches.allowance(self.rate()) } else { 0.0 };
            let target = self.with_bursts(self.product(self.rate(), gain) + bunch);
            if self.full.is_reached {
                self.window = (self.window + seen.segments).min(target);
            } else if self.window < target || seen.is_young {
                self.window += seen.segments;
            }
            self.window = self.window.max(MIN_WINDOW);
        }
        if matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.window = self.window.min(MIN_WINDOW);
        }
    }

    /// Says whether the window is what losses make of it.
    fn repair_window(&mut self, seen: &Delivered) -> bool {
        self.window = (self.window - seen.lost).max(1.0);
        if !seen.is_repairing && self.repair != Repair::None {
            self.repair = Repair::None;
            self.window = self.window.max(self.window_before);
        }
        let conserved = seen.in_flight + seen.segments;
        if self.repair == Repair::Begins {
            self.repair = Repair::Conserves;
            self.begin_round(seen.total);
            self.window = conserved;
        }
        let conserves = self.repair == Repair::Conserves;
        if conserves {
            self.window = self.window.max(conserved);
        }
        conserves
    }

    /// Of the rate, and of the window.
    fn gains(&self) -> (f64, f64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::Cycle { phase, .. } => {
                let gain = if self.policer.rate().is_some() { 1.0 } else { CYCLE[phase] };
                (gain, WINDOW_GAIN)
            }
            Mode::ProbeRtt { .. } => (1.0, 1.0),
        }
    }

    /// The rate at which it sends, but for gains.
    fn rate(&self) -> f64 {
        self.policer.rate().unwrap_or(self.rates.largest())
    }

    /// Segments on their way that keep the path so many times full.
    fn in_flight_at(&self, gain: f64) -> f64 {
        self.with_bursts(self.product(self.rates.largest(), gain))
    }

    /// What is on its way at a rate, without queues, and so many times of it.
    fn product(&self, rate: f64, gain: f64) -> f64 {
        self.min_rtt.map_or(INITIAL_WINDOW, |(rtt, _)| (gain * rate * rtt.as_secs_f64()).ceil())
    }

    /// The same with segments that wait in both hosts: three bursts, and an even number, for two are acknowledged at once.
    fn with_bursts(&self, product: f64) -> f64 {
        let burst = (self.pacing * BURST_TIME).floor();
        let burst = burst.max(if self.pacing < TWO_SEGMENTS_FROM { 1.0 } else { 2.0 });
        let even = ((product + 3.0 * burst) / 2.0).ceil() * 2.0;
        let looks_for_more = matches!(self.mode, Mode::Cycle { phase: 0, .. });
        even + if looks_for_more { 2.0 } else { 0.0 }
    }
}

impl Controller for Bbr {
    fn on_delivered(&mut self, seen: &Delivered, now: Instant) {
        self.update_rate(seen, now);
        self.update_cycle(seen, now);
        self.look_whether_full(seen);
        self.look_whether_drained(seen, now);
        self.update_min_rtt(seen, now);
        self.update_pacing(self.gains().0, seen.smoothed_rtt);
        self.update_window(seen);
    }

    fn on_idle_end(&mut self, now: Instant) {
        self.was_idle = true;
        self.bunches.restart(now);
        match self.mode {
            Mode::Cycle { .. } => self.update_pacing(1.0, None),
            Mode::ProbeRtt { .. } => self.end_probe(now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn on_loss(&mut self, _now: Instant) {
        self.keep_window();
        self.repair = Repair::Begins;
    }

    /// Version 1 does not heed marks.
    fn on_mark(&mut self, _now: Instant) {}

    fn on_timeout(&mut self, _now: Instant) {
        self.keep_window();
        self.repair = Repair::Grows;
        self.full.rate = 0.0;
        self.window = 1.0;
    }

    fn undo(&mut self) {
        (self.full.rate, self.full.rounds) = (0.0, 0);
        self.policer.reset();
    }

    fn window(&self) -> f64 {
        self.window
    }

    fn in_slow_start(&self) -> bool {
        self.mode == Mode::Startup
    }

    fn pacing(&self) -> Option<f64> {
        Some(self.pacing)
    }

    fn holds_back(&self) -> bool {
        matches!(self.mode, Mode::ProbeRtt { .. })
    }
}

/// The largest of the rates of the last [`RATE_ROUNDS`] rounds: those that are larger than all later ones, with their rounds.
#[derive(Debug, Default)]
struct Largest(VecDeque<(u64, f64)>);

impl Largest {
    fn insert(&mut self, round: u64, rate: f64) {
        while self.0.pop_back_if(|(_, smaller)| *smaller <= rate).is_some() {}
        self.0.push_back((round, rate));
        while self.0.pop_front_if(|(old, _)| *old + RATE_ROUNDS < round).is_some() {}
    }

    /// Zero before there is one.
    fn largest(&self) -> f64 {
        self.0.front().map_or(0.0, |(_, rate)| *rate)
    }
}

#[cfg(test)]
mod tests;
