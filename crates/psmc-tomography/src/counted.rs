//! Loss by counting: alternate marking (RFC 9341).
//!
//! A sender gives its packets a colour that alternates at regular times; the packets of one colour between two changes are a
//! *block*. Every witness on the way counts, for each block, what it received and what it handed on. Once a block is over, what one
//! witness handed on and the next one did not receive was lost between them, without any inference.
//!
//! ```text
//!   witness 0              witness 1              witness 2
//!  ┌──────────┐ segment 0 ┌──────────┐ segment 1 ┌──────────┐
//!  │ received ├──────────▶│ received ├──────────▶│ received │
//!  │ handed on│           │ handed on│           │ handed on│
//!  └──────────┘           └──────────┘           └──────────┘
//!     node 0                 node 1                 node 2
//! ```
//!
//! What is said of a segment depends on its two ends alone, and what is said of a node on that node alone. So a witness that lies
//! can spoil what is said of itself and of the segments that it is an end of, and nothing else.
//!
//! ```
//! use psmc_tomography::counted::{Tally, losses};
//!
//! let tally = |received, handed_on| Some(Tally { received, handed_on });
//! let losses = losses(&[tally(100, 100), tally(95, 95), tally(95, 90)]);
//! assert_eq!(losses.segments[0].unwrap().lost(), 5);
//! assert_eq!(losses.segments[1].unwrap().lost(), 0);
//! assert_eq!(losses.nodes[2].unwrap().lost(), 5);
//! ```

use std::collections::VecDeque;

use crate::{Answer, Estimate, Unknown};

/// What a witness counted of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets that came in.
    pub received: u64,
    /// Packets that went out towards the next witness; at the last one, out of the tunnel.
    pub handed_on: u64,
}

/// Packets that entered a segment or a node, and how many of them never left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    sent: u64,
    lost: u64,
}

/// What a block tells of a chain of witnesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Between each witness and the next one: what was handed on and did not arrive.
    pub segments: Vec<Result<Count, Unknown>>,
    /// In each witness: what arrived and was not handed on, such as by a full queue or a limiter.
    pub nodes: Vec<Result<Count, Unknown>>,
}

/// The losses of the latest blocks together.
///
/// [`record`](Self::record) each block when it is over; [`total`](Self::total) may be asked at any time.
#[derive(Clone, Debug)]
pub struct Ledger {
    blocks: VecDeque<Losses>,
    most: usize,
}

impl Ledger {
    /// One that keeps so many blocks, at least one.
    #[must_use]
    pub fn new(blocks: usize) -> Self {
        Self { blocks: VecDeque::new(), most: blocks.max(1) }
    }

    /// Adds a block, and forgets the oldest if there are too many. A block of another number of witnesses is of another chain, and
    /// what was before it is forgotten.
    pub fn record(&mut self, losses: Losses) {
        if self.blocks.back().is_some_and(|last| last.nodes.len() != losses.nodes.len()) {
            self.blocks.clear();
        }
        if self.blocks.len() == self.most {
            self.blocks.pop_front();
        }
        self.blocks.push_back(losses);
    }

    /// What was counted in all blocks that it keeps.
    ///
    /// A block in which a segment or a node cannot be told is left out there; if such blocks are more than the others, the total
    /// cannot be told either, for the reason of the latest of them.
    #[must_use]
    pub fn total(&self) -> Losses {
        let Some(last) = self.blocks.back() else { return Losses::default() };
        let segments =
            (0..last.segments.len()).map(|at| sum(self.blocks.iter().map(|block| block.segments[at])));
        let nodes = (0..last.nodes.len()).map(|at| sum(self.blocks.iter().map(|block| block.nodes[at])));
        Losses { segments: segments.collect(), nodes: nodes.collect() }
    }
}

fn sum(blocks: impl Iterator<Item = Result<Count, Unknown>>) -> Result<Count, Unknown> {
    let (mut total, mut told, mut untold, mut reason) = (Count::default(), 0, 0, None);
    for block in blocks {
        match block {
            Ok(count) => (total, told) = (total + count, told + 1),
            Err(unknown) => (untold, reason) = (untold + 1, Some(unknown)),
        }
    }
    reason.filter(|_| untold > told).map_or(Ok(total), Err)
}

