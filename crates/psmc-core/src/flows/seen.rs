//! What tells flows apart in a packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::classify::Classified;

/// Protocols with two ports in front of their headers, by their IANA numbers: TCP, UDP.
pub(super) const TCP: u8 = 6;
const UDP: u8 = 17;

/// Where TCP's flags are in its header (RFC 9293 §3.1).
pub(super) const TCP_FLAGS: usize = 13;

/// Where the protocol of an IPv4 header is, and its addresses (RFC 791 §3.1).
const V4_PROTOCOL: usize = 9;
const V4_ADDRESSES: usize = 12;

/// Where the next header of an IPv6 header is, its addresses, and what follows it (RFC 8200 §3).
pub(super) const V6_NEXT_HEADER: usize = 6;
const V6_ADDRESSES: usize = 8;
pub(super) const V6_HEADER: usize = 40;

/// The two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// Addresses are numbers, which are compared at once; those of IPv4 are small ones.
    pub(super) source: u128,
    pub(super) destination: u128,
    pub(super) ports: [u16; 2],
    pub(super) protocol: u8,
    pub(super) is_v6: bool,
}

/// A packet of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) ends: Ends,
    pub(super) tos: u8,
    /// 0 of all but TCP, and of fragments.
    pub(super) tcp_flags: u8,
}

impl Ends {
    /// One of the addresses.
    pub(super) fn address(&self, number: u128) -> IpAddr {
        match u32::try_from(number) {
            Ok(small) if !self.is_v6 => Ipv4Addr::from_bits(small).into(),
            _ => Ipv6Addr::from_bits(number).into(),
        }
    }
}

impl Seen {
    /// Of what nearly all packets are: TCP and UDP, whole, without IPv6 extension headers. It costs next to nothing.
    pub(super) fn of_plain(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_plain_ipv4(packet),
            6 => Self::of_plain_ipv6(packet),
            _ => None,
        }
    }

    fn of_plain_ipv4(packet: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = packet.first_chunk()?;
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3FFF;
        if fragment != 0 {
            return None;
        }
        let address = |at: usize| Some(u32::from_be_bytes(*header.get(at..)?.first_chunk()?));
        let upper = packet.get(usize::from(header[0] & 0x0F) * 4..)?;
        let protocol = header[V4_PROTOCOL];
        let (ports, tcp_flags) = upper_of(protocol, upper)?;
        let (source, destination) = (address(V4_ADDRESSES)?.into(), address(V4_ADDRESSES + 4)?.into());
        let ends = Ends { source, destination, ports, protocol, is_v6: false };
        Some(Self { ends, tos: header[1], tcp_flags })
    }

    fn of_plain_ipv6(packet: &[u8]) -> Option<Self> {
        let (header, upper): (&[u8; V6_HEADER], _) = packet.split_first_chunk()?;
        let address = |at: usize| Some(u128::from_be_bytes(*header.get(at..)?.first_chunk()?));
        let protocol = header[V6_NEXT_HEADER];
        let (ports, tcp_flags) = upper_of(protocol, upper)?;
        let (source, destination) = (address(V6_ADDRESSES)?, address(V6_ADDRESSES + 16)?);
        let ends = Ends { source, destination, ports, protocol, is_v6: true };
        Some(Self { ends, tos: header[0] << 4 | header[1] >> 4, tcp_flags })
    }

    /// Of any packet.
    pub(super) fn of(headers: &Classified) -> Self {
        let number = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.to_bits().into(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let ends = Ends {
            source: number(headers.source),
            destination: number(headers.destination),
            ports: headers.ports.unwrap_or_default(),
            protocol: headers.protocol,
            is_v6: headers.source.is_ipv6(),
        };
        Self { ends, tos: headers.dscp << 2, tcp_flags: 0 }
    }
}

/// The ports and TCP's flags.
fn upper_of(protocol: u8, upper: &[u8]) -> Option<([u16; 2], u8)> {
    let &[s0, s1, d0, d1] = upper.first_chunk()?;
    let ports = [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])];
    match protocol {
        TCP => Some((ports, *upper.get(TCP_FLAGS)?)),
        UDP => Some((ports, 0)),
        _ => None,
    }
}
