//! The ring that the kernel puts received frames into (`Documentation/networking/packet_mmap.rst` of Linux).
//!
//! ```text
//! ring   = block block block …       each a piece of memory that the kernel allocates at once
//! block  = slot slot slot … rest     no slot goes over the end of a block
//! slot   = tpacket2_hdr, address, gap, frame
//! ```
//!
//! The status in a slot's header says whose it is. The kernel hands a slot over by setting it last; we hand it back
//! by clearing it.
//!
//! A received frame, as it lies in the ring.

use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};
use std::{io, mem, slice};

use nix::libc::{
    ETH_P_8021Q, PACKET_OUTGOING, PACKET_RX_RING, PACKET_VERSION, TP_STATUS_KERNEL, TP_STATUS_USER,
    TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID, TPACKET_ALIGNMENT, TPACKET2_HDRLEN, sockaddr_ll,
    tpacket_req, tpacket_versions, tpacket2_hdr,
};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use socket2::Socket;

use super::set_option;

/// Bytes of a ring: 5000 frames of 1500 bytes, which 2 Gb/s bring in 30 ms, and 400,000 frames a second in 12 ms. So
/// long may the reader be away. The kernel never swaps this memory, so it is not more.
const RING_BYTES: usize = 8 << 20;

/// Bytes of a block unless a frame needs more: enough that little is left over, and easily found in one piece.
const BLOCK_BYTES: usize = 64 << 10;

/// Where the address of a frame is in its slot.
const ADDRESS_OFFSET: usize = mem::size_of::<tpacket2_hdr>().next_multiple_of(TPACKET_ALIGNMENT);

/// What the kernel leaves at least for the link header in front of the network header.
const LINK_HEADER: usize = 16;

/// A mapped ring, and which of its slots is next.
#[derive(Debug)]
pub(super) struct Ring {
    memory: NonNull<u8>,
    geometry: Geometry,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone and to the kernel, and is bound to no thread.
#[expect(unsafe_code, reason = "a pointer is not Send by itself")]
unsafe impl Send for Ring {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Geometry {
    block: usize,
    blocks: usize,
    slot: usize,
}

impl Ring {
    /// Gives `socket` a ring and maps it.
    pub(super) fn map(socket: &Socket, max_frame: usize) -> io::Result<Self> {
        let geometry = Geometry::for_frames_of(max_frame);
        set_option(socket, PACKET_VERSION, &(tpacket_versions::TPACKET_V2 as u32))?;
        set_option(socket, PACKET_RX_RING, &geometry.request())?;
        let length = NonZeroUsize::new(geometry.bytes()).ok_or(io::ErrorKind::InvalidInput)?;
        let (access, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED);
        // SAFETY: no address is asked for, so nothing of ours is mapped over.
        #[expect(unsafe_code, reason = "the ring is shared with the kernel by a mapping")]
        let memory = unsafe { mmap(None, length, access, flags, socket.as_fd(), 0) }?;
        Ok(Self { memory: memory.cast(), geometry, next: 0 })
    }

    /// The frame in the next slot, if the kernel has put one there.
    pub(super) fn take(&mut self) -> Option<Frame<'_>> {
        let slot = self.next;
        if self.status(slot).load(Ordering::Acquire) & TP_STATUS_USER == 0 {
            return None;
        }
        self.next = (slot + 1) % self.geometry.slots();
        let (header, kind, bytes) = self.contents(slot);
        Some(Frame { header, kind, bytes, status: self.status(slot) })
    }

    fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: a slot begins with its status, 32 bits that are aligned and that both sides access atomically; it is
        // there for as long as the mapping is, which this borrows.
        #[expect(unsafe_code, reason = "the kernel and we talk through this word")]
        unsafe {
            AtomicU32::from_ptr(self.slot(slot).cast::<u32>().as_ptr())
        }
    }

    /// The header of a slot that is ours, the kind of packet that its address tells, and the frame in it.
    fn contents(&self, slot: usize) -> (tpacket2_hdr, u8, &[u8]) {
        let memory = self.slot(slot);
        // SAFETY: a slot that is ours starts with a complete header, and slots are aligned to 16 bytes.
        #[expect(unsafe_code, reason = "the kernel wrote it")]
        let header = unsafe { memory.cast::<tpacket2_hdr>().read() };
        // SAFETY: behind the header, aligned to 16 bytes, is the complete address.
        #[expect(unsafe_code, reason = "the kernel wrote it")]
        let kind = unsafe { memory.add(ADDRESS_OFFSET).cast::<sockaddr_ll>().read() }.sll_pkttype;
        let start = usize::from(header.tp_mac).min(self.geometry.slot);
        let length = (header.tp_snaplen as usize).min(self.geometry.slot - start);
        // SAFETY: the range is cut to the slot, which the kernel leaves alone until its status is cleared; that is done
        // when the frame that borrows these bytes is dropped.
        #[expect(unsafe_code, reason = "the kernel wrote it")]
        let bytes = unsafe { slice::from_raw_parts(memory.add(start).as_ptr(), length) };
        (header, kind, bytes)
    }

