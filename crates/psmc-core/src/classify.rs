//! What an inner packet is: whose it is, in which flow, and whether its flow cares for order.

use std::net::{IpAddr, SocketAddr};

use psmc_wire::Bucket;
use siphasher::sip::SipHasher13;
use thiserror::Error;

mod class;
mod quic;
mod upper;

pub use class::{ClassConfig, ClassMatch, DEFAULT_WEIGHT, MAX_CLASSES, PathPreference, Priority, RepairKind};
pub(crate) use class::{ClassId, Classes, Detour};
pub(crate) use quic::{QuicFlows, QuicHint};
use upper::Upper;

/// Bytes of an IPv4 header without options (RFC 791 §3.1).
const IPV4_HEADER: usize = 20;

/// Bytes of the fixed IPv6 header (RFC 8200 §3).
const IPV6_HEADER: usize = 40;

/// The two bits of ECN at the end of the traffic class (RFC 3168 §5), and their value for congestion experienced.
const ECN: u8 = 0b11;
const CE: u8 = 0b11;

/// What the tunnel needs to know of an inner packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Classified {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// The upper-layer protocol, by its IANA number, behind any IPv6 extension headers.
    pub(crate) protocol: u8,
    /// The differentiated services code point (RFC 2474).
    pub(crate) dscp: u8,
    /// Source and destination port, where there are any.
    pub(crate) ports: Option<[u16; 2]>,
    /// Whether it says that it has met congestion (RFC 3168).
    pub(crate) is_ce: bool,
    /// A hash of what its flow has of its own.
    pub(crate) flow: u64,
    /// The bucket of its flow.
    pub(crate) bucket: Bucket,
    /// Whether its flow wants its packets in order, as far as its protocol and ports tell.
    pub(crate) ordered: bool,
    /// Whether it looks like QUIC at another port.
    pub(crate) quic: QuicHint,
}

impl Classified {
    /// Whether it is UDP of any kind, or a fragment of it.
    pub(crate) fn is_udp(&self) -> bool {
        upper::is_udp(self.protocol)
    }

    /// What packets of the other direction of its connection have, if that is TCP; see [`classify`] for the key.
    pub(crate) fn reversed(self, key: [u64; 2]) -> Self {
        let Self { source: destination, destination: source, .. } = self;
        let ports = self.ports.map(|[from, to]| [to, from]);
        let [from, to] = ports.unwrap_or_default();
        let flow = hash_of_tcp(SocketAddr::new(source, from), SocketAddr::new(destination, to), key);
        Self { source, destination, ports, flow, bucket: Bucket::of_hash(flow), ..self }
    }
}

/// Why some bytes are no IP packet. The culprit is whoever sent them into the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum BadPacket {
    /// Neither IPv4 nor IPv6.
    #[error("ip version {0}")]
    Version(u8),
    /// Too short for its own header.
    #[error("{0} bytes are too few for the ip header")]
    Truncated(usize),
    /// An IPv4 header length below 20 bytes.
    #[error("ipv4 header length of {0} bytes")]
    HeaderLength(usize),
    /// The header's length is not that of the packet: a TUN device and a tunnel add no trailer.
    #[error("the ip header states {stated} bytes, the packet has {actual}")]
    Length {
        /// Bytes according to the header.
        stated: usize,
        /// Bytes there are.
        actual: usize,
    },
}

/// Reads the headers of `packet`, an IP packet from its first to its last byte.
///
/// `key` is a secret that keeps outsiders from aiming flows at a bucket; the receiver needn't know it.
/// Packets of one flow are in the same bucket, and so are all fragments between two hosts of one protocol. An
/// upper-layer header that is cut off or unknown is no error: a router would forward such a packet.
pub(crate) fn classify(packet: &[u8], key: [u64; 2]) -> Result<Classified, BadPacket> {
    match version(packet)? {
        4 => classify_ipv4(packet, key),
        6 => classify_ipv6(packet, key),
        version => Err(BadPacket::Version(version)),
    }
}

/// What packets of a TCP connection have that go from one end to the other; see [`classify`] for the key.
pub(crate) fn of_tcp(source: SocketAddr, destination: SocketAddr, dscp: u8, key: [u64; 2]) -> Classified {
    let flow = hash_of_tcp(source, destination, key);
    let ports = [source.port(), destination.port()];
    let upper = Upper::of_tcp(ports);
    Classified {
        source: source.ip(),
        destination: destination.ip(),
        protocol: upper.protocol,
        dscp,
        ports: Some(ports),
        is_ce: false,
        flow,
        bucket: Bucket::of_hash(flow),
        ordered: true,
        quic: QuicHint::No,
    }
}

/// The source address of `packet`, after the same checks of its header.
pub(crate) fn source(packet: &[u8]) -> Result<IpAddr, BadPacket> {
    addresses(packet).map(|(source, _)| source)
}

/// The source and the destination of `packet`, after the same checks of its header.
pub(crate) fn addresses(packet: &[u8]) -> Result<(IpAddr, IpAddr), BadPacket> {
    match version(packet)? {
        4 => {
            let (&[.., s0, s1, s2, s3, d0, d1, d2, d3], _) = ipv4_header(packet)?;
            Ok((IpAddr::from([s0, s1, s2, s3]), IpAddr::from([d0, d1, d2, d3])))
        }
        6 => ipv6_header(packet).map(|(header, _)| (ipv6(&header[8..24]), ipv6(&header[24..]))),
        version => Err(BadPacket::Version(version)),
    }
}

