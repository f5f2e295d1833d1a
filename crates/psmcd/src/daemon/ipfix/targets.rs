//! How targets stand, and all segments that they are measured on.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use psmc_api::{SlaState, SlaStatus};

use super::elements::{CANNOT_BE_TOLD, Interval, SegmentRow, TargetRow};
use super::encoder::Record;
use crate::daemon::sla::{Estimated, Located};

/// All targets, told in turn.
#[derive(Debug)]
pub(super) struct Targets {
    interval: Duration,
    next_round: Instant,
    /// Those that are still to be told in this round, one at a time: a target of a peer with 64 paths over 16 relays each has 4,000
    /// segments.
    round: VecDeque<String>,
}

impl Targets {
    /// All targets are told once in this time.
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next_round: now, round: VecDeque::new() }
    }

    /// The target that is next, of all that there are.
    pub(super) fn due(&mut self, all: impl FnOnce() -> Vec<String>, now: Instant) -> Option<String> {
        if self.round.is_empty() && self.next_round <= now {
            self.next_round = now + self.interval;
            self.round = all().into();
        }
        self.round.pop_front()
    }

    /// Something has happened to this target: it is next.
    pub(super) fn hurry(&mut self, name: String) {
        self.round.retain(|other| *other != name);
        self.round.push_front(name);
    }
}

/// The records of a target.
pub(super) fn records(status: &SlaStatus, parts: &[Located], at_ms: u64) -> Vec<Record> {
    let mut records = vec![Record::Target(target(status, at_ms))];
    records.extend(parts.iter().map(|part| Record::Segment(segment(&status.name, part, at_ms))));
    records
}

fn target(status: &SlaStatus, at_ms: u64) -> TargetRow {
    let place = |from: &str, to: &str| if from == to { from.to_owned() } else { format!("{from} → {to}") };
    let faults = status.faults.iter().map(|fault| place(&fault.from, &fault.to));
    let mut at_fault: Vec<_> = faults.collect();
    at_fault.dedup();
    TargetRow {
        name: status.name.clone(),
        measured: status.measured.clone(),
        limits: beginning(status.limits.clone()),
        at_ms,
        state: match status.state {
            SlaState::Unknown => "unknown",
            SlaState::Met => "met",
            SlaState::Broken => "broken",
        },
        since_ms: at_ms.saturating_sub(whole(status.since_s * 1e3)),
        breaches: status.breaches,
        broken: beginning(status.broken.join(", ")),
        at_fault: beginning(at_fault.join(", ")),
        round_trip_us: small(status.round_trip_ms.map(|ms| ms * 1e3)),
        loss_to_ppm: small(status.loss_to_pct.map(|percent| percent * 1e4)),
        loss_from_ppm: small(status.loss_from_pct.map(|percent| percent * 1e4)),
        throughput: status.throughput_mbps.map_or(u64::MAX, |mbps| whole(mbps * 1e6)),
    }
}

fn segment(target: &str, Located { path, is_sent, part }: &Located, at_ms: u64) -> SegmentRow {
    let interval = |value: &Estimated, scale: f64| {
        let [value, low, high] = [0, 1, 2].map(|at| small(value.map(|values| values[at] * scale)));
        Interval { value, low, high }
    };
    SegmentRow {
        target: target.to_owned(),
        path: path.clone(),
        is_sent: *is_sent,
        from: part.from.clone(),
        to: part.to.clone(),
        kind: if part.from == part.to { "relay" } else { "segment" },
        at_ms,
        packets: part.count.map_or(u64::MAX, |(packets, _)| packets),
        lost_packets: part.count.map_or(u64::MAX, |(_, lost)| lost),
        loss_ppm: interval(&part.loss, 1e6),
        delay_us: interval(&part.delay_us, 1.0),
        untold: beginning(part.untold.clone()),
    }
}

/// What of words is told: a message has room for a few of them beside all names.
const MAX_WORDS: usize = 100;

/// The beginning of a text, in as many bytes at most.
fn beginning(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_WORDS));
    text
}

/// A number that is not negative, as an element has it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is not negative")]
fn whole(value: f64) -> u64 {
    value.round().max(0.0) as u64
}

/// The same of 32 bits, and what stands for one that is not known.
fn small(value: Option<f64>) -> u32 {
    let largest = u64::from(CANNOT_BE_TOLD - 1);
    value.map_or(CANNOT_BE_TOLD, |value| u32::try_from(whole(value).min(largest)).unwrap_or(CANNOT_BE_TOLD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_is_told_first_and_all_in_turn() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut targets = Targets::new(10 * second, now);
        let all = || ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(targets.due(all, now).as_deref(), Some("a"));
        targets.hurry("c".to_owned());
        let rest = [1, 2, 3].map(|at| targets.due(all, now + at * second));
        assert_eq!(rest.each_ref().map(Option::as_deref), [Some("c"), Some("b"), None]);
        assert_eq!(targets.due(all, now + 10 * second).as_deref(), Some("a"));
    }

    #[test]
    fn words_are_cut_between_letters() {
        assert_eq!(beginning("ü".repeat(80)), "ü".repeat(50));
        assert_eq!(beginning(format!("x{}", "ü".repeat(80))).len(), 99);
        assert_eq!(beginning("loss to hq".to_owned()), "loss to hq");
    }

    #[test]
    fn what_cannot_be_told_is_no_number() {
        assert_eq!(
            [small(None), small(Some(1e300)), small(Some(2.4))],
            [CANNOT_BE_TOLD, CANNOT_BE_TOLD - 1, 2]
        );
        assert_eq!(whole(-3.0), 0);
    }
}
