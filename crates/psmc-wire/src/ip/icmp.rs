//! ICMP errors: what a router says of a packet that it does not pass on (RFC 792).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::ipv4::{Header, IPV4_HEADER_LEN, Ipv4, PROTOCOL_ICMP, PROTOCOL_IPIP, PROTOCOL_UDP};
use super::{TTL, checksum};
use crate::fields::Malformed;

/// What stands before the quoted packet.
const ICMP_HEADER_LEN: usize = 8;

/// How long an error is at most: "as much of the original datagram as possible without the length of the ICMP datagram
/// exceeding 576 bytes" (RFC 1812, section 4.3.2.3).
const MAX_LEN: usize = 576;

/// Errors travel with the precedence of control traffic between networks (the same RFC, section 4.3.2.5).
const INTERNETWORK_CONTROL: u8 = 0xc0;

const IPV6_HEADER_LEN: usize = 40;

/// "Packet too big" of ICMPv6.
const TOO_BIG_V6: u8 = 2;

const PROTOCOL_ICMPV6: u8 = 58;

/// How long an error of ICMPv6 is at most: "as much of invoking packet as possible without the ICMPv6 packet exceeding the minimum
/// IPv6 MTU" (RFC 4443, section 3.1).
const MAX_LEN_V6: usize = 1280;

/// Types of ICMPv6 up to this one are errors (the same RFC, section 2.1).
const LAST_ERROR_V6: u8 = 127;

/// "Destination unreachable" of ICMPv6.
const UNREACHABLE_V6: u8 = 1;

const UNREACHABLE: u8 = 3;
const TIME_EXCEEDED: u8 = 11;
const FRAGMENTATION_NEEDED: u8 = 4;

/// Types that are errors: unreachable, source quench, redirect, time exceeded, parameter problem.
const ERRORS: [u8; 5] = [UNREACHABLE, 4, 5, TIME_EXCEEDED, 12];

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It cannot get there, with the code that says why: 0 for the network, 1 for the host.
    Unreachable(u8),
    /// It is longer than a link takes, and must not be cut.
    TooBig {
        /// What the link takes; 0 from routers that do not say.
        mtu: u16,
    },
    /// It has passed as many routers as it may.
    Expired,
}

/// An error that somebody sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError<'a> {
    /// What is wrong.
    pub problem: Problem,
    /// The front of the packet that it is about.
    pub quoted: &'a [u8],
}

impl<'a> IcmpError<'a> {
    /// Reads what an IPv4 packet holds.
    ///
    /// # Errors
    /// [`Malformed`] if it is no error of these kinds, or has a wrong checksum.
    pub fn parse(packet: &Ipv4<'a>) -> Result<Self, Malformed> {
        if packet.protocol() != PROTOCOL_ICMP {
            return Err(Malformed::UnknownType(packet.protocol()));
        }
        let message = packet.payload();
        let (header, quoted) = message.split_first_chunk::<ICMP_HEADER_LEN>().ok_or(Malformed::Truncated)?;
        if checksum::of(&[message]) != 0 {
            return Err(Malformed::Illegal("checksum"));
        }
        let problem = match (header[0], header[1]) {
            (UNREACHABLE, FRAGMENTATION_NEEDED) => {
                Problem::TooBig { mtu: u16::from_be_bytes([header[6], header[7]]) }
            }
            (UNREACHABLE, code) => Problem::Unreachable(code),
            // The other code is that of a receiver who waited in vain for pieces.
            (TIME_EXCEEDED, 0) => Problem::Expired,
            (kind, _) => return Err(Malformed::UnknownType(kind)),
        };
        Ok(Self { problem, quoted })
    }
}

