use std::net::SocketAddrV4;

use proptest::prelude::*;

use super::*;
use crate::ip::{TtlExpired, TunnelledUdp, checksum, forward};

const ENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];

prop_compose! {
    fn socket_address()(ip: u32, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(ip.into(), port)
    }
}

prop_compose! {
    /// A packet as others make them, options included.
    fn packet()(
        tos: u8,
        id: u16,
        dont_fragment: bool,
        ttl: u8,
        ends: [u8; 8],
        options in 0usize..3,
        payload in proptest::collection::vec(any::<u8>(), 0..100),
    ) -> Vec<u8> {
        let header_len = 20 + 4 * options;
        let mut packet = vec![1; header_len];
        packet[0] = 0x40 | u8::try_from(header_len / 4).unwrap();
        packet[1] = tos;
        let total = u16::try_from(header_len + payload.len()).unwrap();
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[6..8].copy_from_slice(&(u16::from(dont_fragment) << 14).to_be_bytes());
        packet[8..12].copy_from_slice(&[ttl, 17, 0, 0]);
        packet[12..20].copy_from_slice(&ends);
        let sum = checksum::of(&[&packet]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend(payload);
        packet
    }
}

fn wrapped(inner: &[u8]) -> Vec<u8> {
    let header = encapsulate(&Ipv4::parse(inner).unwrap(), ENDS[0], ENDS[1]).unwrap();
    [&header[..], inner].concat()
}

proptest! {
    #[test]
    fn a_packet_survives_a_tunnel(inner in packet()) {
        let mut packet = wrapped(&inner);
        let outer = Ipv4::parse(&packet).unwrap();
        let inside = Ipv4::parse(&inner).unwrap();
        prop_assert_eq!((outer.source(), outer.destination(), outer.ttl()), (ENDS[0], ENDS[1], TTL));
        prop_assert_eq!((outer.protocol(), outer.tos()), (4, inside.tos()));
        prop_assert_eq!(outer.dont_fragment(), inside.dont_fragment());
        let unwrapped = decapsulate(&mut packet).unwrap();
        prop_assert_eq!([unwrapped.source, unwrapped.destination], ENDS);
        prop_assert_eq!(&packet[unwrapped.inner], &inner[..]);
    }

    #[test]
    fn a_router_takes_one_from_the_time_to_live(mut packet in packet()) {
        let before = packet.clone();
        let ttl = before[8];
        prop_assert_eq!(forward(&mut packet), if ttl > 1 { Ok(()) } else { Err(TtlExpired) });
        let after = Ipv4::parse(&packet).unwrap();
        prop_assert_eq!(after.ttl(), if ttl > 1 { ttl - 1 } else { ttl });
        prop_assert_eq!(&packet[12..], &before[12..]);
        prop_assert_eq!(&packet[..8], &before[..8]);
    }

    #[test]
    fn a_datagram_survives_a_tunnel(
        source in socket_address(),
        destination in socket_address(),
        datagram in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let sent = TunnelledUdp { tunnel_source: ENDS[0], tunnel_destination: ENDS[1], source, destination };
        let mut packet = [&sent.headers(&datagram).unwrap()[..], &datagram].concat();
        let unwrapped = decapsulate(&mut packet).unwrap();
        let (read, place) = TunnelledUdp::parse(&packet, &unwrapped).unwrap();
        prop_assert_eq!(read, sent);
        prop_assert_eq!(&packet[place], &datagram[..]);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
        version: bool,
    ) {
        if let Some(first) = bytes.first_mut().filter(|_| version) {
            *first = 0x45;
        }
        if let Ok(unwrapped) = decapsulate(&mut bytes) {
            let _ = TunnelledUdp::parse(&bytes, &unwrapped);
        }
    }

    /// With correct headers, so that the parser gets far.
    #[test]
    fn no_segment_makes_the_parser_panic(mut inner in packet(), length: u16) {
        if let Some(field) = inner.get_mut(24..26) {
            field.copy_from_slice(&length.to_be_bytes());
        }
        if let Ok(inner) = Ipv4::parse(&inner) {
            let mut packet = wrapped(inner.bytes());
            if let Ok(unwrapped) = decapsulate(&mut packet) {
                let _ = TunnelledUdp::parse(&packet, &unwrapped);
            }
        }
    }
}

/// RFC 6040, figure 4: by inner mark, then by outer one, both in the order not-ECT, ECT(0), ECT(1), CE.
#[test]
fn marks_leave_a_tunnel_as_the_rfc_says() {
    const MARKS: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];
    let table = [
        [Some(Ecn::NotEct), Some(Ecn::NotEct), Some(Ecn::NotEct), None],
        [Some(Ecn::Ect0), Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce)],
        [Some(Ecn::Ect1), Some(Ecn::Ect1), Some(Ecn::Ect1), Some(Ecn::Ce)],
        [Some(Ecn::Ce); 4],
    ];
    for (inner_mark, row) in MARKS.into_iter().zip(table) {
        for (outer_mark, expected) in MARKS.into_iter().zip(row) {
            let sent = TunnelledUdp {
                tunnel_source: ENDS[0],
                tunnel_destination: ENDS[1],
                source: SocketAddrV4::new(ENDS[0], 1),
                destination: SocketAddrV4::new(ENDS[1], 2),
            };
            let mut packet = [&sent.headers(b"x").unwrap()[..], b"x"].concat();
            set_ecn(&mut packet[IPV4_HEADER_LEN..], inner_mark);
            set_ecn(&mut packet, outer_mark);
            let outcome = decapsulate(&mut packet);
            let mark = outcome.ok().map(|unwrapped| Ipv4::parse(&packet[unwrapped.inner]).unwrap().ecn());
            assert_eq!(mark, expected, "{inner_mark:?} in {outer_mark:?}");
        }
    }
}

#[test]
fn what_is_no_tunnel_is_refused() {
    let sent = TunnelledUdp {
        tunnel_source: ENDS[0],
        tunnel_destination: ENDS[1],
        source: SocketAddrV4::new(ENDS[0], 1),
        destination: SocketAddrV4::new(ENDS[1], 2),
    };
    let good = [&sent.headers(b"abc").unwrap()[..], b"abc"].concat();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = good.clone();
        change(&mut packet);
        let sum = {
            packet[10..12].fill(0);
            checksum::of(&[&packet[..20]])
        };
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        decapsulate(&mut packet).unwrap_err()
    };
    assert_eq!(refused(&|packet| packet[9] = 17), Malformed::UnknownType(17).into());
    assert_eq!(refused(&|packet| packet[6] = 0x20), Malformed::Illegal("fragment").into());
    assert_eq!(refused(&|packet| packet[20] = 0x65), Malformed::Illegal("IP version").into());
    assert_eq!(refused(&|packet| packet[28] ^= 1), Malformed::Illegal("checksum").into());
    assert_eq!(refused(&|packet| packet.truncate(50)), Malformed::Truncated.into());
}
