//! The anti-replay window of a path or of a hop (RFC 6479), which also tells what to acknowledge.

use psmc_wire::PacketNumber;
use psmc_wire::frame::PacketRange;

const WORD_BITS: u64 = 64;

/// Words of the ring of a path. 256 make 2 KiB per path and a window of 16,320 numbers: twice what a path of 10 Gb/s
/// and 10 ms reorders at the very most, and twice the floor of 8192 that the protocol asks for.
pub(crate) const PATH_WORDS: usize = 256;

/// Words of the ring of a hop. 32 make 256 bytes and a window of 1984 numbers, above the floor of 1024 that the protocol
/// asks for. A hop is one way through the network, of which 23 ms at 1 Gb/s are not reordered.
pub(crate) const HOP_WORDS: usize = 32;

/// How far behind the largest number acknowledgements reach. A sender has forgotten older ones for long.
const ACK_REACH: u64 = 8192;

/// Which packet numbers of a path or of a hop have been received.
#[derive(Debug)]
pub(crate) struct ReplayWindow<const WORDS: usize> {
    /// Allocated with the first authentic datagram.
    ring: Option<Box<[u64; WORDS]>>,
    largest: PacketNumber,
}

impl<const WORDS: usize> Default for ReplayWindow<WORDS> {
    fn default() -> Self {
        Self { ring: None, largest: PacketNumber(0) }
    }
}

impl<const WORDS: usize> ReplayWindow<WORDS> {
    /// How far behind the largest number one may lie and still be told from a replay.
    pub(crate) const WINDOW: u64 = (WORDS as u64 - 1) * WORD_BITS;

    /// The largest number received, if any was.
    pub(crate) fn largest(&self) -> Option<PacketNumber> {
        self.ring.is_some().then_some(self.largest)
    }

    /// The number that would come next if nothing were lost: what truncated numbers are expanded around.
    pub(crate) fn expected(&self) -> PacketNumber {
        self.largest().map_or(PacketNumber(0), PacketNumber::next)
    }

    /// Whether `pn` may be accepted: neither received before nor too old to know.
    pub(crate) fn is_new(&self, pn: PacketNumber) -> bool {
        let Some(ring) = &self.ring else { return true };
        if pn > self.largest {
            return true;
        }
        self.largest.0 - pn.0 < Self::WINDOW && ring[word::<WORDS>(pn.0)] & bit(pn.0) == 0
    }

    /// Marks `pn`, which [`is_new`](Self::is_new), as received. To be called only once it is authenticated.
    pub(crate) fn record(&mut self, pn: PacketNumber) {
        let Self { ring, largest } = self;
        let fresh = ring.is_none();
        let ring = ring.get_or_insert_with(|| Box::new([0; WORDS]));
        if fresh {
            *largest = pn;
        } else if pn > *largest {
            let words_ahead = (pn.0 / WORD_BITS - largest.0 / WORD_BITS).min(WORDS as u64);
            for ahead in 0..words_ahead {
                ring[word::<WORDS>(pn.0 - ahead * WORD_BITS)] = 0;
            }
            *largest = pn;
        }
        ring[word::<WORDS>(pn.0)] |= bit(pn.0);
    }

    /// The runs of received numbers, largest first, as far back as acknowledgements reach.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = PacketRange> + '_ {
        let floor = self.largest.0.saturating_sub(ACK_REACH);
        let mut position = self.largest().map(|pn| pn.0);
        std::iter::from_fn(move || {
            let ring = self.ring.as_deref()?;
            let unset = run_down(ring, position?, floor, false);
            let last = position?.checked_sub(unset).filter(|&last| last >= floor)?;
            let run = run_down(ring, last, floor, true);
            let first = last + 1 - run;
            position = first.checked_sub(1).filter(|&next| next >= floor);
            Some(PacketRange { first: PacketNumber(first), last: PacketNumber(last) })
        })
    }
}

/// How many bits from `position` downwards, not below `floor`, equal `set`.
fn run_down<const WORDS: usize>(ring: &[u64; WORDS], position: u64, floor: u64, set: bool) -> u64 {
    let all = position + 1 - floor;
    let mut run = 0;
    while run < all {
        let at = position - run;
        let in_word = at % WORD_BITS + 1;
        let aligned = ring[word::<WORDS>(at)] << (WORD_BITS - in_word);
        let same = if set { aligned.leading_ones() } else { aligned.leading_zeros() };
        run += u64::from(same).min(in_word);
        if u64::from(same) < in_word {
            break;
        }
    }
    run.min(all)
}

fn word<const WORDS: usize>(pn: u64) -> usize {
    usize::try_from(pn / WORD_BITS % WORDS as u64).unwrap_or(0)
}

fn bit(pn: u64) -> u64 {
    1 << (pn % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    type PathWindow = ReplayWindow<PATH_WORDS>;
    type HopWindow = ReplayWindow<HOP_WORDS>;

    fn naive_ranges(received: &BTreeSet<u64>) -> Vec<(u64, u64)> {
        let Some(&largest) = received.last() else {
            return Vec::new();
        };
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for &pn in received.iter().rev().filter(|&&pn| pn >= largest.saturating_sub(ACK_REACH)) {
            match runs.last_mut() {
                Some(run) if run.0 == pn + 1 => run.0 = pn,
                _ => runs.push((pn, pn)),
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(start in 0u64..1 << 40, steps in proptest::collection::vec(-300i64..400, 1..300)) {
            let mut window = PathWindow::default();
            let mut received = BTreeSet::new();
            let mut at = start;
            for step in steps {
                at = at.saturating_add_signed(step);
                let pn = PacketNumber(at);
                let largest = received.last().copied().unwrap_or(0);
                let known = received.contains(&at) || (!received.is_empty() && at + PathWindow::WINDOW <= largest);
                prop_assert_eq!(window.is_new(pn), !known);
                if !known {
                    window.record(pn);
                    received.insert(at);
                }
            }
            let ranges: Vec<_> = window.ranges().map(|range| (range.first.0, range.last.0)).collect();
            prop_assert_eq!(ranges, naive_ranges(&received));
        }

        #[test]
        fn a_jump_forgets_only_what_is_out_of_the_window(first in 0u64..1000, jump in 1u64..40_000) {
            let mut window = PathWindow::default();
            window.record(PacketNumber(first));
            window.record(PacketNumber(first + jump));
            prop_assert!(!window.is_new(PacketNumber(first)));
            prop_assert!(!window.is_new(PacketNumber(first + jump)));
            prop_assert!(window.is_new(PacketNumber(first + jump + 1)));
            if jump > 1 {
                prop_assert!(window.is_new(PacketNumber(first + jump - 1)));
            }
        }
    }

    #[test]
    fn the_window_is_at_least_what_the_protocol_asks_for() {
        const { assert!(PathWindow::WINDOW >= 8192 && HopWindow::WINDOW >= 1024) };
    }

    #[test]
    fn an_empty_window_acknowledges_nothing() {
        assert_eq!(PathWindow::default().ranges().count(), 0);
        assert_eq!(PathWindow::default().expected(), PacketNumber(0));
    }
}
