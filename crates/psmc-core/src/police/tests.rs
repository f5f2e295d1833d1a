use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;

mod bottleneck;
mod responsive;

use bottleneck::{Blast, Bottleneck, World};
use responsive::{Bbr, Cubic, Reno, Video};

const MBIT: f64 = 1e6;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn facts(source: [u8; 4], kind: Kind, flow: u16) -> Facts {
    Facts {
        source: Ipv4Addr::from(source).into(),
        destination: Ipv4Addr::new(10, 2, 0, 1).into(),
        ports: Some([4000, 5000]),
        class: 0,
        kind,
        flow,
    }
}

/// From 1,000 addresses in turn, from `10.1.0.0` on.
fn thousand(number: u64) -> Facts {
    let host = u32::try_from(number % 1000).unwrap();
    let source = Ipv4Addr::from_bits(0x0A01_0000 + host);
    facts(source.octets(), Kind::Plain, u16::try_from(host * 4).unwrap())
}

fn bottleneck(mbit: f64) -> Bottleneck {
    Bottleneck { rate: mbit * MBIT, queue: ms(50), round_trip: ms(40) }
}

fn police() -> Police {
    Police::new(PoliceConfig::default(), 7)
}

fn held(police: &Police) -> Vec<AggregateStatus> {
    police.aggregates().filter(|one| one.limit.is_some()).collect()
}

#[test]
fn a_blast_is_held_to_what_is_delivered_and_the_bottleneck_stays_full() {
    let mut world = World::new(bottleneck(1.0), police());
    world.add(Box::new(Blast::new(10.0 * MBIT, |_| facts([10, 1, 0, 7], Kind::Plain, 3))));
    world.run(ms(4000));
    let found = held(&world.police);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].aggregate.to_string(), "udp from 10.1.0.7/32, one flow");
    // Three reports after it was found out, it is at the rate of the bottleneck, and stays there.
    let (passed, delivered) = world.over(ms(10_000));
    assert!((0.95..1.02).contains(&(delivered[0] / MBIT)), "{delivered:?}");
    assert!(passed[0] < 1.06 * MBIT, "{passed:?}");
}

/// What comes from a network of sources and goes to everybody's destination.
fn candidate(sources: &str) -> Candidate {
    let destinations = "10.2.0.0/24".parse().unwrap();
    Candidate { sources: sources.parse().unwrap(), destinations, told_by: Arc::from("calls") }
}

#[test]
fn a_candidate_is_watched_from_its_first_drop_on_and_others_are_not() {
    let (mut police, now) = (police(), Instant::now());
    police.set_candidates(&[candidate("10.1.0.0/24")]);
    let [suspected, mut elsewhere] = [facts([10, 1, 0, 7], Kind::Plain, 3); 2];
    elsewhere.destination = Ipv4Addr::new(10, 3, 0, 1).into();
    for other in [facts([10, 1, 1, 7], Kind::Plain, 4), elsewhere] {
        police.on_dropped(&other, Tag::default(), 1000, now);
    }
    assert!(police.is_idle());
    police.on_dropped(&suspected, Tag::default(), 1000, now);
    let found: Vec<_> = police.aggregates().collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].aggregate.to_string(), "udp from 10.1.0.0/24 to 10.2.0.0/24");
    assert_eq!((found[0].suspected_by.as_deref(), found[0].limit), (Some("calls"), None));
    assert_eq!(police.offer(&elsewhere, 1000, now), Verdict::Pass(Tag::default()));
    assert_ne!(police.offer(&suspected, 1000, now), Verdict::Pass(Tag::default()));
}

#[test]
fn a_candidate_is_held_down_only_if_it_heeds_no_drops() {
    let mut world = World::new(bottleneck(1.0), police());
    world.police.set_candidates(&[candidate("10.1.0.0/16")]);
    world.add(Box::new(Blast::new(10.0 * MBIT, |_| facts([10, 1, 0, 7], Kind::Plain, 3))));
    world.add(Box::new(Reno::new(facts([10, 1, 0, 9], Kind::Tcp, 9), ms(40))));
    world.run(ms(6000));
    let suspected = |one: &AggregateStatus| (one.aggregate.kind, one.suspected_by.clone());
    let found: Vec<_> = held(&world.police).iter().map(suspected).collect();
    assert_eq!(found, [(Kind::Plain, Some(Arc::from("calls")))]);
}

#[test]
fn who_is_watched_already_is_told_as_a_candidate() {
    let mut world = World::new(bottleneck(1.0), police());
    world.add(Box::new(Blast::new(10.0 * MBIT, thousand)));
    world.run(ms(6000));
    world.police.set_candidates(&[candidate("10.1.0.0/16")]);
    world.run(ms(1000));
    let told = |one: &AggregateStatus| (one.aggregate.to_string(), one.suspected_by.clone());
    let found: Vec<_> = held(&world.police).iter().map(told).collect();
    assert_eq!(found, [("udp from 10.1.0.0/22".to_owned(), Some(Arc::from("calls")))]);
}

