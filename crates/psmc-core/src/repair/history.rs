//! Packets that have arrived of late.

use std::collections::{BTreeMap, VecDeque};

use psmc_wire::{BufPool, PacketBuf};

use super::Place;

/// How many packets are kept: those of 48 ms at 1 Gb/s, more than paths worth bundling differ by.
const MAX_PACKETS: usize = 4096;

/// Bytes of the buffers that they are in: as many buffers for packets of usual size.
const MAX_BYTES: usize = 8 << 20;

/// The newest packets of a peer, by their places.
#[derive(Debug, Default)]
pub(super) struct History {
    packets: VecDeque<(Place, bool, PacketBuf)>,
    /// The number of the oldest, counted from the first that was ever kept.
    first: u64,
    numbers: BTreeMap<Place, u64>,
    bytes: usize,
}

impl History {
    /// Keeps a copy; the oldest give way.
    pub(super) fn push(&mut self, place: Place, ordered: bool, packet: &[u8], pool: &mut BufPool) {
        if self.numbers.contains_key(&place) {
            return;
        }
        let mut copy = pool.take();
        copy.fill(packet);
        self.bytes += copy.capacity();
        self.numbers.insert(place, self.first + self.packets.len() as u64);
        self.packets.push_back((place, ordered, copy));
        while self.packets.len() > MAX_PACKETS || self.bytes > MAX_BYTES {
            self.drop_first(pool);
        }
    }

    /// Whether the packet is here.
    pub(super) fn contains(&self, place: Place) -> bool {
        self.numbers.contains_key(&place)
    }

    /// The packet at `place`, and whether it is ordered.
    pub(super) fn get(&self, place: Place) -> Option<(bool, &[u8])> {
        let number = self.numbers.get(&place)?;
        let (_, ordered, packet) = self.packets.get(usize::try_from(number - self.first).ok()?)?;
        Some((*ordered, packet.packet()))
    }

    /// Gives everything back to `pool`.
    pub(super) fn clear(&mut self, pool: &mut BufPool) {
        while !self.packets.is_empty() {
            self.drop_first(pool);
        }
    }

    fn drop_first(&mut self, pool: &mut BufPool) {
        if let Some((place, _, packet)) = self.packets.pop_front() {
            self.first += 1;
            self.numbers.remove(&place);
            self.bytes -= packet.capacity();
            pool.put(packet);
        }
    }
}
