use proptest::prelude::*;

use super::*;

const FIN: u8 = 0x01;
const ACK: u8 = 0x10;

/// The sum of the 16-bit words of all parts, one after the other, as RFC 1071 has it: an odd byte at the end is padded.
fn sum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0)));
    let mut sum: u64 = words.sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    u16::try_from(sum).expect("it is folded")
}

/// An IP header, as long as the packet's family and options make it, and the TCP segment behind.
#[derive(Clone, Debug)]
struct Packet {
    /// The source and destination address.
    addresses: Vec<u8>,
    headers: Vec<u8>,
    segment: Vec<u8>,
}

impl Packet {
    /// `words` of IPv4's header, or an IPv6 header with `extensions` behind it; the checksum is put in order.
    fn new(is_v4: bool, words: u8, extensions: usize, addresses: [u8; 32], segment: Vec<u8>) -> Self {
        let addresses = addresses[..if is_v4 { 8 } else { 32 }].to_vec();
        let headers = if is_v4 {
            let len = u16::try_from(usize::from(words) * 4 + segment.len()).expect("a short packet");
            let [high, low] = len.to_be_bytes();
            let mut header =
                [&[0x40 | words, 0, high, low, 0, 7, 0x40, 0, 64, 6, 0, 0], &addresses[..]].concat();
            header.resize(usize::from(words) * 4, 1);
            header
        } else {
            let len = u16::try_from(extensions * 8 + segment.len()).expect("a short packet");
            let [high, low] = len.to_be_bytes();
            let next = |is_last: bool| if is_last { 6 } else { 60 };
            let mut header =
                [&[0x60, 0, 0, 0, high, low, next(extensions == 0), 64], &addresses[..]].concat();
            for left in (0..extensions).rev() {
                header.extend([next(left == 0), 0, 1, 4, 0, 0, 0, 0]);
            }
            header
        };
        let mut packet = Self { addresses, headers, segment };
        packet.segment[16..18].fill(0);
        let checksum = !packet.sum(&packet.segment);
        packet.segment[16..18].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.headers[..], &self.segment].concat()
    }

    /// Over the pseudo-header (RFC 9293 §3.1) and `segment`.
    fn sum(&self, segment: &[u8]) -> u16 {
        let len = u32::try_from(segment.len()).expect("a short segment").to_be_bytes();
        sum(&[&self.addresses, &[0, 0, 0, 6], &len, segment])
    }
}

/// A TCP header with these flags and options, padded, and a payload.
fn segment(flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut options = options.to_vec();
    options.resize(options.len().next_multiple_of(4), 0);
    let words = u8::try_from(5 + options.len() / 4).expect("at most 40 bytes of options");
    let fixed = [0x1f, 0x90, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8, words << 4, flags, 0xff, 0xff, 0, 0, 0, 0];
    [&fixed[..], &options, payload].concat()
}

/// Options that are no MSS: padding, and options of any kind and length.
fn others() -> impl Strategy<Value = Vec<u8>> {
    let other = (3u8.., 0u8..6, any::<u8>())
        .prop_map(|(kind, len, data)| [vec![kind, len + 2], vec![data; len.into()]].concat());
    prop::collection::vec(prop_oneof![Just(vec![1]), other], 0..4).prop_map(|options| options.concat())
}

fn mss_option(mss: u16) -> Vec<u8> {
    [&[MSS, 4][..], &mss.to_be_bytes()].concat()
}

prop_compose! {
    /// A packet with this MSS among other options, at an even place or an odd one, and where in the segment it stands.
    fn syn()(
        is_v4 in any::<bool>(), words in 5u8..=15, extensions in 0usize..4, addresses in any::<[u8; 32]>(),
        acknowledges in any::<bool>(), before in others(), mss in any::<u16>(), after in others(),
        payload in prop::collection::vec(any::<u8>(), 0..20),
    ) -> (Packet, u16, usize) {
        let options: Vec<u8> = [before.clone(), mss_option(mss), after].concat();
        let options = &options[..options.len().min(40)];
        let flags = if acknowledges { SYN | ACK } else { SYN };
        let packet = Packet::new(is_v4, words, extensions, addresses, segment(flags, options, &payload));
        (packet, mss, field::OPTIONS + before.len() + 2)
    }
}

