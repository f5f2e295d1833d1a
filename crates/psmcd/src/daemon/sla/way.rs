//! One direction of a path, or of the way to a reflector: from what its witnesses say to who is at fault.

use std::collections::BTreeSet;
use std::time::Duration;

use psmc_api::{SegmentBlock, SlaFault, WayStatus};
use psmc_tomography::blame::{Promise, Verdict};
use psmc_tomography::counted::{Count, Ledger, Losses, Tally, losses};
use psmc_tomography::delay::Delays;
use psmc_tomography::{Answer, Unknown};

/// A proof against a segment that keeps its promise is wrong once in so many: with some hundred segments that are judged for each
/// breach, hardly ever.
const ERROR: f64 = 1e-4;

/// Of a segment of which no block was counted.
const NOTHING_COUNTED: Unknown = Unknown::TooFew { have: 0, need: 1 };

/// What is known of a direction.
#[derive(Debug)]
pub(super) struct Way {
    /// Its witnesses that count, in their order, by their places among all.
    chain: Vec<usize>,
    names: Vec<String>,
    /// The names of those that do not count.
    silent: Vec<String>,
    /// Blocks that are judged together.
    most: usize,
    ledger: Ledger,
    delays: Delays,
    /// How often one of them has told of a passage.
    passages: u64,
    newest: Option<i64>,
}

/// What was lost from one end of a way to the other in some blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) sent: u64,
    pub(super) lost: u64,
}

/// Where a fault is, and what cannot be told of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Finding {
    pub(super) faults: Vec<SlaFault>,
    pub(super) untold: Vec<String>,
    /// Which paths lead over what is at fault.
    pub(super) crossed: Vec<Crossed>,
}

/// A path that leads over a segment that is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Crossed {
    /// Where the segment begins.
    pub(super) from: String,
    /// Where it ends.
    pub(super) to: String,
    /// The path's id.
    pub(super) path: u32,
    /// Whether the packets that cross it are sent here; else they come.
    pub(super) is_sent: bool,
}

/// A part of a way: the segment between two witnesses, or what is within one of them.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct Part {
    /// Who is at its beginning.
    pub(in crate::daemon) from: String,
    /// Who is at its end: the same for what is within.
    pub(in crate::daemon) to: String,
    /// Datagrams of the window that have entered it, and those that were lost in it, where that was counted.
    pub(in crate::daemon) count: Option<(u64, u64)>,
    /// The share that it loses, 0 to 1, with the ends of its 95 % interval.
    pub(in crate::daemon) loss: Estimated,
    /// The median of what datagrams take above the fastest one, in microseconds, with the ends of its 95 % interval.
    pub(in crate::daemon) delay_us: Estimated,
    /// Why something of that cannot be told; empty if all can.
    pub(in crate::daemon) untold: String,
}

/// A value with the ends of its interval, if it can be told.
pub(in crate::daemon) type Estimated = Option<[f64; 3]>;

/// A part of one direction of a path.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct Located {
    /// The path's name; none of the way to a reflector.
    pub(in crate::daemon) path: String,
    /// Whether it is on the way of what this site sends.
    pub(in crate::daemon) is_sent: bool,
    /// The part.
    pub(in crate::daemon) part: Part,
}

/// What is asked of the segments of a way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Question {
    /// Which lose more than this share.
    Loss(f64),
    /// Which let more than a share of packets be later than the fastest by more than a limit in microseconds, of those that were sent
    /// in so much time before the newest one.
    Delay { share: f64, limit_us: u32, within: Duration },
}

impl Way {
    /// One that judges so many blocks together.
    pub(super) fn new(most: usize) -> Self {
        Self {
            chain: Vec::new(),
            names: Vec::new(),
            silent: Vec::new(),
            most,
            ledger: Ledger::new(most),
            delays: Delays::new(0),
            passages: 0,
            newest: None,
        }
    }

