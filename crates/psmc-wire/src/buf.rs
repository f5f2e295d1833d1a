//! Buffers for inner packets, made to be used again.

use crate::ip::transport::{Checksum, ChecksumPlace};

/// Bytes kept free in front of a packet, for the header that a TUN device wants there (10 bytes of
/// `virtio_net_hdr`, rounded up so that the packet itself starts aligned).
pub const HEADROOM: usize = 16;

/// One inner IP packet in a reusable buffer: [`HEADROOM`] free bytes, the packet, spare room.
///
/// The buffer moves by value from the TUN device through the queues to the socket and back to its
/// [`BufPool`]; its bytes are copied only where they are encrypted.
#[derive(Debug, Default)]
pub struct PacketBuf {
    storage: Vec<u8>,
    len: usize,
    checksum: Checksum,
    continues: bool,
}

impl PacketBuf {
    /// An empty packet with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { storage: vec![0; HEADROOM + capacity], len: 0, checksum: Checksum::Complete, continues: false }
    }

    /// The packet.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        &self.storage[HEADROOM..HEADROOM + self.len]
    }

    /// The packet, to be changed in place.
    pub fn packet_mut(&mut self) -> &mut [u8] {
        &mut self.storage[HEADROOM..HEADROOM + self.len]
    }

    /// Length of the packet in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no packet in the buffer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How long a packet the buffer can hold without growing, in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.storage.len().saturating_sub(HEADROOM)
    }

    /// Grows the buffer if it has no room for `capacity` bytes.
    pub fn reserve(&mut self, capacity: usize) {
        if self.storage.len() < HEADROOM + capacity {
            self.storage.resize(HEADROOM + capacity, 0);
        }
    }

    /// Says that the packet is the first `len` bytes behind the headroom; more than the capacity is cut.
    pub fn set_len(&mut self, len: usize) {
        self.len = len.min(self.capacity());
    }

    /// Replaces the packet by a copy of `bytes`, whose checksum is complete; the buffer grows if it must.
    pub fn fill(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.storage[HEADROOM..HEADROOM + bytes.len()].copy_from_slice(bytes);
        self.len = bytes.len();
        self.checksum = Checksum::Complete;
        self.continues = false;
    }

    /// Appends `bytes` to what is in the buffer, if there is room for all of them. Says whether there was.
    pub fn extend(&mut self, bytes: &[u8]) -> bool {
        let start = HEADROOM + self.len;
        let Some(room) = self.storage.get_mut(start..start + bytes.len()) else { return false };
        room.copy_from_slice(bytes);
        self.len += bytes.len();
        true
    }

    /// What is in the packet's checksum field.
    #[must_use]
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Says what is in the packet's checksum field.
    pub fn set_checksum(&mut self, checksum: Checksum) {
        self.checksum = checksum;
    }

    /// Whether it was cut from the same packet as the one before it.
    #[must_use]
    pub fn continues(&self) -> bool {
        self.continues
    }

    /// Says whether it was cut from the same packet as the one before it.
    pub fn set_continues(&mut self, continues: bool) {
        self.continues = continues;
    }

    /// Completes the packet's checksum if it is partial.
    pub fn complete_checksum(&mut self) {
        if self.checksum == Checksum::Partial
            && let Some(place) = ChecksumPlace::find(self.packet())
        {
            place.complete(self.packet_mut());
        }
        self.checksum = Checksum::Complete;
    }

    /// The whole buffer, headroom and spare room included, for a device that reads into it.
    ///
    /// Call [`set_len`](Self::set_len) afterwards.
    pub fn storage_mut(&mut self) -> &mut Vec<u8> {
        &mut self.storage
    }
}

/// A stack of free [`PacketBuf`]s of one capacity.
#[derive(Debug)]
pub struct BufPool {
    free: Vec<PacketBuf>,
    packet_capacity: usize,
    max_free: usize,
}

impl BufPool {
    /// A pool of buffers for packets of up to `packet_capacity` bytes that keeps at most `max_free` unused.
    #[must_use]
    pub fn new(packet_capacity: usize, max_free: usize) -> Self {
        Self { free: Vec::new(), packet_capacity, max_free }
    }

    /// An empty buffer: a used one if there is any, else a new one.
    pub fn take(&mut self) -> PacketBuf {
        self.free.pop().unwrap_or_else(|| PacketBuf::with_capacity(self.packet_capacity))
    }

    /// Gives a buffer back. One that has shrunk or grown beyond the pool's capacity is restored or dropped.
    pub fn put(&mut self, mut buf: PacketBuf) {
        // A coalescing TUN write grows its first buffer to 64 KiB: keeping those would multiply the pool.
        let wanted = HEADROOM + self.packet_capacity;
        if self.free.len() >= self.max_free || buf.storage.capacity() > 2 * wanted {
            return;
        }
        buf.storage.resize(wanted, 0);
        (buf.len, buf.checksum, buf.continues) = (0, Checksum::Complete, false);
        self.free.push(buf);
    }

    /// How long a packet each of its buffers can hold, in bytes.
    #[must_use]
    pub fn packet_capacity(&self) -> usize {
        self.packet_capacity
    }

    /// How many buffers are free.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }
}
