//! A received frame, as it lies in the ring.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use nix::libc::{
    ETH_P_8021Q, TP_STATUS_KERNEL, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID, tpacket2_hdr,
};

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
