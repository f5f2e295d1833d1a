//! What rounds show the model.

use std::time::{Duration, Instant};

use super::{Model, PROBE_ROUNDS, STARTUP_ROUNDS};
use crate::congestion::contest::is_long;
use crate::congestion::crowd::Load;
use crate::congestion::filter::Sampled;
use crate::congestion::phase::{ACK_DELAY, ALLOWANCE, Phase};
use crate::congestion::rate::ROUND_FLOOR;
use crate::congestion::round::{Round, filled_rtt};
use crate::congestion::saturation::FALL_ROUNDS;
use crate::congestion::saturation::Saturation;
use crate::congestion::{AckSample, Controller, RateSample, bytes_in, percent, rate_over, span_of};

impl Model {
    pub(super) fn on_rate(&mut self, rate: &RateSample, now: Instant) {
        // An idle sender's sample tells at least what the path can do. Once the path is found one sample per round
        // is enough: the maximum of many would measure their jitter.
        let settled = self.settle_rate(rate);
        let raises = self.filter.max().is_none_or(|max| settled > max);
        let due = self.is_being_found() || rate.round_ended;
        if due && (raises || !rate.app_limited) {
            self.filter.update(settled);
        }
        if rate.round_ended {
            self.on_round(rate, now);
        }
    }

    /// Whether what arrives was sent to find the path's rate. Where delays vary a startup ends early, after rounds of a sender that
    /// doubles: it is the queue it has made that keeps the path busy, and draining that shows what the path carries.
    fn is_being_found(&self) -> bool {
        let drains_startup = self.phase == Phase::Drain && self.started_up == self.phase_began;
        self.phase == Phase::Startup || (drains_startup && self.round_trips.is_spread(self.base_rtt()))
    }

