//! A UDP datagram in an IPv4 packet in a tunnel.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

use super::ipv4::Header;
use super::tunnel::{Decapsulated, TTL, outer_header};
use super::{Ecn, IPV4_HEADER_LEN, Ipv4, PROTOCOL_UDP, checksum};
use crate::reader::Malformed;

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
