//! How the phases of the model follow on one another.

use std::time::{Duration, Instant};

use super::{Model, PROBE_ROUNDS, STARTUP_ROUNDS};
use crate::congestion::bytes_in;
use crate::congestion::phase::{ALLOWANCE, CRUISE_ROUNDS, Phase};
use crate::congestion::round::Growth;
use crate::congestion::saturation::Fall;
use crate::congestion::saturation::Saturation;

impl Model {
    /// Where the end of a round leads.
    pub(super) fn next_phase(&self, grew: bool, limited: bool, now: Instant) -> Option<Phase> {
        match self.phase {
            Phase::Compete if !self.contest.is_on() => Some(Phase::Drain),
            Phase::Compete => None,
            Phase::Cruise if self.contest.is_on() => {
                let is_over = !self.contest.is_trying();
                (is_over || self.phase_rounds >= CRUISE_ROUNDS).then_some(Phase::Compete)
            }
            _ if self.fall.rate().is_some() => Some(Phase::Drain),
            Phase::Cruise if self.is_contested(now) || self.crowd.is_crowded_out() => Some(Phase::Compete),
            Phase::Cruise if self.crowd.is_on() => None,
            Phase::Startup if self.lossy_rounds >= STARTUP_LOSSY_ROUNDS => Some(Phase::Drain),
            Phase::Startup if self.growth.stalled >= STARTUP_ROUNDS => Some(Phase::Drain),
            Phase::Startup
                if self.overflown || self.filled_rounds >= self.round_trips.filled_limit(self.base_rtt()) =>
            {
                Some(Phase::Drain)
            }
            Phase::Probe if grew && (!self.confirmed || self.growth.grown >= RESTART_GROWTHS) => {
                Some(Phase::Startup)
            }
            Phase::Probe if grew => Some(Phase::Probe),
            Phase::Probe if self.phase_rounds >= PROBE_ROUNDS && self.is_clear => Some(Phase::Cruise),
            Phase::Probe if self.phase_rounds >= PROBE_ROUNDS => Some(Phase::Drain),
            Phase::Cruise if self.is_min_rtt_old(now) => Some(Phase::Refresh),
            Phase::Cruise if self.phase_rounds >= CRUISE_ROUNDS && !self.is_patient(now) => {
                Some(Phase::Probe)
            }
            Phase::Cruise if !self.confirmed && !limited => Some(Phase::Probe),
            Phase::Drain if self.phase_rounds >= DRAIN_ROUNDS => Some(Phase::Cruise),
            Phase::Refresh if self.phase_rounds >= self.refresh_rounds() => Some(Phase::Cruise),
            Phase::Startup | Phase::Probe | Phase::Cruise | Phase::Drain | Phase::Refresh => None,
        }
    }

    pub(super) fn enter(&mut self, phase: Phase, now: Instant) {
        if self.phase == Phase::Startup {
            self.started_up = Some(now);
        }
        let (base, shared) = (self.base_rtt(), self.crowd.found());
        if self.phase == Phase::Refresh && !self.contest.is_on() {
            self.crowd.on_refreshed(base);
        }
        if phase == Phase::Probe {
            self.round_trips.end_cycle();
            self.saturation.on_probe_begins();
        }
        self.has_probed |= self.phase == Phase::Probe && phase != Phase::Probe;
        self.phase = phase;
        self.contest.on_phase(phase);
        self.crowd.on_phase(phase);
        self.phase_rounds = 0;
        self.phase_began = Some(now);
        self.fall = Fall::default();
        match phase {
            Phase::Refresh => {
                self.round_trips.renew(now);
                self.has_vacated = false;
            }
            Phase::Startup => {
                self.confirmed = false;
                self.growth = Growth::above(self.rate());
                let held = bytes_in(self.rate(), self.held_rtt() + self.way_back() + ALLOWANCE);
                self.slow_start.resume(held, self.rate(), self.datagram_size);
            }
            Phase::Compete => {
                let rate = self.rate().max(shared.unwrap_or(0));
                self.contest.enter(rate, (base, self.smoothed_rtt()), self.datagram_size, now);
                self.loss_ceiling.lift();
                // What probes have met beside others says nothing of when they are gone.
                self.saturation = Saturation::default();
            }
            // A probe that follows on growth goes on from there.
            Phase::Probe if self.growth.stalled > 0 => self.growth = Growth::above(self.rate()),
            Phase::Probe | Phase::Drain | Phase::Cruise => {}
        }
    }

    /// Whether others keep a queue that overflows, on a path over which they can. It is far longer than what delays vary by, or those
    /// are steady: else such a queue can't be told from what varies.
    fn is_contested(&self, now: Instant) -> bool {
        let is_even = !self.is_unsteady() && self.mean_rate.is_even(self.rate_tolerance());
        (self.contest.is_kept() || (self.contest.is_seen() && is_even))
            && self.is_contest_possible()
            && self.lost_at.is_some_and(|at| now < at + LOSS_MEMORY)
    }

    /// Whether it is time to make the window smaller at once, as others who see the same queue do.
    pub(super) fn is_refresh_due(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Compete => self.contest.is_on() && self.contest.is_trial_due(self.smoothed_rtt(), now),
            Phase::Cruise => !self.contest.is_on() && self.crowd.is_refresh_due(now),
            Phase::Startup | Phase::Drain | Phase::Probe | Phase::Refresh => false,
        }
    }

    /// Where every path of a group may send something the window may never be reached.
    fn refresh_rounds(&self) -> u32 {
        if self.has_vacated { REFRESH_ROUNDS } else { 2 * REFRESH_ROUNDS }
    }

    /// Whether others keep a queue, and it is too early to press them again.
    fn is_patient(&self, now: Instant) -> bool {
        let within = |since: Option<Instant>, time| since.is_some_and(|at| now < at + time);
        let contested = self.filled_rounds >= CRUISE_ROUNDS && within(self.lost_at, LOSS_MEMORY);
        contested && within(self.phase_began, PATIENCE)
    }

    fn is_min_rtt_old(&self, now: Instant) -> bool {
        let age = if self.is_pressed() { PRESSED_AGE } else { MIN_RTT_AGE };
        self.round_trips.is_best_old(age, now)
    }
}

/// One lossy round may be bad luck.
const STARTUP_LOSSY_ROUNDS: u32 = 2;

/// Growing twice by the probe's quarter is no noise: find the new rate as at the start.
const RESTART_GROWTHS: u32 = 2;

/// Pacing has taken away a queue of ours after a few rounds: one that is still there is another flow's, and each probe
/// takes from that. On short paths probes would follow on one another faster than the window of CUBIC recovers.
const PATIENCE: Duration = Duration::from_millis(500);

/// A flow that keeps a queue makes it overflow about as often (CUBIC at 100 Mb/s and 40 ms: every 8 s).
const LOSS_MEMORY: Duration = Duration::from_secs(10);

/// The queue of a probe is gone after one round. If it is not, the estimate is wrong, and waiting does not
/// mend it.
const DRAIN_ROUNDS: u32 = 2;

/// One round to let the window sink, one to see the round trip.
const REFRESH_ROUNDS: u32 = 2;

/// Half of the 10 s for which round-trip times are remembered: the best is renewed before it is forgotten.
const MIN_RTT_AGE: Duration = Duration::from_secs(5);

/// The same where it may be others' queue that leaves next to nothing of the path.
const PRESSED_AGE: Duration = Duration::from_millis(1250);
