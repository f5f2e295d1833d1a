//! Cutting what the kernel would have cut: a packet that stands for many (generic segmentation offload).

use psmc_wire::buf::PacketBuf;
use psmc_wire::ip::checksum;
use psmc_wire::ip::transport::{Checksum, ChecksumPlace};

use super::header::{Kind, Offload};
use super::header::{TCP, TCP_FLAGS, TCP_PSH, UDP, UDP_CHECKSUM, len16};

/// The longest headers that are cut: IPv4 and TCP with all their options, or IPv6 with a few extensions.
pub(super) const MAX_HEADER: usize = 256;

/// Bytes of the headers without options (RFC 9293 §3.1, RFC 768).
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;

const TCP_CHECKSUM: usize = 16;
const TCP_FIN: u8 = 0x01;
const TCP_CWR: u8 = 0x80;

/// How a packet is to be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of the headers in front of each piece.
    pub(super) header_len: usize,
    /// Bytes of each piece but the last.
    pub(super) piece: usize,
}

/// How the packet that begins with `front` is to be cut; `None` if it makes no sense.
pub(super) fn layout(offload: &Offload, front: &[u8]) -> Option<Layout> {
    let start = usize::from(offload.start);
    let (transport_len, least) = match offload.kind {
        Kind::Tcp4 | Kind::Tcp6 => (usize::from(front.get(start + 12)? >> 4) * 4, TCP_HEADER),
        Kind::Udp => (UDP_HEADER, UDP_HEADER),
        Kind::Single | Kind::Unknown => return None,
    };
    let (header_len, piece) = (start + transport_len, usize::from(offload.piece));
    let is_legal =
        start >= 20 && transport_len >= least && piece > 0 && header_len <= front.len().min(MAX_HEADER);
    is_legal.then_some(Layout { header_len, piece })
}

/// Makes the packets of one that stands for many: all but the bytes of their pieces.
pub(super) struct Cutter<'a> {
    header: &'a [u8],
    layout: Layout,
    is_v6: bool,
    is_tcp: bool,
    place: ChecksumPlace,
    /// The sum of the pseudo-header without the length of the transport.
    pseudo: u64,
    checksum: Checksum,
}

impl<'a> Cutter<'a> {
    /// For a packet with these headers.
    pub(super) fn new(header: &'a [u8], layout: Layout, offload: &Offload) -> Option<Self> {
        let header = header.get(..layout.header_len)?;
        let is_v6 = header.first()? >> 4 == 6;
        let is_tcp = offload.kind != Kind::Udp;
        let addresses = if is_v6 { header.get(8..40)? } else { header.get(12..20)? };
        let protocol = if is_tcp { TCP } else { UDP };
        let place = ChecksumPlace {
            start: offload.start.into(),
            offset: if is_tcp { TCP_CHECKSUM } else { UDP_CHECKSUM },
        };
        // Behind extension headers nobody would find it.
        let is_found = ChecksumPlace::find(header) == Some(place);
        let checksum = if is_found { Checksum::Partial } else { Checksum::Complete };
        let pseudo = checksum::sum(addresses) + u64::from(protocol);
        Some(Self { header, layout, is_v6, is_tcp, place, pseudo, checksum })
    }

    /// Completes the `nth` packet, in whose buffer a piece of `len` bytes stands behind the room for the headers.
    pub(super) fn complete(&self, nth: usize, len: usize, is_last: bool, packet: &mut PacketBuf) {
        let header_len = self.layout.header_len;
        packet.set_len(header_len + len);
        packet.set_continues(nth > 0);
        let bytes = packet.packet_mut();
        let Some(header) = bytes.get_mut(..header_len) else { return };
        header.copy_from_slice(self.header);
        let transport_len = header_len - self.place.start + len;
        self.complete_ip(header, nth, header_len + len);
        self.complete_transport(&mut header[self.place.start..], nth, transport_len, is_last);
        packet.set_checksum(self.checksum);
        if self.checksum == Checksum::Complete {
            self.place.complete(packet.packet_mut());
        }
    }

    fn complete_ip(&self, header: &mut [u8], nth: usize, len: usize) {
        if self.is_v6 {
            return header[4..6].copy_from_slice(&len16(len - 40).to_be_bytes());
        }
        let first = u16::from_be_bytes([header[4], header[5]]);
        header[2..4].copy_from_slice(&len16(len).to_be_bytes());
        header[4..6].copy_from_slice(&first.wrapping_add(len16(nth)).to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum::of(&[&header[..self.place.start]]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }

    fn complete_transport(&self, header: &mut [u8], nth: usize, len: usize, is_last: bool) {
        let pseudo = checksum::folded(self.pseudo + len as u64).to_be_bytes();
        if !self.is_tcp {
            header[4..6].copy_from_slice(&len16(len).to_be_bytes());
            return header[UDP_CHECKSUM..UDP_CHECKSUM + 2].copy_from_slice(&pseudo);
        }
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let behind = u32::try_from(nth * self.layout.piece).unwrap_or_default();
        header[4..8].copy_from_slice(&sequence.wrapping_add(behind).to_be_bytes());
        // The first says that the window was reduced, the last ends the burst or the connection.
        let not_here = if nth > 0 { TCP_CWR } else { 0 } | if is_last { 0 } else { TCP_PSH | TCP_FIN };
        header[TCP_FLAGS] &= !not_here;
        header[TCP_CHECKSUM..TCP_CHECKSUM + 2].copy_from_slice(&pseudo);
    }
}

/// Settles the checksum of a packet that stands for itself alone.
pub(super) fn settle_checksum(offload: &Offload, packet: &mut PacketBuf) {
    if !offload.needs_checksum {
        return packet.set_checksum(Checksum::Complete);
    }
    let place = ChecksumPlace { start: offload.start.into(), offset: offload.offset.into() };
    if ChecksumPlace::find(packet.packet()) == Some(place) {
        packet.set_checksum(Checksum::Partial);
    } else {
        place.complete(packet.packet_mut());
        packet.set_checksum(Checksum::Complete);
    }
}