    fn slot(&self, slot: usize) -> NonNull<u8> {
        // SAFETY: the offset is that of a slot, so it lies within the mapping.
        #[expect(unsafe_code, reason = "slots are found by their offset")]
        unsafe {
            self.memory.add(self.geometry.offset(slot))
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: what was mapped is unmapped, once; every borrow of it has ended.
        #[expect(unsafe_code, reason = "the counterpart of mmap")]
        let unmapped = unsafe { munmap(self.memory.cast(), self.geometry.bytes()) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}

impl Geometry {
    fn for_frames_of(max_frame: usize) -> Self {
        let slot = (TPACKET2_HDRLEN + LINK_HEADER + TPACKET_ALIGNMENT + max_frame)
            .next_multiple_of(TPACKET_ALIGNMENT);
        let block = slot.next_power_of_two().max(BLOCK_BYTES);
        Self { block, blocks: (RING_BYTES / block).max(1), slot }
    }

    fn slots_per_block(self) -> usize {
        self.block / self.slot
    }

    fn slots(self) -> usize {
        self.blocks * self.slots_per_block()
    }

    fn bytes(self) -> usize {
        self.blocks * self.block
    }

    fn offset(self, slot: usize) -> usize {
        let per_block = self.slots_per_block();
        slot / per_block * self.block + slot % per_block * self.slot
    }

    #[expect(clippy::cast_possible_truncation, reason = "a ring has a few megabytes")]
    fn request(self) -> tpacket_req {
        tpacket_req {
            tp_block_size: self.block as u32,
            tp_block_nr: self.blocks as u32,
            tp_frame_size: self.slot as u32,
            tp_frame_nr: self.slots() as u32,
        }
    }
}

/// Bytes of an Ethernet header without a VLAN tag.
pub const ETHERNET_HEADER: usize = 14;

/// Bytes of a VLAN tag (IEEE 802.1Q).
pub const VLAN_TAG: usize = 4;

/// Where the tag stands: behind the two addresses.
const TAG_OFFSET: usize = 12;

/// A received frame. The kernel gets its memory back when this is dropped.
#[derive(Debug)]
pub struct Frame<'a> {
    pub(super) header: tpacket2_hdr,
    pub(super) kind: u8,
    pub(super) bytes: &'a [u8],
    pub(super) status: &'a AtomicU32,
}

impl Frame<'_> {
    /// When it came to the socket.
    #[must_use]
    pub fn received_at(&self) -> SystemTime {
        let since_epoch = Duration::new(self.header.tp_sec.into(), self.header.tp_nsec);
        SystemTime::UNIX_EPOCH + since_epoch
    }

    /// Whether the interface sends it, and does not receive it.
    #[must_use]
    pub fn is_outgoing(&self) -> bool {
        self.kind == PACKET_OUTGOING
    }

    /// What the kernel stored of it, from the Ethernet header on and without a VLAN tag.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Its length in bytes, from the Ethernet header on.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + if self.tag().is_some() { VLAN_TAG } else { 0 }
    }

    /// Whether it has no bytes, which does not happen on Ethernet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies it to the beginning of `buffer` and returns its length; `None` if it does not fit, or was longer than
    /// the socket was opened for.
    #[must_use]
    pub fn copy_to(&self, buffer: &mut [u8]) -> Option<usize> {
        if self.header.tp_snaplen < self.header.tp_len {
            return None;
        }
        let target = buffer.get_mut(..self.len())?;
        match self.tag() {
            None => target.copy_from_slice(self.bytes),
            Some(tag) => insert_tag(target, self.bytes, tag)?,
        }
        Some(target.len())
    }

    /// The VLAN tag, which the kernel keeps beside the frame.
    fn tag(&self) -> Option<[u8; VLAN_TAG]> {
        let has = |flag| self.header.tp_status & flag != 0;
        let protocol = if has(TP_STATUS_VLAN_TPID_VALID) { self.header.tp_vlan_tpid } else { ETHERTYPE_VLAN };
        let ([a, b], [c, d]) = (protocol.to_be_bytes(), self.header.tp_vlan_tci.to_be_bytes());
        has(TP_STATUS_VLAN_VALID).then_some([a, b, c, d])
    }
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        self.status.store(TP_STATUS_KERNEL, Ordering::Release);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "an EtherType has 16 bits")]
const ETHERTYPE_VLAN: u16 = ETH_P_8021Q as u16;

/// `None` if the frame is too short for addresses. `target` has room for the frame and the tag.
fn insert_tag(target: &mut [u8], bytes: &[u8], tag: [u8; VLAN_TAG]) -> Option<()> {
    let (addresses, rest) = bytes.split_at_checked(TAG_OFFSET)?;
    let (to_addresses, to_rest) = target.split_at_mut(TAG_OFFSET);
    to_addresses.copy_from_slice(addresses);
    to_rest[..VLAN_TAG].copy_from_slice(&tag);
    to_rest[VLAN_TAG..].copy_from_slice(rest);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_stay_within_their_blocks() {
        for max_frame in [60, 1514, 1518, 9018, 65549] {
            let geometry = Geometry::for_frames_of(max_frame);
            assert!(geometry.slots() > 0, "{geometry:?}");
            assert_eq!(geometry.slot % TPACKET_ALIGNMENT, 0);
            for slot in 0..geometry.slots() {
                let (first, last) = (geometry.offset(slot), geometry.offset(slot) + geometry.slot - 1);
                assert_eq!(first / geometry.block, last / geometry.block, "{geometry:?}");
                assert!(last < geometry.bytes(), "{geometry:?}");
            }
        }
    }

    #[test]
    fn a_ring_holds_what_its_size_promises() {
        assert!(Geometry::for_frames_of(1514).slots() > 5000);
    }
}
