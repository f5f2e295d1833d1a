//! A controller that models the path by its rate and its smallest round-trip time.

mod rounds;
mod transitions;

use std::time::{Duration, Instant};

use super::chance::{ChanceLoss, LossResponse};
use super::contest::Contest;
use super::crowd::Crowd;
use super::filter::MaxFilter;
use super::filter::MeanRate;
use super::phase::LossCeiling;
use super::phase::SlowStart;
use super::phase::{ACK_DELAY, INITIAL_DATAGRAMS, Phase};
use super::rate::ROUND_FLOOR;
use super::round::{Growth, Rise, Round, filled_rtt};
use super::round_trips::RoundTrips;
use super::saturation::Fall;
use super::saturation::Saturation;
use super::{AckSample, Controller, bytes_in, percent, rate_over, span_of};

/// Sends what the path was seen to deliver, after BBR (draft-ietf-ccwg-bbr).
///
/// ```text
/// Startup ──(no growth, queue, loss,
///            or a mark)─────────────> Drain
/// Drain ────(queue empty)─────────────> Cruise
/// Cruise ───(some rounds; at once
///            if not confirmed)────────> Probe
/// Cruise ───(best RTT long not seen,
///            or to see who leaves)────> Refresh ──(two rounds)──> Cruise
/// Probe ────(no growth, loss or mark)─> Drain, or Cruise where it met no queue
/// Probe ────(growth)──────────────────> Probe, and if it grows again, or was not confirmed: Startup
/// Cruise ───(others keep the queue)───> Compete ──(to see whether they are still there)──> Refresh
/// any ──────(much slower than before)─> Drain
/// ```
///
/// It differs from the draft where a tunnel does: cycles are short, for a path that becomes faster is to be
/// used within seconds; the startup grows as the slow start of TCP does, so as not to be in the way of one inside; and
/// the window leaves room for delays that vary, but little for a queue, for the tunnel keeps its queue at home.
/// Record 0014 has the reasons. All round trips in here are those of [`AckSample::rtt`], free of the queues of the way
/// back, but for the smoothed one, which windows have to cover as it is.
#[derive(Debug)]
pub(crate) struct Model {
    datagram_size: u64,
    phase: Phase,
    /// Rounds that ended in this phase, and when it began.
    phase_rounds: u32,
    phase_began: Option<Instant>,
    /// When the last startup ended: until then nobody knows whether it is too much that is lost.
    started_up: Option<Instant>,
    filter: MaxFilter,
    mean_rate: MeanRate,
    growth: Growth,
    round: Round,
    slow_start: SlowStart,
    round_trips: RoundTrips,
    chance: ChanceLoss,
    loss_response: LossResponse,
    /// Rounds in a row that were as if the pipe were full.
    filled_rounds: u32,
    /// Whether a queue overflowed in the last round, or would have if it did not mark.
    overflown: bool,
    /// Whether the path was seen to deliver no more although more was sent. Until then its round trips only hint
    /// at that.
    confirmed: bool,
    /// Whether the last round found a queue that is ours to take away.
    has_queue: bool,
    /// Whether the last round, under load, found neither a queue nor losses.
    is_clear: bool,
    saturation: Saturation,
    /// Whether a probe has ended in this round.
    has_probed: bool,
    loss_ceiling: LossCeiling,
    /// How round trips grow while a queue does. On a slow path a round takes long by then.
    rise: Rise,
    /// When something was last lost, or marked.
    lost_at: Option<Instant>,
    fall: Fall,
    /// Consecutive rounds that lost too much or were marked.
    lossy_rounds: u32,
    contest: Contest,
    crowd: Crowd,
    /// Whether no more than the window is in flight since it was made smaller.
    has_vacated: bool,
}

impl Model {
    /// A controller that knows nothing of the path but the size of its datagrams.
    pub(crate) fn new(datagram_size: u16) -> Self {
        Self {
            datagram_size: u64::from(datagram_size),
            phase: Phase::Startup,
            phase_rounds: 0,
            phase_began: None,
            started_up: None,
            filter: MaxFilter::default(),
            mean_rate: MeanRate::default(),
            growth: Growth::default(),
            round: Round::default(),
            slow_start: SlowStart::new(u64::from(datagram_size)),
            round_trips: RoundTrips::default(),
            chance: ChanceLoss::default(),
            loss_response: LossResponse::default(),
            filled_rounds: 0,
            overflown: false,
            confirmed: false,
            has_queue: false,
            is_clear: false,
            saturation: Saturation::default(),
            has_probed: false,
            loss_ceiling: LossCeiling::default(),
            rise: Rise::default(),
            lost_at: None,
            fall: Fall::default(),
            lossy_rounds: 0,
            contest: Contest::default(),
            crowd: Crowd::default(),
            has_vacated: false,
        }
    }

