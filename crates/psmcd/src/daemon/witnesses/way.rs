//! One direction of a path: what each witness has counted, block by block, and when the same datagrams passed each of them
//! (section 16 of the protocol).
//!
//! Witnesses are asked whenever it suits. What one of them has read belongs to the block that was over when the datagrams
//! before it were sent, by their sender's clock; it is of use if the numbers of that block's colour were at rest then.

use std::collections::VecDeque;

use psmc_wire::counts::{BLOCK_US, ByColour, COLOURS};

/// How long, in microseconds, the numbers of a colour are left alone after it has changed: for what is late, and because it is not
/// known exactly when it has changed.
const RESTS_FROM_US: i64 = 150_000;

/// Until when they are read: a little before the colour is used again.
const RESTS_UNTIL_US: i64 = 450_000;

/// Blocks that are kept for whoever wants to know: four seconds.
const HISTORY: usize = 8;

/// A witness that has not told of a block while so many later ones were read will not.
const PATIENCE: i64 = 4;

/// Datagrams with the delay mark that are kept: those of three seconds.
const DELAYS: usize = 64;

/// What a witness has counted of both colours since it began to; the ends of a path have no more than one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) received: Option<ByColour>,
    pub(super) handed_on: Option<ByColour>,
}

/// What a witness has counted of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) received: Option<u64>,
    pub(super) handed_on: Option<u64>,
}

/// What was counted of a block, or of some of one colour in a row if not all could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The number of the last one, by its sender's clock.
    pub(super) number: i64,
    /// How many they are.
    pub(super) blocks: i64,
    /// By each witness, from the sender to the receiver; `None` of those that do not count.
    pub(super) counts: Vec<Option<Count>>,
}

/// When a datagram passed each witness, in microseconds of that one's own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// The low 32 bits of its packet number.
    pub(super) number: u32,
    pub(super) at_us: Vec<Option<u64>>,
}

/// One direction of a path.
///
/// Readings are [noted](Self::note) as they come, and make blocks as soon as all witnesses that count have told of one.
#[derive(Debug)]
pub(super) struct Way {
    /// Which witnesses have lately told anything.
    counting: Vec<bool>,
    /// Blocks that are being read, oldest first.
    open: VecDeque<OpenBlock>,
    /// The last one of each colour that was read: how far all had counted by its end.
    read: [Option<OpenBlock>; COLOURS],
    blocks: VecDeque<Block>,
    passages: VecDeque<Passage>,
    total: Block,
}

/// How far each witness had counted when a block was over.
#[derive(Clone, Debug)]
struct OpenBlock {
    number: i64,
    counts: Vec<Option<Count>>,
}

impl Way {
    /// A direction with so many witnesses, both ends among them.
    pub(super) fn new(witnesses: usize) -> Self {
        Self {
            counting: vec![true; witnesses],
            open: VecDeque::new(),
            read: [None, None],
            blocks: VecDeque::new(),
            passages: VecDeque::new(),
            total: Block { number: 0, blocks: 0, counts: vec![None; witnesses] },
        }
    }

