//! A controller that models the path by its rate and its smallest round-trip time.

use std::time::{Duration, Instant};

use super::chance::{ChanceLoss, LossResponse};
use super::contest::{Contest, is_long};
use super::crowd::{Crowd, Load};
use super::fall::{FALL_ROUNDS, Fall};
use super::filter::MaxFilter;
use super::loaded::LoadedRtt;
use super::mean::{MeanRate, Sampled};
use super::phase::{ACK_DELAY, ALLOWANCE, CRUISE_ROUNDS, INITIAL_DATAGRAMS, Phase};
use super::rate::ROUND_FLOOR;
use super::round::{Growth, Rise, Round, Steadiness, filled_rtt};
use super::saturation::Saturation;
use super::slow_start::SlowStart;
use super::{AckSample, Controller, RateSample, bytes_in, percent, rate_over, span_of};

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
    /// Configured limit, bytes per second.
    max_rate: u64,
    phase: Phase,
    /// Rounds that ended in this phase, and when it began.
    phase_rounds: u32,
    phase_began: Option<Instant>,
    /// When the last startup ended: until then nobody knows whether it is too much that is lost.
    started_up: Option<Instant>,
    filter: MaxFilter,
    mean_rate: MeanRate,
    /// Whether what arrives in a round goes up and down in turn, as where delays vary.
    is_rough: bool,
    growth: Growth,
    round: Round,
    slow_start: SlowStart,
    min_rtt: Duration,
    smoothed_rtt: Duration,
    steadiness: Steadiness,
    chance: ChanceLoss,
    loss_response: LossResponse,
    /// Rounds in a row that were as if the pipe were full.
    filled_rounds: u32,
    /// Whether a queue overflowed in the last round, or would have if it did not mark.
    overflown: bool,
    /// By how much the delays of successive datagrams differ, as the peer measured it.
    jitter: Duration,
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
    loaded_rtt: LoadedRtt,
    /// When a round trip about as short as `min_rtt` was last seen.
    min_rtt_seen: Option<Instant>,
    /// Window that losses have imposed, bytes.
    loss_ceiling: u64,
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
    /// A controller that never sends faster than `max_rate` bytes per second.
    pub(crate) fn with_ceiling(max_rate: u64, datagram_size: u16) -> Self {
        Self {
            datagram_size: u64::from(datagram_size),
            max_rate,
            phase: Phase::Startup,
            phase_rounds: 0,
            phase_began: None,
            started_up: None,
            filter: MaxFilter::default(),
            mean_rate: MeanRate::default(),
            is_rough: false,
            growth: Growth::default(),
            round: Round::default(),
            slow_start: SlowStart::new(u64::from(datagram_size)),
            min_rtt: INITIAL_RTT,
            smoothed_rtt: INITIAL_RTT,
            steadiness: Steadiness::default(),
            chance: ChanceLoss::default(),
            loss_response: LossResponse::default(),
            filled_rounds: 0,
            overflown: false,
            jitter: Duration::ZERO,
            confirmed: false,
            has_queue: false,
            is_clear: false,
            saturation: Saturation::default(),
            has_probed: false,
            loaded_rtt: LoadedRtt::default(),
            min_rtt_seen: None,
            loss_ceiling: u64::MAX,
            rise: Rise::default(),
            lost_at: None,
            fall: Fall::default(),
            lossy_rounds: 0,
            contest: Contest::default(),
            crowd: Crowd::default(),
            has_vacated: false,
        }
    }

    fn on_rate(&mut self, rate: &RateSample, now: Instant) {
        // An idle sender's sample tells at least what the path can do. Beyond startup one sample per round
        // is enough: the maximum of many would measure their jitter.
        let settled = self.settle_rate(rate);
        let raises = self.filter.max().is_none_or(|max| settled > max);
        let due = self.phase == Phase::Startup || rate.round_ended;
        if due && (raises || !rate.app_limited) {
            self.filter.update(settled);
        }
        if rate.round_ended {
            self.on_round(rate, now);
        }
    }

    /// The rate that a sample stands for.
    fn settle_rate(&mut self, rate: &RateSample) -> u64 {
        if self.phase == Phase::Startup {
            self.mean_rate.restart(rate);
            return rate.bytes_per_s;
        }
        let is_cruise = self.phase == Phase::Cruise;
        let is_vacated =
            matches!(self.phase, Phase::Drain | Phase::Refresh) || (is_cruise && self.phase_rounds == 0);
        let how = Sampled {
            is_cruise,
            is_idle: is_vacated || rate.app_limited,
            is_unsteady: self.is_unsteady(),
            tolerance: self.rate_tolerance(),
        };
        let settled = self.mean_rate.settle(rate, how);
        self.is_rough = self.mean_rate.alternates(how.tolerance);
        settled
    }

    /// By how much the rates of rounds go up and down in turn on a steady path: a datagram more or less arrives in one of them.
    fn rate_tolerance(&self) -> u64 {
        self.rate() / STEADY_SHARE + rate_over(self.datagram_size, self.smoothed_rtt.max(ROUND_FLOOR))
    }

    /// Whether delays vary from round to round, without any queue of ours, by more than hosts are late.
    fn is_unsteady(&self) -> bool {
        self.steadiness.alternates(self.base_rtt() / 32)
    }

    fn on_round(&mut self, rate: &RateSample, now: Instant) {
        let round = std::mem::take(&mut self.round);
        self.phase_rounds += 1;
        let loaded = round.is_loaded(self.datagram_size);
        if let Some(least) = round.min_rtt.filter(|_| loaded) {
            if !self.has_queue_of_ours(rate) {
                self.loaded_rtt.on_round(least, now);
            }
            self.steadiness.on_round(least);
            self.note_cruise(least);
        }
        let lossy = round.marked || round.is_lossy(self.datagram_size, self.base_rtt(), &self.chance);
        self.lossy_rounds = if lossy { self.lossy_rounds + 1 } else { 0 };
        if self.learn_chance(rate, &round, lossy, now) {
            return;
        }
        // Where every packet of a load met a long queue, the path was busy all the time, whoever may have had little to send. A
        // few packets say nothing: the queue may be another's, and what they make is no rate of the path.
        let busy =
            loaded && round.saw_queue(2 * self.base_rtt() + 4 * self.steadiness.variation() + BUSY_QUEUE);
        let stretched = rate.stretched && round.is_weighty(self.datagram_size);
        let limited = rate.app_limited && !stretched && !busy;
        // A sender that pauses now and then, but sends faster than the path forwards when it does, has filled the pipe too.
        let strained =
            self.phase == Phase::Startup && loaded && round.has_waited(self.base_rtt(), self.jitter);
        let grew = (!limited || strained)
            && self.growth.on_round(rate.bytes_per_s, self.phase.growth_percent())
            && !lossy;
        if self.phase != Phase::Compete {
            self.adapt_loss_ceiling(rate, &round, grew);
        }
        self.notice_fall(rate, limited, round.saw_queue(self.base_rtt()));
        if !limited {
            self.filter.advance();
        }
        let overflows = self.take_probed() && !grew && self.overflows_short_queue(&round);
        if loaded && !lossy && !overflows && !self.contest.is_on() {
            self.chance.on_round(round.lost, round.acked + round.lost);
        }
        self.judge_queue(&round, loaded || stretched, lossy || overflows);
        self.judge_others(rate, &round, loaded || !limited, now);
        let stalled = !grew && !limited;
        let proven = self.phase == Phase::Probe && !self.is_clear;
        self.confirmed |= stalled && (proven || self.growth.stalled >= STARTUP_ROUNDS);
        if self.phase == Phase::Probe && (grew || (stalled && self.phase_rounds >= PROBE_ROUNDS)) {
            self.saturation.on_probe(self.rate(), grew, self.is_clear);
        }
        if overflows {
            self.confirmed |= self.saturation.on_overflow(self.rate());
        }
        if let Some(next) = self.next_phase(grew, limited, now) {
            self.enter(next, now);
        }
    }

    /// Learns what is lost whatever is sent. What was found by giving way to it is far too little: says whether the path is to be found anew.
    fn learn_chance(&mut self, rate: &RateSample, round: &Round, lossy: bool, now: Instant) -> bool {
        let (sent, much) = (round.sent(rate.bytes_per_s), lossy && round.is_heavy());
        let learnt = self.loss_response.on_round(&sent, much, self.datagram_size, now);
        let Some(share) = learnt else { return false };
        self.chance.learn(share);
        self.saturation = Saturation::default();
        if self.phase == Phase::Startup || self.contest.is_on() {
            return false;
        }
        (self.lossy_rounds, self.loss_ceiling) = (0, u64::MAX);
        self.enter(Phase::Startup, now);
        true
    }

    /// Whether what a probe has sent is what the round that has ended tells of.
    fn take_probed(&mut self) -> bool {
        if self.phase == Phase::Probe { self.phase_rounds > 1 } else { std::mem::take(&mut self.has_probed) }
    }

    /// Whether a round has shown that the queue does not hold what a probe makes of it.
    fn overflows_short_queue(&self, round: &Round) -> bool {
        round.overflows_short_queue(self.datagram_size, self.base_rtt(), &self.chance)
    }

    /// Where nothing is probed for long the cycle is as long as so many rounds.
    fn note_cruise(&mut self, least: Duration) {
        if self.phase == Phase::Cruise && self.phase_rounds > 1 {
            self.loaded_rtt.on_cruise(least);
            if self.phase_rounds.is_multiple_of(CYCLE_ROUNDS) {
                self.loaded_rtt.end_cycle();
            }
        }
    }

    /// What a round says of the queue at the bottleneck.
    fn judge_queue(&mut self, round: &Round, loaded: bool, lossy: bool) {
        let base = self.base_rtt();
        let filled = loaded && round.filled_pipe(base, self.jitter);
        self.filled_rounds = if filled { self.filled_rounds + 1 } else { 0 };
        self.overflown =
            round.marked || round.has_overflown(self.datagram_size, base, self.jitter, &self.chance);
        let variation =
            if self.is_rough { 2 * self.steadiness.own_alternation() } else { self.steadiness.variation() };
        self.has_queue = loaded && round.has_queue(base, variation);
        self.is_clear = loaded && !self.has_queue && !lossy;
    }

    /// What a round says of others.
    fn judge_others(&mut self, rate: &RateSample, round: &Round, used: bool, now: Instant) {
        let (base, own) = (self.base_rtt(), self.own_queue());
        // A probe sends a quarter more for a round.
        let probed = base.max(ROUND_FLOOR) / 4;
        let is_deep = round.max_rtt > base + own + probed;
        // Who has next to no share sends too little to tell.
        if used && !self.overflown && (!is_deep || self.is_unsteady()) && !self.is_pressed() {
            self.contest.on_stray_loss(round.lost, round.acked + round.lost);
        }
        if let Some(least) = round.min_rtt.filter(|_| used) {
            if !self.crowd.is_on() {
                self.contest.on_round(self.phase_rounds, least, (base, own), now);
            }
            let load = Load { rate: rate.bytes_per_s, datagram_size: self.datagram_size };
            self.crowd.on_round(self.phase_rounds, least, load);
        }
        self.judge_vacated(round.min_rtt);
        self.judge_crowd();
        let keeps = rate.bytes_per_s >= percent(self.rate(), KEPT_PERCENT);
        let counts = keeps && !matches!(self.phase, Phase::Startup | Phase::Compete);
        if self.overflown && counts && is_deep {
            self.contest.on_overflow(base, now);
        }
    }

    /// What a round with little in flight, whose shortest round trip was `least`, says of who keeps the queue.
    fn judge_vacated(&mut self, least: Option<Duration>) {
        let Some(least) = least.filter(|_| self.phase == Phase::Refresh && self.has_vacated) else { return };
        let own = span_of(self.window(), self.rate());
        let is_kept = is_long(least, self.base_rtt(), own, self.steadiness.own_alternation());
        self.contest.on_vacated(self.is_pressed() && is_kept);
    }

    /// Whether the others share the queue, or do not.
    fn judge_crowd(&mut self) {
        if self.crowd.is_crowded_out() && !self.is_contest_possible() {
            self.crowd.end();
        }
        if self.contest.take_left() {
            let base = self.base_rtt();
            self.crowd.begin(self.rate(), bytes_in(self.rate(), base + ACK_DELAY), base);
        }
    }

    /// Where the end of a round leads.
    fn next_phase(&self, grew: bool, limited: bool, now: Instant) -> Option<Phase> {
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
            Phase::Startup if self.overflown || self.filled_rounds >= self.filled_limit() => {
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

    fn enter(&mut self, phase: Phase, now: Instant) {
        if self.phase == Phase::Startup {
            self.started_up = Some(now);
        }
        let (base, shared) = (self.base_rtt(), self.crowd.found());
        if self.phase == Phase::Refresh && !self.contest.is_on() {
            self.crowd.on_refreshed(base);
        }
        if phase == Phase::Probe {
            self.loaded_rtt.end_cycle();
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
            Phase::Refresh => (self.min_rtt_seen, self.has_vacated) = (Some(now), false),
            Phase::Startup => {
                self.confirmed = false;
                self.growth = Growth::above(self.rate());
                let held = bytes_in(self.rate(), self.held_rtt() + ALLOWANCE);
                self.slow_start.resume(held, self.datagram_size);
            }
            Phase::Compete => {
                let rate = self.rate().max(shared.unwrap_or(0));
                self.contest.enter(rate, (base, self.smoothed_rtt), self.datagram_size, now);
                self.loss_ceiling = u64::MAX;
                // What probes have met beside others says nothing of when they are gone.
                self.saturation = Saturation::default();
            }
            // A probe that follows on growth goes on from there.
            Phase::Probe if self.growth.stalled > 0 => self.growth = Growth::above(self.rate()),
            Phase::Probe | Phase::Drain | Phase::Cruise => {}
        }
    }

    /// A path that delivers much less than it did, although it is loaded, has become slower: believe the
    /// last rounds, rather than send too much until the filter forgets.
    fn notice_fall(&mut self, rate: &RateSample, limited: bool, queued: bool) {
        // What was sent in a round of a small window is delivered in the next.
        let throttled = matches!(self.phase, Phase::Drain | Phase::Refresh) || self.phase_rounds <= 1;
        // Whose share of the path grows and shrinks makes room for others.
        let throttled = throttled || self.crowd.is_on();
        let is_slow = !throttled && rate.bytes_per_s < percent(self.rate(), FALL_PERCENT);
        let loaded = queued || self.lossy_rounds > 0;
        self.fall.on_round(rate.bytes_per_s, (!limited).then_some(is_slow && loaded));
        if let Some(fallen) = self.fall.rate().filter(|_| !limited) {
            self.filter.forget_but(FALL_ROUNDS);
            self.filter.update(fallen);
            self.contest.on_fall();
        }
    }

    /// After a lossy round the window backs off to what is delivered; it grows again round by round
    /// (`BBR.inflight_longterm`).
    fn adapt_loss_ceiling(&mut self, rate: &RateSample, round: &Round, grew: bool) {
        let held = bytes_in(self.rate(), self.clear_rtt() + ALLOWANCE);
        if grew {
            self.loss_ceiling = u64::MAX;
        } else if self.lossy_rounds == 0 {
            self.raise_loss_ceiling(held);
        } else if self.has_provoked_loss() {
            self.loss_ceiling = self.loss_ceiling.min(held);
        } else {
            let delivered = bytes_in(rate.bytes_per_s, self.clear_rtt() + ALLOWANCE);
            let share = LOSS_BACKOFF_PERCENT.min(100 - round.lost_percent());
            self.loss_ceiling = percent(self.window(), share).max(delivered);
        }
    }

    /// Back to what the path is believed to hold at once, beyond it only as far as probes go unharmed.
    fn raise_loss_ceiling(&mut self, held: u64) {
        if self.loss_ceiling < held || self.phase == Phase::Probe {
            self.loss_ceiling = self.loss_ceiling.saturating_add(self.loss_ceiling / CEILING_GROWTH);
        }
    }

    /// Whether what is lost was sent to try whether the path holds more: it is reported a round later.
    fn has_provoked_loss(&self) -> bool {
        self.phase != Phase::Cruise || self.phase_rounds <= 1
    }

    fn note_rtt(&mut self, sample: &AckSample, now: Instant) {
        self.min_rtt = sample.min_rtt.unwrap_or(self.min_rtt);
        let Some(rtt) = sample.rtt else { return };
        self.smoothed_rtt = sample.smoothed_rtt.unwrap_or(rtt);
        self.jitter = sample.jitter;
        self.round.min_rtt = Some(self.round.min_rtt.map_or(rtt, |least| least.min(rtt)));
        self.round.max_rtt = self.round.max_rtt.max(rtt);
        self.rise.on_ack(rtt, sample.acked_bytes, now);
        self.crowd.on_rtt(rtt, now);
        self.contest.on_rtt(rtt, now);
        self.round.rtt_samples += 1;
        let base = self.base_rtt();
        if rtt <= base + base / 16 + MIN_RTT_TOLERANCE {
            self.min_rtt_seen = Some(now);
        }
    }

    /// The round trip of the path under load, without a queue.
    fn base_rtt(&self) -> Duration {
        let slack = if self.is_rough { SLACK * self.steadiness.own_alternation() } else { Duration::ZERO };
        let seen = self.loaded_rtt.typical(self.min_rtt, slack);
        self.crowd.base().or(self.contest.base()).map_or(seen, |base| base.min(seen))
    }

    /// The round trip that windows are made for. Packets whose delays vary stay longer on the path than the
    /// fastest of them; but a queue is not to be taken for that, ours or that of others who make their windows as we do, so that this has
    /// its limit. What alternates is none. Where nobody could keep a queue, what round trips vary by is the path's.
    fn held_rtt(&self) -> Duration {
        let (base, alternation) = (self.base_rtt(), self.steadiness.alternation());
        let most = if self.is_contest_possible() {
            base + base * HELD_PERCENT / 100 + 4 * alternation
        } else {
            2 * base + 4 * self.steadiness.variation()
        };
        self.smoothed_rtt.clamp(base, most) + 4 * alternation
    }

    /// The round trip as it is as a rule when no queue of ours is in it, as far as delays vary from round to round.
    fn clear_rtt(&self) -> Duration {
        let base = self.base_rtt();
        self.smoothed_rtt.clamp(base, base + 4 * self.steadiness.variation())
    }

    /// Whether a queue that this path's own datagrams have built is in the round trips of the round: it tells
    /// nothing of how long they are without. What was sent before a queue was drained has met it.
    fn has_queue_of_ours(&self, rate: &RateSample) -> bool {
        match self.phase {
            Phase::Startup => rate.stretched,
            Phase::Drain | Phase::Compete => true,
            Phase::Cruise => self.phase_rounds <= 1,
            Phase::Probe | Phase::Refresh => false,
        }
    }

    /// How many rounds must look as if the pipe were full: delays that vary do so by chance.
    fn filled_limit(&self) -> u32 {
        if self.jitter > self.base_rtt() / 16 { 2 } else { 1 }
    }

    /// Whether others keep a queue that overflows, on a path over which they can. It is far longer than what delays vary by, or those
    /// are steady: else such a queue can't be told from what varies.
    fn is_contested(&self, now: Instant) -> bool {
        let is_even = !self.is_unsteady() && self.mean_rate.is_even(self.rate_tolerance());
        (self.contest.is_kept() || (self.contest.is_seen() && is_even))
            && self.is_contest_possible()
            && self.lost_at.is_some_and(|at| now < at + LOSS_MEMORY)
    }

    /// Whether others could keep a queue here.
    fn is_contest_possible(&self) -> bool {
        self.contest.is_possible(bytes_in(self.rate(), self.smoothed_rtt) / self.datagram_size)
    }

    /// Whether it is time to make the window smaller at once, as others who see the same queue do.
    fn is_refresh_due(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Compete => self.contest.is_on() && self.contest.is_trial_due(self.smoothed_rtt, now),
            Phase::Cruise => !self.contest.is_on() && self.crowd.is_refresh_due(now),
            Phase::Startup | Phase::Drain | Phase::Probe | Phase::Refresh => false,
        }
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

    /// Where every path of a group may send something the window may never be reached.
    fn refresh_rounds(&self) -> u32 {
        if self.has_vacated { REFRESH_ROUNDS } else { 2 * REFRESH_ROUNDS }
    }

    /// By how much the packets of a round may be late for what is ours, once the path has been drained.
    fn own_queue(&self) -> Duration {
        let base = self.base_rtt();
        let least =
            span_of((Phase::Drain.least_datagrams() + LATE_DATAGRAMS) * self.datagram_size, self.rate());
        let standing = least.saturating_sub(base).max(ACK_DELAY);
        standing + (filled_rtt(base, self.jitter) - base)
    }

    /// Whether others keep a queue, and it is too early to press them again.
    fn is_patient(&self, now: Instant) -> bool {
        let within = |since: Option<Instant>, time| since.is_some_and(|at| now < at + time);
        let contested = self.filled_rounds >= CRUISE_ROUNDS && within(self.lost_at, LOSS_MEMORY);
        contested && within(self.phase_began, PATIENCE)
    }

    /// On a short path many round trips pass until a round is judged: what has met a queue makes the window grow no more.
    fn grow_slow_start(&mut self, sample: &AckSample) {
        let base = self.base_rtt();
        let has_waited =
            base < ROUND_FLOOR && sample.rtt.is_some_and(|rtt| rtt > filled_rtt(base, self.jitter));
        if self.filled_rounds == 0 && !has_waited {
            self.slow_start.on_ack(sample);
        }
    }

    fn is_min_rtt_old(&self, now: Instant) -> bool {
        let age = if self.is_pressed() { PRESSED_AGE } else { MIN_RTT_AGE };
        self.min_rtt_seen.is_some_and(|at| now.saturating_duration_since(at) > age)
    }

    /// Whether the path delivers next to nothing, and takes long for it: it has become very slow, or others fill it.
    fn is_pressed(&self) -> bool {
        let least = Phase::Cruise.least_datagrams() * self.datagram_size;
        let base = self.base_rtt().max(ROUND_FLOOR);
        bytes_in(self.rate(), base) < least && self.smoothed_rtt > 3 * base
    }

    /// The rate at which to send for [`Self::rate`] to arrive. Of what overflows a short queue more would only be lost.
    fn sending_rate(&self) -> u64 {
        let rate = self.rate();
        let is_felt = self.chance.is_felt(|| self.is_rough || self.is_unsteady());
        let counts = is_felt && !self.saturation.is_short(rate);
        if counts { self.chance.sent_for(rate) } else { rate }
    }

    /// The rate to reckon with: measured, or assumed before the first sample, and at most as configured.
    fn rate(&self) -> u64 {
        let assumed = INITIAL_DATAGRAMS * self.datagram_size * 1000 / INITIAL_SPREAD_MS;
        self.filter.max().unwrap_or(assumed).min(self.max_rate)
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
            && let Some(rate) = self.rise.rate(self.base_rtt())
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
            Phase::Startup => self.round.overflows(size, filled_rtt(base, self.jitter), &self.chance),
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
                .min(self.loss_ceiling.max(INITIAL_DATAGRAMS * self.datagram_size));
        }
        let least = self.phase.least_datagrams() * self.datagram_size;
        if let Some(window) = self.contest.window().filter(|_| self.phase == Phase::Compete) {
            return window.max(least);
        }
        let window = self.phase.window(self.sending_rate(), self.base_rtt(), self.held_rtt());
        let window = match self.phase {
            Phase::Cruise => self.crowd.window().unwrap_or(window),
            Phase::Refresh => percent(window, self.refresh_percent()),
            Phase::Startup | Phase::Drain | Phase::Probe | Phase::Compete => window,
        };
        window.min(self.loss_ceiling).max(least)
    }

    fn pacing_rate(&self) -> u64 {
        let rate = match self.phase {
            Phase::Startup => self.slow_start.rate(self.smoothed_rtt, self.filter.max()),
            Phase::Compete => self.contest.pacing_rate().unwrap_or(self.rate()),
            // It is the window that counts; what it holds is spread over the round trip.
            Phase::Cruise if self.crowd.is_on() => {
                percent(rate_over(self.crowd.window().unwrap_or(0), self.smoothed_rtt), 112)
            }
            phase @ (Phase::Drain | Phase::Cruise | Phase::Probe | Phase::Refresh) => {
                let manner = self.saturation.manner(self.rate(), self.is_rough);
                percent(self.sending_rate(), phase.pacing_percent(self.phase_rounds, self.has_queue, manner))
            }
        };
        rate.max(LEAST_DATAGRAMS_PER_S * self.datagram_size).min(self.max_rate)
    }

    fn bandwidth(&self) -> Option<u64> {
        self.filter.max().map(|rate| rate.min(self.max_rate))
    }

    fn on_hint(&mut self, rate: u64) {
        if self.filter.max().is_none() {
            self.slow_start.on_hint(rate, self.min_rtt, self.datagram_size);
        }
    }

    fn adopt(&mut self, rate: u64, round_trip: Duration, now: Instant) {
        self.on_restart(now);
        (self.min_rtt, self.smoothed_rtt) = (round_trip, round_trip);
        self.filter.update(rate.max(1));
        self.confirmed = true;
        self.enter(Phase::Cruise, now);
    }

    fn on_restart(&mut self, _now: Instant) {
        let size = u16::try_from(self.datagram_size).unwrap_or(u16::MAX);
        *self = Self::with_ceiling(self.max_rate, size);
    }
}

