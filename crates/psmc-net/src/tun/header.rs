//! As much of the headers of inner packets as it takes to join them.
//!
//! `struct virtio_net_hdr` of `linux/virtio_net.h`: what stands in front of each packet of a device with offload.

use tun_rs::{checksum, checksum_no_fold};

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const TCP_FLAGS: usize = 13;
pub(super) const TCP_PSH: u8 = 0x08;
const TCP_ACK: u8 = 0x10;

/// Where the checksum is in a UDP header.
pub(super) const UDP_CHECKSUM: usize = 6;

/// Addresses, ports and protocol: packets with the same of these must keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flow {
    addresses: [u8; 32],
    ports: [u8; 4],
    protocol: u8,
    is_v6: bool,
}

/// The transport of a [`Segment`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp { sequence: u32, push: bool },
    Udp,
}

/// A packet that can be part of a larger one: it carries data, and nothing that must not be multiplied or lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) is_v6: bool,
    /// Length of the IP and the transport header together.
    pub(super) header_len: usize,
    pub(super) payload_len: usize,
    pub(super) transport: Transport,
}

/// The flow of a TCP segment or UDP datagram, whole and well-formed; `None` for all else.
///
/// With it comes the [`Segment`], if the packet can be joined.
pub(super) fn parse(packet: &[u8]) -> Option<(Flow, Option<Segment>)> {
    let is_v6 = match packet.first()? >> 4 {
        4 if is_plain_v4(packet) => false,
        6 if is_plain_v6(packet) => true,
        _ => return None,
    };
    let ip_len = ip_len(is_v6);
    let protocol = if is_v6 { packet[6] } else { packet[9] };
    let transport = &packet[ip_len..];
    let flow = flow(packet, is_v6, protocol, transport.first_chunk()?);
    let (transport_len, kind) = match protocol {
        TCP => parse_tcp(transport)?,
        UDP => parse_udp(transport)?,
        _ => return None,
    };
    let header_len = ip_len + transport_len;
    let payload_len = packet.len() - header_len;
    let segment = kind.filter(|_| payload_len > 0);
    Some((flow, segment.map(|transport| Segment { is_v6, header_len, payload_len, transport })))
}

impl Segment {
    pub(super) fn ip_len(&self) -> usize {
        ip_len(self.is_v6)
    }

    /// Where the transport's checksum is, from the start of the transport header.
    pub(super) fn checksum_offset(&self) -> usize {
        match self.transport {
            Transport::Tcp { .. } => 16,
            Transport::Udp => UDP_CHECKSUM,
        }
    }

    /// Whether the transport checksum of `packet` is right.
    pub(super) fn is_intact(&self, packet: &[u8]) -> bool {
        let transport = &packet[self.ip_len()..];
        checksum(transport, self.pseudo_header_sum(packet, transport.len())) == u16::MAX
    }

    /// Whether the headers of `other` are those of `packet`, apart from what differs in every packet of a flow.
    ///
    /// `nth` is how many packets `other` comes after `packet`.
    pub(super) fn is_alike(&self, packet: &[u8], other: &[u8], nth: usize) -> bool {
        let same = |from: usize, to: usize| packet[from..to] == other[from..to];
        // IPv4: all but length, identification and checksum. IPv6: all but length.
        let same_ip = if self.is_v6 {
            same(0, 4) && same(6, 40)
        } else {
            same(0, 2) && same(6, 10) && same(12, 20) && is_identification_nth(packet, other, nth)
        };
        let at = self.ip_len();
        same_ip
            && match self.transport {
                // All but sequence number, flags and checksum; of the flags a segment has no more than two.
                Transport::Tcp { .. } => {
                    same(at, at + 4)
                        && same(at + 8, at + TCP_FLAGS)
                        && same(at + 14, at + 16)
                        && same(at + 18, self.header_len)
                }
                Transport::Udp => same(at, at + 4),
            }
    }

