use std::net::Ipv4Addr;

use psmc_wire::Bucket;

use super::*;
use crate::classify::QuicHint;

fn packet(dscp: u8, protocol: u8, ports: Option<[u16; 2]>) -> Classified {
    Classified {
        source: Ipv4Addr::new(10, 0, 0, 1).into(),
        destination: Ipv4Addr::new(192, 168, 7, 9).into(),
        protocol,
        dscp,
        ports,
        is_ce: false,
        flow: 0,
        bucket: Bucket::of_hash(0),
        ordered: true,
        quic: QuicHint::No,
    }
}

fn named(name: &str, packets: ClassMatch) -> ClassConfig {
    ClassConfig { name: name.to_owned(), packets, ..ClassConfig::best_effort() }
}

fn name_of<'a>(classes: &'a Classes, packet: &Classified) -> &'a str {
    &classes.list()[classes.of(packet).index()].name
}

#[test]
fn without_configuration_code_points_decide() {
    let classes = Classes::new(ClassConfig::defaults());
    for (dscp, name) in
        [(0, "best-effort"), (46, "voice"), (44, "voice"), (48, "voice"), (56, "voice"), (34, "best-effort")]
    {
        assert_eq!(name_of(&classes, &packet(dscp, 6, None)), name, "{dscp}");
    }
    assert_eq!([1, 8].map(|dscp| name_of(&classes, &packet(dscp, 17, None))), ["background"; 2]);
}

#[test]
fn a_class_takes_what_is_all_that_it_asks_for() {
    let net = |text: &str| text.parse().expect("a network");
    let asked = ClassMatch {
        dscp: 1 << 10 | 1 << 12,
        protocols: vec![6, 17],
        ports: vec![22..=22, 5000..=5100],
        sources: vec![net("10.0.0.0/8")],
        destinations: vec![net("fd00::/8"), net("192.168.7.0/24")],
    };
    let takes = |packet: &Classified| asked.takes(packet);
    let right = packet(10, 17, Some([40_000, 5_050]));
    assert!(takes(&right) && takes(&Classified { ports: Some([22, 1]), dscp: 12, ..right }));
    assert!(!takes(&Classified { dscp: 11, ..right }));
    assert!(!takes(&Classified { protocol: 132, ..right }));
    assert!(!takes(&Classified { ports: Some([40_000, 5_101]), ..right }));
    assert!(!takes(&Classified { ports: None, ..right }), "a fragment has no ports");
    assert!(!takes(&Classified { source: right.destination, ..right }));
    assert!(!takes(&Classified { destination: right.source, ..right }));
    assert!(ClassMatch::default().takes(&right));
}

#[test]
fn the_first_class_wins_and_the_last_takes_the_rest() {
    let udp = || ClassMatch { protocols: vec![17], ..ClassMatch::default() };
    let never = ClassMatch { dscp: 1 << 63, ..ClassMatch::default() };
    let classes = Classes::new(vec![named("a", udp()), named("b", udp()), named("rest", never)]);
    assert_eq!(name_of(&classes, &packet(0, 17, None)), "a");
    assert_eq!(name_of(&classes, &packet(0, 6, None)), "rest");
}

#[test]
fn there_is_always_a_class_and_never_too_many() {
    assert_eq!(Classes::new(Vec::new()).list(), [ClassConfig::best_effort()]);
    let many = (0..40).map(|number| ClassConfig { weight: number * 10, ..ClassConfig::best_effort() });
    let classes = Classes::new(many.collect());
    assert_eq!(classes.list().len(), MAX_CLASSES);
    assert!(classes.list().iter().all(|class| (1..=MAX_WEIGHT).contains(&class.weight)));
}
