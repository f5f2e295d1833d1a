use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use psmc_wire::ids::KeyBytes;
use psmc_wire::ip::{IPV4_HEADER_LEN, IcmpError, Ipv4, Problem, checksum, encapsulate, icmp_error};
use psmc_wire::shed::{Ask, Packets as Inner, Rule, What};

use super::*;
use crate::relay::Limiter;
use crate::shed::{Bounds, Register, ShedCounts};

const RELAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const LEFT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
const RIGHT: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const A: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 2, 0, 1);

const UDP: u8 = 17;
const DONT_FRAGMENT: u16 = 0x4000;

#[derive(Default)]
struct Sent(Vec<(Vec<u8>, Vec<u8>)>);

impl Packets for Sent {
    fn push(&mut self, header: &[u8; IPV4_HEADER_LEN], inner: &[u8]) {
        self.0.push((header.to_vec(), inner.to_vec()));
    }
}

/// A relay with one pair, and what it sends.
struct World {
    tunnels: PlainTunnels,
    origin: Instant,
    now: Instant,
}

impl World {
    fn new(rate: Option<u64>) -> Self {
        Self::with(vec![pair(
            "north",
            rate,
            [end(LEFT, RELAY, "10.1.0.0/16"), end(RIGHT, RELAY, "10.2.0.0/16")],
        )])
    }

    fn with(pairs: Vec<PlainPair>) -> Self {
        let origin = Instant::now();
        let tunnels = PlainTunnels::new(PlainTunnelsConfig {
            pairs,
            max_waiting: 1000,
            total: Arc::new(Limiter::new(None)),
            seed: 7,
            origin,
        });
        Self { tunnels, origin, now: origin }
    }

    /// What becomes of an inner packet that comes from an end.
    fn arrive(&mut self, end: Ipv4Addr, inner: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut packet = wrap(end, RELAY, inner);
        assert!(self.tunnels.claims(&packet));
        let mut sent = Sent::default();
        self.tunnels.handle_packet(&mut packet, self.now, &mut sent);
        sent.0
    }

    /// What becomes of an ICMP error by a router on the way of what was sent.
    fn error(&mut self, problem: Problem, about: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let message = icmp_error(problem, about, Ipv4Addr::new(192, 0, 2, 99), RELAY);
        let mut sent = Sent::default();
        self.tunnels.handle_error(&message, self.now, &mut sent);
        sent.0
    }
}

fn pair(name: &str, rate: Option<u64>, ends: [PlainEnd; 2]) -> PlainPair {
    PlainPair { name: name.to_owned(), rate, ends }
}

fn end(address: Ipv4Addr, local: Ipv4Addr, inside: &str) -> PlainEnd {
    let inside = vec![inside.parse().unwrap()];
    PlainEnd { outer: PlainOuter::Fixed(address), local, inside, owner: None, mtu: 1500 }
}

fn wrap(from: Ipv4Addr, to: Ipv4Addr, inner: &[u8]) -> Vec<u8> {
    let header = encapsulate(&Ipv4::parse(inner).unwrap(), from, to).unwrap();
    [&header[..], inner].concat()
}