/// Before the first sample the first flight spreads over 20 ms: 5.6 Mb/s, which for one round trip hurts no
/// link of today.
const INITIAL_SPREAD_MS: u64 = 20;

/// Assumed until a round trip has been measured: a short one, which sends too little rather than too much.
const INITIAL_RTT: Duration = Duration::from_millis(20);

/// Even a path that measured next to nothing gets this many, or it could never be measured again.
const LEAST_DATAGRAMS_PER_S: u64 = 10;

/// Three rounds without growth by a quarter mean a full pipe, as in BBR.
const STARTUP_ROUNDS: u32 = 3;

/// One lossy round may be bad luck.
const STARTUP_LOSSY_ROUNDS: u32 = 2;

/// One round to send more, one to see it delivered.
const PROBE_ROUNDS: u32 = 2;

/// Hosts that are late by less, and they are where others compete for their processors, are no queue of the path.
const BUSY_QUEUE: Duration = Duration::from_millis(20);

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

/// A path that delivers less of what it is believed to deliver has become slower, rather than that others have come.
const KEPT_PERCENT: u64 = 75;

/// On a slow path so many packets are late because hosts are.
const LATE_DATAGRAMS: u64 = 2;

/// Rates of rounds go up and down by a smaller part of them on a steady path.
const STEADY_SHARE: u64 = 64;

