//! The head of a packet, as far as a guard wants to know it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What stands before the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Ethernet's header, and maybe VLAN tags.
    Ethernet,
    /// Nothing.
    Ip,
}

/// The head of a packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHead {
    /// Who sent it: an IPv4 address, or the first half of an IPv6 address, of which one host has all the second halves.
    pub source: Source,
    /// To whom.
    pub destination: IpAddr,
    /// The port there, of UDP, TCP, SCTP and DCCP; later fragments have none.
    pub port: Option<u16>,
    /// Bytes of the IP packet.
    pub length: u32,
    /// Whether it opens a TCP connection.
    pub is_syn: bool,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// An IPv4 address.
    V4([u8; 4]),
    /// The first half of an IPv6 address.
    V6([u8; 8]),
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// IEEE 802.1Q and 802.1ad.
const ETHERTYPES_VLAN: [u16; 2] = [0x8100, 0x88a8];

const TCP: u8 = 6;
/// TCP, UDP, DCCP and SCTP: the protocols that begin with two ports.
const WITH_PORTS: [u8; 4] = [TCP, 17, 33, 132];

/// Extension headers of IPv6 that are walked over: more than any honest packet has.
const MAX_EXTENSIONS: usize = 8;

impl PacketHead {
    /// Reads what a link gives; `None` if it is not IP, or cut off before the addresses.
    #[must_use]
    pub fn parse(link: Link, bytes: &[u8]) -> Option<Self> {
        match link {
            Link::Ethernet => Self::parse_ip(without_ethernet(bytes)?),
            Link::Ip => Self::parse_ip(bytes),
        }
    }

    fn parse_ip(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::parse_v4(packet),
            6 => Self::parse_v6(packet),
            _ => None,
        }
    }

    /// RFC 791 §3.1.
    fn parse_v4(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<20>()?;
        let header_len = usize::from(header[0] & 0x0f) * 4;
        let is_later_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0;
        let inside = if is_later_fragment { None } else { packet.get(header_len..) };
        let destination = Ipv4Addr::new(header[16], header[17], header[18], header[19]);
        Some(Self {
            source: Source::V4([header[12], header[13], header[14], header[15]]),
            destination: destination.into(),
            port: port(header[9], inside),
            length: u16::from_be_bytes([header[2], header[3]]).into(),
            is_syn: is_syn(header[9], inside),
        })
    }

    /// RFC 8200 §3 and §4.
    fn parse_v6(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<40>()?;
        let [.., d] = header.as_chunks::<8>().0 else { return None };
        let (chunks, _) = header.as_chunks::<8>();
        let mut destination = [0; 16];
        destination[..8].copy_from_slice(&chunks[3]);
        destination[8..].copy_from_slice(d);
        let (protocol, inside) = transport(header[6], &packet[40..]);
        Some(Self {
            source: Source::V6(chunks[1]),
            destination: Ipv6Addr::from(destination).into(),
            port: port(protocol, inside),
            length: 40 + u32::from(u16::from_be_bytes([header[4], header[5]])),
            is_syn: is_syn(protocol, inside),
        })
    }
}

fn without_ethernet(frame: &[u8]) -> Option<&[u8]> {
    let mut rest = frame.get(12..)?;
    loop {
        let (kind, behind) = rest.split_first_chunk::<2>()?;
        let kind = u16::from_be_bytes(*kind);
        if ETHERTYPES_VLAN.contains(&kind) {
            rest = behind.get(2..)?;
            continue;
        }
        return matches!(kind, ETHERTYPE_IPV4 | ETHERTYPE_IPV6).then_some(behind);
    }
}

/// The protocol behind IPv6's extension headers, and what it says; nothing where that is in another fragment.
fn transport(mut next: u8, mut rest: &[u8]) -> (u8, Option<&[u8]>) {
    for _ in 0..MAX_EXTENSIONS {
        let Some([following, length, high, low]) = rest.first_chunk::<4>().copied() else { break };
        let skipped = match next {
            // Hop-by-hop options, routing, destination options: in units of 8 bytes beyond the first.
            0 | 43 | 60 => 8 * (usize::from(length) + 1),
            44 if u16::from_be_bytes([high, low]) >> 3 != 0 => return (following, None),
            44 => 8,
            _ => return (next, Some(rest)),
        };
        let Some(behind) = rest.get(skipped..) else { return (following, None) };
        (next, rest) = (following, behind);
    }
    (next, None)
}

