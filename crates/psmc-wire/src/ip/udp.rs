//! A UDP datagram in an IPv4 packet in a tunnel.
//!
//! UDP datagrams of which ICMP says that they were not delivered.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};
use std::ops::Range;

use super::icmp::{IcmpError, Problem};
use super::ipv4::Header;
use super::tunnel::{Decapsulated, TTL, outer_header};
use super::{Ecn, IPV4_HEADER_LEN, Ipv4, PROTOCOL_UDP, checksum};
use crate::fields::Malformed;

/// Length in bytes of all that stands before the datagram: two headers of IPv4, and one of UDP.
pub const TUNNELLED_UDP_HEADERS: usize = UDP_AT + UDP_HEADER_LEN;

/// Where the header of UDP stands.
const UDP_AT: usize = 2 * IPV4_HEADER_LEN;

const UDP_HEADER_LEN: usize = 8;

/// From where to where a UDP datagram goes, within a tunnel and outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelledUdp {
    /// The end of the tunnel that wraps it. [`Ipv4Addr::UNSPECIFIED`] leaves it to the kernel.
    pub tunnel_source: Ipv4Addr,
    /// The end of the tunnel that unwraps it.
    pub tunnel_destination: Ipv4Addr,
    /// Who sends the datagram.
    pub source: SocketAddrV4,
    /// Who receives it.
    pub destination: SocketAddrV4,
}

impl TunnelledUdp {
    /// All headers that stand before this datagram. No router may cut it. `None` if it is too long for a packet.
    #[must_use]
    pub fn headers(&self, datagram: &[u8]) -> Option<[u8; TUNNELLED_UDP_HEADERS]> {
        let udp_len = u16::try_from(UDP_HEADER_LEN + datagram.len()).ok()?;
        let inner_len = IPV4_HEADER_LEN + usize::from(udp_len);
        let tos = Ecn::NotEct as u8;
        let outer = outer_header((tos, inner_len, true), self.tunnel_source, self.tunnel_destination)?;
        let inner = Header {
            tos,
            total_len: u16::try_from(inner_len).ok()?,
            dont_fragment: true,
            ttl: TTL,
            protocol: PROTOCOL_UDP,
            source: *self.source.ip(),
            destination: *self.destination.ip(),
        };
        let mut headers = [0; TUNNELLED_UDP_HEADERS];
        headers[..IPV4_HEADER_LEN].copy_from_slice(&outer);
        headers[IPV4_HEADER_LEN..UDP_AT].copy_from_slice(&inner.to_bytes());
        headers[UDP_AT..].copy_from_slice(&self.udp_header(udp_len, datagram));
        Some(headers)
    }

    /// Reads the datagram in a packet that was unwrapped, and says where in the bytes it stands.
    ///
    /// Its checksum is not looked at: what our datagrams hold is authenticated, and between machines on one host the kernel
    /// leaves the checksum of a forwarded packet to a network card that there is not.
    ///
    /// # Errors
    /// [`Malformed`] if there is anything else in it, or only a piece.
    pub fn parse(packet: &[u8], unwrapped: &Decapsulated) -> Result<(Self, Range<usize>), Malformed> {
        let start = unwrapped.inner.start;
        let inner = Ipv4::parse(packet.get(unwrapped.inner.clone()).ok_or(Malformed::Truncated)?)?;
        if inner.protocol() != PROTOCOL_UDP {
            return Err(Malformed::UnknownType(inner.protocol()));
        }
        if inner.is_fragment() {
            return Err(Malformed::Illegal("fragment"));
        }
        let (header, _) =
            inner.payload().split_first_chunk::<UDP_HEADER_LEN>().ok_or(Malformed::Truncated)?;
        let [from_port, to_port, length] =
            [0, 2, 4].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
        let length = usize::from(length);
        let segment = inner.payload().get(..length).ok_or(Malformed::Truncated)?;
        let datagram = segment.get(UDP_HEADER_LEN..).ok_or(Malformed::Illegal("length"))?;
        let this = Self {
            tunnel_source: unwrapped.source,
            tunnel_destination: unwrapped.destination,
            source: SocketAddrV4::new(inner.source(), from_port),
            destination: SocketAddrV4::new(inner.destination(), to_port),
        };
        let at = start + inner.header_len() + UDP_HEADER_LEN;
        Ok((this, at..at + datagram.len()))
    }

    fn udp_header(&self, length: u16, datagram: &[u8]) -> [u8; UDP_HEADER_LEN] {
        let mut header = [0; UDP_HEADER_LEN];
        for (field, value) in
            header.chunks_exact_mut(2).zip([self.source.port(), self.destination.port(), length])
        {
            field.copy_from_slice(&value.to_be_bytes());
        }
        let sum = match checksum::of(&[&self.pseudo_header(length), &header, datagram]) {
            // "If the computed checksum is zero, it is transmitted as all ones" (RFC 768).
            0 => u16::MAX,
            sum => sum,
        };
        header[6..].copy_from_slice(&sum.to_be_bytes());
        header
    }

    /// What the checksum covers besides the segment.
    fn pseudo_header(&self, length: u16) -> [u8; 12] {
        let mut header = [0; 12];
        header[..4].copy_from_slice(&self.source.ip().octets());
        header[4..8].copy_from_slice(&self.destination.ip().octets());
        header[9] = PROTOCOL_UDP;
        header[10..].copy_from_slice(&length.to_be_bytes());
        header
    }
}

/// What stands before the quoted packet in ICMPv6.
const ICMPV6_HEADER_LEN: usize = 8;

const IPV6_HEADER_LEN: usize = 40;

/// "Destination unreachable" of ICMPv6 (RFC 4443, section 3.1).
const UNREACHABLE_V6: u8 = 1;