    /// Between these, without anything that is known.
    pub(super) fn between(most: usize, names: &[&str]) -> Self {
        Self {
            chain: (0..names.len()).collect(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            delays: Delays::new(names.len()),
            ..Self::new(most)
        }
    }

    /// Takes what is new in a status; says what was lost from end to end.
    pub(super) fn update(&mut self, status: &WayStatus) -> Lost {
        let counting = status.witnesses.iter().enumerate().filter(|(_, witness)| witness.counts);
        let chain: Vec<_> = counting.map(|(at, _)| at).collect();
        let all_names = status.witnesses.iter().map(|witness| &witness.name);
        let is_same =
            chain == self.chain && self.names.iter().eq(chain.iter().map(|at| &status.witnesses[*at].name));
        if !is_same {
            let names: Vec<_> = chain.iter().map(|at| status.witnesses[*at].name.as_str()).collect();
            *self = Self {
                chain: chain.clone(),
                newest: self.newest,
                passages: self.passages,
                ..Self::between(self.most, &names)
            };
        }
        self.silent = all_names
            .zip(&status.witnesses)
            .filter(|(_, w)| !w.counts)
            .map(|(name, _)| name.clone())
            .collect();
        // Another session of the peer has another clock.
        let last = status.blocks.last().map(|block| block.number);
        if last.is_some_and(|last| self.newest.is_some_and(|newest| last < newest)) {
            self.newest = None;
        }
        let mut lost = Lost::default();
        for block in &status.blocks {
            if self.newest.is_some_and(|newest| block.number <= newest) {
                continue;
            }
            self.newest = Some(block.number);
            self.block(block, status.witnesses.len(), &mut lost);
        }
        self.pass(status);
        lost
    }

    /// Takes a block.
    fn block(&mut self, block: &SegmentBlock, witnesses: usize, lost: &mut Lost) {
        let tally = |at: &usize| {
            let count = (*block.counts.get(*at)?)?;
            // The ends of the way count once: what the sender has handed on, and what the receiver has received.
            let received = count.received.or(count.handed_on)?;
            Some(Tally { received, handed_on: count.handed_on.unwrap_or(received) })
        };
        let tallies: Vec<_> = self.chain.iter().map(tally).collect();
        // Of a block that an end has not counted nothing is known from end to end; nor if they contradict each other.
        let has_ends = self.chain.first() == Some(&0) && self.chain.last() == Some(&(witnesses - 1));
        if let (Some(Some(first)), Some(Some(last)), true) = (tallies.first(), tallies.last(), has_ends)
            && let Some(count) = Count::new(first.handed_on, last.received)
        {
            *lost = Lost { sent: lost.sent + count.sent(), lost: lost.lost + count.lost() };
        }
        self.ledger.record(losses(&tallies));
    }

    /// Takes when datagrams passed. What is known already changes nothing.
    fn pass(&mut self, status: &WayStatus) {
        for passage in &status.passages {
            for (place, at) in self.chain.iter().enumerate() {
                let at = passage.at_us.get(*at).copied().flatten().and_then(|at| i64::try_from(at).ok());
                if let Some(at) = at {
                    self.passages += u64::from(self.delays.observe(place, u64::from(passage.number), at));
                }
            }
        }
    }

    /// Adds a block of which the losses are known.
    pub(super) fn record(&mut self, losses: Losses) {
        self.ledger.record(losses);
    }

    /// A packet was seen by a witness, at a time in microseconds by its clock.
    pub(super) fn observe(&mut self, witness: usize, packet: u64, at_us: i64) {
        self.passages += u64::from(self.delays.observe(witness, packet, at_us));
    }

    /// How often a witness has told of a passage: as long as that stays the same, what is known of delays gets old.
    pub(super) fn passages(&self) -> u64 {
        self.passages
    }

    /// Whether anybody counts on it.
    pub(super) fn is_known(&self) -> bool {
        !self.chain.is_empty()
    }

    /// How often a clock was set, as far as delays tell.
    pub(super) fn clocks_set(&self) -> u64 {
        self.delays.segments().map(|segment| segment.clocks_set()).sum()
    }

    /// All its parts, in their order. Delays are those of datagrams that were sent in so much time before the newest one.
    pub(super) fn parts(&self, within: Duration) -> Vec<Part> {
        let total = self.ledger.total();
        let segments = self.delays.segments().enumerate().map(|(at, segment)| {
            let count = total.segments.get(at).copied().unwrap_or(Err(NOTHING_COUNTED));
            self.part((at, at + 1), count, Some(segment.quantile(0.5, segment.within(within))))
        });
        // The ends only have what they have sent, or received.
        let inner = 1..total.nodes.len().saturating_sub(1).max(1);
        let nodes = inner.filter_map(|at| Some(self.part((at, at), *total.nodes.get(at)?, None)));
        segments.chain(nodes).collect()
    }

    fn part(&self, (from, to): (usize, usize), count: Result<Count, Unknown>, delay: Option<Answer>) -> Part {
        let name = |at: usize| self.names.get(at).cloned().unwrap_or_default();
        let told = |answer: &Answer| {
            answer.as_ref().ok().map(|answer| [answer.value(), answer.low(), answer.high()])
        };
        let loss = count.and_then(Count::rate);
        let unknown =
            [Some(&loss), delay.as_ref()].into_iter().flatten().filter_map(|answer| answer.as_ref().err());
        let untold: BTreeSet<_> = unknown.map(|unknown| self.say(*unknown)).collect();
        Part {
            from: name(from),
            to: name(to),
            count: count.ok().map(|count| (count.sent(), count.lost())),
            loss: told(&loss),
            delay_us: delay.as_ref().and_then(told),
            untold: Vec::from_iter(untold).join("; "),
        }
    }

    /// Who is at fault.
    pub(super) fn find(&self, path: Option<&str>, question: Question, finding: &mut Finding) {
        let (before, untold) = (finding.faults.len(), finding.untold.len());
        match question {
            Question::Loss(share) => self.find_loss(path, share, finding),
            Question::Delay { share, limit_us, within } => {
                self.find_delay(path, share, limit_us, within, finding);
            }
        }
        let was_found = finding.faults.len() > before;
        if !self.silent.is_empty() && (was_found || finding.untold.len() > untold) {
            let (silent, verb) = (self.silent.join(", "), if self.silent.len() == 1 { "does" } else { "do" });
            finding
                .untold
                .push(format!("{silent} {verb} not count: what happens there is told of the segment around"));
        }
    }

    fn find_loss(&self, path: Option<&str>, share: f64, finding: &mut Finding) {
        let promise = Promise { share, error: ERROR };
        let total = self.ledger.total();
        let segments = total.segments.iter().enumerate().map(|(at, count)| ((at, at + 1), *count));
        // The ends only have what they have sent, or received.
        let inner = 1..total.nodes.len().saturating_sub(1).max(1);
        let nodes = total.nodes.iter().enumerate().map(|(at, count)| ((at, at), *count));
        let nodes = nodes.filter(|((at, _), _)| inner.contains(at));
        let parts: Vec<_> = segments.chain(nodes).collect();
        let counts: Vec<_> = parts.iter().map(|(_, count)| *count).collect();
        let mut named = Vec::new();
        for (part, count) in &parts {
            let verdict = promise.judge(*count);
            match (verdict, count.map(Count::rate)) {
                (Verdict::Suspected { sure } | Verdict::Proven { sure }, Ok(rate)) => {
                    let proven = matches!(verdict, Verdict::Proven { .. });
                    named.extend(self.fault(path, *part, ("loss", 100.0), rate, (sure, proven)));
                }
                (Verdict::CannotBeTold(unknown), _) if !is_idle(unknown) => {
                    finding.untold.push(format!("{}: {}", self.place(path, *part), self.say(unknown)));
                }
                _ => {}
            }
        }
        if named.is_empty() {
            // None alone breaks the promise, but some do together.
            for at in promise.accountable(&counts) {
                let rate = counts[at].and_then(Count::rate);
                named.extend(self.fault(path, parts[at].0, ("loss", 100.0), rate, (0.0, false)));
            }
        }
        finding.faults.extend(named);
    }

    fn find_delay(
        &self,
        path: Option<&str>,
        share: f64,
        limit_us: u32,
        within: Duration,
        finding: &mut Finding,
    ) {
        let promise = Promise { share, error: ERROR };
        for (at, segment) in self.delays.segments().enumerate() {
            let newest = segment.within(within);
            let verdict = promise.judge(segment.late(limit_us, newest));
            match verdict {
                Verdict::Suspected { sure } | Verdict::Proven { sure } => {
                    let proven = matches!(verdict, Verdict::Proven { .. });
                    let rise =
                        segment.quantile(1.0 - share, newest).or_else(|_| segment.quantile(0.5, newest));
                    let fault = self.fault(path, (at, at + 1), ("delay", 1e-3), rise, (sure, proven));
                    finding.faults.extend(fault);
                }
                Verdict::CannotBeTold(unknown) if !is_idle(unknown) => {
                    finding.untold.push(format!("{}: {}", self.place(path, (at, at + 1)), self.say(unknown)));
                }
                Verdict::Kept | Verdict::CannotBeTold(_) => {}
            }
        }
    }

    fn fault(
        &self,
        path: Option<&str>,
        (from, to): (usize, usize),
        (what, scale): (&str, f64),
        answer: Answer,
        (sure, proven): (f64, bool),
    ) -> Option<SlaFault> {
        let estimate = answer.ok()?;
        Some(SlaFault {
            path: path.map(ToOwned::to_owned),
            from: self.names.get(from)?.clone(),
            to: self.names.get(to)?.clone(),
            what: what.to_owned(),
            value: estimate.value() * scale,
            low: estimate.low() * scale,
            high: estimate.high() * scale,
            sure_pct: sure * 100.0,
            proven,
        })
    }

    fn place(&self, path: Option<&str>, (from, to): (usize, usize)) -> String {
        let name = |at: usize| self.names.get(at).map_or("?", String::as_str);
        let place = if from == to {
            format!("in {}", name(from))
        } else {
            format!("{} → {}", name(from), name(to))
        };
        path.map_or_else(|| place.clone(), |path| format!("{place} of {path}"))
    }

    /// Why something cannot be told, with the names of the witnesses.
    fn say(&self, unknown: Unknown) -> String {
        let name = |at: usize| self.names.get(at).map_or("?", String::as_str);
        match unknown {
            Unknown::Silent(at) => format!("cannot be told: {} has not reported", name(at)),
            Unknown::SelfContradiction(at) => format!("cannot be told: {} contradicts itself", name(at)),
            Unknown::Contradiction(a, b) => {
                format!("cannot be told: {} and {} contradict each other", name(a), name(b))
            }
            Unknown::ClockSet(a, b) => {
                format!("cannot be told yet: the clock of {} or {} was set", name(a), name(b))
            }
            Unknown::NoClock(a, b) => {
                format!("cannot be told: the times of {} or {} follow no clock", name(a), name(b))
            }
            Unknown::TooFew { .. }
            | Unknown::NotSeparable
            | Unknown::PathsContradict
            | Unknown::TooNear
            | Unknown::NotANumber => unknown.to_string(),
        }
    }
}

impl Lost {
    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self { sent: self.sent + other.sent, lost: self.lost + other.lost }
    }
}