/// What its headers promise gives it more time, and no more.
#[test]
fn a_blast_that_looks_like_a_connection_is_held_down_later() {
    for kind in [Kind::Tcp, Kind::Quic] {
        let mut world = World::new(bottleneck(1.0), police());
        world.add(Box::new(match kind {
            Kind::Quic => Blast::new(10.0 * MBIT, |_| facts([10, 1, 0, 7], Kind::Quic, 3)),
            Kind::Tcp | Kind::Plain => Blast::new(10.0 * MBIT, |_| facts([10, 1, 0, 7], Kind::Tcp, 3)),
        }));
        world.run(ms(10_000));
        assert_eq!(held(&world.police).len(), 0, "{kind:?}");
        world.run(ms(5000));
        assert_eq!(held(&world.police).len(), 1, "{kind:?}");
    }
}

/// As controllers by a model do: far above what is delivered for seconds, and every ten seconds almost nothing.
#[test]
fn a_connection_that_pauses_every_ten_seconds_is_not_held_down() {
    let mut world = World::new(bottleneck(1.0), police());
    for number in 0..6 {
        let (start, end) = (ms(10_000 * number), ms(10_000 * number + 9700));
        let mut blast = Blast::new(3.0 * MBIT, |_| facts([10, 1, 0, 7], Kind::Quic, 3));
        blast.later = Some((end, 1.0));
        world.add_at(start, Box::new(blast));
    }
    for _ in 0..300 {
        world.run(ms(200));
        assert_eq!(held(&world.police).len(), 0);
    }
}

#[test]
fn a_thousand_sources_of_one_blast_are_one_prefix() {
    let mut world = World::new(bottleneck(1.0), police());
    world.add(Box::new(Blast::new(10.0 * MBIT, thousand)));
    world.run(ms(6000));
    let found: Vec<_> = held(&world.police).iter().map(|one| one.aggregate.prefix.to_string()).collect();
    assert_eq!(found, ["10.1.0.0/22"]);
}

#[test]
fn scattered_sources_are_the_prefix_that_they_have_in_common() {
    let mut sketch = Sketch::new(5);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..20_000 {
        let low = u16::try_from(rng.next_u32() % 1000 * 65 % 65_536).unwrap().to_be_bytes();
        sketch.add(&facts([10, 9, low[0], low[1]], Kind::Plain, 0), 1000);
    }
    let prefixes: Vec<_> = sketch.heavy(SHARE).iter().map(|one| one.prefix.to_string()).collect();
    assert_eq!(prefixes, ["10.9.0.0/16"]);
}

#[test]
fn the_connections_of_a_blasts_neighbours_are_not_taken_for_it_and_get_their_share() {
    let share = |config: Option<PoliceConfig>| {
        let police = config.map_or_else(
            || Police::new(PoliceConfig { floor: u64::MAX, ..PoliceConfig::default() }, 7),
            |config| Police::new(config, 7),
        );
        let mut world = World::new(bottleneck(4.0), police);
        world.add(Box::new(Blast::new(20.0 * MBIT, thousand)));
        world.add(Box::new(Reno::new(facts([10, 1, 0, 9], Kind::Tcp, 9), ms(40))));
        world.run(ms(8000));
        let tcp = |one: &AggregateStatus| one.aggregate.kind == Kind::Tcp;
        assert!(!held(&world.police).iter().any(tcp));
        world.over(ms(20_000)).1[1] / MBIT
    };
    let (without, with) = (share(None), share(Some(PoliceConfig::default())));
    assert!(without < 0.4 && with > 1.2, "{without} without it, {with} with it");
}

#[test]
fn a_limit_goes_when_the_load_does_and_not_before() {
    let mut world = World::new(bottleneck(2.0), police());
    let mut blast = Blast::new(10.0 * MBIT, |_| facts([10, 1, 0, 7], Kind::Plain, 3));
    blast.later = Some((ms(20_000), 0.5 * MBIT));
    world.add(Box::new(blast));
    world.run(ms(19_900));
    assert_eq!(held(&world.police).len(), 1, "as long as it sends five times as much");
    world.run(ms(1500));
    assert_eq!(held(&world.police).len(), 1, "less for a moment is not enough");
    world.run(ms(2500));
    assert_eq!(held(&world.police).len(), 0);
    let (_, delivered) = world.over(ms(3000));
    assert!(delivered[0] > 0.45 * MBIT);
}

