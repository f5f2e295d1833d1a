//! Whether a path was seen to be full, and what its probes may be then.
//!
//! When a path has become much slower.

use super::percent;

/// What the probes of late have shown.
///
/// A probe that sends a quarter more makes a queue of a quarter of a round trip on a path that is full. Where delays are steady it
/// is seen, and taken away. Where they go up and down in turn it is neither seen nor as short as it was meant to be: the next one comes
/// before it has drained. And a short queue does not hold it. So probes are smaller there, as long as they bring nothing.
#[derive(Debug, Default)]
pub(crate) struct Saturation {
    /// The rate at which the path was found to be full, bytes per second.
    full_at: Option<u64>,
    /// Probes in a row that met neither a queue nor losses, although they brought nothing.
    clear_probes: u32,
    /// Whether the last one was too much for the queue, and the one before.
    overflown: [bool; 2],
    /// Whether the queue does not hold a large one.
    is_short: bool,
}

/// How a path is probed, and how fast it is used between probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It may be faster: probes are large enough to see that.
    Bold,
    /// It is full, and its queue short.
    Careful,
    /// It is full, and nobody sees its queue: that has to be able to drain unseen.
    Gentle,
}

impl Saturation {
    /// A probe begins.
    pub(crate) fn on_probe_begins(&mut self) {
        self.overflown = [false, self.overflown[0]];
    }

    /// A probe of `rate` bytes per second, for which there was enough to send, has ended: whether the path delivered more, or else
    /// whether it was `clear`.
    pub(crate) fn on_probe(&mut self, rate: u64, grew: bool, clear: bool) {
        self.clear_probes = if clear && !grew { self.clear_probes + 1 } else { 0 };
        if grew || self.clear_probes >= CLEAR_PROBES || !self.is_full(rate) {
            self.full_at = None;
        }
        if grew {
            (self.is_short, self.overflown) = (false, [false; 2]);
        }
        if !grew && self.clear_probes < CLEAR_PROBES {
            self.full_at.get_or_insert(rate);
        }
    }

    /// More of a probe of `rate` bytes per second was lost than chance explains, although no long queue was seen. Says whether it is the
    /// queue that is short: those who keep a long one make it overflow now and then, but not at each probe.
    pub(crate) fn on_overflow(&mut self, rate: u64) -> bool {
        self.overflown[0] = true;
        self.is_short |= self.overflown[1];
        if self.is_short {
            (self.full_at, self.clear_probes) = (Some(rate), 0);
        }
        self.is_short
    }

    /// How to go on at `rate` bytes per second, on a path whose delays vary, or do not.
    pub(crate) fn manner(&self, rate: u64, varies: bool) -> Manner {
        match self.is_full(rate) {
            true if varies => Manner::Gentle,
            true if self.is_short => Manner::Careful,
            _ => Manner::Bold,
        }
    }

    /// Whether the path is full at `rate` bytes per second, and its queue short.
    pub(crate) fn is_short(&self, rate: u64) -> bool {
        self.is_short && self.is_full(rate)
    }

    fn is_full(&self, rate: u64) -> bool {
        self.full_at.is_some_and(|full| rate <= percent(full, GROWTH_PERCENT))
    }
}

/// One is clear by chance where delays vary. A path that has become faster answers to a small probe with no growth that could be told
/// from that.
const CLEAR_PROBES: u32 = 2;

/// Half of what a small probe adds: a path that has grown by it is not the one that was found to be full.
const GROWTH_PERCENT: u64 = 105;

/// Rounds in a row that have delivered much less than the path is believed to.
#[derive(Debug, Default)]
pub(crate) struct Fall {
    rounds: usize,
    /// The most that a round has delivered since the first of them, bytes per second.
    rate: u64,
}

impl Fall {
    /// A round delivered `bytes_per_s`: whether that was `slow`, or `None` if less was sent than the path would have taken.
    pub(crate) fn on_round(&mut self, bytes_per_s: u64, slow: Option<bool>) {
        self.rounds = match slow {
            Some(true) => self.rounds + 1,
            Some(false) => 0,
            None => self.rounds,
        };
        let is_first = self.rounds <= 1 && slow.is_some();
        self.rate = if is_first { bytes_per_s } else { self.rate.max(bytes_per_s) };
    }