/// Whether nothing can be told for nothing was sent: a path that rests is no suspect.
fn is_idle(unknown: Unknown) -> bool {
    matches!(unknown, Unknown::TooFew { .. })
}

#[cfg(test)]
mod tests {
    use psmc_api::{Passage, Witness, WitnessCount};

    use super::*;

    const LOSS: Question = Question::Loss(0.005);
    const SECOND: Duration = Duration::from_secs(1);

    fn witness(name: &str, counts: bool) -> Witness {
        Witness { name: name.to_owned(), counts }
    }

    fn block(number: i64, counts: [Option<(u64, u64)>; 4]) -> SegmentBlock {
        let count = |(at, count): (usize, Option<(u64, u64)>)| {
            count.map(|(received, handed_on)| WitnessCount {
                received: (at > 0).then_some(received),
                handed_on: (at < 3).then_some(handed_on),
            })
        };
        SegmentBlock { number, blocks: 1, counts: counts.into_iter().enumerate().map(count).collect() }
    }

    fn status(counts: [bool; 4], blocks: Vec<SegmentBlock>) -> WayStatus {
        let witnesses = ["van", "r0", "r1", "hq"].into_iter().zip(counts);
        WayStatus {
            witnesses: witnesses.map(|(name, counts)| witness(name, counts)).collect(),
            total: block(0, [None; 4]),
            blocks,
            passages: Vec::new(),
        }
    }