    /// Whether delays vary from round to round, without any queue of ours, by more than hosts are late.
    fn is_unsteady(&self) -> bool {
        self.round_trips.is_unsteady(self.base_rtt())
    }

    fn smoothed_rtt(&self) -> Duration {
        self.round_trips.smoothed()
    }

    /// By how much delays vary: as the peer has measured it, or, while the path is found, as single packets have shown before, whichever
    /// is more.
    fn jitter(&self) -> Duration {
        let jitter = self.round_trips.jitter();
        if self.phase == Phase::Startup { jitter.max(self.round_trips.spread() / 2) } else { jitter }
    }

    /// The round trip of the path under load, without a queue.
    fn base_rtt(&self) -> Duration {
        let seen = self.round_trips.base(self.mean_rate.is_rough());
        self.crowd.base().or(self.contest.base()).map_or(seen, |base| base.min(seen))
    }

    /// The round trip that windows are made for.
    fn held_rtt(&self) -> Duration {
        self.round_trips.held(self.base_rtt(), self.is_contest_possible())
    }

    /// How much longer acknowledgements take than windows have room for.
    fn way_back(&self) -> Duration {
        self.round_trips.way_back(self.base_rtt(), self.is_contest_possible())
    }

    /// Whether others could keep a queue here.
    fn is_contest_possible(&self) -> bool {
        self.contest.is_possible(bytes_in(self.rate(), self.smoothed_rtt()) / self.datagram_size)
    }

    /// What is left of the window meanwhile, percent. In a contest it takes little to see whether those leave who leave at the same
    /// time, and who leaves much to others makes them look as if they did.
    fn refresh_percent(&self) -> u64 {
        if self.contest.is_on() {
            85
        } else if self.crowd.is_on() {
            75
        } else {
            50
        }
    }

    /// By how much the packets of a round may be late for what is ours, once the path has been drained.
    fn own_queue(&self) -> Duration {
        let base = self.base_rtt();
        let least =
            span_of((Phase::Drain.least_datagrams() + LATE_DATAGRAMS) * self.datagram_size, self.rate());
        let standing = least.saturating_sub(base).max(ACK_DELAY);
        standing + (filled_rtt(base, self.jitter()) - base)
    }

    /// Whether the path delivers next to nothing, and takes long for it: it has become very slow, or others fill it.
    fn is_pressed(&self) -> bool {
        let least = Phase::Cruise.least_datagrams() * self.datagram_size;
        let base = self.base_rtt().max(ROUND_FLOOR);
        bytes_in(self.rate(), base) < least && self.smoothed_rtt() > 3 * base
    }

    /// The rate at which to send for [`Self::rate`] to arrive. Of what overflows a short queue more would only be lost.
    fn sending_rate(&self) -> u64 {
        let rate = self.rate();
        let is_felt = self.chance.is_felt(|| self.mean_rate.is_rough() || self.is_unsteady());
        let counts = is_felt && !self.saturation.is_short(rate);
        if counts { self.chance.sent_for(rate) } else { rate }
    }

    /// The rate to reckon with: measured, or assumed before the first sample, and at most as configured.
    fn rate(&self) -> u64 {
        let assumed = INITIAL_DATAGRAMS * self.datagram_size * 1000 / INITIAL_SPREAD_MS;
        self.filter.max().unwrap_or(assumed)
    }
}

impl Controller for Model {
    fn on_ack(&mut self, sample: &AckSample, now: Instant) {
        self.round.acked += sample.acked_bytes;
        self.contest.on_ack(sample, now);
        self.note_rtt(sample, now);
        if self.phase == Phase::Startup {
            self.grow_slow_start(sample);
        }
        if let Some(rate) = sample.rate {
            self.on_rate(&rate, now);
        }
        if self.phase == Phase::Startup
            && let Some(rate) = self.rise.rate(self.base_rtt(), self.round_trips.spread())
        {
            self.filter.update(rate);
            self.enter(Phase::Drain, now);
        }
        if self.phase == Phase::Refresh && !self.has_vacated && sample.inflight <= self.window() {
            (self.has_vacated, self.phase_rounds) = (true, 0);
        }
        if self.is_refresh_due(now) {
            self.enter(Phase::Refresh, now);
        }
        if self.phase == Phase::Drain && sample.inflight <= self.window() {
            self.enter(Phase::Cruise, now);
            self.contest.on_drained();
        }
    }

    fn on_loss(&mut self, lost_bytes: u64, inflight: u64, now: Instant) {
        self.contest.on_loss(lost_bytes, inflight, now);
        self.round.lost += lost_bytes;
        self.lost_at = Some(now);
        let (size, base) = (self.datagram_size, self.base_rtt());
        let is_over = match self.phase {
            Phase::Probe => self.round.is_lossy(size, base, &self.chance),
            Phase::Startup => self.round.overflows(size, filled_rtt(base, self.jitter()), &self.chance),
            Phase::Drain | Phase::Cruise | Phase::Refresh | Phase::Compete => false,
        };
        if is_over {
            if self.phase == Phase::Probe && self.overflows_short_queue(&self.round) {
                self.confirmed |= self.saturation.on_overflow(self.rate());
            }
            self.enter(Phase::Drain, now);
        }
    }

