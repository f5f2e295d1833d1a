//! CUBIC: the window is a cubic function of the time since the last loss (RFC 9438), with HyStart.
//!
//! HyStart (Ha and Rhee, 2011): an end of slow start before packets are lost.

use std::time::{Duration, Instant};

use super::{Acked, Controller, INITIAL_WINDOW, MIN_THRESHOLD};

/// What is left of the window after a loss (RFC 9438 §4.6).
const BETA: f64 = 0.7;

/// The steepness of the cubic function, in segments per second cubed (RFC 9438 §5.1).
const C: f64 = 0.4;

/// Segments that Reno would have to add each round trip to be as fast with [`BETA`] (RFC 9438 §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The most that the window grows for each segment that arrives, as Linux has it: a third of slow start's.
const MAX_GROWTH: f64 = 0.5;

/// The least before anything was lost, as Linux has it: a slow start that ended without a loss says little of what the
/// path carries.
const UNTRIED_GROWTH: f64 = 0.05;

/// A window, a threshold and the curve, in segments.
#[derive(Debug)]
pub(super) struct Cubic {
    window: f64,
    threshold: f64,
    /// The window before the last loss: where the curve is flat.
    plateau: f64,
    epoch: Option<Epoch>,
    hystart: HyStart,
    before: Before,
}

/// What there was before the last loss.
#[derive(Clone, Copy, Debug)]
struct Before {
    window: f64,
    threshold: f64,
    plateau: f64,
}

/// The time since congestion avoidance began.
#[derive(Debug)]
struct Epoch {
    started_at: Instant,
    /// The time from the start to the plateau, in seconds (`K`).
    to_plateau: f64,
    plateau: f64,
    /// What Reno would have.
    reno: f64,
}

impl Cubic {
    /// At the beginning.
    pub(super) fn new() -> Self {
        let (window, threshold, plateau) = (INITIAL_WINDOW, f64::INFINITY, 0.0);
        let before = Before { window, threshold, plateau };
        Self { window, threshold, plateau, epoch: None, hystart: HyStart::default(), before }
    }

    /// A loss lowers the threshold, and the plateau below the window if the one before was not reached again.
    fn reduce(&mut self) {
        self.before = Before { window: self.window, threshold: self.threshold, plateau: self.plateau };
        let fell_short = self.window < self.plateau;
        self.plateau = if fell_short { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.threshold = (self.window.floor() * BETA).floor().max(MIN_THRESHOLD);
        self.epoch = None;
    }

    fn slow_start(&mut self, acked: &Acked, now: Instant) {
        self.window = (self.window + acked.segments).min(self.threshold.max(self.window));
        let Acked { rtt, acknowledged, sent, .. } = *acked;
        if self.hystart.should_end(self.window, rtt, acknowledged, sent, now) {
            self.threshold = self.window;
        }
    }

    fn avoid_congestion(&mut self, acked: &Acked, now: Instant) {
        let (window, plateau) = (self.window, self.plateau);
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(window, plateau, now));
        let target = epoch.target(acked.smoothed_rtt, now).min(1.5 * window);
        let reno = epoch.reno_after(acked.segments, window);
        let growth = (target - window).max(reno - window).max(0.0) / window;
        let least = if plateau > 0.0 { 0.0 } else { UNTRIED_GROWTH };
        self.window += growth.clamp(least, MAX_GROWTH) * acked.segments;
    }
}

impl Epoch {
    fn new(window: f64, plateau: f64, now: Instant) -> Self {
        let plateau = plateau.max(window);
        let to_plateau = ((plateau - window) / C).cbrt();
        Self { started_at: now, to_plateau, plateau, reno: window }
    }

    /// Where the curve will be a round trip from now.
    fn target(&self, rtt: Duration, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.started_at) + rtt;
        let from_plateau = elapsed.as_secs_f64() - self.to_plateau;
        self.plateau + C * from_plateau * from_plateau * from_plateau
    }

    fn reno_after(&mut self, segments: f64, window: f64) -> f64 {
        self.reno += ALPHA * segments / window;
        self.reno
    }
}

impl Controller for Cubic {
    fn on_acked(&mut self, acked: &Acked, now: Instant) {
        if self.in_slow_start() {
            self.slow_start(acked, now);
        } else {
            self.avoid_congestion(acked, now);
        }
    }

    fn on_loss(&mut self, _now: Instant) {
        self.reduce();
        self.window = self.threshold;
    }

    fn on_timeout(&mut self, _now: Instant) {
        self.reduce();
        self.hystart.reset();
        self.window = 1.0;
    }

    fn undo(&mut self) {
        let Before { window, threshold, plateau } = self.before;
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
        self.plateau = plateau;
        self.epoch = None;
    }

    fn window(&self) -> f64 {
        self.window
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }
}

/// Below this window, in segments, no slow start ends: there is nothing to be seen yet.
const MIN_WINDOW: f64 = 16.0;

/// Acknowledgements no farther apart than this are of one train.
const TRAIN_SPACING: Duration = Duration::from_millis(2);

/// Samples of a round from which its delay is judged.
const MIN_SAMPLES: u32 = 8;

/// The increase of the delay that ends slow start: an eighth of it, within these bounds.
const MIN_INCREASE: Duration = Duration::from_millis(4);
const MAX_INCREASE: Duration = Duration::from_millis(16);

/// What it has seen of the present round trip, and of all.
#[derive(Debug, Default)]
pub(super) struct HyStart {
    min_delay: Option<Duration>,
    round: Option<Round>,
}

#[derive(Debug)]
struct Round {
    started_at: Instant,
    last_ack_at: Instant,
    /// When everything up to here has arrived, the round is over.
    until: u64,
    samples: u32,
    delay: Duration,
}

impl HyStart {
    /// Begins anew, after a loss of everything.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Looks at an acknowledgement in slow start; says whether slow start should end.
    pub(super) fn should_end(
        &mut self,
        window: f64,
        rtt: Option<Duration>,
        acknowledged: u64,
        sent: u64,
        now: Instant,
    ) -> bool {
        let Some(rtt) = rtt else {
            return false;
        };
        let min_delay = self.min_delay.map_or(rtt, |min| min.min(rtt));
        self.min_delay = Some(min_delay);
        let round = match &mut self.round {
            Some(round) if acknowledged < round.until => round,
            ended => ended.insert(Round {
                started_at: now,
                last_ack_at: now,
                until: sent,
                samples: 0,
                delay: Duration::MAX,
            }),
        };
        let train_ends = round.train_passes(min_delay / 2, now);
        round.delay = round.delay.min(rtt);
        round.samples += 1;
        let increase = (min_delay / 8).clamp(MIN_INCREASE, MAX_INCREASE);
        let delayed = round.samples >= MIN_SAMPLES && round.delay > min_delay + increase;
        window >= MIN_WINDOW && (train_ends || delayed)
    }
}

impl Round {
    /// Whether acknowledgements have come one close behind the other for longer than `limit`: then the packets of
    /// this round fill the path.
    fn train_passes(&mut self, limit: Duration, now: Instant) -> bool {
        if now.saturating_duration_since(self.last_ack_at) > TRAIN_SPACING {
            return false;
        }
        self.last_ack_at = now;
        now.saturating_duration_since(self.started_at) > limit
    }
}