    /// The rate that a sample stands for.
    fn settle_rate(&mut self, rate: &RateSample) -> u64 {
        if self.is_being_found() {
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
        self.mean_rate.settle(rate, how)
    }

    /// By how much the rates of rounds go up and down in turn on a steady path: a datagram more or less arrives in one of them.
    pub(super) fn rate_tolerance(&self) -> u64 {
        self.rate() / STEADY_SHARE + rate_over(self.datagram_size, self.smoothed_rtt().max(ROUND_FLOOR))
    }

    fn on_round(&mut self, rate: &RateSample, now: Instant) {
        let round = std::mem::take(&mut self.round);
        self.phase_rounds += 1;
        let loaded = round.is_loaded(self.datagram_size);
        if round.is_idle(self.datagram_size) {
            self.round_trips.on_idle_round(round.max_rtt);
        }
        if let Some(least) = round.min_rtt.filter(|_| loaded) {
            self.round_trips.on_round(least, self.has_queue_of_ours(rate), now);
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
            loaded && round.saw_queue(2 * self.base_rtt() + 4 * self.round_trips.variation() + BUSY_QUEUE);
        let stretched = rate.stretched
            && round.is_weighty(self.datagram_size)
            && !self.round_trips.is_spread(self.base_rtt());
        let limited = rate.app_limited && !stretched && !busy;
        // A sender that pauses now and then, but sends faster than the path forwards when it does, has filled the pipe too.
        let strained =
            self.phase == Phase::Startup && loaded && round.has_waited(self.base_rtt(), self.jitter());
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
        self.correct_rate(rate, &round);
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

    /// Where nothing is probed for long the cycle is as long as so many rounds.
    fn note_cruise(&mut self, least: Duration) {
        if self.phase == Phase::Cruise && self.phase_rounds > 1 {
            self.round_trips.on_cruise(least);
            if self.phase_rounds.is_multiple_of(CYCLE_ROUNDS) {
                self.round_trips.end_cycle();
            }
        }
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
        self.lossy_rounds = 0;
        self.loss_ceiling.lift();
        self.enter(Phase::Startup, now);
        true
    }

    /// Whether what a probe has sent is what the round that has ended tells of.
    fn take_probed(&mut self) -> bool {
        if self.phase == Phase::Probe { self.phase_rounds > 1 } else { std::mem::take(&mut self.has_probed) }
    }

    /// Whether a round has shown that the queue does not hold what a probe makes of it.
    pub(super) fn overflows_short_queue(&self, round: &Round) -> bool {
        round.overflows_short_queue(self.datagram_size, self.base_rtt(), &self.chance)
    }

    /// What a round says of the queue at the bottleneck.
    fn judge_queue(&mut self, round: &Round, loaded: bool, lossy: bool) {
        let (base, jitter) = (self.base_rtt(), self.jitter());
        let filled = loaded && round.filled_pipe(base, jitter);
        self.filled_rounds = if filled { self.filled_rounds + 1 } else { 0 };
        self.overflown = round.marked || round.has_overflown(self.datagram_size, base, jitter, &self.chance);
        let is_rough = self.mean_rate.is_rough();
        let variation =
            if is_rough { 2 * self.round_trips.alternation() } else { self.round_trips.variation() };
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
        let is_kept = is_long(least, self.base_rtt(), own, self.round_trips.alternation());
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

    /// Where delays vary, a round that arrives in less time than it was sent in makes believe in more than the path carries, and while little is
    /// sent nothing is forgotten. One that has overflowed a queue, and whose fastest packet met it, has kept the path busy: it tells the
    /// rate, unless that is far less.
    fn correct_rate(&mut self, rate: &RateSample, round: &Round) {
        let believed = self.rate();
        let measured = rate.bytes_per_s;
        let counts = !matches!(self.phase, Phase::Startup | Phase::Compete)
            && round.saw_queue(self.base_rtt())
            && !self.chance.is_felt(|| true)
            && (percent(believed, KEPT_PERCENT)..believed).contains(&measured);
        if self.overflown && counts && self.round_trips.is_spread(self.base_rtt()) {
            self.filter.forget_but(0);
            self.filter.update(measured);
        }
    }

    /// After a lossy round the window backs off to what is delivered; it grows again round by round.
    fn adapt_loss_ceiling(&mut self, rate: &RateSample, round: &Round, grew: bool) {
        let clear = self.round_trips.clear(self.base_rtt()) + self.way_back() + ALLOWANCE;
        let held = bytes_in(self.rate(), clear);
        if grew {
            self.loss_ceiling.lift();
        } else if self.lossy_rounds == 0 {
            self.loss_ceiling.raise(held, self.phase == Phase::Probe);
        } else if self.has_provoked_loss() {
            self.loss_ceiling.limit(held);
        } else {
            let delivered = bytes_in(rate.bytes_per_s, clear);
            self.loss_ceiling.lower(self.window(), round.lost_percent(), delivered);
        }
    }

    /// Whether what is lost was sent to try whether the path holds more: it is reported a round later.
    fn has_provoked_loss(&self) -> bool {
        self.phase != Phase::Cruise || self.phase_rounds <= 1
    }

    pub(super) fn note_rtt(&mut self, sample: &AckSample, now: Instant) {
        let Some(rtt) = self.round_trips.on_ack(sample) else { return };
        self.round.min_rtt = Some(self.round.min_rtt.map_or(rtt, |least| least.min(rtt)));
        self.round.max_rtt = self.round.max_rtt.max(rtt);
        self.rise.on_ack(rtt, sample.acked_bytes, now);
        self.crowd.on_rtt(rtt, now);
        self.contest.on_rtt(rtt, now);
        self.round.rtt_samples += 1;
        self.round_trips.compare(rtt, self.base_rtt(), self.datagram_time(), now);
    }

    /// How long a full datagram takes to be forwarded, and a quarter more: the largest rate of all rounds is too large, as a rule. It is the
    /// one that counts, for at a share of the path this would be as long as the queue that others keep.
    fn datagram_time(&self) -> Duration {
        let fastest = self.filter.largest().max(self.rate());
        span_of(self.datagram_size, fastest) * 5 / 4
    }

    /// On a short path many round trips pass until a round is judged: what has met a queue makes the window grow no more.
    pub(super) fn grow_slow_start(&mut self, sample: &AckSample) {
        let base = self.base_rtt();
        let has_waited = base < ROUND_FLOOR
            && sample.rtt.is_some_and(|rtt| rtt > filled_rtt(base, self.round_trips.jitter()));
        if self.filled_rounds == 0 && !has_waited {
            self.slow_start.on_ack(sample);
        }
    }
}

/// Hosts that are late by less, and they are where others compete for their processors, are no queue of the path.
const BUSY_QUEUE: Duration = Duration::from_millis(20);

/// A path that delivers less of what it is believed to deliver has become slower, rather than that others have come.
const KEPT_PERCENT: u64 = 75;

/// Rates of rounds go up and down by a smaller part of them on a steady path.
const STEADY_SHARE: u64 = 64;

/// While probes are far apart so many rounds are a cycle.
const CYCLE_ROUNDS: u32 = 16;

/// A rate below this share of the estimate, two rounds in a row, is no jitter, nor what another flow's probe
/// takes away.
const FALL_PERCENT: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_millis(20);

    /// The rate that is believed of a path that seemed to carry 1000 datagrams per second, after a round that overflowed its queue
    /// and brought `measured`; single packets had been late by `late`.
    fn after_overflow(measured: u64, least: Duration, late: Duration, chance: f64) -> u64 {
        let mut model = Model::new(1000);
        model.adopt(1_000_000, BASE, Instant::now());
        model.chance.learn(chance);
        model.round_trips.on_idle_round(BASE + ACK_DELAY + late);
        let round = Round { min_rtt: Some(least), ..Round::default() };
        model.overflown = true;
        let rate =
            RateSample { bytes_per_s: measured, app_limited: false, stretched: false, round_ended: true };
        model.correct_rate(&rate, &round);
        model.rate()
    }

    /// The rate that is believed after a sample of 1000 datagrams per second amid a round in which what was sent in a phase drains, where
    /// single packets had been late by `late`; 600 were believed before.
    fn while_drains(before: Phase, late: Duration) -> u64 {
        let (mut model, now) = (Model::new(1000), Instant::now());
        model.filter.update(600_000);
        model.round_trips.on_idle_round(model.base_rtt() + ACK_DELAY + late);
        model.phase = before;
        model.enter(Phase::Drain, now);
        let rate =
            RateSample { bytes_per_s: 1_000_000, app_limited: false, stretched: false, round_ended: false };
        model.on_rate(&rate, now);
        model.rate()
    }

    #[test]
    fn the_queue_of_a_startup_tells_the_rate_where_delays_vary() {
        assert_eq!(while_drains(Phase::Startup, BASE), 1_000_000);
        assert_eq!(while_drains(Phase::Startup, Duration::ZERO), 600_000, "delays are steady");
        assert_eq!(while_drains(Phase::Probe, BASE), 600_000, "one sample of each round is enough");
    }

    #[test]
    fn what_overflows_a_queue_where_delays_vary_tells_the_rate() {
        let (varies, queued) = (Duration::from_millis(5), 2 * BASE);
        assert_eq!(after_overflow(850_000, queued, varies, 0.0), 850_000);
        assert_eq!(after_overflow(1_100_000, queued, varies, 0.0), 1_000_000, "nothing to correct");
        assert_eq!(after_overflow(700_000, queued, varies, 0.0), 1_000_000, "it is another's queue");
        assert_eq!(after_overflow(850_000, BASE, varies, 0.0), 1_000_000, "it was not busy all the time");
        assert_eq!(after_overflow(850_000, queued, Duration::ZERO, 0.0), 1_000_000, "delays are steady");
        assert_eq!(after_overflow(850_000, queued, varies, 0.02), 1_000_000, "it may be chance that loses");
    }
}