/// The fastest of hundreds of rounds is as many alternations faster than they are as a rule.
const SLACK: u32 = 8;

/// By how much round trips may be longer than the path's for a window to cover them, percent. With more of it several models keep a longer
/// queue, with less one falls behind beside CUBIC.
const HELD_PERCENT: u32 = 30;

/// While probes are far apart so many rounds are a cycle.
const CYCLE_ROUNDS: u32 = 16;

/// One round to let the window sink, one to see the round trip.
const REFRESH_ROUNDS: u32 = 2;

/// Half of the 10 s for which round-trip times are remembered: the best is renewed before it is forgotten.
const MIN_RTT_AGE: Duration = Duration::from_secs(5);

/// The same where it may be others' queue that leaves next to nothing of the path.
const PRESSED_AGE: Duration = Duration::from_millis(1250);

/// A round trip this much above the minimum counts as the minimum: hosts are no more exact.
const MIN_RTT_TOLERANCE: Duration = Duration::from_millis(1);

/// A rate below this share of the estimate, two rounds in a row, is no jitter, nor what another flow's probe
/// takes away.
const FALL_PERCENT: u64 = 50;

/// After loss the window sinks at most to this (`BBR.Beta`).
const LOSS_BACKOFF_PERCENT: u64 = 70;

/// A clean round raises the ceiling by an eighth: three make good for one lossy round.
const CEILING_GROWTH: u64 = 8;
