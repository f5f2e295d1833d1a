//! To the kernel: many packets, one write for each group of them.

use std::io::{self, IoSlice};

use psmc_wire::buf::{BufPool, PacketBuf};
use psmc_wire::ip::transport::{Checksum, ChecksumPlace};
use tun_rs::SyncDevice;

use super::Tun;
use super::coalesce::{Coalescer, Group, MAX_JOINED};
use super::header::{Segment, Transport, len16};
use super::offload::{Kind, Offload};

/// The parts of a write: the offload header, the first packet, the payloads of the others.
const MAX_PARTS: usize = 1 + MAX_JOINED;

/// What became of the packets of one [`Tun::send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendReport {
    /// With how many system calls they were offered.
    pub writes: usize,
    /// How many the kernel took.
    pub written: usize,
    /// How many it did not: it thought them malformed, its queue was full, or the device is down.
    pub dropped: usize,
}

impl Tun {
    /// Gives packets to the kernel, neighbours of a flow joined into one write, and the buffers back to `pool`.
    ///
    /// `packets` is empty afterwards, unless more follow at once: then those that the next ones may be joined with stay,
    /// to be given again in front of them. It never waits, keeps the order of each flow, and what the kernel refuses costs
    /// no other packet.
    pub fn send(
        &mut self,
        packets: &mut Vec<PacketBuf>,
        pool: &mut BufPool,
        more_follow: bool,
    ) -> SendReport {
        let mut report = SendReport::default();
        self.coalescer.group(packets);
        let open = self.coalescer.open().filter(|_| more_follow);
        let complete = self.coalescer.groups().len() - usize::from(open.is_some());
        for group in &self.coalescer.groups()[..complete] {
            report.writes += 1;
            match write(self.device.get(), &self.coalescer, group, packets) {
                Ok(()) => report.written += group.count,
                Err(error) => {
                    tracing::trace!(%error, packets = group.count, "the kernel refused packets");
                    report.dropped += group.count;
                }
            }
        }
        let mut stay = open.into_iter().flat_map(|group| self.coalescer.members(group)).peekable();
        for (index, packet) in packets.drain(..).enumerate() {
            match stay.next_if_eq(&index) {
                Some(_) => self.carried.push(packet),
                None => pool.put(packet),
            }
        }
        drop(stay);
        self.coalescer.end_batch(!self.carried.is_empty());
        std::mem::swap(packets, &mut self.carried);
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
    let offload = match &joined {
        Some(segment) => {
            segment.make_head(packets[group.first].packet_mut(), group.total_len, group.push);
            of_joined(segment)
        }
        None => of_single(&packets[group.first])?,
    };
    let header = offload.encode();
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

/// What the kernel is to know of a packet that stands for many.
fn of_joined(segment: &Segment) -> Offload {
    let kind = match segment.transport {
        Transport::Tcp { .. } if segment.is_v6 => Kind::Tcp6,
        Transport::Tcp { .. } => Kind::Tcp4,
        Transport::Udp => Kind::Udp,
    };
    Offload {
        needs_checksum: true,
        kind,
        header_len: len16(segment.header_len),
        piece: len16(segment.payload_len),
        start: len16(segment.ip_len()),
        offset: len16(segment.checksum_offset()),
    }
}

/// What the kernel is to know of a packet that stands for itself.
fn of_single(packet: &PacketBuf) -> io::Result<Offload> {
    if packet.checksum() == Checksum::Complete {
        return Ok(Offload::default());
    }
    let place = ChecksumPlace::find(packet.packet()).ok_or(io::ErrorKind::InvalidData)?;
    let (start, offset) = (len16(place.start), len16(place.offset));
    Ok(Offload { needs_checksum: true, start, offset, ..Offload::default() })
}
