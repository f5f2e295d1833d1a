use proptest::prelude::*;

use super::*;

const CLIENT: [&str; 2] = ["10.1.0.1", "fd01::1"];
const SERVER: [&str; 2] = ["10.2.0.1", "fd02::1"];

/// A segment from the client's port 40000 to the server's port 80, of IPv6 or IPv4, with this class of traffic.
fn packet(is_v6: bool, class: u8, flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let words = u8::try_from((HEADER_LEN + options.len()) / 4).unwrap();
    let mut segment = vec![0x9c, 0x40, 0, 80, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, words << 4, flags];
    segment.extend([0xfa, 0xf0, 0, 0, 0, 0]);
    segment.extend(options);
    segment.extend(payload);
    let [client, server] = [CLIENT, SERVER].map(|host| host[usize::from(is_v6)].parse::<IpAddr>().unwrap());
    let header = match (client, server) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let total_len = u16::try_from(IPV4_HEADER_LEN + segment.len()).unwrap();
            let protocol = PROTOCOL_TCP;
            let header =
                Header { tos: class, total_len, dont_fragment: true, ttl: 9, protocol, source, destination };
            header.to_bytes().to_vec()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let [high, low] = u16::try_from(segment.len()).unwrap().to_be_bytes();
            let fixed = [0x60 | class >> 4, class << 4, 0, 0, high, low, PROTOCOL_TCP, 9];
            [&fixed[..], &source.octets(), &destination.octets()].concat()
        }
        _ => unreachable!("the hosts are of one family"),
    };
    [&header[..], &segment].concat()
}

/// The ends of what the client sends.
fn ends_of_client(is_v6: bool) -> Ends {
    let [client, server] = [CLIENT, SERVER].map(|host| host[usize::from(is_v6)].parse().unwrap());
    [SocketAddr::new(client, 40000), SocketAddr::new(server, 80)]
}

/// Whether all words of the transport, and of what counts with it, add up.
fn is_intact(packet: &[u8], addresses: usize, header: usize, protocol: u8) -> bool {
    let [high, low] = u16::try_from(packet.len() - header).unwrap().to_be_bytes();
    checksum::of(&[&packet[addresses..header], &[0, protocol, high, low], &packet[header..]]) == 0
}

#[test]
fn a_syn_says_who_asks_for_what() {
    for is_v6 in [false, true] {
        let options = [2, 4, 5, 0xb4, 1, 1, 4, 2];
        let bytes = packet(is_v6, 0xb8, flag::SYN | 0xc0, &options, b"early");
        let syn = Syn::parse(&bytes).expect("marks of congestion change nothing");
        assert_eq!([syn.client(), syn.server()], ends_of_client(is_v6));
        assert_eq!((syn.mss(), syn.dscp(), syn.is_signed()), (Some(1460), 46, false));
    }
}

#[test]
fn what_is_signed_is_known_wherever_the_option_stands() {
    for kind in [option::MD5, option::AUTHENTICATION] {
        let signed = [&[2, 4, 5, 0xb4, 1, 1, kind, 18][..], &[7; 16], &[1, 1]].concat();
        let bytes = packet(false, 0, flag::SYN, &signed[..24], &[]);
        assert!(Syn::parse(&bytes).unwrap().is_signed());
    }
    let bytes = packet(false, 0, flag::SYN, &[0, 19, 2, 0], &[]);
    assert!(!Syn::parse(&bytes).unwrap().is_signed(), "it stands behind the end");
}

#[test]
fn other_segments_are_none() {
    for flags in [flag::ACK, flag::SYN | flag::ACK, flag::SYN | flag::RST, flag::SYN | flag::FIN, 0] {
        assert_eq!(Syn::parse(&packet(true, 0, flags, &[], &[])), None);
    }
    let mut bytes = packet(false, 0, flag::SYN, &[], &[]);
    bytes[32] = 0x60;
    assert_eq!(Syn::parse(&bytes), None, "options beyond the end");
    bytes[32] = 0x40;
    assert_eq!(Syn::parse(&bytes), None, "a header of 16 bytes");
    bytes[32] = 0x50;
    assert!(Syn::parse(&bytes).is_some());
    bytes.push(0);
    assert_eq!((Syn::parse(&bytes), ends(&bytes)), (None, None), "more than it says");
}

