//! To the kernel: many packets, one write for each group of them.

use std::io::{self, IoSlice};

use nix::libc::{EINVAL, EIO};
use psmc_wire::buf::{BufPool, PacketBuf};
use psmc_wire::ip::transport::{Checksum, ChecksumPlace};

use super::Tun;
use super::coalesce::{Coalescer, Group, MAX_JOINED};
use super::cut::MAX_HEADER;
use super::header::{Kind, Offload};
use super::header::{Segment, Transport, len16};

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
            let device = self.device.get();
            // A packet is taken as a whole or not at all, so the length says nothing new.
            let give = |parts: &[IoSlice<'_>]| device.send_vectored(parts).map(drop);
            write(give, &self.coalescer, group, packets, &mut report);
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

/// Gives a group to the kernel as one packet. One that it refuses as malformed, as some do that cannot cut it, is given once more
/// in pieces: that costs one call, and the next group has its chance.
fn write(
    give: impl Fn(&[IoSlice<'_>]) -> io::Result<()>,
    coalescer: &Coalescer,
    group: &Group,
    packets: &mut [PacketBuf],
    report: &mut SendReport,
) {
    report.writes += 1;
    let Some(segment) = group.segment.filter(|_| group.count > 1) else {
        return report.note(1, write_single(&give, &packets[group.first]));
    };
    let mut front = [0; MAX_HEADER];
    let head = packets[group.first].packet_mut();
    let kept = segment.header_len.min(MAX_HEADER);
    front[..kept].copy_from_slice(&head[..kept]);
    segment.make_head(head, group.total_len, group.push);
    match write_joined(&give, coalescer, group, &segment, packets) {
        Err(error) if matches!(error.raw_os_error(), Some(EINVAL | EIO)) => {
            packets[group.first].packet_mut()[..kept].copy_from_slice(&front[..kept]);
            for index in coalescer.members(group) {
                report.writes += 1;
                report.note(1, write_single(&give, &packets[index]));
            }
        }
        outcome => report.note(group.count, outcome),
    }
}

fn write_joined(
    give: impl Fn(&[IoSlice<'_>]) -> io::Result<()>,
    coalescer: &Coalescer,
    group: &Group,
    segment: &Segment,
    packets: &[PacketBuf],
) -> io::Result<()> {
    let header = of_joined(segment).encode();
    let mut parts = [IoSlice::new(&[]); MAX_PARTS];
    parts[0] = IoSlice::new(&header);
    for (part, (nth, index)) in parts[1..].iter_mut().zip(coalescer.members(group).enumerate()) {
        let skipped = if nth == 0 { 0 } else { segment.header_len };
        *part = IoSlice::new(&packets[index].packet()[skipped..]);
    }
    give(&parts[..=group.count])
}

fn write_single(give: impl Fn(&[IoSlice<'_>]) -> io::Result<()>, packet: &PacketBuf) -> io::Result<()> {
    let header = of_single(packet)?.encode();
    give(&[IoSlice::new(&header), IoSlice::new(packet.packet())])
}

impl SendReport {
    fn note(&mut self, packets: usize, outcome: io::Result<()>) {
        match outcome {
            Ok(()) => self.written += packets,
            Err(error) => {
                tracing::trace!(%error, packets, "the kernel refused packets");
                self.dropped += packets;
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const HEADER: usize = 40;

    /// A segment of TCP over IPv4 whose checksum is still to be completed.
    fn segment(nth: u8) -> PacketBuf {
        let mut bytes = vec![nth; HEADER + 100];
        bytes[..HEADER].fill(0);
        (bytes[0], bytes[3], bytes[6], bytes[8], bytes[9]) = (0x45, 140, 0x40, 64, 6);
        bytes[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        bytes[20..24].copy_from_slice(&[0, 80, 1, 0]);
        bytes[27] = 100 * nth;
        (bytes[32], bytes[33]) = (0x50, 0x10);
        let mut packet = PacketBuf::default();
        packet.reserve(bytes.len());
        packet.fill(&bytes);
        packet.set_checksum(Checksum::Partial);
        packet
    }

    /// What a kernel gets that refuses with this error whatever stands for many.
    fn given(error: i32) -> (Vec<Vec<u8>>, SendReport) {
        let mut packets: Vec<_> = (0..3).map(segment).collect();
        let mut coalescer = Coalescer::new(true);
        coalescer.group(&packets);
        let [group] = coalescer.groups() else { panic!("more than one group") };
        let (taken, mut report) = (RefCell::new(Vec::new()), SendReport::default());
        let give = |parts: &[IoSlice<'_>]| {
            if parts.len() > 2 {
                return Err(io::Error::from_raw_os_error(error));
            }
            taken.borrow_mut().push(parts[1].to_vec());
            Ok(())
        };
        write(give, &coalescer, group, &mut packets, &mut report);
        (taken.into_inner(), report)
    }

    #[test]
    fn what_the_kernel_refuses_in_one_piece_is_given_in_many() {
        let expected: Vec<_> = (0..3).map(|nth| segment(nth).packet().to_vec()).collect();
        assert_eq!(given(EINVAL), (expected, SendReport { writes: 4, written: 3, dropped: 0 }));
    }

    #[test]
    fn a_full_queue_is_not_filled_piece_by_piece() {
        let report = SendReport { writes: 1, written: 0, dropped: 3 };
        assert_eq!(given(nix::libc::ENOBUFS), (Vec::new(), report));
    }
}
