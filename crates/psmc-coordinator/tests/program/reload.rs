//! The file is read anew in the middle of an attack.

use std::fs;
use std::time::{Duration, Instant};

use psmc_signal::connection::Event;
use psmc_signal::{Message, Role, Stage};

use crate::harness::{Bed, Caller, PATIENCE, alert, numbers, register};
use crate::parts::{client_key, guard_key, relay_key};

impl Bed {
    /// Has the file read anew, after this was done to it.
    fn reload(&self, change: impl Fn(String) -> String) {
        let path = self.directory.path().join("co.toml");
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
        self.coordinator.as_ref().unwrap().hang_up();
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("psmc-coordinator.log")).unwrap()
    }
}

/// The file without the `[[relay]]` or `[[client]]` that has this name.
fn without(text: &str, name: &str) -> String {
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
    while !bed.log().contains("the file cannot be used, all stays as it is") {
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
