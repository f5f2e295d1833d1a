//! What really happened: from the fates of all packets, which no monitor sees.

use std::ops::Range;
use std::time::Duration;

use super::domain::{COLOURS, Course, Fate, Kind};
use super::topology::Way;

/// Packets of each colour that came to the bottleneck, and how many of them it dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Met {
    pub(super) came: [u64; COLOURS],
    pub(super) dropped: [u64; COLOURS],
}

/// A time in seconds since the begin.
pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.max(0.0))
}

impl Met {
    /// All that came to the bottleneck in these seconds.
    pub(super) fn of(course: &Course, when: Range<f64>) -> Self {
        Self::of_those(course, when, |_| true)
    }

    /// Those of some packets.
    pub(super) fn of_those(course: &Course, when: Range<f64>, which: impl Fn(&Fate) -> bool) -> Self {
        let mut met = Self::default();
        let when = seconds(when.start)..seconds(when.end);
        for fate in course.fates.iter().filter(|fate| fate.packet.way.is_to_victim() && which(fate)) {
            if fate.packet.at_fork.is_some_and(|at| when.contains(&at)) {
                let colour = usize::from(fate.packet.colour);
                met.came[colour] += 1;
                met.dropped[colour] += u64::from(!fate.arrived);
            }
        }
        met
    }

    /// The share that was dropped.
    pub(super) fn loss(&self) -> f64 {
        ratio(self.dropped.iter().sum(), self.came.iter().sum())
    }

    /// The share that is dropped of packets that are of these colours so often.
    pub(super) fn loss_of(&self, mix: [u64; COLOURS]) -> f64 {
        let lost = |colour: usize| mix[colour] as f64 * ratio(self.dropped[colour], self.came[colour]);
        let all: u64 = mix.iter().sum();
        if all == 0 { 0.0 } else { (0..COLOURS).map(lost).sum::<f64>() / all as f64 }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// One-way delays of the packets of one kind that were sent on a way in these seconds and arrived, in ms, in ascending order.
pub(super) fn delays_ms(course: &Course, way: Way, kind: Kind, when: Range<f64>) -> Vec<f64> {
    let when = seconds(when.start)..seconds(when.end);
    let is_one = |fate: &&Fate| {
        let packet = &fate.packet;
        fate.arrived && packet.way == way && packet.kind == kind && when.contains(&packet.sent)
    };
    let delays = course.fates.iter().filter(is_one);
    let mut delays: Vec<_> = delays.map(|fate| (fate.at - fate.packet.sent).as_secs_f64() * 1e3).collect();
    delays.sort_by(f64::total_cmp);
    delays
}

/// Of values in ascending order.
pub(super) fn quantile(values: &[f64], quantile: f64) -> Option<f64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length, rounded down"
    )]
    let place = (quantile * values.len() as f64) as usize;
    values.get(place.min(values.len().saturating_sub(1))).copied()
}

pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_loses_what_its_colours_lose() {
        let met = Met { came: [100, 50, 200], dropped: [0, 5, 100] };
        assert!((met.loss() - 0.3).abs() < 1e-12);
        assert!((met.loss_of([10, 10, 0]) - 0.05).abs() < 1e-12);
        assert_eq!([met.loss_of([0; COLOURS]), Met::default().loss()], [0.0; 2]);
    }

    #[test]
    fn quantiles_are_those_of_what_is_there() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(
            [0.0, 0.5, 0.99, 1.0].map(|share| quantile(&[1.0, 2.0], share)),
            [1.0, 2.0, 2.0, 2.0].map(Some)
        );
    }
}
