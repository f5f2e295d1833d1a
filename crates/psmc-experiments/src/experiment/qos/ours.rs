//! Ours: what the data themselves tell, counted and timed at E1, C4 and E6.

use std::ops::Range;
use std::time::Duration;

use psmc_tomography::Estimate;
use psmc_tomography::blame::{Promise, Verdict, at_fault};
use psmc_tomography::counted::{Count, Tally, losses};
use psmc_tomography::delay::Delays;

use super::domain::{ATTACK, COLOURS, Course, Fate, Kind};
use super::literature::{Inferred, Sent};
use super::real::Met;
use super::topology::Way;

/// What was named by delays in a run.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Seconds from the begin of the attack until the bottleneck was.
    pub(super) after: Option<f64>,
    /// How often anything was before the attack, or later than [`SETTLED`] after it.
    pub(super) false_alarms: u32,
    /// How often another segment was.
    pub(super) others: u32,
}

/// Judges the delays above the minimum every tenth of a second, as packets of the data from E1 to E6 arrive.
pub(super) fn named_by_delay(course: &Course) -> Named {
    let (mut delays, mut named) = (Delays::new(WITNESSES), Named::default());
    let mut next = JUDGED_EVERY;
    for fate in course.fates.iter().filter(|fate| fate.arrived && is_ours(fate)) {
        while next <= fate.at {
            named.judge(&delays, next);
            next += JUDGED_EVERY;
        }
        observe(&mut delays, fate);
    }
    named
}

impl Named {
    fn judge(&mut self, delays: &Delays, at: Duration) {
        let verdicts: Vec<_> =
            delays.segments().map(|segment| PUNCTUAL.judge(segment.late(LATE, NEWEST))).collect();
        let named = at_fault(&verdicts);
        let (begin, end) = (Duration::from_secs(ATTACK.0), Duration::from_secs(ATTACK.1) + SETTLED);
        self.others += u32::from(named.iter().any(|&segment| segment != BOTTLENECK));
        if !(begin..end).contains(&at) {
            self.false_alarms += u32::from(!named.is_empty());
        } else if named.contains(&BOTTLENECK) && self.after.is_none() {
            self.after = Some((at - begin).as_secs_f64());
        }
    }
}

/// By the clocks of three routers, which are hours apart and drift.
fn observe(delays: &mut Delays, fate: &Fate) {
    let Some(at_fork) = fate.packet.at_fork else { return };
    for (witness, at) in [fate.packet.sent, at_fork, fate.at].into_iter().enumerate() {
        delays.observe(witness, fate.packet.number, reads(witness, at));
    }
}

fn reads(witness: usize, at: Duration) -> i64 {
    let micros = i64::try_from(at.as_micros()).unwrap_or(i64::MAX);
    let (offset, ppm) = CLOCKS[witness];
    micros + offset + micros * ppm / 1_000_000
}

/// The median delay from E1 to E6 above its minimum, as these clocks have it, in ms.
pub(super) fn median_above_minimum(course: &Course) -> Option<f64> {
    let mut delays = Delays::new(2);
    for fate in course.fates.iter().filter(|fate| fate.arrived && is_ours(fate)) {
        delays.observe(0, fate.packet.number, reads(0, fate.packet.sent));
        delays.observe(1, fate.packet.number, reads(2, fate.at));
    }
    Some(delays.segment(0)?.quantile(0.5, usize::MAX).ok()?.value() / 1e3)
}

/// What E1, C4 and E6 count of a colour of the data (RFC 9341) at the bottleneck: packets of one second.
pub(super) fn counted(course: &Course, second: u64) -> Option<Count> {
    let is_of_block = |fate: &&Fate| is_ours(fate) && fate.packet.sent.as_secs() == second;
    let mut tallies = [Tally::default(); WITNESSES];
    for fate in course.fates.iter().filter(is_of_block) {
        let seen = [true, fate.packet.at_fork.is_some(), fate.arrived];
        for (tally, _) in tallies.iter_mut().zip(seen).filter(|(_, seen)| *seen) {
            tally.received += 1;
            tally.handed_on += 1;
        }
    }
    losses(&tallies.map(Some)).segments[BOTTLENECK].ok()
}

/// Seconds from the begin of the attack until counts of a second say this of the bottleneck: a block is judged a quarter of a second
/// after its end, by when all its packets have arrived.
pub(super) fn judged_after(course: &Course, holds: fn(Verdict) -> bool) -> Option<f64> {
    let mut attacked = ATTACK.0..ATTACK.1;
    let first =
        attacked.find(|&second| counted(course, second).is_some_and(|count| holds(KEPT.judge(Ok(count)))))?;
    Some((first - ATTACK.0) as f64 + 1.25)
}

/// Packets that are lost by the counts of C4 and E6, less those that the simulator has dropped between them.
pub(super) fn beyond_the_simulators(course: &Course) -> Option<f64> {
    let counted = losses(&course.tallies.map(Some)).segments[0].ok()?;
    Some(counted.lost() as f64 - course.bottleneck.dropped_packets() as f64)
}

/// The share of the data from E1 that was lost in these seconds.
pub(super) fn loss_of_data(course: &Course, when: Range<f64>) -> f64 {
    Met::of_those(course, when, is_ours).loss()
}

