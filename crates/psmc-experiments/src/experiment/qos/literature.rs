//! The seed's monitor: an average of the delay of probes, and stripes where it is high.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use psmc_tomography::Answer;
use psmc_tomography::seed::{Colours, Ewma, Queue, Red, Samples, class_loss, weighted_class_loss};
use psmc_tomography::stripes::{Stripe, Stripes, Tree};

use super::domain::{ATTACK, COLOURS, Course, GUARANTEE_MS, Kind, receivers};
use super::real::{Met, seconds};
use super::topology::{BUFFER, Way};

/// When the average delay first exceeded what is guaranteed after the attack had begun: seconds from then on.
pub(super) fn flagged_after(course: &Course) -> Option<f64> {
    let begin = Duration::from_secs(ATTACK.0);
    let (at, _) =
        averages(course).into_iter().find(|&(at, average)| at >= begin && average > GUARANTEE_MS)?;
    Some((at - begin).as_secs_f64())
}

/// The average delay from E1 to E6 after each probe, in ms, and when.
pub(super) fn averages(course: &Course) -> Vec<(Duration, f64)> {
    let mut average = Ewma::default();
    let probes = course
        .fates
        .iter()
        .filter(|fate| fate.arrived && fate.packet.kind == Kind::Probe && fate.packet.way == Way::E1ToE6);
    probes.map(|fate| (fate.at, average.add((fate.at - fate.packet.sent).as_secs_f64() * 1e3))).collect()
}

/// What stripes tell of the bottleneck.
pub(super) struct Inferred {
    /// Of each colour.
    pub(super) loss: [Answer; COLOURS],
    stripes: [usize; COLOURS],
}

impl Inferred {
    /// From the stripes of these seconds, by when they came to the bottleneck.
    pub(super) fn of(stripes: &[Sent], when: Range<f64>) -> Option<Self> {
        let tree = Tree::new(&[0, FORK, FORK]).ok()?;
        let mut colours = [(); COLOURS].map(|()| Stripes::new(tree.clone()));
        let mut counts = [0; COLOURS];
        let when = seconds(when.start)..seconds(when.end);
        for sent in stripes.iter().filter(|sent| when.contains(&(sent.at + TO_FORK))) {
            colours[sent.colour].record(&sent.stripe).ok()?;
            counts[sent.colour] += 1;
        }
        let bottleneck = |stripes: Stripes| stripes.loss()[VICTIM - 1];
        Some(Self { loss: colours.map(bottleneck), stripes: counts })
    }

    /// By equation 2 as it stands; `None` while a colour cannot be told.
    pub(super) fn class_loss(&self) -> Option<f64> {
        Some(class_loss(self.samples()?, accepted()))
    }

    /// By equation 2, divided by the sum of its weights.
    pub(super) fn weighted(&self) -> Option<f64> {
        Some(weighted_class_loss(self.samples()?, accepted()))
    }

    fn samples(&self) -> Option<Colours<Samples>> {
        let of = |colour: usize| {
            let loss = self.loss[colour].ok()?.value();
            Some(Samples { count: self.stripes[colour] as f64, loss })
        };
        Some(Colours { green: of(0)?, yellow: of(1)?, red: of(2)? })
    }
}

/// Seconds from the begin of the attack until what all stripes so far tell, each colour weighted by how much of it there is,
/// stays this near to the real loss.
pub(super) fn converged_after(course: &Course, stripes: &[Sent], real: f64) -> Option<f64> {
    let (begin, end) = (ATTACK.0 as f64, ATTACK.1 as f64);
    let is_near = |until: f64| {
        let mix = Met::of(course, begin..until).came;
        let inferred = Inferred::of(stripes, begin..until)?;
        let all = mix.iter().sum::<u64>() as f64;
        let of = |colour: usize| Some(inferred.loss[colour].ok()?.value() * mix[colour] as f64 / all);
        let loss = (0..COLOURS).map(of).sum::<Option<f64>>()?;
        Some((loss - real).abs() <= NEAR)
    };
    let mut steps = (1..=60).map(|step| begin + f64::from(step) * (end - begin) / 60.0);
    let far = steps.rfind(|&until| is_near(until) != Some(true));
    far.map_or(Some(0.0), |far| (far < end).then_some(far - begin))
}

/// A stripe that was sent, and what became of it.
pub(super) struct Sent {
    at: Duration,
    colour: usize,
    stripe: Stripe,
}

/// All stripes of a run.
pub(super) fn stripes(course: &Course) -> Vec<Sent> {
    let mut sent = BTreeMap::<usize, Sent>::new();
    for fate in &course.fates {
        let Kind::Stripe { number, place } = fate.packet.kind else { continue };
        let entry = sent.entry(number).or_insert_with(|| {
            let [twice, _, once] =
                receivers(number).map(|way| if way == Way::E1ToE6 { VICTIM } else { ASIDE });
            let stripe = Stripe { twice, once, arrived: [false; COLOURS] };
            Sent { at: fate.packet.sent, colour: fate.packet.colour.into(), stripe }
        });
        entry.stripe.arrived[place] = fate.arrived;
    }
    sent.into_values().collect()
}

/// What RED accepts of each colour by equations 10 to 13.
fn accepted() -> Colours<f64> {
    let [green, yellow, red] = psmc_core::relay::RED.map(|red| Red {
        min: red.min.into(),
        max: red.max.into(),
        chance: red.probability.into(),
    });
    Queue { red: Colours { green, yellow, red }, buffer: BUFFER as f64 }.accepted()
}

/// Nodes of the tree from E1 by way of C4 to E6 and E7.
const FORK: usize = 1;
const VICTIM: usize = 2;
const ASIDE: usize = 3;

/// What is near: the mean of three seconds differs from the next one by as much.
const NEAR: f64 = 0.05;

/// How long a probe takes from E1 to C4.
const TO_FORK: Duration = Duration::from_millis(80);

#[cfg(test)]
mod tests {
    use super::super::domain::{Attack, play};
    use super::*;

    #[test]
    fn stripes_are_sent_only_where_delay_is_high() {
        assert!(stripes(&play(Attack::None, 2)).is_empty());
        let sent = stripes(&play(Attack::Second, 2));
        let (begin, end) = (Duration::from_secs(ATTACK.0), Duration::from_secs(ATTACK.1 + 2));
        assert!(sent.iter().all(|stripe| (begin..end).contains(&stripe.at)));
        assert!((400..=640).contains(&sent.len()), "{}", sent.len());
    }

    #[test]
    fn without_stripes_nothing_is_inferred() {
        let nothing = Inferred::of(&[], 0.0..60.0).unwrap();
        assert!(nothing.class_loss().is_none() && nothing.weighted().is_none());
        assert!(nothing.loss.iter().all(Result::is_err));
    }

    #[test]
    fn a_flag_needs_an_attack() {
        assert_eq!(flagged_after(&play(Attack::None, 2)), None);
        assert!(flagged_after(&play(Attack::Second, 2)).is_some_and(|after| after > 0.0));
    }
}
