//! What a link knows of a packet, and what it does to one.

use std::time::Instant;

/// What a link must know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// Its bytes, from the IP header on.
    pub len: usize,
    /// Whether it says that it can be marked instead of dropped (ECN, RFC 3168).
    pub ecn_capable: bool,
    /// Its drop precedence (RFC 2597), of which packets with 0 are dropped last. Only
    /// [`Discipline::Rio`](super::Discipline::Rio) looks at it.
    pub precedence: u8,
    /// Its flow: equal for packets of one flow, and as good as random otherwise. Only
    /// [`Discipline::FqCoDel`](super::Discipline::FqCoDel) looks at it.
    pub flow: u32,
}

/// A packet at the far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<P> {
    /// The packet.
    pub packet: P,
    /// When it arrives, in logical time; never later than the `now` it was polled with.
    pub at: Instant,
    /// How often the far end sees it: 2 for a duplicated one.
    pub copies: u8,
    /// The bit to be flipped in it, if it gets corrupted: counted from the IP header on, below eight times its
    /// length.
    pub corrupt_bit: Option<u64>,
    /// Whether the queue has marked it, which only happens to a packet that is ECN-capable.
    pub congestion_experienced: bool,
}

impl PacketInfo {
    /// A packet of this length that can't be marked, is dropped last, and is of one flow with all others.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self { len, ecn_capable: false, precedence: 0, flow: 0 }
    }

    /// What the header of an IP packet says of ECN; other bytes can't be marked.
    #[must_use]
    pub fn of_ip(packet: &[u8]) -> Self {
        let ecn_capable = ecn(packet).is_some_and(|ecn| ecn != NOT_ECN_CAPABLE);
        Self { ecn_capable, ..Self::new(packet.len()) }
    }
}

impl<P> Arrival<P> {
    /// Does to the bytes of an IP packet what the link has done to it: marks it, and flips a bit.
    pub fn apply_to(&self, packet: &mut [u8]) {
        if self.congestion_experienced {
            mark(packet);
        }
        let Some(bit) = self.corrupt_bit else { return };
        let byte = usize::try_from(bit / 8).ok().and_then(|index| packet.get_mut(index));
        if let Some(byte) = byte {
            *byte ^= 0x80 >> (bit % 8);
        }
    }
}

/// The codepoint (RFC 3168, section 5) of a packet whose sender doesn't know ECN.
const NOT_ECN_CAPABLE: u8 = 0b00;

const CONGESTION_EXPERIENCED: u8 = 0b11;

/// Where the codepoint is in the second byte of an IP header: a shift.
fn ecn_shift(packet: &[u8]) -> Option<u32> {
    match packet.first()? >> 4 {
        4 if packet.len() >= IPV4_HEADER => Some(0),
        6 if packet.len() >= 2 => Some(4),
        _ => None,
    }
}

fn ecn(packet: &[u8]) -> Option<u8> {
    let shift = ecn_shift(packet)?;
    Some(packet[1] >> shift & CONGESTION_EXPERIENCED)
}

/// Sets the codepoint, and updates the checksum of an IPv4 header (RFC 1624).
fn mark(packet: &mut [u8]) {
    let Some(shift) = ecn_shift(packet) else { return };
    let before = u16::from_be_bytes([packet[0], packet[1]]);
    packet[1] |= CONGESTION_EXPERIENCED << shift;
    if packet[0] >> 4 == 4 {
        let after = u16::from_be_bytes([packet[0], packet[1]]);
        let checksum = u16::from_be_bytes([packet[10], packet[11]]);
        let updated = !ones_sum(ones_sum(!checksum, !before), after);
        packet[10..12].copy_from_slice(&updated.to_be_bytes());
    }
}

/// The sum in one's complement.
fn ones_sum(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

/// The shortest header of IPv4.
const IPV4_HEADER: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of IPv4 with this second byte, which names no options, and some payload.
    fn ipv4(tos: u8) -> Vec<u8> {
        let mut packet =
            vec![0x45, tos, 0, 24, 1, 2, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 9, 9, 9, 9];
        let checksum = !header_sum(&packet);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    fn header_sum(packet: &[u8]) -> u16 {
        packet[..20].chunks(2).map(|word| u16::from_be_bytes([word[0], word[1]])).fold(0, ones_sum)
    }

    fn arrival(corrupt_bit: Option<u64>, congestion_experienced: bool) -> Arrival<()> {
        Arrival { packet: (), at: Instant::now(), copies: 1, corrupt_bit, congestion_experienced }
    }

    #[test]
    fn packets_say_whether_they_can_be_marked() {
        for (codepoint, ecn_capable) in [(0b00, false), (0b01, true), (0b10, true), (0b11, true)] {
            let expected = PacketInfo { ecn_capable, ..PacketInfo::new(24) };
            assert_eq!(PacketInfo::of_ip(&ipv4(0xb8 | codepoint)), expected);
            let mut ipv6 = vec![0; 24];
            (ipv6[0], ipv6[1]) = (0x6b, codepoint << 4 | 0x8f);
            assert_eq!(PacketInfo::of_ip(&ipv6), expected);
        }
    }

    #[test]
    fn what_is_not_ip_can_not_be_marked() {
        for bytes in [&[][..], &[0x45, 2], &[0x60], &[0x15, 2, 0, 0]] {
            assert_eq!(PacketInfo::of_ip(bytes), PacketInfo::new(bytes.len()));
            let mut marked = bytes.to_vec();
            arrival(None, true).apply_to(&mut marked);
            assert_eq!(marked, bytes);
        }
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        for tos in 0..=u8::MAX {
            let mut packet = ipv4(tos);
            arrival(None, true).apply_to(&mut packet);
            assert_eq!(packet[1], tos | 0b11);
            assert_eq!(header_sum(&packet), 0xffff);
        }
    }

    #[test]
    fn a_mark_of_ipv6_is_in_the_traffic_class() {
        let mut packet = vec![0x6b, 0x8f, 1, 2];
        arrival(None, true).apply_to(&mut packet);
        assert_eq!(packet, [0x6b, 0xbf, 1, 2]);
    }

    #[test]
    fn corruption_flips_one_bit() {
        let mut packet = vec![0; 3];
        arrival(Some(8), false).apply_to(&mut packet);
        assert_eq!(packet, [0, 0x80, 0]);
        arrival(Some(23), false).apply_to(&mut packet);
        assert_eq!(packet, [0, 0x80, 1]);
        arrival(Some(24), false).apply_to(&mut packet);
        assert_eq!(packet, [0, 0x80, 1]);
    }
}