    fn found(way: &Way, question: Question) -> (Vec<(String, String)>, Vec<String>) {
        let mut finding = Finding::default();
        way.find(Some("dsl"), question, &mut finding);
        let named = finding.faults.into_iter().map(|fault| (fault.from, fault.to)).collect();
        (named, finding.untold)
    }

    fn pair(from: &str, to: &str) -> (String, String) {
        (from.to_owned(), to.to_owned())
    }

    /// Five of a hundred are lost at each place in turn, and at two at once.
    #[test]
    fn whoever_loses_is_named_and_nobody_else() {
        let even = |n| Some((n, n));
        for (counts, named) in [
            ([even(100), even(95), even(95), even(95)], vec![pair("van", "r0")]),
            ([even(100), even(100), even(95), even(95)], vec![pair("r0", "r1")]),
            ([even(100), even(100), even(100), even(95)], vec![pair("r1", "hq")]),
            ([even(100), Some((100, 95)), even(95), even(95)], vec![pair("r0", "r0")]),
            ([even(100), even(95), even(95), even(90)], vec![pair("van", "r0"), pair("r1", "hq")]),
        ] {
            let mut way = Way::new(20);
            let lost = way.update(&status([true; 4], vec![block(7, counts)]));
            let arrived = counts[3].unwrap().0;
            assert_eq!(lost, Lost { sent: 100, lost: 100 - arrived });
            assert_eq!(found(&way, LOSS), (named, Vec::new()));
            // The same block once more is no news.
            assert_eq!(way.update(&status([true; 4], vec![block(7, counts)])), Lost::default());
        }
    }

