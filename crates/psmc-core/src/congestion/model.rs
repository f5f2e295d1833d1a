//! A controller that models the path by its rate and its smallest round-trip time.

use std::time::{Duration, Instant};

use super::filter::MaxFilter;
use super::round::{Growth, Round};
use super::{AckSample, Controller, RateSample, bytes_in, percent};

/// Sends what the path was seen to deliver, after BBR (draft-ietf-ccwg-bbr).
///
/// ```text
/// Startup ──(no growth, or loss)──> Drain ──(queue empty)──> Cruise ──(some rounds)──> Probe
///    ^                                ^ ^                      │                         │ │
///    │                                │ └──(slower than ever)──┤                         │ │
///    │                                └──(no growth, or loss)──┼─────────────────────────┘ │
///    │      Refresh <──(round trip long not seen at its best)──┘                           │
///    └─────────────────────────────────(the path has much more to give)────────────────────┘
/// ```
///
/// It differs from the draft where a tunnel does: cycles are short, for a path that becomes faster is to be
/// used within seconds; the window leaves no room for a queue except while probing, for the tunnel keeps
/// its queue at home; and the window allows for late acknowledgements by a time, not by a measurement.
#[derive(Debug)]
pub(crate) struct Model {
    datagram_size: u64,
    /// Configured limit, bytes per second.
    max_rate: u64,
    phase: Phase,
    /// Rounds that ended in this phase.
    phase_rounds: u32,
    filter: MaxFilter,
    growth: Growth,
    round: Round,
    min_rtt: Duration,
    /// When a round trip about as short as `min_rtt` was last seen.
    min_rtt_seen: Option<Instant>,
    /// Window that losses have imposed, bytes.
    loss_ceiling: u64,
    /// Consecutive rounds that delivered much less than believed, and that lost too much.
    slow_rounds: u32,
    lossy_rounds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Doubles each round, until the path delivers no more.
    Startup,
    /// Lets the queue at the bottleneck run empty.
    Drain,
    /// Sends what the path delivers.
    Cruise,
    /// Tries whether the path delivers more.
    Probe,
    /// Halves the window, to see the round trip without any queue.
    Refresh,
}

impl Model {
    /// A controller that never sends faster than `max_rate` bytes per second.
    pub(crate) fn with_ceiling(max_rate: u64, datagram_size: u16) -> Self {
        Self {
            datagram_size: u64::from(datagram_size),
            max_rate,
            phase: Phase::Startup,
            phase_rounds: 0,
            filter: MaxFilter::default(),
            growth: Growth::default(),
            round: Round::default(),
            min_rtt: INITIAL_RTT,
            min_rtt_seen: None,
            loss_ceiling: u64::MAX,
            slow_rounds: 0,
            lossy_rounds: 0,
        }
    }

    fn on_rate(&mut self, rate: &RateSample, now: Instant) {
        // "BBR only uses app-limited samples if they raise the estimate" (§5.5.5). Beyond startup one sample
        // per round is enough: the maximum of many would measure their jitter.
        let raises = Some(rate.bytes_per_s) > self.filter.max();
        let due = self.phase == Phase::Startup || rate.round_ended;
        if due && (raises || !rate.app_limited) {
            self.filter.update(rate.bytes_per_s);
        }
        if rate.round_ended {
            self.on_round(rate, now);
        }
    }

    fn on_round(&mut self, rate: &RateSample, now: Instant) {
        let round = std::mem::take(&mut self.round);
        self.phase_rounds += 1;
        self.adapt_loss_ceiling(rate, &round);
        if !rate.app_limited {
            if self.growth.on_round(rate.bytes_per_s, self.growth_target()) {
                self.loss_ceiling = u64::MAX;
            }
            self.notice_fall(rate, round.saw_queue(self.min_rtt));
            self.filter.advance();
        }
        if let Some(next) = self.next_phase(now) {
            self.enter(next);
            if next == Phase::Refresh {
                self.min_rtt_seen = Some(now);
            }
        }
    }

