//! To the kernel: many packets, one write for each group of them.

use std::io::{self, IoSlice};

use psmc_wire::buf::{BufPool, PacketBuf};
use tun_rs::{SyncDevice, VIRTIO_NET_HDR_LEN};

use super::Tun;
use super::coalesce::{Coalescer, Group, MAX_JOINED};
use super::header::{Segment, Transport, len16};

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM` and the kinds of offload, of `linux/virtio_net.h`.
pub(super) const NEEDS_CHECKSUM: u8 = 1;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP: u8 = 5;

/// The parts of a write: the offload header, the first packet, the payloads of the others.
const MAX_PARTS: usize = 1 + MAX_JOINED;

/// What became of the packets of one [`Tun::send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendReport {
    /// How many the kernel took.
    pub written: usize,
    /// How many it did not: it thought them malformed, its queue was full, or the device is down.
    pub dropped: usize,
}

impl Tun {
    /// Gives packets to the kernel, neighbours of a flow joined into one write, and the buffers back to `pool`.
    ///
    /// `packets` is empty afterwards. It never waits, keeps the order of each flow, and what the kernel refuses
    /// costs no other packet.
    pub fn send(&mut self, packets: &mut Vec<PacketBuf>, pool: &mut BufPool) -> SendReport {
        let mut report = SendReport::default();
        self.coalescer.group(packets);
        for group in self.coalescer.groups() {
            match write(self.device.get_ref(), &self.coalescer, group, packets) {
                Ok(()) => report.written += group.count,
                Err(error) => {
                    tracing::trace!(%error, packets = group.count, "the kernel refused packets");
                    report.dropped += group.count;
                }
            }
        }
        for packet in packets.drain(..) {
            pool.put(packet);
        }
        report
    }
}

fn write(
    device: &SyncDevice,
    coalescer: &Coalescer,
    group: &Group,
    packets: &mut [PacketBuf],
) -> io::Result<()> {
    let joined = group.segment.filter(|_| group.count > 1);
    let mut header = [0; VIRTIO_NET_HDR_LEN];
    if let Some(segment) = &joined {
        segment.make_head(packets[group.first].packet_mut(), group.total_len, group.push);
        header = offload_header(segment);
    }
    let mut parts = [IoSlice::new(&[]); MAX_PARTS];
    parts[0] = IoSlice::new(&header);
    for (part, (nth, index)) in parts[1..].iter_mut().zip(coalescer.members(group).enumerate()) {
        let packet = packets[index].packet();
        let skipped = if nth == 0 { 0 } else { joined.map_or(0, |segment| segment.header_len) };
        *part = IoSlice::new(&packet[skipped..]);
    }
    // A packet is taken as a whole or not at all, so the length says nothing new.
    device.send_vectored(&parts[..=group.count]).map(drop)
}

/// `struct virtio_net_hdr`, which TUN devices take in the byte order of the machine.
fn offload_header(segment: &Segment) -> [u8; VIRTIO_NET_HDR_LEN] {
    let kind = match segment.transport {
        Transport::Tcp { .. } if segment.is_v6 => GSO_TCPV6,
        Transport::Tcp { .. } => GSO_TCPV4,
        Transport::Udp => GSO_UDP,
    };
    let lengths = [segment.header_len, segment.payload_len, segment.ip_len(), segment.checksum_offset()];
    let mut header = [0; VIRTIO_NET_HDR_LEN];
    header[0] = NEEDS_CHECKSUM;
    header[1] = kind;
    for (field, length) in header[2..].chunks_exact_mut(2).zip(lengths) {
        field.copy_from_slice(&len16(length).to_ne_bytes());
    }
    header
}
