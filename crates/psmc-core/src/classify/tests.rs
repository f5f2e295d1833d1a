use proptest::prelude::*;

use super::*;

mod packets;

use packets::{Flow, Varying, extended, flow, ipv4, ipv6, packet, plain, tcp_v4, udp_v6, varying};

const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908];
const TCP: u8 = 6;
const UDP: u8 = 17;
const MORE_FRAGMENTS: u16 = 0x2000;

proptest! {
    #[test]
    fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..120), version in 3u8..8) {
        prop_assert_eq!(source(&bytes), classify(&bytes, KEY).map(|class| class.source));
        if let Some(first) = bytes.first_mut() {
            *first = version << 4 | (*first & 0x0F);
            prop_assert_eq!(source(&bytes), classify(&bytes, KEY).map(|class| class.source));
        }
    }

    #[test]
    fn no_ipv6_payload_panics(next in any::<u8>(), payload in prop::collection::vec(0u8..64, 0..120)) {
        let flow = udp_v6([0; 4]);
        let classified = classify(&ipv6(&flow, &plain(), next, &payload), KEY).unwrap();
        prop_assert_eq!(classified.source, flow.source);
    }

    #[test]
    fn packets_of_a_flow_share_what_matters(flow in flow(), one in varying(), other in varying()) {
        let of = |varying: &Varying| classify(&packet(&flow, varying), KEY).unwrap();
        let dscp = other.traffic_class >> 2;
        let (one, other) = (of(&one), of(&other));
        prop_assert_eq!(other.dscp, dscp);
        // Payloads differ, and what they look like with them.
        let (quic, is_ce) = (other.quic, other.is_ce);
        prop_assert_eq!(Classified { dscp, is_ce, quic, ..one }, other);
        prop_assert_eq!((one.source, one.destination), (flow.source, flow.destination));
        prop_assert_eq!(source(&packet(&flow, &plain())), Ok(flow.source));
        prop_assert_eq!(one.protocol, flow.protocol);
    }

    #[test]
    fn a_tcp_connection_is_in_the_bucket_of_its_packets(flow in flow(), varying in varying()) {
        let flow = Flow { protocol: TCP, ..flow };
        let [s0, s1, d0, d1] = flow.ports;
        let source = SocketAddr::new(flow.source, u16::from_be_bytes([s0, s1]));
        let destination = SocketAddr::new(flow.destination, u16::from_be_bytes([d0, d1]));
        let expected = classify(&packet(&flow, &varying), KEY).unwrap().bucket;
        prop_assert_eq!(bucket_of_tcp(source, destination, KEY), expected);
    }

    #[test]
    fn a_packet_of_another_length_than_it_says_is_rejected(
        flow in flow(), varying in varying(), cut in any::<prop::sample::Index>(), extra in 1usize..30,
    ) {
        let whole = packet(&flow, &varying);
        let cut = &whole[..cut.index(whole.len())];
        prop_assert!(classify(cut, KEY).is_err());
        prop_assert_eq!(source(cut).err(), classify(cut, KEY).err());
        let stated = whole.len();
        let mut padded = whole;
        padded.resize(stated + extra, 0);
        prop_assert_eq!(classify(&padded, KEY), Err(BadPacket::Length { stated, actual: stated + extra }));
    }

    #[test]
    fn all_fragments_of_a_datagram_share_a_bucket(ports in any::<[u8; 4]>(), offset in 1u16..0x2000) {
        let flow = tcp_v4(ports);
        let of = |fragment, payload: &[u8]| classify(&ipv4(&flow, &plain(), fragment, payload), KEY).unwrap();
        let first = of(MORE_FRAGMENTS, &[&ports[..], &[0; 12]].concat());
        prop_assert_eq!(first, of(MORE_FRAGMENTS | offset, &[1; 32]));
        prop_assert_eq!(first, of(offset, &[2; 9]));
        prop_assert!(first.ordered);
    }

    #[test]
    fn fragments_are_found_in_ipv6(ports in any::<[u8; 4]>(), offset in 1u16..0x2000) {
        let flow = udp_v6(ports);
        let of = |fragment: u16, payload: &[u8]| {
            let [high, low] = fragment.to_be_bytes();
            let bytes = [&[UDP, 0, high, low, 1, 2, 3, 4][..], payload].concat();
            classify(&ipv6(&flow, &plain(), 44, &bytes), KEY).unwrap()
        };
        let first = of(1, &[&ports[..], &[0; 4]].concat());
        prop_assert_eq!(first, of(offset << 3 | 1, &[1; 32]));
        prop_assert_eq!(first, of(offset << 3, &[2; 9]));
        // An atomic fragment is a whole datagram, whatever its reserved bits are.
        let payload = [&ports[..], &[0; 4]].concat();
        prop_assert_eq!(of(6, &payload), of(0, &payload));
        prop_assert_eq!(of(0, &payload), classify(&ipv6(&flow, &plain(), UDP, &payload), KEY).unwrap());
    }
}

