//! A view of one IPv4 packet, and what a router does to it.

use std::net::Ipv4Addr;

use thiserror::Error;

use super::{ECN_BITS, Ecn, checksum};
use crate::fields::Malformed;

/// Length in bytes of a header without options.
pub const IPV4_HEADER_LEN: usize = 20;

/// The protocol number of IPv4 in IPv4 (RFC 2003).
pub const PROTOCOL_IPIP: u8 = 4;

/// The protocol number of ICMP (RFC 792).
pub const PROTOCOL_ICMP: u8 = 1;

/// The protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;

/// Where fields are in a header.
mod at {
    pub(super) const TOS: usize = 1;
    pub(super) const FRAGMENT: usize = 6;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: usize = 10;
}

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// A whole IPv4 packet with a correct header. What follows the header may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4<'a> {
    bytes: &'a [u8],
    header_len: usize,
}

/// The packet has passed as many routers as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the time to live has expired")]
pub struct TtlExpired;

impl<'a> Ipv4<'a> {
    /// Reads the packet at the front of `bytes`.
    ///
    /// # Errors
    /// [`Malformed`] if it is another version, is not there as a whole, or has a wrong checksum.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let quoted = Self::parse_quoted(bytes)?;
        if quoted.bytes.len() < quoted.total_len() { Err(Malformed::Truncated) } else { Ok(quoted) }
    }

    /// Reads a packet of which only the front need be there, as in an ICMP error: the header, and what follows as far as
    /// it goes.
    ///
    /// # Errors
    /// [`Malformed`] if it is another version, its header is not there as a whole, or has a wrong checksum.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let first = *bytes.first().ok_or(Malformed::Truncated)?;
        if first >> 4 != 4 {
            return Err(Malformed::Illegal("IP version"));
        }
        let header_len = usize::from(first & 0x0f) * 4;
        let header = bytes.get(..header_len).ok_or(Malformed::Truncated)?;
        if header_len < IPV4_HEADER_LEN {
            return Err(Malformed::Illegal("header length"));
        }
        let total = usize::from(word(header, 2));
        if total < header_len {
            return Err(Malformed::Illegal("total length"));
        }
        if checksum::of(&[header]) != 0 {
            return Err(Malformed::Illegal("checksum"));
        }
        Ok(Self { bytes: bytes.get(..total).unwrap_or(bytes), header_len })
    }

    /// Length in bytes of the whole packet, as its header says.
    #[must_use]
    pub fn total_len(&self) -> usize {
        word(self.bytes, 2).into()
    }

    /// All of it that is there.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Length in bytes of the header, options included.
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.header_len
    }

    /// What follows the header.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[self.header_len..]
    }

    /// Who sent it, as it says.
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        self.address(12)
    }

    /// For whom it is.
    #[must_use]
    pub fn destination(&self) -> Ipv4Addr {
        self.address(16)
    }

    /// What follows the header, by number.
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.bytes[at::PROTOCOL]
    }

    /// Through how many more routers it may pass.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.bytes[at::TTL]
    }

    /// The type of service: differentiated services and the congestion mark.
    #[must_use]
    pub fn tos(&self) -> u8 {
        self.bytes[at::TOS]
    }

    /// The congestion mark.
    #[must_use]
    pub fn ecn(&self) -> Ecn {
        Ecn::of(self.tos())
    }

    /// Whether no router may cut it.
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        word(self.bytes, at::FRAGMENT) & DONT_FRAGMENT != 0
    }

    /// Whether it is a piece of a packet.
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        word(self.bytes, at::FRAGMENT) & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Whether it is a piece of a packet other than the first.
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        self.fragment_offset() != 0
    }

    /// Where in the packet that was cut it belongs, in units of 8 bytes.
    pub(super) fn fragment_offset(&self) -> u16 {
        word(self.bytes, at::FRAGMENT) & FRAGMENT_OFFSET
    }

    /// Whether it is a piece of a packet, and not the last one.
    pub(super) fn has_more_fragments(&self) -> bool {
        word(self.bytes, at::FRAGMENT) & MORE_FRAGMENTS != 0
    }

    /// The options of the header.
    pub(super) fn options(&self) -> &'a [u8] {
        &self.bytes[IPV4_HEADER_LEN..self.header_len]
    }

    fn address(&self, at: usize) -> Ipv4Addr {
        let bytes = self.bytes;
        Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
    }
}

/// What a header without options says.
pub(super) struct Header {
    pub(super) tos: u8,
    pub(super) total_len: u16,
    pub(super) dont_fragment: bool,
    pub(super) ttl: u8,
    pub(super) protocol: u8,
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
}

impl Header {
    /// The bytes. The identification is 0: of a packet that no router may cut it says nothing (RFC 6864, section 4.1),
    /// and for others the kernel fills it in.
    pub(super) fn to_bytes(&self) -> [u8; IPV4_HEADER_LEN] {
        let mut bytes = [0; IPV4_HEADER_LEN];
        bytes[0] = 0x45;
        bytes[at::TOS] = self.tos;
        put(&mut bytes, 2, self.total_len);
        put(&mut bytes, at::FRAGMENT, if self.dont_fragment { DONT_FRAGMENT } else { 0 });
        bytes[at::TTL] = self.ttl;
        bytes[at::PROTOCOL] = self.protocol;
        bytes[12..16].copy_from_slice(&self.source.octets());
        bytes[16..].copy_from_slice(&self.destination.octets());
        let sum = checksum::of(&[&bytes]);
        put(&mut bytes, at::CHECKSUM, sum);
        bytes
    }
}

/// Does what a router does to a packet that it forwards: one less to live, and the checksum with it.
///
/// # Errors
/// [`TtlExpired`] if it may go no further; it is as it was.
///
/// # Panics
/// If `packet` is no packet that [`Ipv4::parse`] has accepted.
pub fn forward(packet: &mut [u8]) -> Result<(), TtlExpired> {
    let ttl = packet[at::TTL].checked_sub(1).filter(|ttl| *ttl > 0).ok_or(TtlExpired)?;
    change(packet, at::TTL, ttl);
    Ok(())
}

/// Has a header say that its packet is a piece of another: where it belongs there, in units of 8 bytes, whether it is not
/// the last, and how long it is. The checksum is made anew.
pub(super) fn set_fragment(header: &mut [u8], offset: u16, more: bool, total_len: u16) {
    // The length is at most 60 bytes, so that a fourth of it fits.
    header[0] = 0x40 | u8::try_from(header.len() / 4).unwrap_or(0x0f);
    put(header, 2, total_len);
    put(header, at::FRAGMENT, offset | if more { MORE_FRAGMENTS } else { 0 });
    put(header, at::CHECKSUM, 0);
    let sum = checksum::of(&[header]);
    put(header, at::CHECKSUM, sum);
}

/// Gives a packet another congestion mark.
pub(super) fn set_ecn(packet: &mut [u8], ecn: Ecn) {
    change(packet, at::TOS, packet[at::TOS] & !ECN_BITS | ecn as u8);
}

/// Changes one byte of a header, and the checksum with it.
fn change(packet: &mut [u8], index: usize, byte: u8) {
    let old = word(packet, index / 2 * 2);
    packet[index] = byte;
    let sum = checksum::updated(word(packet, at::CHECKSUM), old, word(packet, index / 2 * 2));
    put(packet, at::CHECKSUM, sum);
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, word: u16) {
    bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
}
