//! What a round trip has shown.

use std::time::{Duration, Instant};

use super::chance::{ChanceLoss, Sent};
use super::phase::ACK_DELAY;
use super::rate::ROUND_FLOOR;
use super::{percent, rate_over};

/// What happened since the last round's end.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Bytes acknowledged, and declared lost.
    pub(crate) acked: u64,
    pub(crate) lost: u64,
    /// Whether routers have marked any of it: a queue is too long, and says so before it overflows.
    pub(crate) marked: bool,
    /// The smallest round-trip time in it, and of how many.
    pub(crate) min_rtt: Option<Duration>,
    pub(crate) rtt_samples: u32,
    /// The largest round-trip time in it.
    pub(crate) max_rtt: Duration,
}

impl Round {
    /// Whether more was lost than chance explains, in datagrams of `datagram_size` bytes, `min_rtt` being the
    /// path's best.
    pub(crate) fn is_lossy(&self, datagram_size: u64, min_rtt: Duration, chance: &ChanceLoss) -> bool {
        let limit = if self.saw_queue(min_rtt) { LOSSY_PERCENT } else { LOSSY_UNQUEUED_PERCENT };
        self.lost_percent() >= limit && self.exceeds_chance(datagram_size, chance)
    }

    /// Whether a queue has overflowed: more was lost than by chance, and others waited long.
    pub(crate) fn has_overflown(
        &self,
        datagram_size: u64,
        min_rtt: Duration,
        jitter: Duration,
        chance: &ChanceLoss,
    ) -> bool {
        self.has_waited(min_rtt, jitter) && self.exceeds_chance(datagram_size, chance)
    }

    /// Whether some packets of the round waited long in a queue, if others did not.
    pub(crate) fn has_waited(&self, min_rtt: Duration, jitter: Duration) -> bool {
        self.max_rtt > min_rtt + min_rtt / 4 + QUEUE_TOLERANCE + 2 * jitter
    }

    /// Whether so many were lost that it is no accident.
    fn exceeds_chance(&self, datagram_size: u64, chance: &ChanceLoss) -> bool {
        self.lost >= LOSSY_DATAGRAMS * datagram_size
            && self.lost > chance.most(self.acked + self.lost, datagram_size)
    }

    /// What was sent, if `arrived` bytes per second have.
    pub(crate) fn sent(&self, arrived: u64) -> Sent {
        let bytes = self.acked + self.lost;
        let rate = u128::from(arrived) * u128::from(bytes) / u128::from(self.acked.max(1));
        Sent { rate: u64::try_from(rate).unwrap_or(u64::MAX), bytes, lost: self.lost }
    }

    /// Whether as much was lost as by a policer.
    pub(crate) fn is_heavy(&self) -> bool {
        self.lost_percent() >= LOSSY_UNQUEUED_PERCENT
    }

    /// The share of the round that was lost, 0 to 100.
    pub(crate) fn lost_percent(&self) -> u64 {
        self.lost * 100 / (self.acked + self.lost).max(1)
    }

    /// Whether even the fastest packet of the round met a queue, if a short one: more than the path holds is on
    /// its way (RFC 9406 §4.2).
    pub(crate) fn filled_pipe(&self, min_rtt: Duration, jitter: Duration) -> bool {
        self.min_rtt.is_some_and(|rtt| rtt > filled_rtt(min_rtt, jitter))
    }

    /// Whether a queue overflows just now: much is lost, and some of the rest took longer than `filled`.
    pub(crate) fn overflows(&self, datagram_size: u64, filled: Duration, chance: &ChanceLoss) -> bool {
        self.max_rtt > filled
            && self.lost_percent() >= LOSSY_PERCENT
            && self.exceeds_chance(datagram_size, chance)
    }

    /// Whether a queue overflows that is too short for a probe: more is lost than by chance, and no packet met a longer one than the quarter
    /// of a round that a probe sends more, `min_rtt` being the path's best.
    pub(crate) fn overflows_short_queue(
        &self,
        datagram_size: u64,
        min_rtt: Duration,
        chance: &ChanceLoss,
    ) -> bool {
        self.max_rtt <= min_rtt + min_rtt.max(ROUND_FLOOR) / 4 + ACK_DELAY
            && self.exceeds_chance(datagram_size, chance)
    }

    /// Whether a load was on the path, in datagrams of `datagram_size` bytes, rather than a few packets.
    pub(crate) fn is_loaded(&self, datagram_size: u64) -> bool {
        self.rtt_samples >= LOADED_SAMPLES && self.acked >= LOADED_DATAGRAMS * datagram_size
    }