#[test]
fn flows_spread_over_the_buckets() {
    let buckets: std::collections::BTreeSet<_> = (0..4096u32)
        .map(|n| classify(&packet(&tcp_v4(n.to_be_bytes()), &plain()), KEY).unwrap().bucket.number())
        .collect();
    // With a perfect hash, 1 - 1/e of the buckets are hit: 2589, give or take a standard deviation of 31.
    assert!((2400..2800).contains(&buckets.len()), "{} buckets", buckets.len());
}

#[test]
fn another_key_means_another_bucket() {
    let buckets: std::collections::BTreeSet<_> = (0..16)
        .map(|key| classify(&packet(&tcp_v4([0; 4]), &plain()), [key, 0]).unwrap().bucket.number())
        .collect();
    assert!(buckets.len() > 10);
}

#[test]
fn the_protocol_tells_flows_apart() {
    let bucket = |protocol| {
        let flow = Flow { protocol, ..tcp_v4([1; 4]) };
        classify(&packet(&flow, &plain()), KEY).unwrap().bucket
    };
    assert_ne!(bucket(TCP), bucket(UDP));
}

#[test]
fn extension_headers_are_as_long_as_they_say() {
    let flow = udp_v6([0, 1, 0, 2]);
    let hop_by_hop = [&[51, 1][..], &[0; 14]].concat();
    let authentication = [&[UDP, 4][..], &[0; 22]].concat();
    let behind_both = [&hop_by_hop[..], &authentication, &flow.ports, &[0; 4]].concat();
    let bare = [&flow.ports[..], &[0; 4]].concat();
    let class = |next_header, payload: &[u8]| classify(&ipv6(&flow, &plain(), next_header, payload), KEY);
    assert_eq!(class(0, &behind_both), class(UDP, &bare));
}

#[test]
fn order_is_for_transports_that_take_reordering_for_loss() {
    let ordered = |protocol, source: u16, destination: u16| {
        let [[a, b], [c, d]] = [source, destination].map(u16::to_be_bytes);
        let flow = Flow { protocol, ..tcp_v4([a, b, c, d]) };
        classify(&packet(&flow, &plain()), KEY).unwrap().ordered
    };
    for protocol in [TCP, 33, 132] {
        assert!(ordered(protocol, 1, 2), "{protocol}");
    }
    for (source, destination) in [(443, 50_000), (50_000, 443), (853, 1), (1, 853)] {
        assert!(ordered(UDP, source, destination));
    }
    assert!(!ordered(UDP, 53, 50_000));
    for protocol in [1, 4, 47, 50, 136, 255] {
        assert!(!ordered(protocol, 443, 443), "{protocol}");
    }
}

#[test]
fn echoes_are_told_apart_by_their_identifier() {
    let echo = |protocol, kind, id: u8, seq: u8| {
        let payload = [kind, 0, 0, 0, 0, id, 0, seq];
        let bytes = match protocol {
            1 => ipv4(&Flow { protocol, ..tcp_v4([0; 4]) }, &plain(), 0, &payload),
            _ => ipv6(&udp_v6([0; 4]), &plain(), protocol, &payload),
        };
        classify(&bytes, KEY).unwrap().bucket
    };
    for (protocol, request) in [(1, 8), (58, 128)] {
        assert_eq!(echo(protocol, request, 1, 1), echo(protocol, request, 1, 2));
        assert_ne!(echo(protocol, request, 1, 1), echo(protocol, request, 2, 1));
    }
    // Type 3 is an error, whose fifth byte is no identifier.
    assert_eq!(echo(1, 3, 1, 1), echo(1, 3, 2, 1));
}

#[test]
fn a_chain_of_more_than_eight_extension_headers_is_of_no_known_protocol() {
    let flow = udp_v6([1, 187, 1, 187]);
    let classified = |options| {
        let bytes = ipv6(&flow, &plain(), 60, &extended(&flow, options, &flow.ports));
        classify(&bytes, KEY).unwrap()
    };
    assert_eq!((classified(8).protocol, classified(8).ordered), (UDP, true));
    assert_eq!((classified(9).protocol, classified(9).ordered), (60, false));
}

#[test]
fn what_is_no_ip_packet_is_rejected_with_its_fault() {
    let error = |bytes: &[u8]| classify(bytes, KEY).unwrap_err();
    assert_eq!(error(&[]), BadPacket::Truncated(0));
    assert_eq!(error(&[0x45; 19]), BadPacket::Truncated(19));
    assert_eq!(error(&[0x60; 39]), BadPacket::Truncated(39));
    assert_eq!(error(&[0x50; 60]), BadPacket::Version(5));
    assert_eq!(error(&[0x44; 60]), BadPacket::HeaderLength(16));
    let mut bare = packet(&tcp_v4([0; 4]), &plain());
    bare.truncate(20);
    bare[2..4].copy_from_slice(&20u16.to_be_bytes());
    assert!(classify(&bare, KEY).is_ok());
    bare[0] = 0x46;
    assert_eq!(error(&bare), BadPacket::Truncated(20));
    assert_eq!(
        BadPacket::Length { stated: 2, actual: 1 }.to_string(),
        "the ip header states 2 bytes, the packet has 1"
    );
}