/// The losses of a block, from the tallies of the witnesses in the order of the way; `None` for one that has not reported.
///
/// A witness that handed on more than it received contradicts itself, and nothing that it says counts. One that received more than
/// was handed on before it contradicts that other one, and the segment between them cannot be told. (A network that doubles packets
/// does so too, where it loses fewer than it doubles.)
#[must_use]
pub fn losses(tallies: &[Option<Tally>]) -> Losses {
    let sane: Vec<_> = tallies.iter().enumerate().map(|(witness, tally)| sane(witness, *tally)).collect();
    let between = |first: usize| {
        let (before, after) = (sane[first]?, sane[first + 1]?);
        Count::new(before.handed_on, after.received).ok_or(Unknown::Contradiction(first, first + 1))
    };
    Losses {
        segments: (0..tallies.len().saturating_sub(1)).map(between).collect(),
        nodes: sane.iter().map(|tally| tally.map(Tally::inside)).collect(),
    }
}

fn sane(witness: usize, tally: Option<Tally>) -> Result<Tally, Unknown> {
    let tally = tally.ok_or(Unknown::Silent(witness))?;
    if tally.handed_on > tally.received { Err(Unknown::SelfContradiction(witness)) } else { Ok(tally) }
}

impl Tally {
    fn inside(self) -> Count {
        Count { sent: self.received, lost: self.received.saturating_sub(self.handed_on) }
    }
}

impl Count {
    /// Of `sent` packets `arrived` have; `None` where more have than were sent.
    #[must_use]
    pub fn new(sent: u64, arrived: u64) -> Option<Self> {
        Some(Self { sent, lost: sent.checked_sub(arrived)? })
    }

    /// Packets that entered.
    #[must_use]
    pub fn sent(self) -> u64 {
        self.sent
    }

    /// Packets that never left.
    #[must_use]
    pub fn lost(self) -> u64 {
        self.lost
    }

    /// The share that was lost, which is exact; 0 where nothing was sent.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost as f64 / self.sent as f64 }
    }

    /// The loss rate behind the count, with the interval of Clopper and Pearson.
    ///
    /// The count is exact for the packets of the block; the interval says what the next packets have to expect, if each is lost
    /// independently of the others.
    ///
    /// # Errors
    /// [`Unknown::TooFew`], if nothing was sent.
    pub fn rate(self) -> Answer {
        Estimate::of_share(self.lost, self.sent)
    }
}

/// Both counts together. Saturates, for a witness may say any number.
impl std::ops::Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { sent: self.sent.saturating_add(other.sent), lost: self.lost.saturating_add(other.lost) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tally(received: u64, handed_on: u64) -> Option<Tally> {
        Some(Tally { received, handed_on })
    }

    fn lost(losses: &[Result<Count, Unknown>]) -> Vec<Result<u64, Unknown>> {
        losses.iter().map(|count| count.map(Count::lost)).collect()
    }

    #[test]
    fn what_is_counted_on_both_sides_is_exact() {
        let losses = losses(&[tally(1000, 990), tally(940, 940), tally(940, 939)]);
        assert_eq!(lost(&losses.segments), [Ok(50), Ok(0)]);
        assert_eq!(lost(&losses.nodes), [Ok(10), Ok(0), Ok(1)]);
        let rate = losses.segments[0].unwrap().rate().unwrap();
        assert_eq!(rate.value(), 50.0 / 990.0);
        assert!(rate.covers(0.05) && !rate.covers(0.1));
    }

    #[test]
    fn more_received_than_handed_on_is_no_negative_loss() {
        let losses = losses(&[tally(100, 100), tally(101, 101), tally(101, 101), tally(80, 90)]);
        let torn = Unknown::Contradiction(0, 1);
        let mad = Unknown::SelfContradiction(3);
        assert_eq!(lost(&losses.segments), [Err(torn), Ok(0), Err(mad)]);
        assert_eq!(lost(&losses.nodes), [Ok(0), Ok(0), Ok(0), Err(mad)]);
    }