    /// Whether next to nothing was on the path, in datagrams of `datagram_size` bytes: what was late met no queue of ours.
    pub(crate) fn is_idle(&self, datagram_size: u64) -> bool {
        self.min_rtt.is_some() && 2 * (self.acked + self.lost) < datagram_size
    }

    /// Whether so much was on the path that the time over which it arrived tells of a queue, in datagrams of
    /// `datagram_size` bytes: small packets far from one another are late by chance, where delays vary.
    pub(crate) fn is_weighty(&self, datagram_size: u64) -> bool {
        self.acked >= WEIGHTY_DATAGRAMS * datagram_size
    }

    /// Whether even the fastest packet of the round met a queue that pacing should take away.
    pub(crate) fn has_queue(&self, min_rtt: Duration, variation: Duration) -> bool {
        self.min_rtt.is_some_and(|rtt| rtt > min_rtt + min_rtt / 16 + STANDING_TOLERANCE + 2 * variation)
    }

    /// Whether no packet of the round found the bottleneck's queue short, `min_rtt` being the path's best.
    pub(crate) fn saw_queue(&self, min_rtt: Duration) -> bool {
        self.min_rtt.is_some_and(|rtt| rtt > min_rtt + min_rtt / 4 + QUEUE_TOLERANCE)
    }
}

/// A longer round trip than this has met a queue.
pub(crate) fn filled_rtt(min_rtt: Duration, jitter: Duration) -> Duration {
    min_rtt + (min_rtt / 8).max(FILLED_TOLERANCE) + 2 * jitter
}

/// Whether a path on which this was the smallest round trip for a while has been without a queue, `base` being its best.
pub(crate) fn is_drained(least: Duration, base: Duration) -> bool {
    least <= base + base / 16 + DRAINED_TOLERANCE
}

/// The smallest round trip since this was made, and when it was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lowest(Option<(Duration, Instant)>);

impl Lowest {
    pub(crate) fn on_rtt(&mut self, rtt: Duration, now: Instant) {
        if self.0.is_none_or(|(least, _)| rtt < least) {
            self.0 = Some((rtt, now));
        }
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.0.map(|(rtt, _)| rtt)
    }

    pub(crate) fn at(&self) -> Option<Instant> {
        self.0.map(|(_, at)| at)
    }
}

/// By how much the fastest packets of successive rounds differ, where delays vary without any queue.
#[derive(Debug, Default)]
pub(crate) struct Steadiness {
    /// In nanoseconds.
    turns: Turns,
    variation: Duration,
}

impl Steadiness {
    /// A round that carried a load had `least` for its smallest round trip.
    pub(crate) fn on_round(&mut self, least: Duration) {
        let nanos = u64::try_from(least.as_nanos()).unwrap_or(u64::MAX);
        if let Some(step) = self.turns.on_value(nanos) {
            self.variation = (self.variation * 7 + Duration::from_nanos(step)) / 8;
        }
    }

    /// What comes next is not to be compared with what was.
    pub(crate) fn pause(&mut self) {
        self.turns.pause();
    }

    /// What of the differences is taken back by the next one, on average: what rises and falls with a queue, over many
    /// rounds, is hardly part of it.
    pub(crate) fn alternation(&self) -> Duration {
        Duration::from_nanos(self.turns.mean())
    }

    /// The same, without what hosts are late.
    pub(crate) fn own_alternation(&self) -> Duration {
        self.alternation().saturating_sub(HOST_ALTERNATION)
    }

    /// Whether it was seen that delays vary by at most so much beyond what hosts are late.
    pub(crate) fn is_even(&self, most: Duration) -> bool {
        self.turns.is_at_most(u64::try_from((most + HOST_ALTERNATION).as_nanos()).unwrap_or(u64::MAX))
    }

    /// Whether delays vary by more than `most` beyond what hosts are late.
    pub(crate) fn alternates(&self, most: Duration) -> bool {
        self.own_alternation() > most
    }

    /// The mean difference.
    pub(crate) fn variation(&self) -> Duration {
        self.variation
    }
}

/// By how much values go up and down in turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    last: Option<u64>,
    /// The last difference, and whether it was a rise.
    step: Option<(u64, bool)>,
    mean: u64,
    /// Pairs of differences of which it is the mean.
    judged: u32,
}