    /// Makes `packet` the head of a packet of `total_len` bytes, whose checksum the kernel completes.
    pub(super) fn make_head(&self, packet: &mut [u8], total_len: usize, push: bool) {
        let at = self.ip_len();
        let transport_len = total_len - at;
        let transport_len_bytes = len16(transport_len).to_be_bytes();
        if self.is_v6 {
            packet[4..6].copy_from_slice(&transport_len_bytes);
        } else {
            packet[2..4].copy_from_slice(&len16(total_len).to_be_bytes());
            packet[10..12].fill(0);
            let sum = !checksum(&packet[..at], 0);
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        match self.transport {
            Transport::Tcp { .. } if push => packet[at + TCP_FLAGS] |= TCP_PSH,
            Transport::Tcp { .. } => {}
            Transport::Udp => packet[at + 4..at + 6].copy_from_slice(&transport_len_bytes),
        }
        // The kernel adds up the transport from here on; what it starts from is the pseudo-header's sum.
        let pseudo = checksum(&[], self.pseudo_header_sum(packet, transport_len));
        let field = at + self.checksum_offset();
        packet[field..field + 2].copy_from_slice(&pseudo.to_be_bytes());
    }

    /// The sum, not yet folded, of the pseudo-header (RFC 9293, section 3.1; RFC 8200, section 8.1).
    fn pseudo_header_sum(&self, packet: &[u8], transport_len: usize) -> u64 {
        let protocol = match self.transport {
            Transport::Tcp { .. } => TCP,
            Transport::Udp => UDP,
        };
        checksum_no_fold(addresses(packet, self.is_v6), u64::from(protocol) + transport_len as u64)
    }
}

/// A length within an IP packet, none of which needs more than 16 bits.
pub(super) fn len16(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

fn ip_len(is_v6: bool) -> usize {
    if is_v6 { 40 } else { 20 }
}

fn addresses(packet: &[u8], is_v6: bool) -> &[u8] {
    if is_v6 { &packet[8..40] } else { &packet[12..20] }
}

fn flow(packet: &[u8], is_v6: bool, protocol: u8, ports: &[u8; 4]) -> Flow {
    let mut flow = Flow { addresses: [0; 32], ports: *ports, protocol, is_v6 };
    let addresses = addresses(packet, is_v6);
    flow.addresses[..addresses.len()].copy_from_slice(addresses);
    flow
}

/// An IPv4 header without options, of a packet that is whole and no fragment.
fn is_plain_v4(packet: &[u8]) -> bool {
    packet.len() >= 20
        && packet[0] & 0x0F == 5
        && usize::from(u16_at(packet, 2)) == packet.len()
        && u16_at(packet, 6) & 0x3FFF == 0
}

/// An IPv6 header of a packet that is whole; an extension header shows as a protocol that we do not know.
fn is_plain_v6(packet: &[u8]) -> bool {
    packet.len() >= 40 && usize::from(u16_at(packet, 4)) == packet.len() - 40
}

/// The length of the header, and what can be joined: no flag but ACK and PSH is set.
fn parse_tcp(transport: &[u8]) -> Option<(usize, Option<Transport>)> {
    let header_len = usize::from(transport.get(12)? >> 4) * 4;
    if header_len < 20 || transport.len() < header_len {
        return None;
    }
    let (flags, sequence) =
        (transport[TCP_FLAGS], u32::from(u16_at(transport, 4)) << 16 | u32::from(u16_at(transport, 6)));
    let push = flags & TCP_PSH != 0;
    Some((header_len, (flags & !TCP_PSH == TCP_ACK).then_some(Transport::Tcp { sequence, push })))
}

/// The length of the header, and what can be joined: there is a checksum.
fn parse_udp(transport: &[u8]) -> Option<(usize, Option<Transport>)> {
    if transport.len() < 8 || usize::from(u16_at(transport, 4)) != transport.len() {
        return None;
    }
    Some((8, (u16_at(transport, 6) != 0).then_some(Transport::Udp)))
}

/// Cutting a packet, the kernel counts the identification up from the first; nobody looks at it where DF is set.
fn is_identification_nth(packet: &[u8], other: &[u8], nth: usize) -> bool {
    let dont_fragment = packet[6] & 0x40 != 0;
    dont_fragment || usize::from(u16_at(other, 4).wrapping_sub(u16_at(packet, 4))) == nth
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Its bytes.
pub(super) const OFFLOAD_LEN: usize = 10;

/// A bit of the flags: the checksum is partial.
const NEEDS_CHECKSUM: u8 = 1;

/// A bit of the kind: the first of the packets says that the window was reduced.
const WITH_ECN: u8 = 0x80;

/// For how many packets one stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    /// Itself.
    #[default]
    Single,
    /// Segments of TCP over IPv4.
    Tcp4,
    /// Segments of TCP over IPv6.
    Tcp6,
    /// Datagrams of UDP.
    Udp,
    /// Something that was not asked for.
    Unknown,
}

/// The header, in words of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Offload {
    /// Whether the transport's checksum is partial.
    pub(super) needs_checksum: bool,
    pub(super) kind: Kind,
    /// Bytes of all headers together; the kernel takes it for a hint.
    pub(super) header_len: u16,
    /// Bytes of payload in each packet but the last.
    pub(super) piece: u16,
    /// Where the transport header begins.
    pub(super) start: u16,
    /// Where in the transport header the checksum stands.
    pub(super) offset: u16,
}

impl Offload {
    /// As the kernel has written it.
    pub(super) fn decode(bytes: &[u8; OFFLOAD_LEN]) -> Self {
        let [flags, kind, rest @ ..] = *bytes;
        let field = |at: usize| u16::from_ne_bytes([rest[at], rest[at + 1]]);
        let kind = match kind & !WITH_ECN {
            0 => Kind::Single,
            1 => Kind::Tcp4,
            4 => Kind::Tcp6,
            5 => Kind::Udp,
            _ => Kind::Unknown,
        };
        let needs_checksum = flags & NEEDS_CHECKSUM != 0;
        let (header_len, piece, start, offset) = (field(0), field(2), field(4), field(6));
        Self { needs_checksum, kind, header_len, piece, start, offset }
    }

    /// As the kernel reads it.
    pub(super) fn encode(self) -> [u8; OFFLOAD_LEN] {
        let kind = match self.kind {
            Kind::Single | Kind::Unknown => 0,
            Kind::Tcp4 => 1,
            Kind::Tcp6 => 4,
            Kind::Udp => 5,
        };
        let [h0, h1] = self.header_len.to_ne_bytes();
        let [p0, p1] = self.piece.to_ne_bytes();
        let [s0, s1] = self.start.to_ne_bytes();
        let [o0, o1] = self.offset.to_ne_bytes();
        [u8::from(self.needs_checksum), kind, h0, h1, p0, p1, s0, s1, o0, o1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_survives_the_kernel() {
        for kind in [Kind::Single, Kind::Tcp4, Kind::Tcp6, Kind::Udp] {
            let header =
                Offload { needs_checksum: true, kind, header_len: 52, piece: 1348, start: 20, offset: 16 };
            let mut bytes = header.encode();
            assert_eq!(Offload::decode(&bytes), header);
            bytes[1] |= WITH_ECN;
            assert_eq!(Offload::decode(&bytes).kind, kind);
        }
        assert_eq!(Offload::decode(&[3; OFFLOAD_LEN]).kind, Kind::Unknown);
    }
}
