//! Whether a path was seen to be full, where delays that vary hide its queue.

use super::percent;

/// What the probes of late have shown.
///
/// A probe that sends a quarter more makes a queue of a quarter of a round trip on a path that is full. Where delays are steady it
/// is seen, and taken away. Where they go up and down in turn it is neither seen nor as short as it was meant to be: the next one comes
/// before it has drained. So probes are smaller there, as long as they bring nothing.
#[derive(Debug, Default)]
pub(crate) struct Saturation {
    /// The rate at which the path was found to be full, bytes per second.
    full_at: Option<u64>,
    /// Probes in a row that met neither a queue nor losses, although they brought nothing.
    clear_probes: u32,
}

impl Saturation {
    /// A probe of `rate` bytes per second, for which there was enough to send, has ended: whether the path delivered more, or else
    /// whether it was `clear`.
    pub(crate) fn on_probe(&mut self, rate: u64, grew: bool, clear: bool) {
        self.clear_probes = if clear && !grew { self.clear_probes + 1 } else { 0 };
        if grew || self.clear_probes >= CLEAR_PROBES || !self.is_full(rate) {
            self.full_at = None;
        }
        if !grew && self.clear_probes < CLEAR_PROBES {
            self.full_at.get_or_insert(rate);
        }
    }

    /// Whether the next probe of `rate` bytes per second is to be a small one.
    pub(crate) fn is_full(&self, rate: u64) -> bool {
        self.full_at.is_some_and(|full| rate <= percent(full, GROWTH_PERCENT))
    }
}

/// One is clear by chance where delays vary. A path that has become faster answers to a small probe with no growth that could be told
/// from that.
const CLEAR_PROBES: u32 = 2;

/// Half of what a small probe adds: a path that has grown by it is not the one that was found to be full.
const GROWTH_PERCENT: u64 = 105;

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
}