    /// Where the end of a round leads.
    fn next_phase(&self, now: Instant) -> Option<Phase> {
        let lossy = self.lossy_rounds > 0;
        match self.phase {
            _ if self.slow_rounds >= FALL_ROUNDS => Some(Phase::Drain),
            Phase::Startup if self.lossy_rounds >= STARTUP_LOSSY_ROUNDS => Some(Phase::Drain),
            Phase::Startup if self.growth.stalled >= STARTUP_ROUNDS => Some(Phase::Drain),
            Phase::Probe if self.growth.grown >= RESTART_GROWTHS && !lossy => Some(Phase::Startup),
            Phase::Probe if lossy || self.growth.stalled >= PROBE_ROUNDS => Some(Phase::Drain),
            Phase::Cruise if self.is_min_rtt_old(now) => Some(Phase::Refresh),
            Phase::Cruise if self.phase_rounds >= CRUISE_ROUNDS => Some(Phase::Probe),
            Phase::Drain if self.phase_rounds >= DRAIN_ROUNDS => Some(Phase::Cruise),
            Phase::Refresh if self.phase_rounds >= REFRESH_ROUNDS => Some(Phase::Cruise),
            Phase::Startup | Phase::Probe | Phase::Cruise | Phase::Drain | Phase::Refresh => None,
        }
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.phase_rounds = 0;
        self.slow_rounds = 0;
        self.growth = Growth::above(self.rate());
    }

    /// A path that delivers much less than it did, although it is loaded, has become slower: believe the
    /// last rounds, rather than send too much until the filter forgets.
    fn notice_fall(&mut self, rate: &RateSample, queued: bool) {
        let fell = rate.bytes_per_s < percent(self.rate(), FALL_PERCENT);
        let loaded = queued || self.lossy_rounds > 0;
        self.slow_rounds = if fell && loaded { self.slow_rounds + 1 } else { 0 };
        if self.slow_rounds >= FALL_ROUNDS {
            self.filter.forget_but(FALL_ROUNDS as usize);
        }
    }

    /// After a lossy round the window backs off to what was delivered, but by no more than a share at once;
    /// it grows again round by round (`BBR.inflight_longterm`, §5.5.9).
    fn adapt_loss_ceiling(&mut self, rate: &RateSample, round: &Round) {
        let lossy = round.is_lossy(self.datagram_size, self.min_rtt);
        self.lossy_rounds = if lossy { self.lossy_rounds + 1 } else { 0 };
        if !lossy {
            self.raise_loss_ceiling();
        } else if self.phase != Phase::Startup || self.lossy_rounds >= STARTUP_LOSSY_ROUNDS {
            let delivered = bytes_in(rate.bytes_per_s, self.min_rtt + ALLOWANCE);
            self.loss_ceiling = delivered.max(percent(self.window(), LOSS_BACKOFF_PERCENT.min(100 - round.lost_percent())));
        }
    }

    /// Back to what the path is believed to hold at once, beyond it only as far as probes go unharmed.
    fn raise_loss_ceiling(&mut self) {
        let held = bytes_in(self.rate(), self.min_rtt + ALLOWANCE);
        if self.loss_ceiling < held || self.phase == Phase::Probe {
            self.loss_ceiling = self.loss_ceiling.saturating_add(self.loss_ceiling / CEILING_GROWTH);
        }
    }

    fn note_rtt(&mut self, sample: &AckSample, now: Instant) {
        self.min_rtt = sample.min_rtt.unwrap_or(self.min_rtt);
        let Some(rtt) = sample.rtt else { return };
        self.round.min_rtt = Some(self.round.min_rtt.map_or(rtt, |least| least.min(rtt)));
        if rtt <= self.min_rtt + self.min_rtt / 16 + MIN_RTT_TOLERANCE {
            self.min_rtt_seen = Some(now);
        }
    }

    fn is_min_rtt_old(&self, now: Instant) -> bool {
        self.min_rtt_seen.is_some_and(|at| now.saturating_duration_since(at) > MIN_RTT_AGE)
    }

    /// The rate to reckon with: measured, or assumed before the first sample, and at most as configured.
    fn rate(&self) -> u64 {
        let assumed = INITIAL_DATAGRAMS * self.datagram_size * 1000 / INITIAL_SPREAD_MS;
        self.filter.max().unwrap_or(assumed).min(self.max_rate)
    }

    /// What the window aims at, before its bounds.
    fn target_window(&self) -> u64 {
        let with = |slack| bytes_in(self.rate(), self.min_rtt + slack);
        match self.phase {
            Phase::Startup => percent(with(ALLOWANCE), 200),
            Phase::Probe => percent(with(2 * ALLOWANCE), 125),
            Phase::Cruise => with(ALLOWANCE),
            Phase::Drain => with(ACK_DELAY),
            Phase::Refresh => percent(with(Duration::ZERO), 50),
        }
    }

    /// The growth of a round that counts, percent: less than what the pacing gain would give if it could.
    fn growth_target(&self) -> u64 {
        match self.phase {
            Phase::Startup => 125,
            Phase::Probe | Phase::Cruise | Phase::Drain | Phase::Refresh => 110,
        }
    }

