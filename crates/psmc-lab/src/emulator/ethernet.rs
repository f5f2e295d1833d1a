//! What a link does to the bytes of a frame: it marks congestion, or flips a bit.

use std::net::IpAddr;

use psmc_net::packet::{ETHERNET_HEADER, VLAN_TAG};

/// The two bits of ECN (RFC 3168, section 5): 0 is not capable, 3 is congestion experienced.
const ECN: u8 = 0b11;

/// Whether a queue may mark the frame instead of dropping it.
pub(super) fn can_be_marked(frame: &[u8]) -> bool {
    match IpHeader::of(frame) {
        Some(IpHeader::V4 { start }) => frame[start + 1] & ECN != 0,
        Some(IpHeader::V6 { start }) => frame[start + 1] >> 4 & ECN != 0,
        None => false,
    }
}

/// Marks that congestion was experienced; leaves a frame alone that is not IP.
pub(super) fn mark_congestion(frame: &mut [u8]) {
    match IpHeader::of(frame) {
        Some(IpHeader::V4 { start }) => mark_v4(&mut frame[start..]),
        Some(IpHeader::V6 { start }) => frame[start + 1] |= ECN << 4,
        None => {}
    }
}

/// Where a packet is for; `None` if the frame is not IP.
pub(super) fn destination(frame: &[u8]) -> Option<IpAddr> {
    match IpHeader::of(frame)? {
        IpHeader::V4 { start } => {
            let octets: [u8; 4] = frame[start + 16..start + 20].try_into().ok()?;
            Some(octets.into())
        }
        IpHeader::V6 { start } => {
            let octets: [u8; 16] = frame[start + 24..start + 40].try_into().ok()?;
            Some(octets.into())
        }
    }
}

/// Flips bit number `bit` behind the Ethernet header, taken modulo the number of bits there.
pub(super) fn flip_bit(frame: &mut [u8], bit: u64) {
    let packet = frame.get_mut(ETHERNET_HEADER..).unwrap_or_default();
    let bits = packet.len() as u64 * 8;
    let Some(bit) = bit.checked_rem(bits).and_then(|bit| usize::try_from(bit).ok()) else { return };
    packet[bit / 8] ^= 1 << (bit % 8);
}

/// Where a complete IP header starts.
enum IpHeader {
    V4 { start: usize },
    V6 { start: usize },
}

impl IpHeader {
    fn of(frame: &[u8]) -> Option<Self> {
        match ether_type(frame, ETHERNET_HEADER)? {
            VLAN => Self::at(frame, ETHERNET_HEADER + VLAN_TAG),
            _ => Self::at(frame, ETHERNET_HEADER),
        }
    }

    fn at(frame: &[u8], start: usize) -> Option<Self> {
        let room = frame.len().checked_sub(start)?;
        match ether_type(frame, start)? {
            IPV4 if room >= IPV4_HEADER => Some(Self::V4 { start }),
            IPV6 if room >= IPV6_HEADER => Some(Self::V6 { start }),
            _ => None,
        }
    }
}

/// The EtherType, which stands right in front of what it describes.
fn ether_type(frame: &[u8], start: usize) -> Option<u16> {
    let bytes = frame.get(start - 2..start)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn mark_v4(packet: &mut [u8]) {
    let old = u16::from_be_bytes([packet[0], packet[1]]);
    packet[1] |= ECN;
    let new = u16::from_be_bytes([packet[0], packet[1]]);
    let checksum = u16::from_be_bytes([packet[10], packet[11]]);
    packet[10..12].copy_from_slice(&updated_checksum(checksum, old, new).to_be_bytes());
}

/// RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
fn updated_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    let add = |a: u16, b: u16| {
        let (sum, carry) = a.overflowing_add(b);
        sum + u16::from(carry)
    };
    !add(add(!checksum, !old), new)
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ether_type: u16, packet: &[u8]) -> Vec<u8> {
        [&[0; 12], &ether_type.to_be_bytes()[..], packet].concat()
    }

    fn v4(tos: u8) -> Vec<u8> {
        let mut header = vec![0x45, tos, 0, 20, 1, 2, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        header
    }

    fn v6(traffic_class: u8) -> Vec<u8> {
        let mut header = vec![0; 40];
        header[0] = 0x60 | traffic_class >> 4;
        header[1] = traffic_class << 4;
        header
    }

    /// Zero over a header whose checksum is right.
    fn checksum(header: &[u8]) -> u16 {
        let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        !u16::try_from((folded & 0xffff) + (folded >> 16)).unwrap()
    }

    #[test]
    fn destinations_are_those_of_ip() {
        assert_eq!(destination(&frame(IPV4, &v4(0))), Some([10, 0, 0, 2].into()));
        assert_eq!(destination(&frame(IPV6, &v6(0))), Some([0; 16].into()));
        assert_eq!(destination(&frame(0x0806, &v4(0))), None);
        assert_eq!(destination(&frame(IPV4, &v4(0)[..19])), None);
    }

    #[test]
    fn ipv4_is_marked_and_its_checksum_holds() {
        for tos in 0..=255 {
            let mut marked = frame(IPV4, &v4(tos));
            assert_eq!(can_be_marked(&marked), tos & 3 != 0);
            mark_congestion(&mut marked);
            let header = &marked[ETHERNET_HEADER..];
            assert_eq!(header[1], tos | 3);
            assert_eq!(checksum(header), 0, "tos {tos}");
        }
    }

    #[test]
    fn ipv6_is_marked() {
        for traffic_class in 0..=255 {
            let mut marked = frame(IPV6, &v6(traffic_class));
            assert_eq!(can_be_marked(&marked), traffic_class & 3 != 0);
            mark_congestion(&mut marked);
            assert_eq!(&marked[ETHERNET_HEADER..], v6(traffic_class | 3));
        }
    }

    #[test]
    fn a_tagged_packet_is_marked_like_any_other() {
        let mut tagged = frame(VLAN, &[&[0, 42, 8, 0], &v4(2)[..]].concat());
        assert!(can_be_marked(&tagged));
        mark_congestion(&mut tagged);
        assert_eq!(tagged[ETHERNET_HEADER + VLAN_TAG + 1], 3);
    }

    #[test]
    fn what_is_not_ip_or_is_cut_off_stays_as_it_is() {
        for whole in
            [frame(0x0806, &[0xff; 28]), frame(IPV4, &v4(2)[..19]), frame(IPV6, &v6(2)[..39]), vec![3; 5]]
        {
            let mut marked = whole.clone();
            assert!(!can_be_marked(&marked));
            mark_congestion(&mut marked);
            assert_eq!(marked, whole);
        }
    }

    #[test]
    fn a_flipped_bit_is_the_one_that_was_asked_for() {
        for bit in [0, 1, 8, 159, 160, u64::MAX] {
            let mut flipped = frame(IPV4, &[0; 20]);
            flip_bit(&mut flipped, bit);
            let expected = usize::try_from(bit % 160).unwrap();
            assert_eq!(flipped[ETHERNET_HEADER + expected / 8], 1 << (expected % 8));
            let packet = &flipped[ETHERNET_HEADER..];
            assert_eq!(packet.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        }
    }

    #[test]
    fn a_frame_without_a_packet_has_no_bit_to_flip() {
        for length in [0, 13, 14] {
            let mut frame = vec![7; length];
            flip_bit(&mut frame, 3);
            assert_eq!(frame, vec![7; length]);
        }
    }
}
