//! What goes on: what a coordinator remembers that was killed, and a file that is read anew in the middle of an attack.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use psmc_net::keys::random_seed;
use psmc_signal::connection::Event;
use psmc_signal::{Message, Role, Stage};

use crate::harness::{Bed, Caller, PATIENCE, alert, numbers, register};
use crate::parts::{SERVICE, client_key, guard_key, relay_key};

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
        let mut note = |event: &Event| {
            if let Event::Message(Message::Noted { id }) = event {
                noted.insert(id.clone());
                return true;
            }
            false
        };
        // Somewhere between the first handshake and the last acknowledgement, as chance has it; in every other round after the first
        // acknowledgement, however slow the machine is.
        while round % 2 == 1 && !note(&guard.event()) {}
        let [chance, ..] = random_seed();
        std::thread::sleep(Duration::from_micros(u64::from(chance) * 100));
        bed.kill_coordinator();
        while let Event::Up { .. } | Event::Message(_) = {
            let event = guard.event();
            note(&event);
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

impl Bed {
    /// Reloads the file, after this was done to it.
    fn reload(&self, change: impl Fn(String) -> String) {
        self.change_file(change);
        self.coordinator.as_ref().unwrap().hang_up();
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("psmc-coordinator.log")).unwrap()
    }
}

/// The file without the `[[relay]]` or `[[client]]` that has this name.
pub(crate) fn without(text: &str, name: &str) -> String {
    let (before, rest) = text.split_once(&format!("name = \"{name}\"\n")).unwrap();
    let before = &before[..before.rfind("[[").unwrap()];
    format!("{before}{}", &rest[rest.find("[[").unwrap()..])
}

fn is_down(caller: &Caller) -> bool {
    let events = std::iter::from_fn(|| caller.event_within(Duration::ZERO));
    events.into_iter().any(|event| matches!(event, Event::Down { .. }))
}

#[test]
fn relays_clients_and_limits_change_while_a_mitigation_goes_on() {
    let service = "relays_per_group = 2\nrelay_rate = \"20mbit\"\ngroups = [\"public\"]\n";
    let bed = Bed::new(3, service, "");
    // The third relay is in the file from the beginning, so that it is another one that comes.
    let guard = bed.dial(Role::Gateway, &guard_key()).up();
    let lab = bed.dial(Role::Client, &client_key("lab")).up();
    let bad = bed.dial(Role::Client, &client_key("bad")).up();
    bed.wait_for_relays(3);
    guard.say(alert("1"));
    let before = register(&guard);
    bed.wait_for("publication", |status| status["services"][0]["stage"] == "active");
    let routes = bed.routes_in_dns().unwrap();
    let [victim, stays] = numbers(&routes)[..] else { panic!("two relays") };
    let [spare] = [0, 1, 2].into_iter().filter(|n| ![victim, stays].contains(n)).collect::<Vec<_>>()[..]
    else {
        panic!("one of three is left")
    };

    bed.reload(|text| {
        without(&without(&text, &format!("r{victim}")), "bad").replace("\"20mbit\"", "\"30mbit\"")
    });
    let after = loop {
        let mitigation = register(&guard);
        if mitigation.relays.iter().any(|relay| relay.public_key == relay_key(spare).public().to_string()) {
            break mitigation;
        }
    };
    assert_eq!((after.id, after.relays.len()), (before.id, 2));
    let mut now = [stays, spare];
    now.sort_unstable();
    let started = Instant::now();
    while bed.routes_in_dns().is_none_or(|routes| numbers(&routes) != now) {
        assert!(started.elapsed() < PATIENCE, "{}", bed.log());
    }
    let rate = |relay: usize| bed.relay_status(relay).max_rate_bits_per_second;
    bed.wait_for("caps", |_| {
        rate(victim).is_none() && now.iter().all(|relay| rate(*relay) == Some(30_000_000))
    });
    // Whom the file has no more is hung up on; the others were not.
    while !matches!(bad.event(), Event::Down { .. }) {}
    assert!(!is_down(&lab) && !is_down(&guard));
    let status = bed.status();
    assert_eq!(status["services"][0]["mitigation"], before.id);
    assert_eq!(status["relays"].as_array().unwrap().len(), 2);

    // What is wrong changes nothing, and says why.
    bed.reload(|text| text.replace("relays_per_group = 2", "relays_per_group = 200"));
    let started = Instant::now();
    while !bed.log().contains("configuration not reloaded; the current one stays in force") {
        assert!(started.elapsed() < PATIENCE, "{}", bed.log());
    }
    assert!(bed.log().contains("relays_per_group"));
    assert_eq!(bed.status()["services"][0]["relays"]["public"].as_array().unwrap().len(), 2);

    // A service that the file has no more ends.
    bed.reload(|text| {
        text.replace("relays_per_group = 200", "relays_per_group = 2")
            .replace("\"www.example.com\"", "\"ftp.example.com\"")
    });
    guard.hear(|message| {
        let Message::Mitigation(mitigation) = message else { return None };
        (mitigation.service == "www.example.com" && mitigation.stage == Stage::Withdrawn).then_some(())
    });
    lab.hear(|message| {
        let Message::Routes(routes) = message else { return None };
        routes.record.is_none().then_some(())
    });
    let started = Instant::now();
    while bed.routes_in_dns().is_some() || [stays, spare].iter().any(|relay| rate(*relay).is_some()) {
        assert!(started.elapsed() < PATIENCE, "{}", bed.log());
    }
    assert_eq!(bed.status()["services"][0]["name"], "ftp.example.com");
    assert!(!is_down(&guard));
}
