//! The maximum segment size of inner TCP connections (RFC 9293 §3.7.1), lowered so that their packets need not be cut.

use psmc_wire::Checksum;
use psmc_wire::ip::{checksum, tcp};

use crate::classify::{self, TcpHeader};

/// What becomes of the MSS option in the SYN and SYN-ACK segments of inner TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ClampMss {
    /// It is lowered to what the path with the smallest datagrams carries in one piece.
    #[default]
    Auto,
    /// It stays as it is.
    Off,
    /// It is lowered to this many bytes.
    To(u16),
}

/// What is in the fixed part of a TCP header (RFC 9293 §3.1), by its place there.
mod field {
    pub(super) const DATA_OFFSET: usize = 12;
    pub(super) const FLAGS: usize = 13;
    pub(super) const CHECKSUM: usize = 16;
    pub(super) const OPTIONS: usize = 20;
}

/// The flag of the first segment in each direction.
const SYN: u8 = 0x02;

/// The kind of the MSS option (RFC 9293 §3.2).
const MSS: u8 = 2;

/// The MSS option of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MssOption {
    /// The MSS.
    pub(crate) value: u16,
    /// Where in the packet the TCP header begins.
    header: usize,
    /// Where in the TCP header the MSS stands: at any place, even or odd.
    offset: usize,
    /// Bytes that IP's and TCP's headers take without options: the MSS counts what follows them, and their options
    /// (RFC 6691 §2).
    headers: usize,
}

impl MssOption {
    /// Looks for the option. Only a SYN has one, so this ends early with other packets.
    pub(crate) fn find(packet: &[u8]) -> Option<Self> {
        let TcpHeader { at: header, ip_len } = classify::tcp_header(packet)?;
        let tcp = packet.get(header..)?;
        if tcp.get(field::FLAGS)? & SYN == 0 {
            return None;
        }
        let end = usize::from(tcp[field::DATA_OFFSET] >> 4) * 4;
        let options = tcp.get(field::OPTIONS..end)?;
        let offset = field::OPTIONS + find_value(options)?;
        Some(Self { value: word(tcp, offset), header, offset, headers: ip_len + field::OPTIONS })
    }

    /// The MSS of a connection whose packets shall not be longer than `packet_len`.
    pub(crate) fn within(&self, packet_len: usize) -> u16 {
        u16::try_from(packet_len.saturating_sub(self.headers)).unwrap_or(u16::MAX)
    }

    /// Replaces the MSS of `packet`, in which this option was found. A checksum that was right stays right, and one
    /// that was wrong stays wrong; a partial one does not cover it yet.
    pub(crate) fn replace(&self, packet: &mut [u8], checksum: Checksum, mss: u16) {
        let Some(tcp) = packet.get_mut(self.header..) else { return };
        if checksum == Checksum::Complete {
            self.update_checksum(tcp, mss);
        }
        tcp[self.offset..self.offset + 2].copy_from_slice(&mss.to_be_bytes());
    }

    fn update_checksum(&self, tcp: &mut [u8], mss: u16) {
        // At an odd place the value's halves stand in two words: swapped, they add to their sum what they do there
        // (RFC 1071 §2, "byte order independence").
        let placed = |value: u16| if self.offset.is_multiple_of(2) { value } else { value.swap_bytes() };
        let checksum =
            checksum::updated(word(tcp, field::CHECKSUM), placed(self.value), placed(mss)).to_be_bytes();
        tcp[field::CHECKSUM..field::CHECKSUM + 2].copy_from_slice(&checksum);
    }
}

/// Where among the options the value of the first MSS option is, if they are well-formed up to it.
fn find_value(options: &[u8]) -> Option<usize> {
    let first = tcp::options(options).find(|option| option.kind == MSS)?;
    (first.value.len() == 2).then_some(first.at)
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests;
