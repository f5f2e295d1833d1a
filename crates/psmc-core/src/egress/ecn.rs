//! Explicit congestion notification of inner packets (RFC 3168).

use psmc_wire::ip::checksum;

/// Both bits of the field: congestion experienced.
const CE: u8 = 0b11;

/// Bytes of an IPv4 header without options.
const IPV4_HEADER: usize = 20;

/// Bytes of the fixed IPv6 header.
const IPV6_HEADER: usize = 40;

/// Marks a packet as having experienced congestion, if its sender understands that. Says whether it is marked:
/// otherwise it has to be dropped, and not a bit of it was changed.
///
/// ECT(1) is treated as ECT(0) (RFC 3168 §5): the shallow threshold that RFC 9331 would have for it needs a
/// queue of its own.
pub(super) fn mark(packet: &mut [u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= IPV4_HEADER => mark_ipv4(packet),
        Some(6) if packet.len() >= IPV6_HEADER => mark_ipv6(packet),
        Some(_) | None => false,
    }
}

fn mark_ipv4(packet: &mut [u8]) -> bool {
    let codepoint = packet[1] & CE;
    let old = word(packet, 0);
    if codepoint == 0 {
        return false;
    }
    packet[1] |= CE;
    let sum = checksum::updated(word(packet, 10), old, word(packet, 0));
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    true
}

/// The traffic class is the four bits behind the version and the next four; IPv6 has no checksum over it.
fn mark_ipv6(packet: &mut [u8]) -> bool {
    let codepoint = packet[1] >> 4 & CE;
    if codepoint == 0 {
        return false;
    }
    packet[1] |= CE << 4;
    true
}

fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

#[cfg(test)]
mod tests;