/// The packet that tells `to` of a problem with a packet of his, of which `about` is as much as there is.
#[must_use]
pub fn icmp_error(problem: Problem, about: &[u8], from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let (kind, code, mtu) = match problem {
        Problem::Unreachable(code) => (UNREACHABLE, code, 0),
        Problem::TooBig { mtu } => (UNREACHABLE, FRAGMENTATION_NEEDED, mtu),
        Problem::Expired => (TIME_EXCEEDED, 0, 0),
    };
    let quoted = &about[..about.len().min(MAX_LEN - IPV4_HEADER_LEN - ICMP_HEADER_LEN)];
    let [high, low] = mtu.to_be_bytes();
    let mut head = [kind, code, 0, 0, 0, 0, high, low];
    let sum = checksum::of(&[&head, quoted]);
    head[2..4].copy_from_slice(&sum.to_be_bytes());
    let total_len = IPV4_HEADER_LEN + ICMP_HEADER_LEN + quoted.len();
    let header = Header {
        tos: INTERNETWORK_CONTROL,
        // At most MAX_LEN.
        total_len: u16::try_from(total_len).unwrap_or(u16::MAX),
        // Every link takes it, and then the identification need not say anything (RFC 6864, section 4.1).
        dont_fragment: true,
        ttl: TTL,
        protocol: PROTOCOL_ICMP,
        source: from,
        destination: to,
    };
    [&header.to_bytes()[..], &head, quoted].concat()
}

/// The packet that tells `to` that a packet of his cannot get there, of which `about` is as much as there is; the code says why: 0 for
/// no route, 1 for prohibited, 3 for the address (RFC 4443, section 3.1).
pub(super) fn unreachable_v6(code: u8, about: &[u8], from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let quoted = &about[..about.len().min(MAX_LEN_V6 - IPV6_HEADER_LEN - ICMP_HEADER_LEN)];
    // At most MAX_LEN_V6.
    let length = u16::try_from(ICMP_HEADER_LEN + quoted.len()).unwrap_or(u16::MAX).to_be_bytes();
    let addresses = [from.octets(), to.octets()].concat();
    let mut head = [UNREACHABLE_V6, code, 0, 0, 0, 0, 0, 0];
    let sum = checksum::of(&[&addresses, &length, &[0, PROTOCOL_ICMPV6], &head, quoted]);
    head[2..4].copy_from_slice(&sum.to_be_bytes());
    let fixed = [0x60, 0, 0, 0, length[0], length[1], PROTOCOL_ICMPV6, TTL];
    [&fixed[..], &addresses, &head, quoted].concat()
}

/// What an error of ICMPv6, with its IP header, quotes. Its checksum is not looked at.
pub(super) fn quoted_v6(packet: &[u8]) -> Option<&[u8]> {
    let (ip, message) = packet.split_first_chunk::<IPV6_HEADER_LEN>()?;
    let (head, quoted) = message.split_first_chunk::<ICMP_HEADER_LEN>()?;
    let is_error = ip[0] >> 4 == 6 && ip[6] == PROTOCOL_ICMPV6 && head[0] <= LAST_ERROR_V6;
    is_error.then_some(quoted)
}

/// Whether an ICMP message, with its IP header, says that a packet is too long for a link, and that is a UDP datagram from
/// this port, or IPv4 in IPv4.
#[must_use]
pub fn is_too_big_v4(message: &[u8], port: u16) -> bool {
    let Ok(error) = Ipv4::parse(message).and_then(|packet| IcmpError::parse(&packet)) else { return false };
    let Ok(quoted) = Ipv4::parse_quoted(error.quoted) else { return false };
    let is_own = match quoted.protocol() {
        PROTOCOL_IPIP => true,
        PROTOCOL_UDP => source_port(quoted.payload()) == Some(port),
        _ => false,
    };
    is_own && matches!(error.problem, Problem::TooBig { .. })
}

/// Whether an ICMPv6 message, without an IP header, says that a packet is too long for a link, and that is a UDP datagram from
/// this port (RFC 4443, section 3.2). The kernel has looked at its checksum.
#[must_use]
pub fn is_too_big_v6(message: &[u8], port: u16) -> bool {
    let Some((header, quoted)) = message.split_first_chunk::<ICMP_HEADER_LEN>() else { return false };
    let Some((ip, udp)) = quoted.split_first_chunk::<IPV6_HEADER_LEN>() else { return false };
    header[0] == TOO_BIG_V6 && ip[6] == PROTOCOL_UDP && source_port(udp) == Some(port)
}

