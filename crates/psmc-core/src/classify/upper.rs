//! What lies above the IP header, as far as it tells flows apart.

use super::quic::QuicHint;

/// The most IPv6 extension headers that are walked. Packets with more than two or three are not seen in
/// practice, and a chain can otherwise be as long as the packet.
const MAX_EXTENSIONS: usize = 8;

/// QUIC's usual UDP port: HTTP/3 (RFC 9114 §3.1).
const HTTPS: u16 = 443;

/// DNS over QUIC (RFC 9250 §8.1).
const DOMAIN_S: u16 = 853;

/// Protocol numbers of IANA's registry.
mod number {
    pub(super) const HOP_BY_HOP: u8 = 0;
    pub(super) const ICMP: u8 = 1;
    pub(super) const TCP: u8 = 6;
    pub(super) const UDP: u8 = 17;
    pub(super) const DCCP: u8 = 33;
    pub(super) const ROUTING: u8 = 43;
    pub(super) const FRAGMENT: u8 = 44;
    pub(super) const ESP: u8 = 50;
    pub(super) const AUTHENTICATION: u8 = 51;
    pub(super) const ICMPV6: u8 = 58;
    pub(super) const DESTINATION_OPTIONS: u8 = 60;
    pub(super) const SCTP: u8 = 132;
    pub(super) const MOBILITY: u8 = 135;
    pub(super) const UDP_LITE: u8 = 136;
    pub(super) const HOST_IDENTITY: u8 = 139;
    pub(super) const SHIM6: u8 = 140;
}

/// A protocol and what tells its flows between two addresses apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Upper {
    pub(super) protocol: u8,
    /// Source and destination port, or what stands for them; zero where there is nothing of the kind.
    pub(super) endpoints: [u8; 4],
    /// Whether it is UDP that looks like QUIC.
    pub(super) quic: QuicHint,
}

impl Upper {
    /// Of an IPv4 packet: the protocol of its header, the field with flags and fragment offset, the rest.
    pub(super) fn of_ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Self {
        if is_fragment(fragment) { Self::fragmented(protocol) } else { Self::whole(protocol, payload) }
    }

    /// Of an IPv6 packet: the "next header" field and what follows the fixed header.
    pub(super) fn of_ipv6(next_header: u8, payload: &[u8]) -> Self {
        match behind_extensions(next_header, payload) {
            (protocol, Some(rest)) => Self::whole(protocol, rest),
            (protocol, None) => Self::fragmented(protocol),
        }
    }

    /// Of TCP between these two ports.
    pub(super) fn of_tcp([source, destination]: [u16; 2]) -> Self {
        let ([s0, s1], [d0, d1]) = (source.to_be_bytes(), destination.to_be_bytes());
        Self { protocol: number::TCP, endpoints: [s0, s1, d0, d1], quic: QuicHint::No }
    }

    /// Source and destination port, where there are any: a fragment has none.
    pub(super) fn ports(self) -> Option<[u16; 2]> {
        let [s0, s1, d0, d1] = self.endpoints;
        match self.protocol {
            number::TCP | number::UDP | number::UDP_LITE | number::SCTP | number::DCCP => {
                let ports = [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])];
                (ports != [0, 0]).then_some(ports)
            }
            _ => None,
        }
    }

    /// Whether flows of this kind suffer when their packets change places.
    ///
    /// Transports that take reordering for loss do: TCP, SCTP, DCCP, and QUIC, which its ports tell from other UDP (at
    /// other ports its first packets do, see [`QuicHint`]). Everything else either doesn't care or would rather have a packet early than in order.
    pub(super) fn wants_order(self) -> bool {
        match self.protocol {
            number::TCP | number::SCTP | number::DCCP => true,
            number::UDP => self.ports().iter().flatten().any(|port| [HTTPS, DOMAIN_S].contains(port)),
            _ => false,
        }
    }

    fn whole(protocol: u8, payload: &[u8]) -> Self {
        let endpoints = match protocol {
            // Two ports, or the security parameters index of ESP (RFC 4303 §2.1).
            number::TCP | number::UDP | number::UDP_LITE | number::SCTP | number::DCCP | number::ESP => {
                payload.first_chunk().copied()
            }
            number::ICMP => echo_identifier(payload, [8, 0]),
            number::ICMPV6 => echo_identifier(payload, [128, 129]),
            _ => None,
        };
        let quic = if protocol == number::UDP { QuicHint::of_udp(payload) } else { QuicHint::No };
        Self { protocol, endpoints: endpoints.unwrap_or_default(), quic }
    }

    /// Only the first fragment has ports, and all fragments are to share one bucket.
    fn fragmented(protocol: u8) -> Self {
        Self { protocol, endpoints: [0; 4], quic: QuicHint::No }
    }
}