fn port(protocol: u8, inside: Option<&[u8]>) -> Option<u16> {
    let [_, _, high, low] = *inside?.first_chunk::<4>()?;
    WITH_PORTS.contains(&protocol).then(|| u16::from_be_bytes([high, low]))
}

/// SYN without ACK (RFC 9293 §3.1).
fn is_syn(protocol: u8, inside: Option<&[u8]>) -> bool {
    protocol == TCP && inside.and_then(|tcp| tcp.get(13)).is_some_and(|flags| flags & 0x12 == 0x02)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP segment in IPv4 on Ethernet.
    fn frame(flags: u8, fragment: u8) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 60, 0, 0, 0, fragment, 64, TCP, 0, 0, 192, 0, 2, 1, 203, 0, 113, 9]);
        bytes.extend([0x30, 0x39, 0x01, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    /// The same in IPv6, behind extension headers.
    fn v6(extensions: &[u8], first: u8, flags: u8) -> Vec<u8> {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 100, first, 64];
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 9, 9]);
        bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        bytes.extend(extensions);
        bytes.extend([0x30, 0x39, 0x01, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn a_syn_is_seen() {
        let arrival = PacketHead::parse(Link::Ethernet, &frame(0x02, 0)).unwrap();
        assert_eq!(arrival.source, Source::V4([192, 0, 2, 1]));
        assert_eq!(arrival.destination.to_string(), "203.0.113.9");
        assert_eq!((arrival.port, arrival.length, arrival.is_syn), (Some(443), 60, true));
        assert!(!PacketHead::parse(Link::Ethernet, &frame(0x12, 0)).unwrap().is_syn);
        let fragment = PacketHead::parse(Link::Ethernet, &frame(0x02, 9)).unwrap();
        assert_eq!((fragment.port, fragment.is_syn), (None, false));
    }

    #[test]
    fn tags_and_bare_packets_are_read() {
        let plain = frame(0x02, 0);
        let expected = PacketHead::parse(Link::Ethernet, &plain);
        let tagged = [&plain[..12], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2], &plain[12..]].concat();
        assert_eq!(PacketHead::parse(Link::Ethernet, &tagged), expected);
        assert_eq!(PacketHead::parse(Link::Ip, &plain[14..]), expected);
    }

    #[test]
    fn ipv6_has_extensions() {
        let arrival = PacketHead::parse(Link::Ip, &v6(&[], TCP, 0x02)).unwrap();
        assert_eq!(arrival.source, Source::V6([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1]));
        assert_eq!(arrival.destination.to_string(), "2001:db8::7");
        assert_eq!((arrival.port, arrival.length, arrival.is_syn), (Some(443), 140, true));

        let options = [TCP, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(PacketHead::parse(Link::Ip, &v6(&options, 60, 0x02)), Some(arrival));
        let first_fragment = [TCP, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(PacketHead::parse(Link::Ip, &v6(&first_fragment, 44, 0x02)), Some(arrival));
        let later_fragment = [TCP, 0, 0, 9, 0, 0, 0, 0];
        let later = PacketHead::parse(Link::Ip, &v6(&later_fragment, 44, 0x02)).unwrap();
        assert_eq!((later.port, later.is_syn), (None, false));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_a_panic(bytes: Vec<u8>, is_ethernet: bool) {
            let _ = PacketHead::parse(if is_ethernet { Link::Ethernet } else { Link::Ip }, &bytes);
        }

        #[test]
        fn no_beginning_is_a_panic(length in 0_usize..80, extension: [u8; 8], first: u8) {
            let bytes = v6(&extension, first, 2);
            let _ = PacketHead::parse(Link::Ip, &bytes[..length.min(bytes.len())]);
        }
    }
}
