//! What the sites tell each other about themselves, and about each other's addresses.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psmc_core::{PathState, SchedulerKind};
use psmc_wire::PathId;
use psmc_wire::control::{About, Message, Seen};

use crate::world::{HQ, Link, Setup, TCP, VAN, World, address, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// An address of a NAT in a link.
fn nat(link: usize, port: u16) -> SocketAddr {
    let mut nat = address(link, 98);
    nat.set_port(port);
    nat
}

/// A van behind a NAT in each link.
fn behind_nats(links: usize) -> World {
    let link = |number| {
        let mut link = Link::new(10);
        link.nat = Some(nat(number, 4000));
        link
    };
    World::connected((0..links).map(link).collect(), SchedulerKind::Redundant)
}

fn seen_as(world: &World, end: usize) -> Vec<Option<SocketAddr>> {
    world.status(end).paths.iter().map(|path| path.seen_as).collect()
}

/// When an end has told the other one where that is.
fn told(world: &World, end: usize) -> Vec<(Instant, Seen)> {
    let of_end = world.posted.iter().filter(|(_, from, _)| *from == end);
    let seen = of_end.filter_map(|(at, _, message)| match message {
        Message::Seen(seen) => Some((*at, seen.clone())),
        Message::Hello(_)
        | Message::PathInfo(_)
        | Message::Limits(_)
        | Message::PathVia(_)
        | Message::About(_)
        | Message::Probe(_)
        | Message::CountsWanted(_)
        | Message::Drops(_)
        | Message::Shed(_)
        | Message::Shedding(_)
        | Message::Counts(_)
        | Message::Close(_)
        | Message::Unknown(_) => None,
    });
    seen.collect()
}

#[test]
fn each_end_knows_what_the_other_is_and_how_that_sees_it() {
    let world = behind_nats(2);
    assert_eq!(world.status(VAN).software.as_deref(), Some("world 1.1"));
    assert_eq!(world.status(HQ).software.as_deref(), Some("world 1.0"));
    assert_eq!(seen_as(&world, VAN), [Some(nat(0, 4000)), Some(nat(1, 4000))]);
    assert_eq!(seen_as(&world, HQ), [Some(address(0, HQ)), Some(address(1, HQ))]);
}

#[test]
fn a_nat_that_changes_its_mind_is_told_of_soon() {
    let mut world = behind_nats(1);
    world.links[0].nat = Some(nat(0, 4001));
    world.send(VAN, &packet(VAN, TCP, 1, 0, 500));
    world.run_for(ms(1100));
    assert_eq!(seen_as(&world, VAN), [Some(nat(0, 4001))]);
}

#[test]
fn whoever_connects_anew_is_told_anew() {
    let mut world = behind_nats(2);
    let before = told(&world, HQ).len();
    world.run_for(ms(5000));
    assert_eq!(told(&world, HQ).len(), before, "nothing has changed");
    world.drop_connections();
    world.run_for(ms(3000));
    let told = told(&world, HQ);
    let paths: Vec<_> =
        told[before..].iter().flat_map(|(_, seen)| &seen.paths).map(|(path, _)| *path).collect();
    assert_eq!(paths, world.status(HQ).paths.iter().map(|path| path.id).collect::<Vec<_>>());
}

#[test]
fn many_paths_that_move_all_the_time_cost_a_message_a_second() {
    const SECONDS: u16 = 10;
    let mut world = behind_nats(64);
    let before = told(&world, HQ).len();
    for turn in 0..SECONDS * 20 {
        for link in 0..64 {
            world.links[link].nat = Some(nat(link, 5000 + turn));
        }
        world.send(VAN, &packet(VAN, TCP, 1, turn.into(), 500));
        world.run_for(ms(50));
    }
    let told = told(&world, HQ).split_off(before);
    assert!(
        (SECONDS - 2..=SECONDS + 1).contains(&u16::try_from(told.len()).unwrap_or(u16::MAX)),
        "{} messages",
        told.len()
    );
    assert!(told.iter().any(|(_, seen)| seen.paths.len() > 32), "they are gathered");
    world.run_for(ms(1100));
    assert!(seen_as(&world, VAN).iter().all(|seen| seen.is_some_and(|seen| seen.port() == 5199)));
}

#[test]
fn what_stands_behind_relays_says_nothing_and_is_told_nothing() {
    for hq_is_hidden in [false, true] {
        let mut world = World::new(Vec::new(), Setup { hq_is_hidden, ..SchedulerKind::Earliest.into() });
        world.links = vec![Link::new(10), Link::new(20)];
        for link in 0..2 {
            world.stand_relay(link);
            let path = world.add_relayed_path(link);
            if hq_is_hidden {
                world.register(link);
                world.lead_path_to_gateway(path, link);
            } else {
                world.lead_path(path, link);
            }
        }
        world.run_for(ms(3000));
        for end in [VAN, HQ] {
            let paths = world.status(end).paths;
            assert!(paths.iter().all(|path| path.state == PathState::Active), "{paths:?}");
            assert_eq!(seen_as(&world, end), [None, None]);
            assert_eq!(told(&world, end), [], "hidden: {hq_is_hidden}");
        }
    }
}

#[test]
fn odd_words_of_the_peer_do_no_harm() {
    let mut world = behind_nats(1);
    let (id, now) = (world.connection_of(HQ), world.now);
    let software = format!("psmcd\u{1b}[2J\n{}", "9".repeat(200));
    let site = &mut world.ends[HQ].site;
    site.handle_message(id, Message::About(About { software }), now);
    site.handle_message(id, Message::Seen(Seen { paths: vec![(PathId(77), nat(0, 1))] }), now);
    let status = world.status(HQ);
    assert_eq!(status.software.map(|software| software.len()), Some(64));
    assert_eq!(seen_as(&world, HQ), [Some(address(0, HQ))]);
    assert_eq!(world.refused(HQ), 0);
}