/// The share of the attack's seconds in which the loss of the link, for packets of the data's colours, is inside the interval that
/// the counts of the data from E1 alone give; and the mean width of those intervals.
pub(super) fn passive_coverage(course: &Course) -> Option<(f64, f64)> {
    let seconds = ATTACK.0 + 5..ATTACK.1;
    let judged = seconds.map(|second| {
        let estimate = counted(course, second)?.rate().ok()?;
        let when = second as f64 + TO_FORK..second as f64 + 1.0 + TO_FORK;
        let mix = Met::of_those(course, when.clone(), is_ours).came;
        Some((estimate, Met::of(course, when).loss_of(mix)))
    });
    coverage(judged.collect::<Option<Vec<_>>>()?.into_iter())
}

/// The same of intervals by stripes of ten seconds, once each second.
pub(super) fn stripe_coverage(course: &Course, stripes: &[Sent]) -> Option<(f64, f64)> {
    let ends = ATTACK.0 + 12..=ATTACK.1;
    let judged = ends.map(|end| {
        let when = end as f64 - 10.0..end as f64;
        let met = Met::of(course, when.clone());
        Some((by_stripes(&Inferred::of(stripes, when)?, met.came)?, met.loss()))
    });
    coverage(judged.collect::<Option<Vec<_>>>()?.into_iter())
}

fn coverage(judged: impl ExactSizeIterator<Item = (Estimate, f64)>) -> Option<(f64, f64)> {
    let all = judged.len() as f64;
    let (covered, width) = judged.fold((0.0, 0.0), |(covered, width), (estimate, real)| {
        (covered + f64::from(u8::from(estimate.covers(real))), width + estimate.high() - estimate.low())
    });
    (all > 0.0).then_some((covered / all * 100.0, width / all * 100.0))
}

/// The loss of all packets, of which so many are of each colour, from what stripes tell of each. (MOVER for a weighted sum:
/// Zou and Donner, Statistics in Medicine 2008.)
pub(super) fn by_stripes(inferred: &Inferred, mix: [u64; COLOURS]) -> Option<Estimate> {
    let all = mix.iter().sum::<u64>() as f64;
    let (mut value, mut below, mut above) = (0.0, 0.0, 0.0);
    for (answer, count) in inferred.loss.iter().zip(mix) {
        let (estimate, share) = ((*answer).ok()?, count as f64 / all);
        value += share * estimate.value();
        below += (share * (estimate.value() - estimate.low())).powi(2);
        above += (share * (estimate.high() - estimate.value())).powi(2);
    }
    Estimate::new(value, (value - below.sqrt()).max(0.0), (value + above.sqrt()).min(1.0)).ok()
}

fn is_ours(fate: &Fate) -> bool {
    fate.packet.kind == Kind::Data && fate.packet.way == Way::E1ToE6
}

/// E1, C4 and E6.
const WITNESSES: usize = 3;

/// The segment from C4 to E6.
const BOTTLENECK: usize = 1;

/// Of the three: by how many microseconds it is ahead, and how much it gains, in parts per million.
const CLOCKS: [(i64, i64); WITNESSES] = [(0, 20), (3_600_000_000, -30), (-7_200_000_000, 50)];

/// No more than 5 % of packets later than half of what the attack adds.
const PUNCTUAL: Promise = Promise { share: 0.05, error: 1e-4 };
const LATE: u32 = 40_000;

/// Packets that are judged at a time: a quarter of a second of them.
const NEWEST: usize = 20;

const JUDGED_EVERY: Duration = Duration::from_millis(100);

/// How long after the attack its queue may still be there.
const SETTLED: Duration = Duration::from_secs(2);

/// 0.5 % may be lost.
const KEPT: Promise = Promise { share: 0.005, error: 1e-4 };

/// Seconds from E1 to C4.
const TO_FORK: f64 = 0.08;

#[cfg(test)]
mod tests {
    use super::super::domain::{Attack, play};
    use super::super::literature::stripes;
    use super::*;

    #[test]
    fn without_an_attack_nothing_is_named_and_nothing_lost() {
        let course = play(Attack::None, 2);
        let named = named_by_delay(&course);
        assert!(named.after.is_none() && named.false_alarms == 0 && named.others == 0, "{named:?}");
        assert!((0..59).all(|second| counted(&course, second).unwrap().lost() == 0));
        assert_eq!(judged_after(&course, Verdict::is_blame), None);
    }

    #[test]
    fn stripes_of_one_colour_tell_its_loss_and_others_narrow_the_interval() {
        let course = play(Attack::First, 2);
        let inferred = Inferred::of(&stripes(&course), 20.0..45.0).unwrap();
        let red = inferred.loss[2].unwrap();
        let alone = by_stripes(&inferred, [0, 0, 9]).unwrap();
        let close = |one: f64, other: f64| (one - other).abs() < 1e-12;
        assert!(
            close(alone.value(), red.value())
                && close(alone.low(), red.low())
                && close(alone.high(), red.high())
        );
        let half = by_stripes(&inferred, [0, 9, 9]).unwrap();
        let yellow = inferred.loss[1].unwrap();
        assert!(close(half.value(), f64::midpoint(yellow.value(), red.value())), "{half:?}");
        assert!(half.high() - half.low() < red.high() - red.low(), "{half:?}, {red:?}");
    }

    #[test]
    fn the_clocks_are_apart_and_drift() {
        let hour = Duration::from_secs(3600);
        assert_eq!([0, 1].map(|witness| reads(witness, Duration::ZERO)), [0, 3_600_000_000]);
        assert_eq!(reads(0, hour) - 3_600_000_000, 72_000);
    }
}