fn packet(source: Ipv4Addr, destination: Ipv4Addr, [tos, ttl]: [u8; 2], flags: u16, len: usize) -> Vec<u8> {
    let mut packet = vec![0; 20 + len];
    packet[..2].copy_from_slice(&[0x45, tos]);
    let total = u16::try_from(packet.len()).unwrap();
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[4..6].copy_from_slice(&[0xab, 0xcd]);
    packet[6..8].copy_from_slice(&flags.to_be_bytes());
    packet[8..10].copy_from_slice(&[ttl, UDP]);
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&destination.octets());
    let sum = checksum::of(&[&packet[..20]]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The only ICMP error among what was sent: to which end, from whom to whom within, and what it says.
fn only_error(sent: &[(Vec<u8>, Vec<u8>)]) -> (Ipv4Addr, Ipv4Addr, Ipv4Addr, Problem) {
    let [(header, inner)] = sent else { panic!("not one packet: {sent:?}") };
    let (outer, inner) = (Ipv4::parse_quoted(header).unwrap(), Ipv4::parse(inner).unwrap());
    let problem = IcmpError::parse(&inner).unwrap().problem;
    (outer.destination(), inner.source(), inner.destination(), problem)
}

#[test]
fn a_packet_goes_to_the_other_end_with_one_less_to_live() {
    for (end, other, source, destination) in [(LEFT, RIGHT, A, B), (RIGHT, LEFT, B, A)] {
        let mut world = World::new(None);
        for flags in [0, DONT_FRAGMENT] {
            let sent = world.arrive(end, &packet(source, destination, [0xb8, 17], flags, 100));
            let [(header, inner)] = &sent[..] else { panic!("{sent:?}") };
            assert_eq!(*inner, packet(source, destination, [0xb8, 16], flags, 100));
            let outer = Ipv4::parse_quoted(header).unwrap();
            assert_eq!((outer.source(), outer.destination(), outer.ttl()), (RELAY, other, 64));
            assert_eq!((outer.tos(), outer.dont_fragment()), (0xb8, flags != 0));
            assert_eq!(outer.total_len(), 140);
        }
        assert_eq!(world.tunnels.counters, PlainCounters::default());
    }
}

#[test]
fn nobody_is_feigned_and_nobody_else_is_reached() {
    let mut world = World::new(None);
    let stranger = Ipv4Addr::new(8, 8, 8, 8);
    let wrong = [(A, stranger), (stranger, B), (B, A), (A, A), (B, B), (A, RIGHT), (LEFT, B)];
    for (source, destination) in wrong {
        assert_eq!(world.arrive(LEFT, &packet(source, destination, [0, 1], 0, 9)), []);
    }
    // To another address of the relay's than the end is to know.
    let mut elsewhere = wrap(LEFT, Ipv4Addr::new(192, 0, 2, 2), &packet(A, B, [0, 9], 0, 9));
    let mut sent = Sent::default();
    world.tunnels.handle_packet(&mut elsewhere, world.now, &mut sent);
    assert_eq!(sent.0, []);
    assert_eq!(world.tunnels.counters, PlainCounters { misaddressed: 8, ..Default::default() });
    assert!(!world.tunnels.claims(&wrap(stranger, RELAY, &packet(A, B, [0, 9], 0, 9))));
}

#[test]
fn what_may_go_no_further_is_reported_to_its_sender() {
    let mut world = World::new(None);
    let sent = world.arrive(RIGHT, &packet(B, A, [0, 1], 0, 9));
    assert_eq!(only_error(&sent), (RIGHT, RELAY, B, Problem::Expired));
    assert_eq!((world.tunnels.counters.expired, world.tunnels.counters.errors_sent), (1, 1));
    // Not of a later piece of a packet.
    assert_eq!(world.arrive(RIGHT, &packet(B, A, [0, 1], 9, 9)), []);
    assert_eq!((world.tunnels.counters.expired, world.tunnels.counters.errors_sent), (2, 1));
}

#[test]
fn what_is_too_long_is_cut_or_reported() {
    let mut world = World::new(None);
    assert_eq!(world.arrive(LEFT, &packet(A, B, [0, 9], DONT_FRAGMENT, 1460)).len(), 1);
    let sent = world.arrive(LEFT, &packet(A, B, [0, 9], DONT_FRAGMENT, 1461));
    assert_eq!(only_error(&sent), (LEFT, RELAY, A, Problem::TooBig { mtu: 1480 }));
    let sent = world.arrive(LEFT, &packet(A, B, [0, 9], 0, 3000));
    let lengths: Vec<usize> = sent.iter().map(|(header, inner)| header.len() + inner.len()).collect();
    assert_eq!(lengths, [20 + 20 + 1456, 20 + 20 + 1456, 20 + 20 + 88]);
    for (header, inner) in &sent {
        let whole = [&header[..], inner].concat();
        assert_eq!(Ipv4::parse(&whole).unwrap().bytes().len(), whole.len());
    }
    let counters = world.tunnels.counters;
    assert_eq!((counters.too_big, counters.cut), (1, 1));
    world.tunnels.set_link_mtu(RIGHT, 1400);
    let sent = world.arrive(LEFT, &packet(A, B, [0, 9], DONT_FRAGMENT, 1460));
    assert_eq!(only_error(&sent), (LEFT, RELAY, A, Problem::TooBig { mtu: 1380 }));
}

#[test]
fn a_narrow_link_on_the_way_is_learnt_and_reported_and_forgotten() {
    let mut world = World::new(None);
    let long = packet(A, B, [0, 9], DONT_FRAGMENT, 1400);
    let sent = world.arrive(LEFT, &long);
    let out = [&sent[0].0[..], &sent[0].1].concat();
    let answer = world.error(Problem::TooBig { mtu: 1300 }, &out);
    assert_eq!(only_error(&answer), (LEFT, RELAY, A, Problem::TooBig { mtu: 1280 }));
    assert_eq!(world.tunnels.counters.heard_too_big, 1);
    let ways = |world: &World| world.tunnels.status(world.now).next().unwrap().ways.map(|way| way.path_mtu);
    assert_eq!(ways(&world), [1500, 1300]);
    // The next ones hear it from the relay itself; a wider link does not undo a narrow one.
    assert_eq!(only_error(&world.arrive(LEFT, &long)).3, Problem::TooBig { mtu: 1280 });
    world.error(Problem::TooBig { mtu: 1350 }, &out);
    assert_eq!(ways(&world), [1500, 1300]);
    world.now += Duration::from_secs(601);
    assert_eq!(ways(&world), [1500, 1500]);
    assert_eq!(world.arrive(LEFT, &long).len(), 1);
    // Of those that do not say, the next plateau below the packet; that only 8 bytes are quoted does not matter.
    assert_eq!(world.error(Problem::TooBig { mtu: 0 }, &out[..28]), []);
    assert_eq!(ways(&world), [1500, 1006]);
}

#[test]
fn errors_that_cannot_be_true_change_nothing() {
    let mut world = World::new(None);
    let sent = world.arrive(LEFT, &packet(A, B, [0, 9], DONT_FRAGMENT, 1000));
    let out = [&sent[0].0[..], &sent[0].1].concat();
    let before = world.tunnels.counters;
    // The packet would have fitted; it went to nobody whom the relay knows; it is no IP-in-IP; nothing is quoted.
    assert_eq!(world.error(Problem::TooBig { mtu: 1040 }, &out), []);
    let stranger = wrap(RELAY, Ipv4Addr::new(8, 8, 8, 8), &packet(A, B, [0, 9], DONT_FRAGMENT, 1000));
    assert_eq!(world.error(Problem::TooBig { mtu: 600 }, &stranger), []);
    assert_eq!(world.error(Problem::TooBig { mtu: 600 }, &packet(RELAY, RIGHT, [0, 9], 0, 1000)), []);
    assert_eq!(world.error(Problem::TooBig { mtu: 600 }, &[]), []);
    assert_eq!(world.tunnels.counters, before);
    // It was never sent that way: nobody is told, and the errors about it go nowhere.
    let feigned = wrap(RELAY, RIGHT, &packet(Ipv4Addr::new(8, 8, 8, 8), B, [0, 9], 0, 100));
    assert_eq!(world.error(Problem::Unreachable(1), &feigned), []);
    // Nor does any error make the way narrower than links are.
    world.error(Problem::TooBig { mtu: 68 }, &out);
    assert_eq!(world.tunnels.status(world.now).next().unwrap().ways[1].path_mtu, 552);
}

#[test]
fn what_others_report_is_passed_on_as_rfc_2003_says() {
    let heard = [
        (Problem::Unreachable(0), Some(Problem::Unreachable(0))),
        (Problem::Unreachable(1), Some(Problem::Unreachable(1))),
        (Problem::Unreachable(2), Some(Problem::Unreachable(0))),
        (Problem::Unreachable(3), None),
        (Problem::Unreachable(5), None),
        (Problem::Unreachable(13), Some(Problem::Unreachable(1))),
        (Problem::Expired, Some(Problem::Unreachable(1))),
    ];
    for (problem, expected) in heard {
        let mut world = World::new(None);
        let sent = world.arrive(LEFT, &packet(A, B, [0, 9], 0, 100));
        let answer = world.error(problem, &[&sent[0].0[..], &sent[0].1].concat());
        match expected {
            Some(expected) => assert_eq!(only_error(&answer), (LEFT, RELAY, A, expected)),
            None => assert_eq!(answer, []),
        }
        assert_eq!(world.tunnels.counters.heard_unreachable, 1);
    }
}

#[test]
fn no_flood_of_errors_is_answered() {
    let mut world = World::new(None);
    let answered =
        (0..10_000).filter(|_| !world.arrive(LEFT, &packet(A, B, [0, 1], 0, 9)).is_empty()).count();
    assert!((100..2000).contains(&answered), "{answered}");
    assert_eq!(world.tunnels.counters.expired, 10_000);
}

#[test]
fn packets_wait_for_their_rate_and_the_expendable_ones_go_first() {
    const RATE: u64 = 8_000_000;
    let mut world = World::new(Some(RATE));
    // Twice the rate for 4 s, half of it of the highest drop precedence (AF13).
    let mut sent = Sent::default();
    for number in 0..8000 {
        world.now = world.origin + Duration::from_micros(500) * number;
        while world.tunnels.poll_timeout().is_some_and(|due| due <= world.now) {
            world.tunnels.handle_timeout(1, world.now, &mut sent);
        }
        let tos = if number % 2 == 0 { 0x38 } else { 0x28 };
        sent.0.extend(world.arrive(LEFT, &packet(A, B, [tos, 9], 0, 980)));
    }
    let of = |tos: u8| sent.0.iter().filter(|(header, _)| header[1] == tos).count();
    let way = world.tunnels.status(world.now).next().unwrap().ways[1];
    assert!((3900..4200).contains(&sent.0.len()), "{}", sent.0.len());
    assert!(of(0x28) > 7 * of(0x38), "{} {}", of(0x28), of(0x38));
    assert_eq!(way.packets, sent.0.len() as u64);
    let dropped: u64 = way.dropped.iter().sum();
    assert_eq!(way.packets + dropped + u64::from(way.waiting), 8000);
    assert_eq!(way.dropped[1], 0);
    // Other directions do not wait.
    assert_eq!(world.arrive(RIGHT, &packet(B, A, [0, 9], 0, 980)).len(), 1);
}

#[test]
fn an_end_of_several_pairs_reaches_each_by_its_own() {
    let hub = || end(LEFT, RELAY, "10.1.0.0/16");
    let spoke = |last, inside: &str| end(Ipv4Addr::new(198, 51, 100, last), Ipv4Addr::UNSPECIFIED, inside);
    let mut world = World::with(vec![
        pair("one", None, [hub(), spoke(1, "10.2.0.0/16")]),
        pair("two", None, [hub(), spoke(2, "10.3.0.0/16")]),
    ]);
    for (destination, last) in [(Ipv4Addr::new(10, 2, 0, 1), 1), (Ipv4Addr::new(10, 3, 0, 1), 2)] {
        let sent = world.arrive(LEFT, &packet(A, destination, [0, 9], 0, 9));
        let outer = Ipv4::parse_quoted(&sent[0].0).unwrap();
        assert_eq!(
            (outer.source(), outer.destination()),
            (Ipv4Addr::UNSPECIFIED, [198, 51, 100, last].into())
        );
    }
    // The spokes do not reach each other.
    let between = packet(Ipv4Addr::new(10, 2, 0, 1), Ipv4Addr::new(10, 3, 0, 1), [0, 9], 0, 9);
    assert_eq!(world.arrive(Ipv4Addr::new(198, 51, 100, 1), &between), []);
}

#[test]
fn what_goes_to_an_end_is_dropped_for_its_owner_by_what_is_inside() {
    let owned = PlainEnd { owner: Some(VAN), ..end(RIGHT, RELAY, "10.2.0.0/16") };
    let mut world = World::with(vec![pair("north", None, [end(LEFT, RELAY, "10.1.0.0/16"), owned])]);
    let (there, back) = (packet(A, B, [0, 9], 0, 9), packet(B, A, [0, 9], 0, 9));
    let packets = |destination: &str| {
        let destination = destination.parse().unwrap();
        Inner { destination, source: None, protocol: Some(UDP), ports: None }
    };
    let said =
        ["10.2.0.1/32", "10.1.0.1/32"].map(|to| Rule { what: What::Packets(packets(to)), rate: Some(0) });
    let ask = Ask { request: 1, serial: 1, lifetime_ms: 10_000, rules: said.to_vec() };
    let mut register = Register::default();
    // Even if somebody takes it for the owner of everything.
    register.handle(&ask, Bounds::default(), |_| true, &mut ShedCounts::default(), 0);
    world.tunnels.set_rules(VAN, Some(Arc::new(register.held())));
    assert_eq!(world.arrive(LEFT, &there), []);
    assert_eq!(world.arrive(RIGHT, &back).len(), 1, "it goes to another's end");
    let other = packet(A, Ipv4Addr::new(10, 2, 0, 2), [0, 9], 0, 9);
    assert_eq!(world.arrive(LEFT, &other).len(), 1, "nothing was said of it");
    assert_eq!(world.tunnels.counters, PlainCounters { shed: 1, ..PlainCounters::default() });
    world.now += Duration::from_secs(10);
    assert_eq!(world.arrive(LEFT, &there).len(), 1, "nobody has asked again");
}

const VAN: KeyBytes = KeyBytes([7; 32]);

/// A relay with one pair, the left end of which is wherever the van is.
fn world_of_van(rate: Option<u64>) -> World {
    let van = PlainEnd { outer: PlainOuter::Site(VAN), ..end(LEFT, RELAY, "10.1.0.0/16") };
    World::with(vec![pair("north", rate, [van, end(RIGHT, RELAY, "10.2.0.0/16")])])
}

#[test]
fn an_end_is_wherever_its_site_registers_from() {
    let mut world = world_of_van(None);
    let (there, back) = (packet(A, B, [0, 9], 0, 9), packet(B, A, [0, 9], 0, 9));
    assert!(!world.tunnels.claims(&wrap(LEFT, RELAY, &there)), "nobody is there yet");
    assert_eq!(only_error(&world.arrive(RIGHT, &back)), (RIGHT, RELAY, B, Problem::Unreachable(1)));
    assert_eq!(world.tunnels.counters.no_end, 1);

    for at in [LEFT, Ipv4Addr::new(203, 0, 113, 99)] {
        assert!(world.tunnels.place_site(VAN, Some((at, 1400))));
        let sent = world.arrive(at, &there);
        assert_eq!(Ipv4::parse_quoted(&sent[0].0).unwrap().destination(), RIGHT);
        let sent = world.arrive(RIGHT, &back);
        assert_eq!(Ipv4::parse_quoted(&sent[0].0).unwrap().destination(), at);
        let ways = world.tunnels.status(world.now).next().unwrap().ways;
        assert_eq!((ways[0].address, ways[0].path_mtu, ways[0].site), (Some(at), 1400, Some(VAN)));
    }
    assert!(!world.tunnels.claims(&wrap(LEFT, RELAY, &there)), "it has moved");
    // Other sites do not move it.
    assert!(world.tunnels.place_site(KeyBytes([8; 32]), Some((LEFT, 1500))));
    assert!(!world.tunnels.claims(&wrap(LEFT, RELAY, &there)));
    assert!(world.tunnels.place_site(VAN, None));
    assert_eq!(only_error(&world.arrive(RIGHT, &back)).3, Problem::Unreachable(1));
}

#[test]
fn a_site_at_an_end_may_have_sessions_besides() {
    let mut world = world_of_van(None);
    world.tunnels.place_site(VAN, Some((LEFT, 1500)));
    assert!(world.tunnels.claims(&wrap(LEFT, RELAY, &packet(A, B, [0, 9], 0, 9))));
    for (source, destination) in [(LEFT, B), (A, Ipv4Addr::new(8, 8, 8, 8)), (B, A)] {
        assert!(!world.tunnels.claims(&wrap(LEFT, RELAY, &packet(source, destination, [0, 9], 0, 9))));
    }
}

#[test]
fn a_site_that_would_have_the_tunnel_lead_into_itself_is_nowhere() {
    let mut world = world_of_van(None);
    assert!(world.tunnels.place_site(VAN, Some((LEFT, 1500))));
    assert!(!world.tunnels.place_site(VAN, Some((Ipv4Addr::new(10, 2, 3, 4), 1500))));
    assert_eq!(world.tunnels.status(world.now).next().unwrap().ways[0].address, None);
}

#[test]
fn what_is_learnt_of_a_way_is_forgotten_when_the_site_moves() {
    let mut world = world_of_van(None);
    world.tunnels.place_site(VAN, Some((LEFT, 1500)));
    let sent = world.arrive(RIGHT, &packet(B, A, [0, 9], DONT_FRAGMENT, 1400));
    world.error(Problem::TooBig { mtu: 1300 }, &[&sent[0].0[..], &sent[0].1].concat());
    let mtu = |world: &World| world.tunnels.status(world.now).next().unwrap().ways[0].path_mtu;
    world.tunnels.place_site(VAN, Some((LEFT, 1500)));
    assert_eq!(mtu(&world), 1300, "it has only registered again");
    world.tunnels.place_site(VAN, Some((Ipv4Addr::new(203, 0, 113, 99), 1500)));
    assert_eq!(mtu(&world), 1500);
}

#[test]
fn other_tunnels_do_not_notice_a_change() {
    const RATE: u64 = 8_000_000;
    let other = |inside| pair("other", None, [end(LEFT, RELAY, "10.1.0.0/16"), end(RIGHT, RELAY, inside)]);
    let north =
        |rate| pair("north", rate, [end(LEFT, RELAY, "10.1.0.0/16"), end(RIGHT, RELAY, "10.2.0.0/16")]);
    let mut world = World::with(vec![other("10.3.0.0/16"), north(Some(RATE))]);
    let long = packet(A, B, [0, 9], 0, 980);
    let mut sent = 0;
    for _ in 0..60 {
        sent += world.arrive(LEFT, &long).len();
    }
    let status = |world: &World, name: &str| {
        world.tunnels.status(world.now).find(|status| status.name == name).map(|status| status.ways[1])
    };
    let before = status(&world, "north").unwrap();
    assert!(before.waiting > 10, "{before:?}");
    // One goes, another comes, and one may carry more.
    world.tunnels.reconfigure(vec![north(Some(2 * RATE)), other("10.4.0.0/16")], world.now);
    assert_eq!(status(&world, "north"), Some(before));
    let names: Vec<_> = world.tunnels.status(world.now).map(|status| (status.name, status.rate)).collect();
    assert_eq!(names, [("north".to_owned(), Some(2 * RATE)), ("other".to_owned(), None)]);
    let gone = wrap(LEFT, RELAY, &packet(A, Ipv4Addr::new(10, 3, 0, 1), [0, 9], 0, 9));
    let mut out = Sent::default();
    world.tunnels.handle_packet(&mut gone.clone(), world.now, &mut out);
    assert_eq!((out.0.len(), world.tunnels.counters.misaddressed), (0, 1));
    assert_eq!(world.arrive(LEFT, &packet(A, Ipv4Addr::new(10, 4, 0, 1), [0, 9], 0, 9)).len(), 1);
    while let Some(due) = world.tunnels.poll_timeout() {
        world.now = due;
        world.tunnels.handle_timeout(1, world.now, &mut out);
    }
    let dropped: u64 = before.dropped.iter().sum();
    assert_eq!(sent + out.0.len() + usize::try_from(dropped).unwrap(), 60, "all that waited has left");
}

#[test]
fn what_waits_goes_with_its_tunnel() {
    let mut world = World::new(Some(8_000_000));
    for _ in 0..60 {
        world.arrive(LEFT, &packet(A, B, [0, 9], 0, 980));
    }
    assert!(world.tunnels.poll_timeout().is_some());
    world.tunnels.reconfigure(Vec::new(), world.now);
    assert_eq!(world.tunnels.queues.slab.len(), 0);
    let mut out = Sent::default();
    while let Some(due) = world.tunnels.poll_timeout() {
        world.tunnels.handle_timeout(1, due, &mut out);
    }
    assert!(out.0.is_empty());
    assert!(!world.tunnels.claims(&wrap(LEFT, RELAY, &packet(A, B, [0, 9], 0, 9))));
}

proptest! {
    /// Whatever comes, all that goes out is between the ends, and to inner addresses behind the end that it goes to.
    #[test]
    fn it_is_never_an_open_relay(
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        ends in prop::array::uniform4(0usize..5),
        ttl in 0u8..4,
        tos: u8,
        registers: bool,
    ) {
        let addresses = [A, B, LEFT, RIGHT, Ipv4Addr::new(8, 8, 8, 8)];
        let mut world = if registers { world_of_van(None) } else { World::new(None) };
        world.tunnels.place_site(VAN, Some((LEFT, 1500)));
        let mut sent = Sent::default();
        world.tunnels.handle_packet(&mut bytes.clone(), world.now, &mut sent);
        world.tunnels.handle_error(&bytes, world.now, &mut sent);
        prop_assert!(sent.0.is_empty());
        let inner = packet(addresses[ends[0]], addresses[ends[1]], [tos, ttl], 0, bytes.len());
        let mut wrapped = wrap(addresses[ends[2]], addresses[ends[3]], &inner);
        let error = icmp_error(Problem::Unreachable(1), &wrapped, A, RELAY);
        world.tunnels.handle_packet(&mut wrapped, world.now, &mut sent);
        world.tunnels.handle_error(&error, world.now, &mut sent);
        for (header, inner) in &sent.0 {
            let (outer, inner) = (Ipv4::parse_quoted(header).unwrap(), Ipv4::parse(inner).unwrap());
            let behind = if outer.destination() == LEFT { A } else { B };
            prop_assert!([LEFT, RIGHT].contains(&outer.destination()));
            prop_assert_eq!(inner.destination(), behind);
            prop_assert!([A, B, RELAY].contains(&inner.source()) && inner.source() != behind);
        }
    }
}
