//! From the kernel: one read, many packets.

use std::array;
use std::io;
use std::mem;
use std::task::{Context, Poll, ready};

use psmc_wire::buf::{BufPool, HEADROOM, PacketBuf};
use tun_rs::{SyncDevice, VIRTIO_NET_HDR_LEN};

use super::header::UDP_CHECKSUM;
use super::send::NEEDS_CHECKSUM;
use super::{MAX_SEGMENTS, Tun};

/// The largest read: the largest IP packet and the header in front of it.
const MAX_READ: usize = VIRTIO_NET_HDR_LEN + 65535;

/// How many unusable packets one call skips, so that it ends even while there is nothing else.
const MAX_SKIPPED: usize = 16;

impl Tun {
    /// Takes one packet from the kernel, cut into the packets it stands for, and appends these to `out`.
    ///
    /// Returns how many these are. Each has its checksums complete and is in a buffer of `pool`, whose capacity must
    /// not be below the MTU; 128 of its buffers stay with the device. Zero, when the kernel had only packets that
    /// make no sense, is no end: call again. So it must be called again after every `Ready`.
    ///
    /// # Errors
    /// Those of the device, which is then of no more use: most often, that it was removed.
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        pool: &mut BufPool,
        out: &mut Vec<PacketBuf>,
    ) -> Poll<io::Result<usize>> {
        let mut skipped = 0;
        while skipped < MAX_SKIPPED {
            let mut readiness = ready!(self.device.poll_read_ready(cx))?;
            match readiness.try_io(|device| self.splitter.read(device.get_ref(), pool, out)) {
                Ok(Err(error)) if is_about_packet(&error) => {
                    tracing::trace!(%error, "unusable packet from the kernel");
                    skipped += 1;
                }
                Ok(outcome) => return Poll::Ready(outcome),
                // The kernel had nothing, so tokio has taken back its word; the next turn registers the waker.
                Err(_would_block) => {}
            }
        }
        Poll::Ready(Ok(0))
    }
}

/// Reads and cuts.
pub(super) struct Splitter {
    whole: Box<[u8]>,
    /// Buffers to cut into; each is replaced as soon as it is given away. Empty until first used.
    parts: Box<[PacketBuf; MAX_SEGMENTS]>,
}

impl Splitter {
    pub(super) fn new() -> Self {
        let parts = Box::new(array::from_fn(|_| PacketBuf::default()));
        Self { whole: vec![0; MAX_READ].into_boxed_slice(), parts }
    }

    fn read(
        &mut self,
        device: &SyncDevice,
        pool: &mut BufPool,
        out: &mut Vec<PacketBuf>,
    ) -> io::Result<usize> {
        for part in self.parts.iter_mut().filter(|part| part.capacity() == 0) {
            *part = pool.take();
        }
        let mut sizes = [0; MAX_SEGMENTS];
        let mut views = self.parts.each_mut().map(PacketBuf::storage_mut);
        let count = device.recv_multiple(&mut self.whole, &mut views, &mut sizes, HEADROOM)?;
        let udp_checksum = computed_udp_checksum(&self.whole);
        for (part, size) in self.parts.iter_mut().zip(sizes).take(count) {
            let mut packet = mem::replace(part, pool.take());
            packet.set_len(size);
            if let Some(at) = udp_checksum {
                spell_zero_checksum(packet.packet_mut(), at);
            }
            out.push(packet);
        }
        Ok(count)
    }
}

/// Where in each packet the UDP checksum is, if the kernel has left it to us, that is to `tun-rs`, to compute.
/// `whole` begins with the `struct virtio_net_hdr` of what was read.
fn computed_udp_checksum(whole: &[u8]) -> Option<usize> {
    let field = |at: usize| usize::from(u16::from_ne_bytes([whole[at], whole[at + 1]]));
    let (start, offset) = (field(6), field(8));
    (whole[0] & NEEDS_CHECKSUM != 0 && offset == UDP_CHECKSUM).then_some(start + offset)
}

/// A computed checksum of zero is sent as all ones (RFC 768): zero says that there is none, for which receivers drop a
/// packet of IPv6 (RFC 8200, section 8.1). `tun-rs` leaves the zero.
fn spell_zero_checksum(packet: &mut [u8], at: usize) {
    if let Some(checksum @ [0, 0]) = packet.get_mut(at..at + 2) {
        checksum.fill(0xFF);
    }
}

/// Whether the error is about what was read, rather than about reading: `tun-rs` makes those itself.
fn is_about_packet(error: &io::Error) -> bool {
    error.raw_os_error().is_none() && error.kind() != io::ErrorKind::WouldBlock
}
