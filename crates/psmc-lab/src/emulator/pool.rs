//! Memory for the packets on a link, allocated once.

use psmc_net::packet::Frame;

/// Bytes of a pool: what 2 Gb/s bring in a second, which is a longer way than to a satellite and back. The kernel backs
/// it with memory as it is used.
const POOL_BYTES: usize = 256 << 20;

/// Slots of equal size, each for one frame.
#[derive(Debug)]
pub(super) struct Pool {
    memory: Vec<u8>,
    slot_bytes: usize,
    /// Slots that were used and are free; the last one is most likely still in the processor's cache.
    free: Vec<u32>,
    /// The first slot that was never used.
    untouched: u32,
    slots: u32,
}

/// A frame in a [`Pool`]. Whoever has it must give it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    slot: u32,
    length: u32,
}

impl Pool {
    /// A pool for frames of up to `max_frame` bytes, at least one.
    pub(super) fn new(max_frame: usize) -> Self {
        let slot_bytes = max_frame.next_multiple_of(CACHE_LINE).max(CACHE_LINE);
        let slots = u32::try_from(POOL_BYTES / slot_bytes).unwrap_or(u32::MAX);
        let memory = vec![0; slots as usize * slot_bytes];
        Self { memory, slot_bytes, free: Vec::with_capacity(slots as usize), untouched: 0, slots }
    }

    /// Keeps a copy of a frame; `None` if there is no room, or it is longer than a slot.
    pub(super) fn store(&mut self, frame: &Frame<'_>) -> Option<Stored> {
        let slot = self.take()?;
        let stored = frame.copy_to(self.slot_mut(slot)).and_then(|length| u32::try_from(length).ok());
        if stored.is_none() {
            self.free.push(slot);
        }
        stored.map(|length| Stored { slot, length })
    }

    /// Keeps another copy of a frame that is kept; `None` if there is no room.
    pub(super) fn copy(&mut self, stored: Stored) -> Option<Stored> {
        let slot = self.take()?;
        let from = self.start(stored.slot);
        let to = self.start(slot);
        self.memory.copy_within(from..from + stored.length as usize, to);
        Some(Stored { slot, ..stored })
    }

    pub(super) fn give_back(&mut self, stored: Stored) {
        self.free.push(stored.slot);
    }

    pub(super) fn frame(&self, stored: Stored) -> &[u8] {
        let start = self.start(stored.slot);
        &self.memory[start..start + stored.length as usize]
    }

    pub(super) fn frame_mut(&mut self, stored: Stored) -> &mut [u8] {
        &mut self.slot_mut(stored.slot)[..stored.length as usize]
    }

    fn take(&mut self) -> Option<u32> {
        self.free.pop().or_else(|| {
            let slot = self.untouched;
            self.untouched = (slot + 1).min(self.slots);
            (slot < self.slots).then_some(slot)
        })
    }

    fn start(&self, slot: u32) -> usize {
        slot as usize * self.slot_bytes
    }

    fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        let start = self.start(slot);
        &mut self.memory[start..start + self.slot_bytes]
    }
}

/// Slots start at cache lines, so that copies do.
const CACHE_LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_and_run_out() {
        let mut pool = Pool::new(POOL_BYTES / 4);
        let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken, [0, 1, 2, 3]);
        assert_eq!(pool.take(), None);
        pool.give_back(Stored { slot: 2, length: 1 });
        assert_eq!(pool.take(), Some(2));
        assert_eq!(pool.take(), None);
    }

    #[test]
    fn slots_do_not_overlap() {
        let mut pool = Pool::new(100);
        let stored: Vec<_> = (0..3).map(|slot| Stored { slot, length: 100 }).collect();
        for (value, frame) in (1..).zip(&stored) {
            pool.frame_mut(*frame).fill(value);
        }
        for (value, frame) in (1..).zip(&stored) {
            assert_eq!(pool.frame(*frame), [value; 100]);
        }
        let copy = pool.copy(stored[1]).unwrap();
        pool.frame_mut(stored[1]).fill(9);
        assert_eq!(pool.frame(copy), [2; 100]);
    }
}
