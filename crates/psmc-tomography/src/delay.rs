//! Delay between witnesses whose clocks need not agree.
//!
//! A packet that one witness sees at `s` by its clock and the next one at `r` by its own took `r − s`, plus how far the clocks are
//! apart, which nobody knows. But that is the same for all packets: what a packet took *above the fastest one* is known
//! ([`Segment`] says how, where clocks also drift). A queue, a detour that begins, an overloaded relay show in it. What a segment
//! always takes does not.
//!
//! What is said of a segment depends on the times of its two ends alone. So a witness with a bad clock can spoil what is said of the
//! segments that it is an end of, and nothing else.
//!
//! ```
//! use psmc_tomography::delay::Delays;
//!
//! let mut delays = Delays::new(2);
//! for packet in 0..100 {
//!     let sent = 10_000 * packet as i64;
//!     // The other clock is an hour ahead. The last 20 packets wait in a queue for 30 ms.
//!     let waits = if packet < 80 { 0 } else { 30_000 };
//!     delays.observe(0, packet, sent);
//!     delays.observe(1, packet, sent + 3_600_000_000 + 5_000 + waits);
//! }
//! let segment = delays.segment(0).unwrap();
//! assert_eq!(segment.quantile(0.5, 20).unwrap().value(), 30_000.0);
//! assert_eq!(segment.quantile(0.5, 100).unwrap().value(), 0.0);
//! assert_eq!(segment.late(10_000, 100).unwrap().lost(), 20);
//! ```

mod floor;
mod segment;

use std::collections::{BTreeMap, VecDeque};

pub use segment::Segment;

/// Packets of a witness that are remembered until its neighbours have reported them too: at 100,000 packets/s of which one in 100 is
/// timed, those of four seconds, by when a packet has arrived or is lost.
const REMEMBERED: usize = 4096;

/// The delays of all segments of a chain of witnesses.
///
/// [`observe`](Self::observe) what witnesses report, in any order; ask the [`segment`](Self::segment)s at any time. Memory is bounded
/// by a constant for each witness, whatever is reported.
#[derive(Clone, Debug)]
pub struct Delays {
    seen: Vec<Seen>,
    segments: Vec<Segment>,
}

/// When a witness saw which packet.
#[derive(Clone, Debug, Default)]
struct Seen {
    at: BTreeMap<u64, i64>,
    order: VecDeque<u64>,
}

impl Delays {
    /// Of a chain of so many witnesses.
    #[must_use]
    pub fn new(witnesses: usize) -> Self {
        Self {
            seen: vec![Seen::default(); witnesses],
            segments: (0..witnesses.saturating_sub(1)).map(Segment::new).collect(),
        }
    }

    /// A witness has seen a packet, at a time in microseconds by its own clock, whatever that began with.
    ///
    /// A packet that a witness reports once more, for it came twice, counts as it was reported first. A witness that is not of the
    /// chain says nothing. Says whether that was news.
    pub fn observe(&mut self, witness: usize, packet: u64, at: i64) -> bool {
        let Some(seen) = self.seen.get_mut(witness) else { return false };
        if !seen.insert(packet, at) {
            return false;
        }
        if let Some(before) = witness.checked_sub(1)
            && let Some(&sent) = self.seen[before].at.get(&packet)
        {
            self.segments[before].sample(sent, at);
        }
        if let Some(after) = self.seen.get(witness + 1)
            && let Some(&arrived) = after.at.get(&packet)
        {
            self.segments[witness].sample(at, arrived);
        }
        true
    }

    /// The segment from a witness to the next one.
    #[must_use]
    pub fn segment(&self, first: usize) -> Option<&Segment> {
        self.segments.get(first)
    }

    /// All segments, in the order of the way.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter()
    }
}

impl Seen {
    /// Remembers a packet; says whether it is new.
    fn insert(&mut self, packet: u64, at: i64) -> bool {
        if self.at.contains_key(&packet) {
            return false;
        }
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.at.remove(&oldest);
        }
        self.at.insert(packet, at);
        self.order.push_back(packet);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_may_come_in_any_order_and_twice() {
        let mut delays = Delays::new(3);
        for packet in (0..50).rev() {
            let at = 1000 * i64::try_from(packet).unwrap();
            for witness in [2, 0, 1, 0, 2] {
                delays.observe(witness, packet, at + 7 * i64::try_from(witness).unwrap());
            }
            delays.observe(1, packet, at + 1_000_000);
            delays.observe(3, packet, at);
        }
        assert_eq!(delays.segments().count(), 2);
        for segment in delays.segments() {
            assert_eq!(segment.late(0, 100).unwrap().sent(), 50);
            assert_eq!(segment.late(0, 100).unwrap().lost(), 0);
        }
    }

    #[test]
    fn memory_is_bounded_whatever_is_reported() {
        let mut delays = Delays::new(2);
        for packet in 0..3 * REMEMBERED as u64 {
            delays.observe(0, packet, i64::MIN);
        }
        assert_eq!(delays.seen[0].at.len(), REMEMBERED);
        assert_eq!(delays.seen[0].order.len(), REMEMBERED);
    }

    #[test]
    fn chains_without_segments_have_none() {
        for witnesses in 0..2 {
            let mut delays = Delays::new(witnesses);
            delays.observe(0, 1, 1);
            assert!(delays.segment(0).is_none());
        }
    }
}