/// The bucket of the packets of a TCP connection that go from one end to the other; see [`classify`] for the key.
pub(crate) fn bucket_of_tcp(source: SocketAddr, destination: SocketAddr, key: [u64; 2]) -> Bucket {
    Bucket::of_hash(hash_of_tcp(source, destination, key))
}

fn hash_of_tcp(source: SocketAddr, destination: SocketAddr, key: [u64; 2]) -> u64 {
    let upper = Upper::of_tcp([source.port(), destination.port()]);
    match (source.ip().to_canonical(), destination.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => hash(&[from.octets(), to.octets()].concat(), upper, key),
        (IpAddr::V6(from), IpAddr::V6(to)) => hash(&[from.octets(), to.octets()].concat(), upper, key),
        // There is no such connection.
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => hash(&[], upper, key),
    }
}

/// The header of a TCP segment in an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpHeader {
    /// Where in the packet it begins.
    pub(crate) at: usize,
    /// Bytes of the IP header without options or extension headers.
    pub(crate) ip_len: usize,
}

/// Finds the header of the TCP segment in `packet`. A fragment has none: it would be cut off.
pub(crate) fn tcp_header(packet: &[u8]) -> Option<TcpHeader> {
    let (segment, ip_len) = match version(packet).ok()? {
        4 => {
            let (header, payload) = ipv4_header(packet).ok()?;
            let fragment = u16::from_be_bytes([header[6], header[7]]);
            (upper::tcp_of_ipv4(header[9], fragment, payload)?, IPV4_HEADER)
        }
        6 => {
            let (header, payload) = ipv6_header(packet).ok()?;
            (upper::tcp_of_ipv6(header[6], payload)?, IPV6_HEADER)
        }
        _ => return None,
    };
    Some(TcpHeader { at: packet.len() - segment.len(), ip_len })
}

fn classify_ipv4(packet: &[u8], key: [u64; 2]) -> Result<Classified, BadPacket> {
    let (header, payload) = ipv4_header(packet)?;
    let &[.., s0, s1, s2, s3, d0, d1, d2, d3] = header;
    let upper = Upper::of_ipv4(header[9], u16::from_be_bytes([header[6], header[7]]), payload);
    let flow = hash(&header[12..], upper, key);
    Ok(Classified {
        source: IpAddr::from([s0, s1, s2, s3]),
        destination: IpAddr::from([d0, d1, d2, d3]),
        protocol: upper.protocol,
        dscp: header[1] >> 2,
        ports: upper.ports(),
        is_ce: header[1] & ECN == CE,
        flow,
        bucket: Bucket::of_hash(flow),
        ordered: upper.wants_order(),
        quic: upper.quic,
    })
}

fn classify_ipv6(packet: &[u8], key: [u64; 2]) -> Result<Classified, BadPacket> {
    let (header, payload) = ipv6_header(packet)?;
    let addresses = &header[8..];
    let upper = Upper::of_ipv6(header[6], payload);
    let flow = hash(addresses, upper, key);
    Ok(Classified {
        source: ipv6(&addresses[..16]),
        destination: ipv6(&addresses[16..]),
        protocol: upper.protocol,
        // The upper six bits of the traffic class, which begins in the middle of the first byte.
        dscp: (header[0] << 4 | header[1] >> 4) >> 2,
        ports: upper.ports(),
        is_ce: header[1] >> 4 & ECN == CE,
        flow,
        bucket: Bucket::of_hash(flow),
        ordered: upper.wants_order(),
        quic: upper.quic,
    })
}

fn version(packet: &[u8]) -> Result<u8, BadPacket> {
    packet.first().map(|first| first >> 4).ok_or(BadPacket::Truncated(0))
}

/// The fixed part of the header, and what follows the options.
fn ipv4_header(packet: &[u8]) -> Result<(&[u8; IPV4_HEADER], &[u8]), BadPacket> {
    let truncated = BadPacket::Truncated(packet.len());
    let header = packet.first_chunk::<IPV4_HEADER>().ok_or(truncated)?;
    let header_len = usize::from(header[0] & 0x0F) * 4;
    if header_len < IPV4_HEADER {
        return Err(BadPacket::HeaderLength(header_len));
    }
    check_length(usize::from(u16::from_be_bytes([header[2], header[3]])), packet)?;
    Ok((header, packet.get(header_len..).ok_or(truncated)?))
}

/// The fixed header, and what follows it.
fn ipv6_header(packet: &[u8]) -> Result<(&[u8; IPV6_HEADER], &[u8]), BadPacket> {
    let truncated = BadPacket::Truncated(packet.len());
    let (header, payload) = packet.split_first_chunk::<IPV6_HEADER>().ok_or(truncated)?;
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    check_length(IPV6_HEADER + payload_len, packet)?;
    Ok((header, payload))
}

fn check_length(stated: usize, packet: &[u8]) -> Result<(), BadPacket> {
    let actual = packet.len();
    if stated == actual { Ok(()) } else { Err(BadPacket::Length { stated, actual }) }
}

/// SipHash-1-3 over the two addresses, as they are in the header, and what tells flows between them apart.
fn hash(addresses: &[u8], upper: Upper, [key0, key1]: [u64; 2]) -> u64 {
    let mut tuple = [0; 2 * 16 + 4 + 1];
    let len = addresses.len();
    tuple[..len].copy_from_slice(addresses);
    tuple[len..len + 4].copy_from_slice(&upper.endpoints);
    tuple[len + 4] = upper.protocol;
    SipHasher13::new_with_keys(key0, key1).hash(&tuple[..len + 5])
}

fn ipv6(octets: &[u8]) -> IpAddr {
    IpAddr::from(octets.first_chunk::<16>().copied().unwrap_or_default())
}

#[cfg(test)]
mod tests;
