//! What a coordinator remembers that was killed.

use std::collections::BTreeSet;
use std::time::Duration;

use psmc_net::keys::random_seed;
use psmc_signal::connection::Event;
use psmc_signal::{Message, Role};

use crate::harness::{Bed, alert, numbers, register};
use crate::parts::{SERVICE, client_key, guard_key};

/// Kills of the coordinator: each at another moment.
const ROUNDS: usize = 8;

#[test]
fn nothing_that_was_acknowledged_is_lost_by_a_kill() {
    let mut bed = Bed::new(2, "groups = [\"public\"]\n", "");
    let mut noted = BTreeSet::new();
    for round in 0..ROUNDS {
        let guard = bed.dial(Role::Gateway, &guard_key()).up();
        for number in 0..6 {
            guard.say(alert(&format!("{round}-{number}")));
        }
        // Somewhere between the first handshake and the last acknowledgement, as chance has it.
        let [chance, ..] = random_seed();
        std::thread::sleep(Duration::from_micros(u64::from(chance) * 100));
        bed.kill_coordinator();
        while let Event::Up { .. } | Event::Message(_) = {
            let event = guard.event();
            if let Event::Message(Message::Noted { id }) = &event {
                noted.insert(id.clone());
            }
            event
        } {}
        drop(guard);
        bed.start_coordinator();
        let status = bed.status();
        let alerts = status["services"][0]["alerts"].as_array().unwrap();
        let known: BTreeSet<String> =
            alerts.iter().map(|open| open["alert"]["id"].as_str().unwrap().to_owned()).collect();
        assert!(noted.is_subset(&known), "acknowledged {noted:?}, and kept {known:?}");
    }
    println!("{} of {} alerts were acknowledged before a kill", noted.len(), ROUNDS * 6);
    assert!(!noted.is_empty(), "no kill came after an acknowledgement");
}

#[test]
fn a_mitigation_outlives_the_coordinator() {
    let mut bed = Bed::new(2, "groups = [\"public\"]\nrelay_rate = \"20mbit\"\n", "");
    let guard = bed.dial(Role::Gateway, &guard_key()).up();
    bed.wait_for_relays(2);
    guard.say(alert("1"));
    let before = register(&guard);
    bed.wait_for("publication", |status| status["services"][0]["stage"] == "active");
    let serial = bed.routes_in_dns().unwrap().validity().serial;
    bed.kill_coordinator();
    bed.start_coordinator();
    let after = register(&guard);
    assert_eq!((after.id, &after.relays.len()), (before.id, &2));
    let started = std::time::Instant::now();
    let routes = loop {
        let routes = bed.routes_in_dns().unwrap();
        if routes.validity().serial > serial {
            break routes;
        }
        assert!(started.elapsed() < crate::harness::PATIENCE, "routes are renewed by whoever is back");
    };
    assert_eq!(numbers(&routes), [0, 1]);
    bed.wait_for("caps", |_| {
        (0..2).all(|relay| bed.relay_status(relay).max_rate_bits_per_second == Some(20_000_000))
    });
}

#[test]
fn clients_are_told_of_routes_that_end_soon_and_of_those_that_have_ended() {
    let mut bed = Bed::new(2, "groups = [\"public\"]\nhold = 1\n", "");
    bed.wait_for_relays(2);
    assert!(bed.tool(&["alert", SERVICE]).status.success());
    let guard = bed.dial(Role::Gateway, &guard_key()).up();
    register(&guard);
    bed.wait_for("publication", |status| status["services"][0]["stage"] == "active");
    assert!(bed.tool(&["alert", SERVICE, "--clear"]).status.success());
    bed.wait_for("the end", |status| status["services"][0]["stage"] == "expiring");
    let record = |bed: &Bed| {
        let lab = bed.dial(Role::Client, &client_key("lab")).up();
        lab.hear(|message| if let Message::Routes(routes) = message { Some(routes) } else { None }).record
    };
    bed.kill_coordinator();
    bed.start_coordinator();
    assert!(record(&bed).is_some(), "it lasts until it expires");
    assert!(bed.tool(&["withdraw", SERVICE]).status.success());
    bed.kill_coordinator();
    bed.start_coordinator();
    assert!(record(&bed).is_none(), "who was away hears of the end");
}