    /// The last blocks that were read, oldest first.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.iter()
    }

    /// The sum of all that were read since the same witnesses count.
    pub(super) fn total(&self) -> &Block {
        &self.total
    }

    /// Datagrams that were seen to pass, oldest first.
    pub(super) fn passages(&self) -> impl Iterator<Item = &Passage> {
        self.passages.iter()
    }

    /// Which witnesses count.
    pub(super) fn counting(&self) -> &[bool] {
        &self.counting
    }

    /// That one does not, as far as is known.
    pub(super) fn note_silent(&mut self, witness: usize) {
        self.set_counting(witness, false);
    }

    /// What a witness had counted when the datagrams arrived there that were sent at `sent_us` of their sender's clock.
    pub(super) fn note(&mut self, witness: usize, sent_us: i64, reading: Reading) {
        let block = BLOCK_US.cast_signed();
        let (number, into) = (sent_us.div_euclid(block) - 1, sent_us.rem_euclid(block));
        if !(RESTS_FROM_US..RESTS_UNTIL_US).contains(&into) {
            return;
        }
        self.set_counting(witness, true);
        let colour = usize::from(number.rem_euclid(2) == 1);
        let of = |counts: Option<ByColour>| counts.map(|counts| counts[colour]);
        let count = Count { received: of(reading.received), handed_on: of(reading.handed_on) };
        let Some(at) = self.open_block(number) else { return };
        self.open[at].counts[witness] = Some(count);
        self.close(at);
    }

    /// When a datagram with the delay mark passed a witness.
    pub(super) fn note_passage(&mut self, witness: usize, number: u32, at_us: u64) {
        let known = self.passages.iter().rposition(|passage| passage.number == number);
        let at = known.unwrap_or_else(|| {
            if self.passages.len() == DELAYS {
                self.passages.pop_front();
            }
            self.passages.push_back(Passage { number, at_us: vec![None; self.counting.len()] });
            self.passages.len() - 1
        });
        self.passages[at].at_us[witness] = Some(at_us);
    }

    /// Where a block stands that may be read; `None` if a later one of its colour was.
    fn open_block(&mut self, number: i64) -> Option<usize> {
        let newest_read = self.read.iter().flatten().map(|read| read.number).max();
        if newest_read.is_some_and(|read| number <= read) {
            return None;
        }
        let at = self.open.partition_point(|open| open.number < number);
        if self.open.get(at).is_none_or(|open| open.number != number) {
            self.open.insert(at, OpenBlock { number, counts: vec![None; self.counting.len()] });
        }
        Some(at)
    }

    /// A block has got a reading: it is over if that was the last. Who has not told of one for long is waited for no more.
    fn close(&mut self, at: usize) {
        let newest = self.open.back().map_or(0, |open| open.number);
        let is_complete = |open: &OpenBlock, counting: &[bool]| {
            open.counts.iter().zip(counting).all(|(count, counts)| count.is_some() || !counts)
        };
        if is_complete(&self.open[at], &self.counting) {
            let Some(block) = self.open.drain(..=at).next_back() else { return };
            return self.settle(block);
        }
        while self.open.front().is_some_and(|oldest| oldest.number + PATIENCE <= newest) {
            self.open.pop_front();
            for witness in 0..self.counting.len() {
                if self.open.iter().all(|open| open.counts[witness].is_none()) {
                    self.set_counting(witness, false);
                }
            }
        }
    }

    /// A block was read: what was counted in it is the difference to the last one of its colour.
    fn settle(&mut self, block: OpenBlock) {
        let colour = usize::from(block.number.rem_euclid(2) == 1);
        let Some(before) = self.read[colour].replace(block.clone()) else { return };
        let counts = block.counts.iter().zip(&before.counts).map(|pair| match pair {
            (Some(count), Some(before)) => Some(Some(count.since(before)?)),
            (None, _) | (_, None) => Some(None),
        });
        // Whoever counts less than before has begun anew: nothing is known of what it has missed.
        let Some(counts) = counts.collect::<Option<Vec<_>>>() else { return self.forget_total() };
        let blocks = (block.number - before.number) / 2;
        for (total, count) in self.total.counts.iter_mut().zip(&counts) {
            *total = total.unwrap_or_default().and(*count);
        }
        (self.total.number, self.total.blocks) = (block.number, self.total.blocks + blocks);
        if self.blocks.len() == HISTORY {
            self.blocks.pop_front();
        }
        self.blocks.push_back(Block { number: block.number, blocks, counts });
    }

    fn set_counting(&mut self, witness: usize, counts: bool) {
        if self.counting[witness] != counts {
            self.counting[witness] = counts;
            self.forget_total();
        }
    }

    fn forget_total(&mut self) {
        self.total = Block { number: 0, blocks: 0, counts: vec![None; self.counting.len()] };
    }
}

impl Count {
    /// What was counted since then; `None` if that is less than nothing.
    fn since(&self, before: &Self) -> Option<Self> {
        let since = |now: Option<u64>, before: Option<u64>| match now.zip(before) {
            Some((now, before)) => now.checked_sub(before).map(Some),
            None => Some(None),
        };
        Some(Self {
            received: since(self.received, before.received)?,
            handed_on: since(self.handed_on, before.handed_on)?,
        })
    }