    fn floor_datagrams(&self) -> u64 {
        match self.phase {
            Phase::Startup => INITIAL_DATAGRAMS,
            Phase::Probe | Phase::Cruise | Phase::Drain | Phase::Refresh => FLOOR_DATAGRAMS,
        }
    }
}

impl Controller for Model {
    fn on_ack(&mut self, sample: &AckSample, now: Instant) {
        self.round.acked += sample.acked_bytes;
        self.note_rtt(sample, now);
        if let Some(rate) = sample.rate {
            self.on_rate(&rate, now);
        }
        if self.phase == Phase::Drain && sample.inflight <= self.window() {
            self.enter(Phase::Cruise);
        }
    }

    fn on_loss(&mut self, lost_bytes: u64, _inflight: u64, _now: Instant) {
        self.round.lost += lost_bytes;
    }

    fn window(&self) -> u64 {
        self.target_window().min(self.loss_ceiling).max(self.floor_datagrams() * self.datagram_size)
    }

    fn pacing_rate(&self) -> u64 {
        let gain = match self.phase {
            Phase::Startup => 277,
            Phase::Probe => 125,
            Phase::Cruise | Phase::Refresh => 99,
            Phase::Drain => 90,
        };
        percent(self.rate(), gain).max(MIN_DATAGRAMS_PER_S * self.datagram_size).min(self.max_rate)
    }

    fn bandwidth(&self) -> Option<u64> {
        self.filter.max().map(|rate| rate.min(self.max_rate))
    }

    fn on_restart(&mut self, _now: Instant) {
        let size = u16::try_from(self.datagram_size).unwrap_or(u16::MAX);
        *self = Self::with_ceiling(self.max_rate, size);
    }
}

/// Before the first sample: ten datagrams (RFC 6928) spread over 20 ms, 5.6 Mb/s, which hurts no link of today
/// for one round trip.
const INITIAL_DATAGRAMS: u64 = 10;
const INITIAL_SPREAD_MS: u64 = 20;

/// Assumed before the first sample; with the above it lets the first flight go at once.
const INITIAL_RTT: Duration = Duration::from_millis(20);

/// Fewer would stall on each late acknowledgement (`BBRMinPipeCwnd`, §2.7); more would be a long queue on a
/// slow path: at 1 Mb/s four datagrams take 45 ms.
const FLOOR_DATAGRAMS: u64 = 4;

/// Even a path that measured next to nothing gets this many, or it could never be measured again.
const MIN_DATAGRAMS_PER_S: u64 = 10;

/// Receivers acknowledge at the latest after this time.
const ACK_DELAY: Duration = Duration::from_millis(5);

/// The window covers this beyond the round trip, or late acknowledgements and hosts that wake up some
/// milliseconds late would limit the rate.
const ALLOWANCE: Duration = Duration::from_millis(10);

/// "three (3) rounds" without growth by a quarter mean a full pipe (§5.3.1.2).
const STARTUP_ROUNDS: u32 = 3;

/// One lossy round may be bad luck.
const STARTUP_LOSSY_ROUNDS: u32 = 2;

/// What is sent in one round is seen delivered in the next one.
const PROBE_ROUNDS: u32 = 2;

/// Growing twice by the probe's quarter is no noise: find the new rate as at the start.
const RESTART_GROWTHS: u32 = 2;

/// With probe and drain a cycle of about 8 rounds, as that of BBR's first version.
const CRUISE_ROUNDS: u32 = 5;

/// The queue of a probe is gone after one round; if it is not, the estimate is wrong, and waiting does not mend it.
const DRAIN_ROUNDS: u32 = 2;

/// One round to let the window sink, one to see the round trip.
const REFRESH_ROUNDS: u32 = 2;

/// Half of the 10 s for which round-trip times are remembered, so that the best is renewed before it is forgotten.
const MIN_RTT_AGE: Duration = Duration::from_secs(5);

/// A round trip this much above the minimum counts as the minimum: hosts are no more exact.
const MIN_RTT_TOLERANCE: Duration = Duration::from_millis(1);

/// A rate below this share of the estimate, two rounds in a row, is no jitter, nor what a second flow's probing takes.
const FALL_PERCENT: u64 = 50;
const FALL_ROUNDS: u32 = 2;

/// After loss the window sinks at most to this (`BBRBeta`, §2.7).
const LOSS_BACKOFF_PERCENT: u64 = 70;

/// A clean round raises the ceiling by an eighth: one cycle of 8 rounds makes good for two lossy rounds.
const CEILING_GROWTH: u64 = 8;