impl Turns {
    /// By how much `value` differs from the one before.
    pub(crate) fn on_value(&mut self, value: u64) -> Option<u64> {
        let last = self.last.replace(value)?;
        let (step, rises) = (last.abs_diff(value), value > last);
        if let Some((before, rose)) = self.step.replace((step, rises)) {
            let turn = if rose == rises { 0 } else { before.min(step) };
            self.mean -= self.mean / 8;
            self.mean += turn / 8;
            self.judged = self.judged.saturating_add(1);
        }
        Some(step)
    }

    /// What comes next is not to be compared with what was.
    pub(crate) fn pause(&mut self) {
        (self.last, self.step) = (None, None);
    }

    /// What of the differences is taken back by the next one, on average.
    pub(crate) fn mean(&self) -> u64 {
        self.mean
    }

    /// Whether enough was seen to say that at most so much of the differences is taken back. The mean of few is nearly that of nothing.
    pub(crate) fn is_at_most(&self, most: u64) -> bool {
        let missing = 0.875_f64.powi(self.judged.min(LONG_KNOWN).cast_signed());
        self.judged >= JUDGED_TURNS && self.mean as f64 <= most as f64 * (1.0 - missing)
    }
}

/// So many weigh two thirds of the mean, and so many all of it.
const JUDGED_TURNS: u32 = 8;
const LONG_KNOWN: u32 = 64;

/// The fastest packets of successive rounds are late by so much in turn where only hosts are.
const HOST_ALTERNATION: Duration = Duration::from_micros(250);

/// A run of round trips none of which is shorter than the one before: what comes behind one another into a
/// growing queue. Where delays vary and the order is kept, round trips fall after each rise.
#[derive(Debug, Default)]
pub(crate) struct Rise {
    first: Option<(Duration, Instant)>,
    last: Duration,
    samples: u32,
    /// Bytes acknowledged since the first.
    acked: u64,
    lasted: Duration,
}

impl Rise {
    pub(crate) fn on_ack(&mut self, rtt: Duration, acked: u64, now: Instant) {
        let Some((_, start)) = self.first.filter(|_| rtt >= self.last) else {
            *self = Self { first: Some((rtt, now)), last: rtt, ..Self::default() };
            return;
        };
        self.last = rtt;
        self.samples += 1;
        self.acked += acked;
        self.lasted = now.saturating_duration_since(start);
    }

    /// The rate of the bottleneck, bytes per second, which has been busy all the time: `None` unless the run is a long
    /// one, and it is the queue that makes most of the round trip, `base` being the path's own, which varies by `spread`.
    pub(crate) fn rate(&self, base: Duration, spread: Duration) -> Option<u64> {
        let clear = base.max(CLEAR_RISE) + spread;
        let grown = self.first.is_some_and(|(first, _)| self.last - first >= clear);
        (grown && self.samples >= RISE_SAMPLES).then(|| rate_over(self.acked, self.lasted))
    }
}

/// As many as a round is judged by (RFC 9406, `N_RTT_SAMPLE`).
const RISE_SAMPLES: u32 = 8;

/// Late hosts do not make round trips grow by so much, step by step.
const CLEAR_RISE: Duration = Duration::from_millis(20);

/// Whether sending more has made the path deliver more.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    /// The rate that has to be exceeded, bytes per second.
    baseline: u64,
    /// Rounds in which it was.
    pub(crate) grown: u32,
    /// Rounds since it last was.
    pub(crate) stalled: u32,
}

impl Growth {
    /// Growth is what exceeds `baseline` bytes per second.
    pub(crate) fn above(baseline: u64) -> Self {
        Self { baseline, ..Self::default() }
    }

    /// A round delivered `bytes_per_s`; it has grown if that is `target` percent of the last growth's.
    pub(crate) fn on_round(&mut self, bytes_per_s: u64, target: u64) -> bool {
        let grew = bytes_per_s >= percent(self.baseline, target);
        if grew {
            *self = Self { baseline: bytes_per_s, grown: self.grown + 1, stalled: 0 };
        } else {
            self.stalled += 1;
        }
        grew
    }
}

/// `BBR.LossThresh` of draft-ietf-ccwg-bbr is 2 %; radio links lose as much without any congestion.
const LOSSY_PERCENT: u64 = 5;

/// Without any queue
/// a loss is rather the radio's than congestion, unless it is as heavy as a policer's when a probe exceeds it.
const LOSSY_UNQUEUED_PERCENT: u64 = 15;

/// Of few datagrams one is soon 5 %.
const LOSSY_DATAGRAMS: u64 = 4;