    #[test]
    fn one_that_does_not_count_is_told_and_not_blamed() {
        let mut way = Way::new(20);
        let counts = [Some((100, 100)), Some((100, 100)), None, Some((95, 95))];
        way.update(&status([true, true, false, true], vec![block(7, counts)]));
        let (named, untold) = found(&way, LOSS);
        assert_eq!(named, [pair("r0", "hq")]);
        assert!(untold[0].starts_with("r1 does not count"), "{untold:?}");
    }

    /// The middle one says that all, or more than all, has come, and that it has handed on more still.
    #[test]
    fn a_liar_moves_no_blame_to_others() {
        for lie in [(100, 200), (5000, 5000)] {
            let mut way = Way::new(20);
            let counts = [Some((100, 100)), Some((100, 100)), Some(lie), Some((95, 95))];
            way.update(&status([true; 4], vec![block(7, counts)]));
            let (named, untold) = found(&way, LOSS);
            assert!(named.iter().all(|(from, to)| from == "r1" || to == "r1"), "{named:?}");
            assert!(untold.iter().any(|why| why.contains("r1")), "{untold:?}");
        }
    }

    #[test]
    fn a_segment_that_became_slower_is_named() {
        let mut way = Way::new(20);
        // r1 is an hour ahead; the last of 100 wait for 20 ms between the relays.
        for packet in 0..100_u32 {
            let sent = u64::from(packet) * 10_000;
            let waits = if packet < 50 { 0 } else { 20_000 };
            let at = [sent, sent + 1000, sent + 3_600_000_000 + waits, sent + 3000 + waits];
            let passages = vec![Passage { number: packet, at_us: at.map(Some).to_vec() }];
            way.update(&WayStatus { passages, ..status([true; 4], Vec::new()) });
        }
        let question = Question::Delay { share: 0.05, limit_us: 10_000, within: SECOND };
        assert_eq!(found(&way, question), (vec![pair("r0", "r1")], Vec::new()));
        assert_eq!(way.passages(), 400);
        // A second later that is of the past.
        for packet in 100..210_u32 {
            let sent = u64::from(packet) * 10_000;
            let at = [sent, sent + 1000, sent + 3_600_000_000, sent + 3000];
            let passages = vec![Passage { number: packet, at_us: at.map(Some).to_vec() }];
            way.update(&WayStatus { passages, ..status([true; 4], Vec::new()) });
        }
        assert_eq!(found(&way, question), (Vec::new(), Vec::new()));
    }

    #[test]
    fn another_session_begins_anew() {
        let mut way = Way::new(20);
        let even = |n| Some((n, n));
        way.update(&status([true; 4], vec![block(900, [even(100); 4])]));
        let lost = way.update(&status([true; 4], vec![block(3, [even(10); 4])]));
        assert_eq!(lost.sent, 10);
    }
}