/// Whether `protocol` is UDP, or its variant for payloads that bear errors (RFC 3828).
pub(super) fn is_udp(protocol: u8) -> bool {
    matches!(protocol, number::UDP | number::UDP_LITE)
}

/// The TCP segment of an IPv4 packet, of which the same is given as for [`Upper::of_ipv4`].
pub(super) fn tcp_of_ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Option<&[u8]> {
    (protocol == number::TCP && !is_fragment(fragment)).then_some(payload)
}

/// The TCP segment of an IPv6 packet, of which the same is given as for [`Upper::of_ipv6`].
pub(super) fn tcp_of_ipv6(next_header: u8, payload: &[u8]) -> Option<&[u8]> {
    let (protocol, rest) = behind_extensions(next_header, payload);
    rest.filter(|_| protocol == number::TCP)
}

/// Whether IPv4's field with flags and offset is that of a fragment: "more fragments", or an offset (RFC 791 §3.1).
fn is_fragment(field: u16) -> bool {
    field & 0x3FFF != 0
}

/// The protocol behind IPv6's extension headers, and what follows them; nothing does in a fragment that anybody could
/// make sense of.
fn behind_extensions(next_header: u8, payload: &[u8]) -> (u8, Option<&[u8]>) {
    let (mut protocol, mut rest) = (next_header, payload);
    for _ in 0..MAX_EXTENSIONS {
        let Some(len) = extension_len(protocol, rest) else { break };
        let Some(behind) = rest.get(len..) else { break };
        let is_part = protocol == number::FRAGMENT && is_part(rest);
        (protocol, rest) = (rest[0], behind);
        if is_part {
            return (protocol, None);
        }
    }
    (protocol, Some(rest))
}

/// Bytes of the extension header at the start of `bytes`, or `None` if `protocol` is none or it is cut off.
fn extension_len(protocol: u8, bytes: &[u8]) -> Option<usize> {
    let &[_, length, ..] = bytes else { return None };
    let length = usize::from(length);
    match protocol {
        number::HOP_BY_HOP
        | number::ROUTING
        | number::DESTINATION_OPTIONS
        | number::MOBILITY
        | number::HOST_IDENTITY
        | number::SHIM6 => Some((length + 1) * 8),
        number::FRAGMENT => Some(8),
        // In units of four bytes, less two (RFC 4302 §2.2).
        number::AUTHENTICATION => Some((length + 2) * 4),
        _ => None,
    }
}

/// Whether a fragment header (RFC 8200 §4.5) stands before a part and not, as an "atomic fragment" (RFC
/// 6946), before all of a packet.
fn is_part(header: &[u8]) -> bool {
    let &[_, _, high, low, ..] = header else {
        return false;
    };
    u16::from_be_bytes([high, low]) & 0xFFF9 != 0
}

/// The identifier of an ICMP message if it is of one of the `echo` types (RFC 792, RFC 4443 §4).
fn echo_identifier(payload: &[u8], echo: [u8; 2]) -> Option<[u8; 4]> {
    let &[kind, _, _, _, high, low, ..] = payload else {
        return None;
    };
    echo.contains(&kind).then_some([0, 0, high, low])
}
