use std::net::{IpAddr, SocketAddr};

use hickory_proto::rr::rdata::SVCB;
use hickory_proto::rr::{Name, RData, Record};
use hickory_proto::serialize::binary::{BinDecodable, BinEncodable};
use proptest::prelude::*;
use psmc_net::keys::{PrivateKey, PublicKey};

use super::*;

const NOW: u64 = 2_000_000_000;

fn key() -> PrivateKey {
    PrivateKey::from_seed([1; 32])
}

fn group(number: u8) -> GroupKey {
    GroupKey::new(&PrivateKey::from_seed([number; 32]))
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn relay() -> impl Strategy<Value = Relay> {
    let ip = prop_oneof![
        any::<[u8; 4]>().prop_map(|mut ip| {
            ip[0] = ip[0] % 223 + 1;
            IpAddr::from(ip)
        }),
        any::<[u8; 16]>().prop_map(|mut ip| {
            ip[0] = 0x20;
            IpAddr::from(ip)
        }),
    ];
    let key = || any::<[u8; 32]>().prop_map(PublicKey::from_bytes);
    (ip, 1_u16.., key(), proptest::option::of(key())).prop_map(|(ip, port, key, gateway)| Relay {
        address: SocketAddr::new(ip, port),
        key,
        gateway,
    })
}

fn set() -> impl Strategy<Value = RouteSet> {
    let relays = proptest::collection::vec(relay(), 1..=MAX_RELAYS);
    let service = proptest::sample::select(vec!["www.example.com.", "a.", "WWW.Example.ORG."]);
    let lifetime = 1..=MAX_LIFETIME_S;
    (service, any::<u64>(), lifetime, relays).prop_filter_map(
        "a relay twice",
        |(service, serial, life, relays)| {
            RouteSet::new(&name(service), Validity { serial, expires_s: NOW + life }, relays).ok()
        },
    )
}

fn some_set(serial: u64) -> RouteSet {
    let relay = |ip: &str| Relay {
        address: format!("{ip}:5115").parse().unwrap(),
        key: PrivateKey::from_seed([7; 32]).public(),
        gateway: None,
    };
    let validity = Validity { serial, expires_s: NOW + 600 };
    RouteSet::new(&name("www.example.com."), validity, vec![relay("192.0.2.7"), relay("192.0.2.8")]).unwrap()
}

fn through_the_wire(record: &SVCB) -> SVCB {
    let record = Record::from_rdata(name("x."), 1, RData::SVCB(record.clone()));
    let bytes = record.to_bytes().unwrap();
    let RData::SVCB(svcb) = Record::<RData>::from_bytes(&bytes).unwrap().data else {
        panic!("an SVCB record reads back as something else");
    };
    svcb
}

proptest! {
    #[test]
    fn every_carrier_brings_the_set_back(set in set()) {
        let service = set.service().clone();
        let open = set.clone().sign(&key());
        let alt = AltRecord::decode(&service, &AltRecord::Open(open.clone()).encode()).unwrap();
        prop_assert_eq!(&alt, &AltRecord::Open(open.clone()));
        let svcb: Vec<SVCB> = svcb_records(&open).iter().map(through_the_wire).rev().collect();
        prop_assert_eq!(svcb_routes(&service, svcb.iter()).unwrap(), vec![open.clone()]);
        prop_assert_eq!(open.verify(&key().public(), NOW, 0), Ok(&set));

        let group = group(5);
        let signed = set.for_group(group.tag()).sign(&key());
        let sealed = AltRecord::Sealed(group.seal(&signed)).encode();
        let AltRecord::Sealed(record) = AltRecord::decode(&service, &sealed).unwrap() else {
            panic!("a sealed record is open");
        };
        let opened = group.open(&record).unwrap();
        prop_assert_eq!(opened.verify(&key().public(), NOW, 0), Ok(signed.claims()));
    }

    #[test]
    fn a_changed_byte_is_never_believed(set in set(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let service = set.service().clone();
        let mut bytes = AltRecord::Open(set.clone().sign(&key())).encode();
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        if let Ok(AltRecord::Open(changed)) = AltRecord::decode(&service, &bytes) {
            prop_assert_eq!(changed.verify(&key().public(), NOW, 0), Err(RouteError::Forged));
        }
        let group = group(5);
        let mut bytes = AltRecord::Sealed(group.seal(&set.for_group(group.tag()).sign(&key()))).encode();
        bytes[at] ^= 1_u8 << bit;
        if let Ok(AltRecord::Sealed(changed)) = AltRecord::decode(&service, &bytes) {
            prop_assert_eq!(group.open(&changed), Err(RouteError::Sealed));
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let service = name("www.example.com.");
        for form in [0, 1, 2, 3] {
            if let Ok(record) = AltRecord::decode(&service, &[&[form], &bytes[..]].concat()) {
                prop_assert_eq!(record.encode(), [&[form], &bytes[..]].concat());
            }
        }
    }

    #[test]
    fn a_sealed_record_shows_no_relay(set in set()) {
        let group = group(5);
        let bytes = AltRecord::Sealed(group.seal(&set.clone().for_group(group.tag()).sign(&key()))).encode();
        for relay in set.relays() {
            prop_assert!(!bytes.windows(32).any(|window| window == relay.key.as_bytes()));
        }
    }
}

#[test]
fn routes_are_of_one_service_one_key_and_one_group() {
    let routes = some_set(5).sign(&key());
    let bytes = AltRecord::Open(routes.clone()).encode();
    let AltRecord::Open(moved) = AltRecord::decode(&name("evil.example.com."), &bytes).unwrap() else {
        panic!("an open record is sealed");
    };
    assert_eq!(moved.verify(&key().public(), NOW, 0), Err(RouteError::Forged));
    let other = PrivateKey::from_seed([2; 32]);
    assert_eq!(routes.verify(&other.public(), NOW, 0), Err(RouteError::Forged));

    // A member of the group can open a record, but not publish its set as everyone's.
    let group_key = group(5);
    let signed = some_set(5).for_group(group_key.tag()).sign(&key());
    let leaked = SignedRoutes { set: some_set(5), signature: signed.signature };
    assert_eq!(leaked.verify(&key().public(), NOW, 0), Err(RouteError::Forged));
    assert_eq!(group(6).open(&group_key.seal(&signed)), Err(RouteError::Sealed));
    // Upper and lower case are one name.
    let AltRecord::Open(upper) = AltRecord::decode(&name("WWW.EXAMPLE.com."), &bytes).unwrap() else {
        panic!("an open record is sealed");
    };
    assert!(upper.verify(&key().public(), NOW, 0).is_ok());
}

#[test]
fn replays_end_by_serial_and_by_expiry() {
    let routes = some_set(5).sign(&key());
    let verify = |now, seen| routes.verify(&key().public(), now, seen).map(|_| ());
    assert_eq!(verify(NOW, 5), Ok(()));
    assert_eq!(verify(NOW, 6), Err(RouteError::Replayed { found: 5, seen: 6 }));
    assert_eq!(verify(NOW + 599, 0), Ok(()));
    assert_eq!(verify(NOW + 600, 0), Err(RouteError::Expired(0)));
    assert_eq!(verify(NOW + 700, 0), Err(RouteError::Expired(100)));
    assert_eq!(verify(NOW - MAX_LIFETIME_S, 0), Err(RouteError::TooLong(MAX_LIFETIME_S + 600)));
}

#[test]
fn an_svcb_record_that_is_left_out_shows() {
    let service = name("www.example.com.");
    let (old, new) = (svcb_records(&some_set(5).sign(&key())), svcb_records(&some_set(6).sign(&key())));
    let serials = |records: &[&SVCB]| {
        let sets = svcb_routes(&service, records.iter().copied())?;
        Ok(sets.iter().map(|set| set.claims().validity().serial).collect::<Vec<_>>())
    };
    assert_eq!(serials(&[&old[0]]), Err(RouteError::Incomplete { found: 1, expected: 2 }));
    assert_eq!(serials(&[&old[0], &new[1]]), Err(RouteError::Incomplete { found: 1, expected: 2 }));
    assert_eq!(serials(&[&old[0], &new[1], &old[1]]), Ok(vec![5]));
    assert_eq!(serials(&[&old[0], &new[1], &old[1], &new[0]]), Ok(vec![6, 5]));
    assert_eq!(serials(&[]), Err(RouteError::RelayCount(0)));
}

#[test]
fn what_cannot_be_routes_is_refused() {
    let relay = some_set(1).relays()[0];
    let make = |service: &str, relays: Vec<Relay>| {
        RouteSet::new(&name(service), some_set(1).validity(), relays).map(|_| ())
    };
    assert_eq!(make("www.example.com.", vec![]), Err(RouteError::RelayCount(0)));
    assert_eq!(make("www.example.com.", vec![relay; 17]), Err(RouteError::RelayCount(17)));
    assert_eq!(make("www.example.com.", vec![relay; 2]), Err(RouteError::Twice(relay.address)));
    let nowhere = Relay { address: "192.0.2.1:0".parse().unwrap(), ..relay };
    assert_eq!(make("www.example.com.", vec![nowhere]), Err(RouteError::Address(nowhere.address)));
    for service in [".", "www.example.com", "*.example.com."] {
        assert!(matches!(make(service, vec![relay]), Err(RouteError::Service(_))), "{service}");
    }
}

/// The vector of section 3 of docs/DNS.md.
#[test]
fn the_vector_of_the_documentation() {
    let key = |number| PrivateKey::from_seed([number; 32]);
    let relay =
        |address: &str, gateway| Relay { address: address.parse().unwrap(), key: key(7).public(), gateway };
    let relays = vec![relay("192.0.2.7:5115", None), relay("[2001:db8::8]:5115", Some(key(8).public()))];
    let validity = Validity { serial: 5, expires_s: 2_000_000_600 };
    let routes = RouteSet::new(&name("www.example.com."), validity, relays).unwrap().sign(&key(1));
    let bytes = AltRecord::Open(routes).encode();
    let lines: Vec<String> = bytes.chunks(32).map(hex).collect();
    let vector = lines.join("\n");
    assert!(include_str!("../../../docs/DNS.md").contains(&vector), "docs/DNS.md lacks\n{vector}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