    #[test]
    fn a_silent_witness_hides_the_segments_beside_it() {
        let losses = losses(&[tally(10, 10), None, tally(9, 9), tally(9, 9)]);
        let silent = Unknown::Silent(1);
        assert_eq!(lost(&losses.segments), [Err(silent), Err(silent), Ok(0)]);
        assert_eq!(lost(&losses.nodes), [Ok(0), Err(silent), Ok(0), Ok(0)]);
    }

    #[test]
    fn no_witnesses_and_no_packets_tell_nothing() {
        assert_eq!(losses(&[]), Losses::default());
        let losses = losses(&[tally(0, 0), tally(0, 0)]);
        assert_eq!(losses.segments[0].unwrap().rate(), Err(Unknown::TooFew { have: 0, need: 1 }));
    }

    #[test]
    fn blocks_add_up_and_the_oldest_are_forgotten() {
        let mut ledger = Ledger::new(3);
        assert_eq!(ledger.total(), Losses::default());
        for arrived in [0, 90, 95, 100] {
            ledger.record(losses(&[tally(100, 100), tally(arrived, arrived)]));
        }
        let total = ledger.total().segments[0].unwrap();
        assert_eq!((total.sent(), total.lost()), (300, 15));
        ledger.record(losses(&[tally(7, 7)]));
        assert_eq!(lost(&ledger.total().nodes), [Ok(0)]);
    }

    #[test]
    fn blocks_that_cannot_be_told_are_left_out_until_they_are_most() {
        let mut ledger = Ledger::new(3);
        for arrived in [90, 101, 101] {
            ledger.record(losses(&[tally(100, 100), tally(arrived, arrived)]));
        }
        assert_eq!(lost(&ledger.total().segments), [Err(Unknown::Contradiction(0, 1))]);
        ledger.record(losses(&[tally(100, 100), tally(80, 80)]));
        ledger.record(losses(&[tally(100, 100), tally(80, 80)]));
        assert_eq!(lost(&ledger.total().segments), [Ok(40)]);
    }

    proptest! {
        /// Whatever the way does to packets, honest witnesses account for all of them.
        #[test]
        fn honest_witnesses_account_for_every_packet(
            sent in 0_u64..100_000,
            kept in prop::collection::vec((0_u64..=1000, 0_u64..=1000), 2..8),
        ) {
            let share = |packets: u64, permille: u64| packets * permille / 1000;
            let (mut here, mut tallies) = (sent, Vec::new());
            for (segment, node) in kept {
                let received = if tallies.is_empty() { here } else { share(here, segment) };
                here = share(received, node);
                tallies.push(tally(received, here));
            }
            let losses = losses(&tallies);
            let all = losses.segments.iter().chain(&losses.nodes);
            let total: u64 = all.map(|count| count.unwrap().lost()).sum();
            prop_assert_eq!(total, sent - here);
        }

        /// What is told of a segment follows from its two ends alone.
        #[test]
        fn a_witness_moves_only_what_it_is_an_end_of(
            honest in prop::collection::vec((any::<u64>(), any::<u64>()), 2..7),
            liar in any::<prop::sample::Index>(),
            lie in any::<Option<(u64, u64)>>(),
        ) {
            let before: Vec<_> = honest.iter().map(|&(received, handed_on)| tally(received, handed_on)).collect();
            let liar = liar.index(before.len());
            let mut after = before.clone();
            after[liar] = lie.and_then(|(received, handed_on)| tally(received, handed_on));
            let (before, after) = (losses(&before), losses(&after));
            for segment in (0..before.segments.len()).filter(|&at| at != liar && at + 1 != liar) {
                prop_assert_eq!(before.segments[segment], after.segments[segment]);
            }
            for node in (0..before.nodes.len()).filter(|&at| at != liar) {
                prop_assert_eq!(before.nodes[node], after.nodes[node]);
            }
        }
    }
}
