//! TCP segments in IP packets (RFC 9293): which connection they are of, the first one of a connection, and answers to that.

use std::iter;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::icmp::{IcmpError, Problem, icmp_error, quoted_v6, unreachable_v6};
use super::ipv4::{Header, IPV4_HEADER_LEN, Ipv4};
use super::transport::ChecksumPlace;
use super::{TTL, checksum};

/// Bytes of the fixed part of a TCP header (RFC 9293 section 3.1).
const HEADER_LEN: usize = HEADER_BYTES as usize;

/// The same, as a header of IP says it.
const HEADER_BYTES: u8 = 20;

/// Bytes of the fixed IPv6 header (RFC 8200 section 3).
const IPV6_HEADER_LEN: usize = 40;

const PROTOCOL_TCP: u8 = 6;

/// Where in the TCP header a checksum stands.
const CHECKSUM: usize = 16;

/// Flags of a segment (RFC 9293 section 3.1).
mod flag {
    pub(super) const FIN: u8 = 0x01;
    pub(super) const SYN: u8 = 0x02;
    pub(super) const RST: u8 = 0x04;
    pub(super) const ACK: u8 = 0x10;
}

/// Kinds of options, by IANA's registry.
mod option {
    pub(super) const END: u8 = 0;
    pub(super) const NO_OPERATION: u8 = 1;
    pub(super) const MSS: u8 = 2;
    /// A signature by MD5 (RFC 2385).
    pub(super) const MD5: u8 = 19;
    /// TCP-AO (RFC 5925).
    pub(super) const AUTHENTICATION: u8 = 29;
}

/// The source and the destination of a segment, or of the one that an ICMP error is about.
pub type Ends = [SocketAddr; 2];

/// The ends of the segment in `packet`, which is no fragment, and of IPv6 without extension headers.
#[must_use]
pub fn ends(packet: &[u8]) -> Option<Ends> {
    let segment = Segment::find(packet)?;
    segment.ends(packet)
}

/// Whether the segment in `packet` begins a connection, or answers to that.
#[must_use]
pub fn has_syn(packet: &[u8]) -> bool {
    has_flag(packet, flag::SYN)
}

/// Whether the segment in `packet` resets its connection.
#[must_use]
pub fn is_reset(packet: &[u8]) -> bool {
    has_flag(packet, flag::RST)
}

fn has_flag(packet: &[u8], flag: u8) -> bool {
    Segment::find(packet).is_some_and(|segment| packet[segment.at + 13] & flag != 0)
}

/// The ends of the segment that an ICMP error is about: its sender, to whom the error is addressed, comes first.
#[must_use]
pub fn ends_of_quoted(packet: &[u8]) -> Option<Ends> {
    if packet.first()? >> 4 == 4 {
        let error = IcmpError::parse(&Ipv4::parse(packet).ok()?).ok()?;
        let quoted = Ipv4::parse_quoted(error.quoted).ok()?;
        let is_first = quoted.protocol() == PROTOCOL_TCP && !quoted.is_later_fragment();
        let addresses = [quoted.source().into(), quoted.destination().into()];
        is_first.then(|| with_ports(addresses, quoted.payload())).flatten()
    } else {
        let quoted = quoted_v6(packet)?;
        let (header, rest) = quoted.split_first_chunk::<IPV6_HEADER_LEN>()?;
        let is_tcp = header[0] >> 4 == 6 && header[6] == PROTOCOL_TCP;
        is_tcp.then(|| with_ports([v6(header, 8).into(), v6(header, 24).into()], rest)).flatten()
    }
}

/// Whether a sequence number, which goes round at 32 bits, comes after another (RFC 9293 §3.4).
#[must_use]
pub fn is_after(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() > 0
}

/// An option of a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpOption<'a> {
    /// Its number in IANA's registry.
    pub kind: u8,
    /// Where among the options its value begins.
    pub at: usize,
    /// Its value, without kind and length.
    pub value: &'a [u8],
}

