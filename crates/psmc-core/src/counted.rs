//! Datagrams counted by colour (RFC 9341, section 16 of the protocol): what their sender sets, and samples of when they passed.

use psmc_wire::counts::{BLOCK_US, ByColour, MAX_SAMPLES};
use psmc_wire::datagram::Marks;

/// At most one datagram of a path in this time has the delay mark, in microseconds of the sender's clock: enough to tell 20 ms more
/// within a second, and few enough to be kept.
const MARK_INTERVAL_US: u64 = 50_000;

/// Adds a datagram of that colour.
pub(crate) fn count(counts: &mut ByColour, marks: Marks) {
    counts[usize::from(marks.colour)] += 1;
}

/// What is sent on a path, by colour.
#[derive(Debug, Default)]
pub(crate) struct Coloured {
    sent: ByColour,
    /// That of the present block.
    colour: bool,
    /// When that ends, by the session's clock in microseconds.
    block_ends: u64,
    /// When the next datagram gets the delay mark.
    mark_at: u64,
}

impl Coloured {
    /// The marks of the datagram that is sealed at `at_us` of the session's clock, which counts as sent.
    pub(crate) fn stamp(&mut self, at_us: u64) -> Marks {
        if at_us >= self.block_ends {
            let block = at_us / BLOCK_US;
            self.colour = block % 2 == 1;
            self.block_ends = (block + 1) * BLOCK_US;
        }
        let delay = at_us >= self.mark_at;
        if delay {
            self.mark_at = at_us + MARK_INTERVAL_US;
        }
        let marks = Marks { colour: self.colour, delay, ..Marks::default() };
        count(&mut self.sent, marks);
        marks
    }

    /// Datagrams sealed.
    pub(crate) fn sent(&self) -> ByColour {
        self.sent
    }
}

/// The newest samples of something, each of which is told once to each of those who ask.
#[derive(Debug)]
pub(crate) struct Samples<T> {
    newest: [T; MAX_SAMPLES],
    /// How many there have been.
    noted: u64,
}

/// How many samples somebody has been told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told(u64);

impl<T: Copy + Default> Default for Samples<T> {
    fn default() -> Self {
        Self { newest: [T::default(); MAX_SAMPLES], noted: 0 }
    }
}

impl<T: Copy> Samples<T> {
    /// Takes one in, in the place of the oldest.
    pub(crate) fn note(&mut self, sample: T) {
        self.newest[place(self.noted)] = sample;
        self.noted += 1;
    }

    /// Those that were not told yet and are still kept, oldest first.
    pub(crate) fn tell(&self, told: &mut Told) -> Vec<T> {
        let from = told.0.max(self.noted.saturating_sub(MAX_SAMPLES as u64));
        told.0 = self.noted;
        (from..self.noted).map(|number| self.newest[place(number)]).collect()
    }
}

fn place(number: u64) -> usize {
    // It is less than the number of places.
    usize::try_from(number % MAX_SAMPLES as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_take_turns_with_the_blocks_of_the_clock() {
        let mut coloured = Coloured::default();
        let mut colour = |at_us| coloured.stamp(at_us).colour;
        assert_eq!(
            [0, 499_999, 500_000, 999_999, 1_000_000].map(&mut colour),
            [false, false, true, true, false]
        );
        // After a pause the colour is that of the clock, not the next one. The 32 bits of timestamps play no part.
        assert_eq!([2_400_000, 1 << 32, (1 << 32) + 500_000].map(&mut colour), [false, true, false]);
        assert_eq!(coloured.sent(), [5, 3]);
    }

    #[test]
    fn one_datagram_in_fifty_milliseconds_has_the_delay_mark() {
        let mut coloured = Coloured::default();
        let marked: Vec<u64> = (0..1000).map(|ms| ms * 1000).filter(|&at| coloured.stamp(at).delay).collect();
        assert_eq!(marked, (0..20).map(|number| number * 50_000).collect::<Vec<_>>());
        assert!(coloured.stamp(60_000_000).delay && !coloured.stamp(60_000_001).delay);
    }

    #[test]
    fn each_sample_is_told_once_to_each_and_the_newest_are_kept() {
        let mut samples = Samples::default();
        let (mut one, mut other) = (Told::default(), Told::default());
        assert_eq!(samples.tell(&mut one), []);
        (0..3).for_each(|number| samples.note(number));
        assert_eq!(samples.tell(&mut one), [0, 1, 2]);
        assert_eq!(samples.tell(&mut one), []);
        (3..20).for_each(|number| samples.note(number));
        let newest: Vec<_> = (4..20).collect();
        assert_eq!(samples.tell(&mut one), newest);
        assert_eq!(samples.tell(&mut other), newest);
    }
}