fn source_port(udp: &[u8]) -> Option<u16> {
    udp.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Whether an error may be sent about a packet: not about another error, nor about a piece of a packet other than the
/// first (RFC 1812, section 4.3.2.7).
#[must_use]
pub fn may_be_reported(packet: &Ipv4<'_>) -> bool {
    let is_error = packet.protocol() == PROTOCOL_ICMP
        && packet.payload().first().is_none_or(|kind| ERRORS.contains(kind));
    !is_error && !packet.is_later_fragment()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
    const SENDER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);

    fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let header = Header {
            tos: 0,
            total_len: u16::try_from(IPV4_HEADER_LEN + payload.len()).unwrap(),
            dont_fragment: true,
            ttl: 9,
            protocol,
            source: SENDER,
            destination: Ipv4Addr::new(10, 2, 0, 1),
        };
        [&header.to_bytes()[..], payload].concat()
    }

    #[test]
    fn an_error_says_what_it_was_made_of() {
        for problem in [Problem::Unreachable(1), Problem::TooBig { mtu: 1380 }, Problem::Expired] {
            for length in [0, 100, 3000] {
                let about = packet(17, &vec![7; length]);
                let bytes = icmp_error(problem, &about, ROUTER, SENDER);
                assert!(bytes.len() <= 576);
                let error = Ipv4::parse(&bytes).unwrap();
                assert_eq!((error.source(), error.destination()), (ROUTER, SENDER));
                let parsed = IcmpError::parse(&error).unwrap();
                assert_eq!(parsed.problem, problem);
                let quoted = Ipv4::parse_quoted(parsed.quoted).unwrap();
                assert_eq!((quoted.source(), quoted.total_len()), (SENDER, about.len()));
                assert_eq!(quoted.bytes(), &about[..about.len().min(548)]);
            }
        }
    }

    #[test]
    fn what_is_no_error_or_damaged_is_none() {
        let mut bytes = icmp_error(Problem::Expired, &packet(17, b"hello"), ROUTER, SENDER);
        *bytes.last_mut().unwrap() ^= 1;
        let damaged = IcmpError::parse(&Ipv4::parse(&bytes).unwrap());
        assert_eq!(damaged, Err(Malformed::Illegal("checksum")));
        let echo = packet(PROTOCOL_ICMP, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
        assert_eq!(IcmpError::parse(&Ipv4::parse(&echo).unwrap()), Err(Malformed::UnknownType(8)));
        let udp = packet(17, &[0; 8]);
        assert_eq!(IcmpError::parse(&Ipv4::parse(&udp).unwrap()), Err(Malformed::UnknownType(17)));
    }

    #[test]
    fn what_is_too_big_and_whose_it_was_is_known() {
        const PORT: u16 = 5115;
        let segment = [&PORT.to_be_bytes()[..], &[0; 6]].concat();
        let too_big = |about: &[u8]| icmp_error(Problem::TooBig { mtu: 1400 }, about, ROUTER, SENDER);
        let own = too_big(&packet(PROTOCOL_UDP, &segment));
        assert!(is_too_big_v4(&own, PORT) && !is_too_big_v4(&own, PORT + 1));
        assert!(is_too_big_v4(&too_big(&packet(PROTOCOL_IPIP, &[])), PORT));
        assert!(!is_too_big_v4(&too_big(&packet(6, &segment)), PORT));
        let other = icmp_error(Problem::Expired, &packet(PROTOCOL_UDP, &segment), ROUTER, SENDER);
        assert!(!is_too_big_v4(&other, PORT) && !is_too_big_v4(&own[..own.len() - 1], PORT));

        let mut v6 = [&[TOO_BIG_V6, 0, 0, 0, 0, 0, 5, 0][..], &[0; IPV6_HEADER_LEN], &segment].concat();
        v6[8 + 6] = PROTOCOL_UDP;
        assert!(is_too_big_v6(&v6, PORT) && !is_too_big_v6(&v6, PORT + 1) && !is_too_big_v6(&v6[..49], PORT));
        v6[0] = 1;
        assert!(!is_too_big_v6(&v6, PORT));
    }

    #[test]
    fn errors_about_errors_and_later_pieces_are_not_sent() {
        let may = |bytes: &[u8]| may_be_reported(&Ipv4::parse(bytes).unwrap());
        assert!(may(&packet(17, b"hello")));
        assert!(may(&packet(PROTOCOL_ICMP, &[8, 0, 0, 0])), "an echo is no error");
        for kind in ERRORS {
            assert!(!may(&packet(PROTOCOL_ICMP, &[kind, 0, 0, 0])));
        }
        let mut piece = packet(17, b"hello");
        super::super::ipv4::set_fragment(&mut piece[..20], 3, false, 25);
        assert!(!may(&piece));
    }
}
