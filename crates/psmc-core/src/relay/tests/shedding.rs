//! What a relay drops for those to whom it goes.

use psmc_wire::hop::HopKey;
use psmc_wire::shed::{Ask, Rule, What};

use super::*;
use crate::shed::{Bounds, Register, ShedCounts};

const GATEWAY: KeyBytes = KeyBytes([2; 32]);

/// Rules of a site, of whose labels `hops` are its own.
fn rules(rules: Vec<Rule>) -> Arc<Held> {
    let ask = Ask { request: 1, serial: 1, lifetime_ms: 10_000, rules };
    let mut register = Register::default();
    register.handle(&ask, Bounds::default(), |_| true, &mut ShedCounts::default(), 0);
    Arc::new(register.held())
}

fn nothing_of(what: What) -> Vec<Rule> {
    vec![Rule { what, rate: Some(0) }]
}

/// A session of a site to a gateway, both of which have shown where they are, and the senders of both.
fn session(world: &mut World) -> (Added, [Sender; 2]) {
    let ticket = world.account.take_session().unwrap();
    let spec = SessionSpec {
        ticket,
        rate: None,
        address: None,
        far_site: Some(GATEWAY),
        far: Leg::Site,
        near_inside: None,
    };
    let added = world.add(spec);
    let [mut near, mut far] =
        [Sender::new(&added.near, "192.0.2.1:40000"), Sender::new(&added.far, "192.0.2.2:5115")];
    for sender in [&mut near, &mut far] {
        let (datagram, from) = (sender.datagram(100), sender.address);
        world.send(datagram, from);
    }
    // What came before the other one had shown where it is.
    assert_eq!(world.waiting().len(), 1);
    (added, [near, far])
}

/// How many of ten datagrams of a precedence go on at once.
fn passing(world: &mut World, from: &mut Sender, precedence: u8) -> usize {
    let sent = (0..10).filter_map(|_| {
        let datagram = from.marked(1000, precedence);
        world.send(datagram, from.address)
    });
    sent.count()
}

#[test]
fn what_goes_to_a_site_is_dropped_for_it_and_nothing_else() {
    let mut world = World::new();
    let (_, [mut near, mut far]) = session(&mut world);
    world.relay.set_rules(SITE, Some(rules(nothing_of(What::Datagrams(Some(2))))));
    assert_eq!([0, 1, 2].map(|precedence| passing(&mut world, &mut far, precedence)), [10, 10, 0]);
    assert_eq!(passing(&mut world, &mut near, 2), 10, "that goes to the gateway");
    world.relay.set_rules(GATEWAY, Some(rules(nothing_of(What::Datagrams(None)))));
    assert_eq!([0, 2].map(|precedence| passing(&mut world, &mut near, precedence)), [0, 0]);
    assert_eq!(world.relay.refusals.shed, 30);
    world.relay.set_rules(GATEWAY, None);
    assert_eq!(passing(&mut world, &mut near, 0), 10);
    // Whatever becomes of the control side.
    world.pass(Duration::from_secs(10));
    assert_eq!(passing(&mut world, &mut far, 2), 10);
}

#[test]
fn who_knows_the_key_of_a_label_speaks_for_its_end() {
    let mut world = World::new();
    let (one, [_, mut far]) = session(&mut world);
    let (_, [_, mut other]) = session(&mut world);
    let forged = Hop { key: HopKey([9; 16]), ..one.near.clone() };
    let unknown = Hop { label: psmc_wire::Label(7), ..one.near.clone() };
    let known = [&one.near, &one.far, &forged, &unknown].map(|hop| world.relay.has_hop(hop));
    assert_eq!(known, [true, true, false, false]);
    let asked = rules(nothing_of(What::Label(one.near, Some(1))));
    world.relay.set_rules(KeyBytes([3; 32]), Some(asked));
    assert_eq!([0, 1].map(|precedence| passing(&mut world, &mut far, precedence)), [10, 0]);
    assert_eq!(passing(&mut world, &mut other, 1), 10, "of one session only");
    world.relay.set_rules(KeyBytes([3; 32]), None);
    assert_eq!(passing(&mut world, &mut far, 1), 10);
}

#[test]
fn a_limit_lets_pass_what_it_says() {
    let mut world = World::new();
    let (_, [_, mut far]) = session(&mut world);
    world.relay.set_rules(SITE, Some(rules(vec![Rule { what: What::Datagrams(None), rate: Some(125_000) }])));
    let mut passed = 0;
    for _ in 0..400 {
        passed += passing(&mut world, &mut far, 0);
        world.pass(Duration::from_millis(10));
    }
    // 125 datagrams a second, and a burst.
    assert!((500..=520).contains(&passed), "{passed} of 4000");
}