#[test]
fn a_limit_rises_when_the_bottleneck_widens() {
    let mut world = World::new(bottleneck(1.0), police());
    world.add(Box::new(Blast::new(10.0 * MBIT, |_| facts([10, 1, 0, 7], Kind::Plain, 3))));
    world.run(ms(5000));
    world.bottleneck.rate = 8.0 * MBIT;
    world.run(ms(12_000));
    let (_, delivered) = world.over(ms(5000));
    assert!(delivered[0] > 7.0 * MBIT, "{delivered:?}");
}

#[test]
fn the_seeds_equations_reach_zero() {
    let mode = PoliceMode::Seed { aggressiveness: 0.125 * 10.0 };
    let slow = Bottleneck { round_trip: ms(1000), ..bottleneck(1.0) };
    let mut world = World::new(slow, Police::new(PoliceConfig { mode, ..PoliceConfig::default() }, 7));
    world.add(Box::new(Blast::new(10.0 * MBIT, |_| facts([10, 1, 0, 7], Kind::Plain, 3))));
    let mut least = u64::MAX;
    for _ in 0..100 {
        world.run(ms(100));
        least = held(&world.police)
            .iter()
            .filter_map(|one| one.limit)
            .map(|limit| limit.rate)
            .chain([least])
            .min()
            .unwrap();
    }
    assert!(least < 100_000, "as ../seed-notes say of eq. 6 with 10 Mb/s into 1: {least}");
}

#[test]
fn reports_do_what_single_packets_do() {
    let mut world = World::new(bottleneck(1.0), police());
    world.witness = Some(Witness::new(3));
    world.add(Box::new(Blast::new(10.0 * MBIT, thousand)));
    world.run(ms(8000));
    let found: Vec<_> = held(&world.police).iter().map(|one| one.aggregate.prefix.to_string()).collect();
    assert_eq!(found, ["10.1.0.0/22"]);
    let (_, delivered) = world.over(ms(10_000));
    // What is known later and less often is known less exactly.
    assert!((0.85..1.02).contains(&(delivered[0] / MBIT)), "{delivered:?}");
}

#[test]
fn without_drops_there_is_no_report_and_nothing_is_watched() {
    let mut world = World::new(bottleneck(20.0), police());
    world.witness = Some(Witness::new(3));
    world.add(Box::new(Blast::new(10.0 * MBIT, thousand)));
    world.run(ms(5000));
    assert_eq!((world.reports, world.police.due_at(), world.police.is_idle()), (0, None, true));
}

/// What a site between two others tells is about packets that it has acknowledged: what has reached it is not what has arrived.
#[test]
fn what_is_dropped_behind_the_far_end_counts_though_it_is_acknowledged() {
    let (mut police, mut now) = (police(), Instant::now());
    let packet = facts([10, 1, 0, 7], Kind::Plain, 3);
    let [prefix, destinations] = ["10.1.0.0/24", "10.2.0.0/24"].map(|text| text.parse().unwrap());
    let aggregate =
        Aggregate { class: None, kind: Kind::Plain, prefix, destinations: Some(destinations), flow: None };
    // A fifth of 5 Mb/s arrives, as long as nothing is held back.
    let (mut held_at, mut limits) = (None, Vec::new());
    for round in 0..100 {
        let mut passed = 0;
        for _ in 0..125 {
            now += Duration::from_micros(1600);
            if let Verdict::Pass(tag) = police.offer(&packet, 1000, now) {
                police.on_delivered(tag, 1000);
                passed += 1000;
            }
            police.end_round(Some(ms(20)), now);
        }
        let delivered = passed.min(25_000);
        if passed > delivered {
            let entry = Entry { aggregate, delivered, dropped: passed - delivered, shaped: 0 };
            police.report(&Report { entries: vec![entry], ..Report::default() }, now);
        }
        let found = held(&police);
        if held_at.is_none() && !found.is_empty() {
            held_at = Some(round);
        }
        if held_at.is_some_and(|at| round > at + 3) {
            let limit = found[0].limit.expect("it goes on").rate;
            assert!(found[0].is_reported && (500_000..1_500_000).contains(&limit), "round {round}: {limit}");
            limits.push(limit);
        }
    }
    assert!(held_at.is_some_and(|at| (10..20).contains(&at)), "after two seconds: {held_at:?}");
    // Reports are about rounds that are over: the limit is about what passes, and swings around that.
    let mean = limits.iter().sum::<u64>() / limits.len() as u64;
    assert!((800_000..1_200_000).contains(&mean), "{mean}: {limits:?}");
}