proptest! {
    #[test]
    fn the_mss_and_the_checksum_are_all_that_changes((packet, mss, at) in syn(), new in any::<u16>()) {
        let mut bytes = packet.bytes();
        let found = MssOption::find(&bytes).expect("there is one");
        prop_assert_eq!(found.value, mss);
        found.replace(&mut bytes, Checksum::Complete, new);
        let (headers, changed) = bytes.split_at(packet.headers.len());
        prop_assert_eq!(headers, &packet.headers);
        prop_assert_eq!(packet.sum(changed), 0xFFFF);
        let mut expected = packet.segment.clone();
        expected[at..at + 2].copy_from_slice(&new.to_be_bytes());
        expected[16..18].copy_from_slice(&changed[16..18]);
        prop_assert_eq!(changed, &expected);
        prop_assert_eq!(MssOption::find(&bytes), Some(MssOption { value: new, ..found }));
    }

    #[test]
    fn a_wrong_checksum_stays_wrong((packet, mss, _) in syn(), new in any::<u16>(), error in 1u16..0xFFFF) {
        let mut wrong = packet;
        let checksum = word(&wrong.segment, field::CHECKSUM) ^ error;
        wrong.segment[16..18].copy_from_slice(&checksum.to_be_bytes());
        // Zero has two forms in one's complement: what differs in the form alone is right.
        prop_assume!(wrong.sum(&wrong.segment) != 0xFFFF && mss != new);
        let mut bytes = wrong.bytes();
        MssOption::find(&bytes).expect("there is one").replace(&mut bytes, Checksum::Complete, new);
        prop_assert_ne!(wrong.sum(&bytes[wrong.headers.len()..]), 0xFFFF);
    }

    #[test]
    fn a_partial_checksum_stays_as_it_is((packet, _, at) in syn(), new in any::<u16>()) {
        let mut bytes = packet.bytes();
        MssOption::find(&bytes).expect("there is one").replace(&mut bytes, Checksum::Partial, new);
        let mut expected = packet.segment.clone();
        expected[at..at + 2].copy_from_slice(&new.to_be_bytes());
        prop_assert_eq!(&bytes[packet.headers.len()..], &expected);
    }

    #[test]
    fn what_is_no_syn_has_none((packet, ..) in syn(), flags in any::<u8>()) {
        let mut bytes = packet.bytes();
        bytes[packet.headers.len() + field::FLAGS] = flags;
        prop_assert_eq!(MssOption::find(&bytes).is_some(), flags & SYN != 0);
    }

    #[test]
    fn no_options_panic(options in prop::collection::vec(0u8..6, 0..=40), cut in 0usize..60) {
        let segment = segment(SYN | FIN, &options, &[]);
        let segment = &segment[..segment.len() - cut.min(segment.len())];
        for is_v4 in [true, false] {
            let headers = Packet::new(is_v4, 5, 0, [0; 32], vec![0; segment.len().max(18)]).headers;
            let mut bytes = [&headers[..], segment].concat();
            let len = u16::try_from(segment.len() + if is_v4 { 20 } else { 0 }).expect("a short packet");
            let at = if is_v4 { 2 } else { 4 };
            bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
            if let Some(found) = MssOption::find(&bytes) {
                found.replace(&mut bytes, Checksum::Complete, 1);
                prop_assert_eq!(MssOption::find(&bytes).map(|option| option.value), Some(1));
            }
        }
    }
}

#[test]
fn what_cannot_be_trusted_is_left_alone() {
    let find = |options: &[u8]| {
        let packet = Packet::new(true, 5, 0, [7; 32], segment(SYN, options, &[0; 8]));
        MssOption::find(&packet.bytes()).map(|option| option.value)
    };
    assert_eq!(find(&mss_option(1460)), Some(1460));
    assert_eq!(find(&[MSS, 3, 5, 180]), None, "another length");
    assert_eq!(find(&[&[0], &mss_option(1460)[..]].concat()), None, "behind the end");
    assert_eq!(find(&[&[3, 0], &mss_option(1460)[..]].concat()), None, "behind an option without end");
    assert_eq!(find(&[1, 1, 1, MSS]), None, "cut off");
    assert_eq!(find(&[]), None);
    // The first fragment of a segment: the checksum covers what is not here.
    let mut fragment = Packet::new(true, 5, 0, [7; 32], segment(SYN, &mss_option(1460), &[])).bytes();
    fragment[6] = 0x20;
    assert_eq!(MssOption::find(&fragment), None);
}

#[test]
fn the_mss_counts_what_follows_both_headers() {
    for (is_v4, words, extensions, headers) in [(true, 5, 0, 40), (true, 15, 0, 40), (false, 5, 2, 60)] {
        let packet =
            Packet::new(is_v4, words, extensions, [7; 32], segment(SYN, &mss_option(1460), &[])).bytes();
        assert_eq!(MssOption::find(&packet).expect("there is one").within(1196), 1196 - headers);
    }
}