/// The options, of which `bytes` is all that follows the fixed part of a header, up to the first that is malformed.
pub fn options(bytes: &[u8]) -> impl Iterator<Item = TcpOption<'_>> {
    let mut at = 0;
    iter::from_fn(move || {
        while bytes.get(at) == Some(&option::NO_OPERATION) {
            at += 1;
        }
        let kind = *bytes.get(at).filter(|kind| **kind != option::END)?;
        let length = usize::from(*bytes.get(at + 1)?);
        let found = TcpOption { kind, at: at + 2, value: bytes.get(at + 2..at + length)? };
        at += length;
        Some(found)
    })
}

/// Why a connection could not be made, as routers say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// There is no way to the network.
    Network,
    /// There is no way to the host.
    Host,
    /// Somebody does not permit it.
    Prohibited,
}

/// The first segment of a connection: the packet in which a client asks for it.
///
/// ```
/// use psmc_wire::ip::tcp::Syn;
///
/// let mut packet = [0; 40];
/// packet[..12].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
/// packet[12..24].copy_from_slice(&[10, 1, 0, 1, 10, 2, 0, 1, 0x80, 0, 0, 80]);
/// (packet[32], packet[33]) = (0x50, 0x02);
/// let syn = Syn::parse(&packet).unwrap();
/// assert_eq!(syn.client().to_string(), "10.1.0.1:32768");
/// assert_eq!(syn.server().to_string(), "10.2.0.1:80");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syn<'a> {
    packet: &'a [u8],
    segment: Segment,
    ends: Ends,
}

impl<'a> Syn<'a> {
    /// Reads a packet, of whose checksums nothing is said. `None` if it is anything else than a whole SYN, alone in a packet
    /// as [`ends`] takes it.
    #[must_use]
    pub fn parse(packet: &'a [u8]) -> Option<Self> {
        let segment = Segment::find(packet)?;
        let flags = *packet.get(segment.at + 13)?;
        let is_first = flags & (flag::SYN | flag::ACK | flag::RST | flag::FIN) == flag::SYN;
        let is_whole = segment.header_len(packet)? + segment.at <= packet.len();
        (is_first && is_whole).then_some(Self { packet, segment, ends: segment.ends(packet)? })
    }

    /// Who asks.
    #[must_use]
    pub fn client(&self) -> SocketAddr {
        self.ends[0]
    }

    /// Who is asked.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        self.ends[1]
    }

    /// The most bytes in a segment that the client takes, if it says so (RFC 9293 section 3.7.1).
    #[must_use]
    pub fn mss(&self) -> Option<u16> {
        let mut options = self.options();
        let value = options.find(|it| it.kind == option::MSS)?.value;
        Some(u16::from_be_bytes(value.try_into().ok()?))
    }

    /// Whether its segments are signed (TCP-AO, or MD5): nobody else can answer for such a server.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        self.options().any(|it| [option::MD5, option::AUTHENTICATION].contains(&it.kind))
    }

    /// The differentiated services code point (RFC 2474), of six bits.
    #[must_use]
    pub fn dscp(&self) -> u8 {
        traffic_class(self.packet) >> 2
    }

    /// What the server would have answered that refuses (RFC 9293 section 3.10.7.1).
    #[must_use]
    pub fn reset(&self) -> Vec<u8> {
        let mut segment = [0; HEADER_LEN];
        let fixed = &self.packet[self.segment.at..];
        segment[..2].copy_from_slice(&fixed[2..4]);
        segment[2..4].copy_from_slice(&fixed[..2]);
        segment[8..12].copy_from_slice(&self.acknowledgement().to_be_bytes());
        (segment[12], segment[13]) = (0x50, flag::RST | flag::ACK);
        let mut packet = match (self.server().ip(), self.client().ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = Header {
                    tos: 0,
                    total_len: 20 + u16::from(HEADER_BYTES),
                    dont_fragment: true,
                    ttl: TTL,
                    protocol: PROTOCOL_TCP,
                    source,
                    destination,
                };
                header.to_bytes().to_vec()
            }
            _ => {
                let [source, destination] = [&self.packet[24..IPV6_HEADER_LEN], &self.packet[8..24]];
                let fixed = [0x60, 0, 0, 0, 0, HEADER_BYTES, PROTOCOL_TCP, TTL];
                [&fixed[..], source, destination].concat()
            }
        };
        let addresses = if packet.len() == IPV4_HEADER_LEN { 12 } else { 8 };
        let pseudo = [0, PROTOCOL_TCP, 0, HEADER_BYTES];
        let sum = checksum::of(&[&packet[addresses..], &pseudo, &segment]);
        segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        packet.extend(segment);
        packet
    }

    /// The ICMP error by which `from` says that the server is out of reach. `None` if that is an address of another family.
    #[must_use]
    pub fn unreachable(&self, why: Unreachable, from: IpAddr) -> Option<Vec<u8>> {
        match (from, self.client().ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                // RFC 792, RFC 1812 section 5.2.7.1.
                let code = match why {
                    Unreachable::Network => 0,
                    Unreachable::Host => 1,
                    Unreachable::Prohibited => 13,
                };
                Some(icmp_error(Problem::Unreachable(code), self.packet, from, to))
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                // RFC 4443 section 3.1.
                let code = match why {
                    Unreachable::Network => 0,
                    Unreachable::Prohibited => 1,
                    Unreachable::Host => 3,
                };
                Some(unreachable_v6(code, self.packet, from, to))
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
        }
    }

    fn options(&self) -> impl Iterator<Item = TcpOption<'a>> {
        let tcp = &self.packet[self.segment.at..];
        let end = usize::from(tcp[12] >> 4) * 4;
        options(tcp.get(HEADER_LEN..end).unwrap_or_default())
    }

    /// What acknowledges all of it: the SYN is one, and what it may bring along is the rest.
    fn acknowledgement(&self) -> u32 {
        let tcp = &self.packet[self.segment.at..];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let payload = tcp.len() - usize::from(tcp[12] >> 4) * 4;
        // A packet is shorter than 2^16 bytes.
        sequence.wrapping_add(1).wrapping_add(u32::try_from(payload).unwrap_or_default())
    }
}

