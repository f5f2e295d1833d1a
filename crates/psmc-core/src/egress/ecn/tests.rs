use proptest::prelude::*;

use super::*;

/// Whether the Internet checksum over an IPv4 header comes out (RFC 1071).
fn checks_out(header: &[u8]) -> bool {
    sum(header) == 0xFFFF
}

fn sum(bytes: &[u8]) -> u32 {
    let words: u32 =
        bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (words & 0xFFFF) + (words >> 16);
    (folded & 0xFFFF) + (folded >> 16)
}

/// An IPv4 header with options, and its checksum in order.
fn ipv4(mut bytes: Vec<u8>, words: u8) -> Vec<u8> {
    bytes.truncate(usize::from(words) * 4);
    bytes[0] = 0x40 | words;
    bytes[10..12].fill(0);
    let checksum = !u16::try_from(sum(&bytes)).expect("it is folded");
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    bytes
}

proptest! {
    #[test]
    fn an_ipv4_packet_is_marked_and_nothing_else_is_changed(
        bytes in proptest::collection::vec(any::<u8>(), 60),
        words in 5u8..=15,
        payload in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let header = ipv4(bytes, words);
        let mut packet = [header.clone(), payload].concat();
        let before = packet.clone();
        let marked = mark(&mut packet);
        prop_assert_eq!(marked, before[1] & CE != 0);
        prop_assert!(checks_out(&packet[..header.len()]));
        let mut expected = before.clone();
        if marked {
            expected[1] |= CE;
            expected[10..12].copy_from_slice(&packet[10..12]);
        }
        prop_assert_eq!(packet, expected);
    }

    #[test]
    fn a_wrong_checksum_stays_wrong(bytes in proptest::collection::vec(any::<u8>(), 20), error in 1u16..0xFFFF) {
        let mut packet = ipv4(bytes, 5);
        let wrong = word(&packet, 10) ^ error;
        packet[10..12].copy_from_slice(&wrong.to_be_bytes());
        // Zero has two forms in one's complement: what differs in the form alone is right.
        prop_assume!(!checks_out(&packet));
        mark(&mut packet);
        prop_assert!(!checks_out(&packet));
    }

    #[test]
    fn an_ipv6_packet_is_marked_and_nothing_else_is_changed(mut packet in proptest::collection::vec(any::<u8>(), 40..90)) {
        packet[0] = 0x60 | packet[0] & 0x0F;
        let mut expected = packet.clone();
        let capable = expected[1] & 0x30 != 0;
        if capable {
            expected[1] |= 0x30;
        }
        prop_assert_eq!(mark(&mut packet), capable);
        prop_assert_eq!(packet, expected);
    }

    #[test]
    fn what_is_no_packet_is_left_alone(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..60),
        version in 0u8..16,
    ) {
        let least = match version {
            4 => IPV4_HEADER,
            6 => IPV6_HEADER,
            _ => usize::MAX,
        };
        prop_assume!(bytes.len() < least);
        bytes.first_mut().into_iter().for_each(|first| *first = version << 4 | *first & 0x0F);
        let before = bytes.clone();
        prop_assert!(!mark(&mut bytes));
        prop_assert_eq!(bytes, before);
    }
}