/// A UDP datagram of this host, as somebody quotes it who says that there is no way to where it should go, or nobody who takes
/// it. Anybody can say so: what counts is whether the quote is of something that was really sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undelivered<'a> {
    /// To whom it was sent.
    pub remote: SocketAddr,
    /// The front of what it carried, as far as it is quoted.
    pub front: &'a [u8],
}

impl<'a> Undelivered<'a> {
    /// Reads an ICMP message with its IP header; `None` if it is about something else.
    #[must_use]
    pub fn parse_v4(message: &'a [u8]) -> Option<Self> {
        let error = IcmpError::parse(&Ipv4::parse(message).ok()?).ok()?;
        let quoted = Ipv4::parse_quoted(error.quoted).ok()?;
        let is_refused = matches!(error.problem, Problem::Unreachable(_));
        if !is_refused || quoted.protocol() != PROTOCOL_UDP || quoted.is_later_fragment() {
            return None;
        }
        let (port, front) = split_udp(quoted.payload())?;
        Some(Self { remote: SocketAddr::new(quoted.destination().into(), port), front })
    }

    /// Reads an ICMPv6 message without an IP header, at whose checksum the kernel has looked; `None` if it is about something
    /// else.
    #[must_use]
    pub fn parse_v6(message: &'a [u8]) -> Option<Self> {
        let (header, quoted) = message.split_first_chunk::<ICMPV6_HEADER_LEN>()?;
        let (ip, udp) = quoted.split_first_chunk::<IPV6_HEADER_LEN>()?;
        if header[0] != UNREACHABLE_V6 || ip[6] != PROTOCOL_UDP {
            return None;
        }
        let destination: [u8; 16] = *ip[24..].first_chunk()?;
        let (port, front) = split_udp(udp)?;
        Some(Self { remote: SocketAddr::new(Ipv6Addr::from(destination).into(), port), front })
    }
}

/// The destination port of a UDP datagram (RFC 768), and what it carries.
fn split_udp(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (header, payload) = datagram.split_first_chunk::<UDP_HEADER_LEN>()?;
    Some((u16::from_be_bytes([header[2], header[3]]), payload))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::super::ipv4::{Header, IPV4_HEADER_LEN, PROTOCOL_IPIP};
    use super::super::{checksum, icmp_error};
    use super::*;

    const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const RELAY: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
    const UDP: [u8; 11] = [0x13, 0xfb, 0x0f, 0xa0, 0, 11, 0, 0, b'a', b'b', b'c'];

    fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let total_len = u16::try_from(IPV4_HEADER_LEN + payload.len()).unwrap();
        let (source, destination) = (HOST, RELAY);
        let header =
            Header { tos: 0, total_len, dont_fragment: true, ttl: 60, protocol, source, destination };
        [&header.to_bytes()[..], payload].concat()
    }

    fn message(problem: Problem, about: &[u8]) -> Vec<u8> {
        icmp_error(problem, about, RELAY, HOST)
    }

    #[test]
    fn to_whom_and_what_it_was_is_read() {
        let whole = message(Problem::Unreachable(3), &packet(PROTOCOL_UDP, &UDP));
        let expected = Undelivered { remote: SocketAddr::from((RELAY, 4000)), front: b"abc" };
        assert_eq!(Undelivered::parse_v4(&whole), Some(expected));

        let ip = [&[0x60, 0, 0, 0, 0, 11, PROTOCOL_UDP, 60][..], &[1; 16], &[2; 16]].concat();
        let v6 = [&[UNREACHABLE_V6, 4, 0, 0, 0, 0, 0, 0][..], &ip, &UDP].concat();
        let remote = SocketAddr::from((Ipv6Addr::from([2; 16]), 4000));
        assert_eq!(Undelivered::parse_v6(&v6), Some(Undelivered { remote, front: b"abc" }));
        assert_eq!(Undelivered::parse_v6(&v6[..v6.len() - 4]), None, "no whole header of UDP");
    }

    #[test]
    fn what_is_about_something_else_is_none() {
        let udp = packet(PROTOCOL_UDP, &UDP);
        for problem in [Problem::TooBig { mtu: 1400 }, Problem::Expired] {
            assert_eq!(Undelivered::parse_v4(&message(problem, &udp)), None, "{problem:?}");
        }
        let unreachable = |about: &[u8]| message(Problem::Unreachable(3), about);
        assert_eq!(Undelivered::parse_v4(&unreachable(&packet(PROTOCOL_IPIP, &udp))), None);
        assert_eq!(Undelivered::parse_v4(&unreachable(&udp[..IPV4_HEADER_LEN + 7])), None);
        let mut damaged = unreachable(&udp);
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(Undelivered::parse_v4(&damaged), None);
        let too_big =
            [&[2, 0, 0, 0, 0, 0, 5, 0][..], &[0x60, 0, 0, 0, 0, 11, 17, 60], &[0; 32], &UDP].concat();
        assert_eq!(Undelivered::parse_v6(&too_big), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parsers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = Undelivered::parse_v6(&bytes);
            let mut message = message(Problem::Unreachable(1), &bytes);
            let _ = Undelivered::parse_v4(&message);
            // The same with a quote that begins like a packet.
            if message.len() > 48 {
                message[28] = 0x45;
                message[38..40].fill(0);
                let sum = checksum::of(&[&message[28..48]]);
                message[38..40].copy_from_slice(&sum.to_be_bytes());
                message[22..24].fill(0);
                let sum = checksum::of(&[&message[20..]]);
                message[22..24].copy_from_slice(&sum.to_be_bytes());
                let _ = Undelivered::parse_v4(&message);
            }
        }
    }
}