    /// Both together, if there are both.
    fn and(self, other: Option<Self>) -> Option<Self> {
        let sum = |one: Option<u64>, other: Option<u64>| other.map(|other| one.unwrap_or(0) + other);
        let other = other?;
        Some(Self {
            received: sum(self.received, other.received),
            handed_on: sum(self.handed_on, other.handed_on),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender, a relay and a receiver. The sender sends 100 datagrams in each block; in that with the number that is given,
    /// some are lost before the relay, in it, and behind it.
    struct Segments {
        way: Way,
        bad: i64,
        sent: ByColour,
        lost: [ByColour; 3],
    }

    const LOST: [u64; 3] = [5, 3, 2];

    impl Segments {
        fn new(bad: i64) -> Self {
            Self { way: Way::new(3), bad, sent: [0; 2], lost: [[0; 2]; 3] }
        }

        /// The sender sends all of a block.
        fn send(&mut self, number: i64) {
            let colour = usize::from(number % 2 == 1);
            self.sent[colour] += 100;
            for (lost, count) in self.lost.iter_mut().zip(LOST) {
                lost[colour] += if number == self.bad { count } else { 0 };
            }
        }

        /// What a witness has counted.
        fn reading(&self, witness: usize) -> Reading {
            let left = |segments: usize| {
                let lost = |colour: usize| self.lost[..segments].iter().map(|lost| lost[colour]).sum::<u64>();
                Some([0, 1].map(|colour| self.sent[colour] - lost(colour)))
            };
            match witness {
                0 => Reading { received: None, handed_on: left(0) },
                1 => Reading { received: left(1), handed_on: left(2) },
                _ => Reading { received: left(3), handed_on: None },
            }
        }

        /// A witness tells, so long into the block that follows the one with the number.
        fn tell(&mut self, witness: usize, number: i64, into_ms: i64) {
            let reading = self.reading(witness);
            self.way.note(witness, (number + 1) * 500_000 + into_ms * 1000, reading);
        }

        fn numbers(&self) -> Vec<i64> {
            self.way.blocks().map(|block| block.number).collect()
        }
    }

    fn expected(lost: bool) -> Vec<Option<Count>> {
        let [before, within, behind] = if lost { LOST } else { [0; 3] };
        vec![
            Some(Count { received: None, handed_on: Some(100) }),
            Some(Count { received: Some(100 - before), handed_on: Some(100 - before - within) }),
            Some(Count { received: Some(100 - before - within - behind), handed_on: None }),
        ]
    }

    #[test]
    fn what_is_lost_shows_in_its_block_and_on_its_segment() {
        let mut segments = Segments::new(4);
        for number in 0..7 {
            segments.send(number);
            // In any order, and some more often.
            for (witness, into_ms) in [(2, 160), (0, 150), (2, 400), (1, 449)] {
                segments.tell(witness, number, into_ms);
            }
        }
        assert_eq!(
            segments.numbers(),
            [2, 3, 4, 5, 6],
            "the first of each colour is what the others are counted from"
        );
        for block in segments.way.blocks() {
            assert_eq!((block.blocks, &block.counts), (1, &expected(block.number == 4)));
        }
        let total = segments.way.total();
        assert_eq!((total.blocks, total.counts[0].unwrap().handed_on), (5, Some(500)));
        assert_eq!(total.counts[2].unwrap().received, Some(490));
    }

    #[test]
    fn nothing_is_read_while_it_may_still_change() {
        let mut segments = Segments::new(0);
        for number in 0..6 {
            segments.send(number);
            for witness in 0..3 {
                segments.tell(witness, number, 149);
                segments.tell(witness, number, 450);
            }
        }
        assert_eq!(segments.numbers(), Vec::<i64>::new());
        assert!(segments.way.open.is_empty());
    }

    #[test]
    fn a_block_of_which_one_has_not_told_is_counted_with_the_next_of_its_colour() {
        let mut segments = Segments::new(4);
        for number in 0..8 {
            segments.send(number);
            for witness in (0..3).filter(|&witness| (witness, number) != (1, 4)) {
                segments.tell(witness, number, 300);
            }
        }
        let last = segments.way.blocks().find(|block| block.number == 6).unwrap();
        assert_eq!(last.blocks, 2);
        assert_eq!(last.counts[1], Some(Count { received: Some(195), handed_on: Some(192) }));
        assert_eq!(segments.way.total().counts[2].unwrap().received, Some(590));
    }

    #[test]
    fn who_tells_nothing_is_waited_for_in_vain_and_not_for_ever() {
        let mut segments = Segments::new(100);
        for number in 0..20 {
            segments.send(number);
            for witness in [0, 2] {
                segments.tell(witness, number, 300);
            }
        }
        assert_eq!(segments.way.counting(), [true, false, true]);
        let [first, .., last] = &segments.numbers()[..] else { panic!("nothing was read") };
        assert_eq!((*first, *last), (12, 19));
        assert!(segments.way.blocks().all(|block| block.counts[1].is_none()));
        // It counts from when it tells again.
        for number in 20..24 {
            segments.send(number);
            (0..3).for_each(|witness| segments.tell(witness, number, 300));
        }
        let last = segments.way.blocks().last().unwrap();
        assert_eq!((last.number, &last.counts), (23, &expected(false)));
        assert_eq!(segments.way.open.len(), 0);
    }

    #[test]
    fn who_begins_anew_makes_no_block() {
        let mut segments = Segments::new(100);
        for number in 0..10 {
            segments.send(number);
            if number == 6 {
                (segments.sent, segments.lost) = ([0; 2], [[0; 2]; 3]);
            }
            (0..3).for_each(|witness| segments.tell(witness, number, 300));
        }
        assert_eq!(segments.numbers(), [2, 3, 4, 5, 8, 9]);
    }

    #[test]
    fn the_newest_passages_are_kept_with_the_times_of_all_witnesses() {
        let mut way = Way::new(3);
        for number in 0..100 {
            way.note_passage(1, number, 7000 + u64::from(number));
            way.note_passage(2, number, 9);
        }
        assert_eq!(way.passages().count(), DELAYS);
        assert_eq!(way.passages().last().unwrap().at_us, [None, Some(7099), Some(9)]);
    }
}