#[test]
fn a_reset_answers_all_that_came() {
    for is_v6 in [false, true] {
        let bytes = packet(is_v6, 0, flag::SYN, &[], b"early");
        let reset = Syn::parse(&bytes).unwrap().reset();
        let (addresses, header) = if is_v6 { (8, 40) } else { (12, 20) };
        assert!(is_intact(&reset, addresses, header, PROTOCOL_TCP));
        let [client, server] = ends_of_client(is_v6);
        assert_eq!(ends(&reset), Some([server, client]));
        let tcp = &reset[header..];
        // The sequence number was the last one there is.
        assert_eq!((&tcp[4..8], &tcp[8..12], tcp[13]), (&[0; 4][..], &[0, 0, 0, 5][..], 0x14));
    }
}

#[test]
fn an_error_is_about_the_syn() {
    let why = [Unreachable::Network, Unreachable::Host, Unreachable::Prohibited];
    for (why, codes) in why.into_iter().zip([[0, 0], [1, 3], [13, 1]]) {
        for (is_v6, code) in [false, true].into_iter().zip(codes) {
            let bytes = packet(is_v6, 0, flag::SYN, &[], &[7; 1400]);
            let [router, stranger] = if is_v6 { ["fd09::1", "10.9.0.1"] } else { ["10.9.0.1", "fd09::1"] };
            let syn = Syn::parse(&bytes).unwrap();
            assert_eq!(syn.unreachable(why, stranger.parse().unwrap()), None);
            let error = syn.unreachable(why, router.parse().unwrap()).unwrap();
            assert_eq!(ends_of_quoted(&error), Some(ends_of_client(is_v6)));
            let (header, longest) = if is_v6 { (40, 1280) } else { (20, 576) };
            assert_eq!((error[header + 1], error.len()), (code, longest));
            let is_right = if is_v6 { is_intact(&error, 8, 40, 58) } else { Ipv4::parse(&error).is_ok() };
            assert!(is_right);
        }
    }
    assert_eq!(ends_of_quoted(&packet(true, 0, flag::SYN, &[], &[])), None);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), is_v6: bool) {
        if let Some([first, .., protocol]) = bytes.first_chunk_mut::<10>() {
            (*first, *protocol) = (if is_v6 { 0x60 } else { 0x45 }, PROTOCOL_TCP);
        }
        if let Some(next) = bytes.get_mut(6).filter(|_| is_v6) {
            *next = PROTOCOL_TCP;
        }
        let length = u16::try_from(bytes.len()).unwrap();
        let (place, stated) = if is_v6 { (4, length.saturating_sub(40)) } else { (2, length) };
        if let Some(field) = bytes.get_mut(place..place + 2) {
            field.copy_from_slice(&stated.to_be_bytes());
        }
        if let Some(flags) = bytes.get_mut(if is_v6 { 53 } else { 33 }) {
            *flags = flag::SYN;
        }
        let _ = (ends(&bytes), ends_of_quoted(&bytes));
        if let Some(syn) = Syn::parse(&bytes) {
            let _ = (syn.mss(), syn.is_signed(), syn.dscp(), syn.unreachable(Unreachable::Host, CLIENT[0].parse().unwrap()));
            prop_assert!(ends(&syn.reset()).is_some());
        }
    }

    /// Whatever stands there, each option is where it says, behind the one before.
    #[test]
    fn options_follow_each_other(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut end = 0;
        for option in options(&bytes) {
            prop_assert!(option.at >= end + 2);
            prop_assert_eq!(option.value, &bytes[option.at..][..option.value.len()]);
            prop_assert_eq!(bytes[option.at - 2], option.kind);
            end = option.at + option.value.len();
        }
    }
}