/// What is measured less often (`N_RTT_SAMPLE` of RFC 9406, halved, for an acknowledgement stands for several
/// datagrams), or carries less, is no load.
const LOADED_SAMPLES: u32 = 4;
const LOADED_DATAGRAMS: u64 = 16;

/// On a path of 64 kb/s two take 360 ms, and no round is shorter.
const WEIGHTY_DATAGRAMS: u64 = 2;

/// `MIN_RTT_THRESH` of RFC 9406.
const FILLED_TOLERANCE: Duration = Duration::from_millis(4);

/// Hosts are late by so much, and packets of others stand between ours.
const DRAINED_TOLERANCE: Duration = Duration::from_micros(2500);

/// Shorter queues are no more than late acknowledgements.
const STANDING_TOLERANCE: Duration = Duration::from_millis(2);

/// Late acknowledgements and late hosts look like a queue of this length.
const QUEUE_TOLERANCE: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn is_lossy(acked: u64, lost: u64, min_rtt: Duration) -> bool {
        let round = Round { acked, lost, min_rtt: Some(min_rtt), ..Round::default() };
        round.is_lossy(1000, RTT, &ChanceLoss::default())
    }

    #[test]
    fn a_few_lost_datagrams_are_chance() {
        let queued = 2 * RTT;
        assert!(!is_lossy(10_000, 3000, queued), "three of thirteen");
        assert!(!is_lossy(98_000, 2000, queued), "2 %");
        assert!(is_lossy(90_000, 10_000, queued), "10 %");
    }

    #[test]
    fn without_a_queue_only_heavy_loss_is_congestion() {
        assert!(!is_lossy(90_000, 10_000, RTT), "10 %");
        assert!(is_lossy(80_000, 20_000, RTT), "20 %");
        assert!(!Round::default().is_lossy(1000, RTT, &ChanceLoss::default()), "nothing sent");
    }

    #[test]
    fn what_delays_vary_by_is_no_queue_that_grows() {
        let (mut rise, mut now) = (Rise::default(), Instant::now());
        for ms in 20..50 {
            now += Duration::from_millis(1);
            rise.on_ack(Duration::from_millis(ms), 1250, now);
        }
        assert_eq!(rise.rate(RTT, Duration::ZERO), Some(1_250_000));
        assert_eq!(rise.rate(RTT, Duration::from_millis(10)), None, "single packets vary by a third of it");
    }

    /// The variation and the alternation of rounds whose smallest round trips are these, in milliseconds.
    fn steadiness_of(round_trips: impl Iterator<Item = u64>) -> (Duration, Duration) {
        let mut steadiness = Steadiness::default();
        round_trips.for_each(|rtt| steadiness.on_round(Duration::from_millis(rtt)));
        (steadiness.variation(), steadiness.alternation())
    }

    #[test]
    fn a_queue_that_grows_and_shrinks_varies_but_does_not_alternate() {
        let (variation, alternation) = steadiness_of((20..60).step_by(4).chain((20..60).rev().step_by(4)));
        assert!(variation > Duration::from_millis(2), "{variation:?}");
        assert!(alternation < Duration::from_millis(1), "{alternation:?}");
        let (variation, alternation) = steadiness_of([20, 24].into_iter().cycle().take(50));
        assert!(variation > Duration::from_millis(3) && alternation > Duration::from_millis(3));
    }

    #[test]
    fn that_values_do_not_alternate_has_to_be_seen() {
        let is_at_most = |values: &[u64]| {
            let mut turns = Turns::default();
            values.iter().for_each(|value| {
                turns.on_value(*value);
            });
            turns.is_at_most(100)
        };
        let (steady, alternating) = (vec![1000; 100], [1000, 2000].repeat(50));
        // The first difference takes two values, and the first pair of them three.
        assert!(!is_at_most(&steady[..9]) && is_at_most(&steady[..10]));
        let seen = (0..100).filter(|many| is_at_most(&alternating[..*many]));
        assert_eq!(seen.count(), 0, "as many as the mean needs to become large");
        let ended = [&alternating[..], &steady].concat();
        let first = (100..200).find(|many| is_at_most(&ended[..*many]));
        assert!(first.is_some_and(|many| (110..130).contains(&many)), "{first:?}");
    }

    #[test]
    fn growth_counts_from_the_last_growth() {
        let mut growth = Growth::above(100);
        growth.on_round(120, 110);
        growth.on_round(125, 110);
        assert_eq!((growth.grown, growth.stalled), (1, 1));
        growth.on_round(132, 110);
        assert_eq!((growth.grown, growth.stalled), (2, 0));
    }
}