/// Where in a packet a segment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    at: usize,
}

impl Segment {
    /// Finds it in a whole packet, no fragment, that has as many bytes as it says.
    fn find(packet: &[u8]) -> Option<Self> {
        let place = ChecksumPlace::find(packet).filter(|place| place.offset == CHECKSUM)?;
        let stated = match packet[0] >> 4 {
            4 => usize::from(word(packet, 2)),
            _ => IPV6_HEADER_LEN + usize::from(word(packet, 4)),
        };
        let is_whole = stated == packet.len() && place.start + HEADER_LEN <= packet.len();
        is_whole.then_some(Self { at: place.start })
    }

    fn ends(self, packet: &[u8]) -> Option<Ends> {
        let addresses = match packet[0] >> 4 {
            4 => [v4(packet, 12), v4(packet, 16)],
            _ => [v6(packet, 8).into(), v6(packet, 24).into()],
        };
        with_ports(addresses, &packet[self.at..])
    }

    /// Bytes of its header, options included; `None` if they are too few.
    fn header_len(self, packet: &[u8]) -> Option<usize> {
        let len = usize::from(packet[self.at + 12] >> 4) * 4;
        (len >= HEADER_LEN).then_some(len)
    }
}

fn with_ports([source, destination]: [IpAddr; 2], segment: &[u8]) -> Option<Ends> {
    let &[s0, s1, d0, d1] = segment.first_chunk()?;
    let [from, to] = [[s0, s1], [d0, d1]].map(u16::from_be_bytes);
    Some([SocketAddr::new(source, from), SocketAddr::new(destination, to)])
}

fn v4(bytes: &[u8], at: usize) -> IpAddr {
    IpAddr::from([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The address at that place of a header that is there as a whole.
fn v6(bytes: &[u8], at: usize) -> Ipv6Addr {
    bytes[at..].first_chunk::<16>().copied().map_or(Ipv6Addr::UNSPECIFIED, Ipv6Addr::from)
}

/// The type of service, or the traffic class, of a packet.
fn traffic_class(packet: &[u8]) -> u8 {
    if packet[0] >> 4 == 4 { packet[1] } else { packet[0] << 4 | packet[1] >> 4 }
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests;