    fn was_finding_rate(&self, sent_at: Instant) -> bool {
        self.started_up.is_some_and(|at| sent_at < at)
    }

    fn on_marks(&mut self, now: Instant) {
        self.contest.on_marks(now);
        self.round.marked = true;
        self.lost_at = Some(now);
        if matches!(self.phase, Phase::Startup | Phase::Probe) {
            self.enter(Phase::Drain, now);
        }
    }

    fn window(&self) -> u64 {
        if self.phase == Phase::Startup {
            return self
                .slow_start
                .window()
                .min(self.loss_ceiling.bytes().max(INITIAL_DATAGRAMS * self.datagram_size));
        }
        let least = self.phase.least_datagrams() * self.datagram_size;
        if let Some(window) = self.contest.window().filter(|_| self.phase == Phase::Compete) {
            return window.max(least);
        }
        let way_back = self.way_back();
        let (base, held) = (self.base_rtt() + way_back, self.held_rtt() + way_back);
        let window = self.phase.window(self.sending_rate(), base, held);
        let window = match self.phase {
            Phase::Cruise => self.crowd.window().unwrap_or(window),
            Phase::Refresh => percent(window, self.refresh_percent()),
            Phase::Startup | Phase::Drain | Phase::Probe | Phase::Compete => window,
        };
        window.min(self.loss_ceiling.bytes()).max(least)
    }

    fn pacing_rate(&self) -> u64 {
        let rate = match self.phase {
            Phase::Startup => self.slow_start.rate(self.smoothed_rtt(), self.filter.max()),
            Phase::Compete => self.contest.pacing_rate().unwrap_or(self.rate()),
            // It is the window that counts; what it holds is spread over the round trip.
            Phase::Cruise if self.crowd.is_on() => {
                percent(rate_over(self.crowd.window().unwrap_or(0), self.smoothed_rtt()), 112)
            }
            phase @ (Phase::Drain | Phase::Cruise | Phase::Probe | Phase::Refresh) => {
                let manner = self.saturation.manner(self.rate(), self.mean_rate.is_rough());
                percent(self.sending_rate(), phase.pacing_percent(self.phase_rounds, self.has_queue, manner))
            }
        };
        rate.max(LEAST_DATAGRAMS_PER_S * self.datagram_size)
    }

    /// What TCP sends in its slow start comes in bursts, each twice as long as the one before. Spread over the round trip they would look
    /// as if they had met a queue, for which HyStart ends a slow start (Ha and Rhee 2011). Nothing is known of the path in its first
    /// flight; and where delays vary acknowledgements come in bursts of their own.
    fn burst(&self) -> u64 {
        let first_flight = INITIAL_DATAGRAMS * self.datagram_size;
        let is_steady = self.jitter() < self.base_rtt() / STEADY_PART;
        let is_due = self.phase == Phase::Startup && is_steady;
        if is_due { self.window().saturating_sub(first_flight) } else { 0 }
    }

    fn bandwidth(&self) -> Option<u64> {
        self.filter.max()
    }

    fn on_hint(&mut self, rate: u64) {
        if self.filter.max().is_none() {
            self.slow_start.on_hint(rate, self.round_trips.min(), self.datagram_size);
        }
    }

    fn adopt(&mut self, rate: u64, round_trip: Duration, now: Instant) {
        self.on_restart(now);
        self.round_trips = RoundTrips::assumed(round_trip);
        self.filter.update(rate.max(1));
        self.confirmed = true;
        self.enter(Phase::Cruise, now);
    }

    fn on_restart(&mut self, _now: Instant) {
        let size = u16::try_from(self.datagram_size).unwrap_or(u16::MAX);
        *self = Self::new(size);
    }
}

/// Before the first sample the first flight spreads over 20 ms: 5.6 Mb/s, which for one round trip hurts no
/// link of today.
const INITIAL_SPREAD_MS: u64 = 20;

/// Even a path that measured next to nothing gets this many, or it could never be measured again.
const LEAST_DATAGRAMS_PER_S: u64 = 10;

/// Three rounds without growth by a quarter mean a full pipe, as in BBR.
const STARTUP_ROUNDS: u32 = 3;

/// One round to send more, one to see it delivered.
const PROBE_ROUNDS: u32 = 2;

/// Where successive datagrams differ by a larger part of the round trip, acknowledgements come in bursts that no sender made.
const STEADY_PART: u32 = 64;

/// On a slow path so many packets are late because hosts are.
const LATE_DATAGRAMS: u64 = 2;