/// A far end that says whatever it likes, as often as it likes.
fn lies() -> impl Strategy<Value = Report> {
    let aggregate = (any::<[u8; 4]>(), 0..=32u8, 0..3usize, any::<bool>()).prop_map(
        |(source, length, kind, is_of_peer)| {
            let prefix = ipnet::IpNet::new(IpAddr::from(source), length).unwrap().trunc();
            let destinations = is_of_peer.then(|| "10.2.0.0/16".parse().unwrap());
            let class = (!is_of_peer).then_some(0);
            Aggregate { class, kind: Kind::ALL[kind], prefix, destinations, flow: None }
        },
    );
    let entry = (aggregate, any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(aggregate, delivered, dropped, shaped)| Entry {
            aggregate,
            delivered: delivered >> 2,
            dropped: dropped >> 2,
            shaped: shaped >> 2,
        },
    );
    (prop::collection::vec(entry, 0..40), 0..u64::MAX / 4, 0..u64::MAX / 4)
        .prop_map(|(entries, delivered, dropped)| Report { entries, delivered, dropped })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Nothing that it says overflows, exceeds the room, or drops below the floor what passes.
    #[test]
    fn a_far_end_that_lies_is_capped(reports in prop::collection::vec((lies(), 0..400u64), 1..100)) {
        let (mut police, mut now) = (police(), Instant::now());
        let packet = facts([10, 1, 0, 7], Kind::Plain, 3);
        for (report, pause) in reports {
            for _ in 0..pause {
                now += ms(1);
                if let Verdict::Pass(tag) = police.offer(&packet, 1000, now) {
                    police.on_delivered(tag, 1000);
                }
            }
            police.report(&report, now);
            police.end_round(None, now);
            prop_assert!(police.aggregates().count() <= MAX_WATCHED);
            for one in police.aggregates() {
                prop_assert!(one.counts.dropped <= one.counts.offered && one.counts.delivered <= one.counts.offered);
                prop_assert!(one.limit.is_none_or(|limit| limit.rate >= PoliceConfig::default().floor));
            }
        }
    }

    /// A prefix that is told has a tenth of what was dropped, and the heaviest is among those that are told.
    #[test]
    fn the_heaviest_is_found(others in prop::collection::vec((any::<[u8; 4]>(), 0..4096u16, 1..1500u64), 64..400)) {
        let mut sketch = Sketch::new(11);
        let total: u64 = others.iter().map(|(.., bytes)| bytes).sum();
        let heavy = facts([192, 0, 2, 9], Kind::Plain, 77);
        for (number, (source, flow, bytes)) in others.iter().enumerate() {
            sketch.add(&facts(*source, Kind::Plain, *flow), *bytes);
            if number % 8 == 0 {
                sketch.add(&heavy, total * 3 / others.len() as u64);
            }
        }
        let found = sketch.heavy(SHARE);
        prop_assert!(found.iter().any(|one| one.takes(&heavy) && one.flow == Some(77)), "{found:?}");
        let distinct: BTreeSet<_> = found.iter().map(|one| (one.prefix, one.flow)).collect();
        prop_assert_eq!(distinct.len(), found.len());
    }
}

/// Of many networks and mixtures of what heeds losses none is ever held down.
#[test]
fn who_heeds_losses_is_never_held_down() {
    for seed in 0..2000 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut draw =
            |from: f64, to: f64| from * (to / from).powf(f64::from(rng.next_u32()) / f64::from(u32::MAX));
        let bottleneck = Bottleneck {
            rate: draw(0.5, 6.0) * MBIT,
            queue: Duration::from_secs_f64(draw(0.01, 0.5)),
            round_trip: Duration::from_secs_f64(draw(0.002, 0.3)),
        };
        let mut world = World::new(bottleneck, police());
        let count = u8::try_from(seed % 12 + 1).unwrap();
        for number in 0..count {
            let round_trip = world.bottleneck.round_trip + Duration::from_secs_f64(draw(0.001, 0.3));
            let source = [10, 1, 0, number / 4];
            let flow = u16::from(number);
            let start = Duration::from_secs_f64(draw(0.01, 3.0));
            match (seed * 31 + u64::from(number * number)) % 4 {
                0 => world.add_at(start, Box::new(Reno::new(facts(source, Kind::Tcp, flow), round_trip))),
                1 => world.add_at(start, Box::new(Cubic::new(facts(source, Kind::Tcp, flow), round_trip))),
                2 => world.add_at(start, Box::new(Bbr::new(facts(source, Kind::Quic, flow), round_trip))),
                _ => world.add_at(start, Box::new(Video::new(facts(source, Kind::Plain, flow), round_trip))),
            }
        }
        for _ in 0..100 {
            world.run(ms(200));
            let found = held(&world.police);
            assert!(found.is_empty(), "seed {seed}, {count} flows, {:?}: {found:?}", world.bottleneck);
        }
    }
}
