//! Assured forwarding: the code points that say a drop precedence to routers (RFC 2597).

use psmc_wire::ip::checksum;

use super::Precedence;

/// Bytes of an IPv4 header without options.
const IPV4_HEADER: usize = 20;

/// Bytes of the fixed IPv6 header.
const IPV6_HEADER: usize = 40;

/// One of the four classes of assured forwarding, AF1 to AF4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssuredClass(u8);

impl AssuredClass {
    /// The class of this number, 1 to 4.
    #[must_use]
    pub fn new(number: u8) -> Option<Self> {
        (1..=4).contains(&number).then_some(Self(number))
    }

    /// 1 to 4.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// The code point of a precedence: AF11 is 10, AF43 is 38 (RFC 2597 §6).
    #[must_use]
    pub fn dscp(self, precedence: Precedence) -> u8 {
        self.0 * 8 + (precedence.number() + 1) * 2
    }
}

/// Writes a code point into the header of an IP packet. The two bits behind it are ECN's, and stay as they are (RFC 3168 §5).
pub(crate) fn set_dscp(packet: &mut [u8], dscp: u8) {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= IPV4_HEADER => {
            let before = word(packet, 0);
            packet[1] = dscp << 2 | packet[1] & 0b11;
            let sum = checksum::updated(word(packet, 10), before, word(packet, 0));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if packet.len() >= IPV6_HEADER => {
            packet[0] = packet[0] & 0xF0 | dscp >> 2;
            packet[1] = packet[1] & 0x3F | dscp << 6;
        }
        Some(_) | None => {}
    }
}

fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn code_points_are_those_of_rfc_2597() {
        let all = (1..=4).filter_map(AssuredClass::new);
        let points: Vec<_> =
            all.flat_map(|class| Precedence::ALL.map(|precedence| class.dscp(precedence))).collect();
        assert_eq!(points, [10, 12, 14, 18, 20, 22, 26, 28, 30, 34, 36, 38]);
        assert!([0, 5, 255].into_iter().all(|number| AssuredClass::new(number).is_none()));
    }

    proptest! {
        /// Of whatever packet: only the six bits change, and of an IPv4 header the checksum, which is right if it was.
        #[test]
        fn ecn_bits_are_never_altered(
            mut packet in prop::collection::vec(any::<u8>(), 0..80),
            is_v6: bool,
            dscp in 0..64u8,
        ) {
            if let Some(first) = packet.first_mut() {
                *first = if is_v6 { 0x60 | *first & 0xF } else { 0x45 };
            }
            if !is_v6 && packet.len() >= IPV4_HEADER {
                packet[10..12].fill(0);
                let sum = checksum::of(&[&packet[..IPV4_HEADER]]);
                packet[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            let before = packet.clone();
            set_dscp(&mut packet, dscp);
            let least = if is_v6 { IPV6_HEADER } else { IPV4_HEADER };
            if packet.len() < least {
                prop_assert_eq!(packet, before);
                return Ok(());
            }
            let class_of = |packet: &[u8]| if is_v6 { packet[0] << 4 | packet[1] >> 4 } else { packet[1] };
            prop_assert_eq!(class_of(&packet) & 0b11, class_of(&before) & 0b11);
            prop_assert_eq!(class_of(&packet) >> 2, dscp);
            prop_assert_eq!(packet[0] >> 4, before[0] >> 4);
            let (untouched, from) = if is_v6 { (packet[1] & 0xF, 2) } else { (before[1] & 0xF, 12) };
            prop_assert_eq!(untouched, before[1] & 0xF);
            prop_assert_eq!(&packet[from..], &before[from..]);
            if !is_v6 {
                prop_assert_eq!(&packet[2..10], &before[2..10]);
                prop_assert_eq!(checksum::of(&[&packet[..IPV4_HEADER]]), 0);
            }
        }
    }
}