    /// How fast the path is now, bytes per second, if it has become slower. The last round alone does not tell: it may be
    /// the window that limits it, which losses have made smaller.
    pub(crate) fn rate(&self) -> Option<u64> {
        (self.rounds >= FALL_ROUNDS).then_some(self.rate)
    }
}

/// One round may be slow by chance.
pub(crate) const FALL_ROUNDS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUED: (bool, bool) = (false, false);
    const CLEAR: (bool, bool) = (false, true);
    const GREW: (bool, bool) = (true, true);

    /// What is known after probes of 1000 bytes per second that grew, and were clear, or not.
    fn after(probes: &[(bool, bool)]) -> Saturation {
        let mut saturation = Saturation::default();
        probes.iter().for_each(|(grew, clear)| saturation.on_probe(1000, *grew, *clear));
        saturation
    }

    #[test]
    fn full_is_what_brings_nothing() {
        let is_full = |probes: &[(bool, bool)]| after(probes).is_full(1000);
        assert!(!is_full(&[]), "nothing is known");
        assert!(is_full(&[QUEUED]));
        assert!(is_full(&[QUEUED, CLEAR]), "by chance");
        assert!(!is_full(&[QUEUED, CLEAR, CLEAR]), "there may be more");
        assert!(is_full(&[QUEUED, CLEAR, CLEAR, QUEUED]), "there was not");
        assert!(!is_full(&[QUEUED, GREW]));
        assert!(is_full(&[GREW, CLEAR]));
    }

    #[test]
    fn who_grows_bit_by_bit_is_not_full() {
        let mut saturation = after(&[QUEUED]);
        saturation.on_probe(1030, false, false);
        assert!(saturation.is_full(1050) && !saturation.is_full(1060), "compared with where it was found");
        saturation.on_probe(1060, false, false);
        assert!(saturation.is_full(1060), "a large probe has brought nothing either");
    }

    /// How a path goes on after large probes, each of which was too much for its queue, or brought nothing otherwise.
    fn after_overflows(probes: &[bool]) -> Saturation {
        let mut saturation = Saturation::default();
        for overflows in probes {
            saturation.on_probe_begins();
            saturation.on_probe(1000, false, false);
            if *overflows {
                saturation.on_overflow(1000);
            }
        }
        saturation
    }

    #[test]
    fn a_queue_that_overflows_at_each_probe_is_short() {
        let manner = |probes: &[bool]| after_overflows(probes).manner(1000, false);
        assert_eq!(manner(&[true]), Manner::Bold, "others may have made it overflow");
        assert_eq!(manner(&[true, false, true]), Manner::Bold);
        assert_eq!(manner(&[false, true, true]), Manner::Careful);
        assert_eq!(manner(&[true, true, false]), Manner::Careful, "a small probe fits");
        assert_eq!(after_overflows(&[true, true]).manner(1000, true), Manner::Gentle);
    }

    #[test]
    fn a_short_queue_is_remembered_until_the_path_grows() {
        let mut saturation = after_overflows(&[true, true]);
        for _ in 0..CLEAR_PROBES {
            saturation.on_probe_begins();
            saturation.on_probe(1000, false, true);
        }
        assert_eq!(saturation.manner(1000, false), Manner::Bold, "there may be more");
        saturation.on_probe_begins();
        assert!(saturation.on_overflow(1000), "there was not");
        assert_eq!(saturation.manner(1000, false), Manner::Careful);
        saturation.on_probe(1200, true, false);
        saturation.on_probe_begins();
        assert!(!saturation.on_overflow(1200), "its queue may be longer");
    }

    /// What is made of rounds with these rates, slow or not.
    fn fallen(rounds: &[(u64, Option<bool>)]) -> Option<u64> {
        let mut fall = Fall::default();
        rounds.iter().for_each(|(rate, slow)| fall.on_round(*rate, *slow));
        fall.rate()
    }

    #[test]
    fn it_takes_two_slow_rounds_in_a_row() {
        assert_eq!(fallen(&[(30, Some(true))]), None);
        assert_eq!(fallen(&[(30, Some(true)), (90, Some(false)), (30, Some(true))]), None);
        assert_eq!(fallen(&[(30, Some(true)), (28, Some(true))]), Some(30));
    }

    #[test]
    fn what_came_since_the_first_one_counts() {
        assert_eq!(fallen(&[(95, None), (30, Some(true)), (40, None), (15, Some(true))]), Some(40));
    }
}
