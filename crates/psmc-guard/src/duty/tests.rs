use proptest::prelude::*;

use super::*;

const WWW: &str = "www.example.com";

fn relay(number: u8) -> RelayOffer {
    let public_key = format!("key{number:03}");
    let address = format!("198.51.100.{number}:5115").parse().unwrap();
    RelayOffer { name: format!("r{number}"), address, public_key, grant: None }
}

fn mitigation(id: u64, relays: &[u8], expires: u64) -> Mitigation {
    let relays = relays.iter().map(|number| relay(*number)).collect();
    Mitigation { id, service: WWW.to_owned(), stage: Stage::Active, relays, expires, is_last: true }
}

fn client(name: &str) -> Client {
    let (public_key, allowed_ips) = (format!("key of {name}"), vec!["10.77.0.2/32".to_owned()]);
    Client { name: name.to_owned(), public_key, allowed_ips }
}

fn standing(registered: &[u8], refused: &[u8]) -> BTreeMap<String, Standing> {
    let good = |number: &u8| {
        (relay(*number).public_key, Standing { is_registered: true, is_silent: false, error: None })
    };
    let bad = |number: &u8| {
        (
            relay(*number).public_key,
            Standing { is_registered: false, is_silent: false, error: Some("no grant".to_owned()) },
        )
    };
    registered.iter().map(good).chain(refused.iter().map(bad)).collect()
}

fn ready(id: u64, relays: &[u8]) -> Message {
    let relays = relays.iter().map(|number| relay(*number).public_key).collect();
    Message::Ready { id, relays, is_last: true }
}

fn failed(number: u8, reason: &str) -> Message {
    let relay = relay(number).public_key;
    Message::RelayFailed { service: WWW.to_owned(), relay, reason: reason.to_owned() }
}

fn duty() -> Duty {
    Duty::new(Kept::default(), 2)
}

fn names(duty: &Duty) -> Vec<String> {
    duty.wanted().registrations.into_iter().map(|registration| registration.relay.name).collect()
}

#[test]
fn a_mitigation_of_a_thousand_relays_comes_in_parts_and_counts_whole() {
    let mut duty = duty();
    let all: Vec<u8> = (0..250).collect();
    let numbered = |number: usize| RelayOffer { public_key: format!("key{number}"), ..relay(1) };
    let whole = Mitigation { relays: (0..1000).map(numbered).collect(), ..mitigation(1, &all, 100) };
    let mut parts = Message::mitigation(&whole);
    let last = parts.pop().unwrap();
    assert!(parts.len() > 10);
    for part in parts {
        let Message::Mitigation(part) = part else { panic!("{part:?}") };
        duty.handle_mitigation(part).unwrap();
        assert_eq!(names(&duty).len(), 0, "it has not come in full");
    }
    let Message::Mitigation(last) = last else { panic!("{last:?}") };
    duty.handle_mitigation(last).unwrap();
    let wanted = duty.wanted().registrations;
    assert_eq!(wanted.len(), 1000);
    let good = Standing { is_registered: true, is_silent: false, error: None };
    let standing = wanted.iter().map(|wanted| (wanted.relay.public_key.clone(), good.clone())).collect();
    let said = duty.handle_standing(&standing);
    let keys = |message: &Message| {
        let Message::Ready { relays, .. } = message else { panic!("{message:?}") };
        relays.len()
    };
    assert_eq!(said.iter().map(keys).sum::<usize>(), 1000);
    assert!(said.len() > 1);
    // A connection that broke in the middle: the next one begins anew.
    let Some(Message::Mitigation(first)) = Message::mitigation(&whole).into_iter().next() else { panic!() };
    duty.handle_mitigation(first).unwrap();
    duty.handle_connected();
    duty.handle_mitigation(mitigation(1, &[7], 100)).unwrap();
    assert_eq!(names(&duty), ["r7"]);
}

#[test]
fn readiness_is_said_once_and_when_it_changes() {
    let mut duty = duty();
    duty.handle_mitigation(mitigation(1, &[1, 2], 100)).unwrap();
    assert_eq!(names(&duty), ["r1", "r2"]);
    assert_eq!(duty.handle_standing(&standing(&[], &[])), []);
    assert_eq!(duty.handle_standing(&standing(&[2], &[])), [ready(1, &[2])]);
    assert_eq!(duty.handle_standing(&standing(&[2], &[])), []);
    assert_eq!(duty.handle_standing(&standing(&[1, 2], &[])), [ready(1, &[1, 2])]);
    assert!(duty.is_registered("key001") && duty.is_mitigated(WWW) && duty.is_active(WWW));
    // Asked again, it is said again; and after a new connection, too.
    duty.handle_mitigation(mitigation(1, &[1, 2], 200)).unwrap();
    assert_eq!(duty.handle_standing(&standing(&[1, 2], &[])), [ready(1, &[1, 2])]);
    duty.handle_connected();
    assert_eq!(duty.handle_standing(&standing(&[1, 2], &[])), [ready(1, &[1, 2])]);
}

#[test]
fn a_relay_that_fails_is_named_once() {
    let mut duty = duty();
    duty.handle_mitigation(mitigation(1, &[1, 2], 100)).unwrap();
    duty.handle_standing(&standing(&[1, 2], &[]));
    let said = duty.handle_standing(&standing(&[2], &[]));
    assert_eq!(said, [failed(1, "the registration was lost"), ready(1, &[2])]);
    assert_eq!(duty.handle_standing(&standing(&[2], &[1])), []);
    duty.handle_standing(&standing(&[1, 2], &[]));
    assert_eq!(duty.handle_standing(&standing(&[2], &[1])), [failed(1, "no grant"), ready(1, &[2])]);
    // One that never worked.
    duty.handle_mitigation(mitigation(1, &[2, 3], 100)).unwrap();
    assert_eq!(duty.handle_standing(&standing(&[2], &[3])), [failed(3, "no grant"), ready(1, &[2])]);
}

#[test]
fn a_relay_that_swallows_everything_is_named_once_and_stays_ready() {
    let mut duty = duty();
    duty.handle_mitigation(mitigation(1, &[1, 2], 100)).unwrap();
    let well = standing(&[1, 2], &[]);
    assert_eq!(duty.handle_standing(&well), [ready(1, &[1, 2])]);
    let mut swallows = well.clone();
    swallows.get_mut("key002").unwrap().is_silent = true;
    assert_eq!(duty.handle_standing(&swallows), [failed(2, SILENT)]);
    assert_eq!(duty.handle_standing(&swallows), []);
    assert_eq!(duty.handle_standing(&well), []);
    assert_eq!(duty.handle_standing(&swallows), [failed(2, SILENT)], "once more");
}

#[test]
fn what_expires_or_is_withdrawn_is_undone() {
    let mut duty = duty();
    duty.handle_mitigation(mitigation(1, &[1], 100)).unwrap();
    duty.handle_mitigation(mitigation(2, &[1, 2], 200)).unwrap();
    duty.handle_clients(WWW, 1, vec![client("ann")], true).unwrap();
    duty.handle_time(99, false);
    assert_eq!(names(&duty), ["r1", "r2"]);
    duty.handle_time(100, false);
    assert_eq!(names(&duty), ["r1", "r2"]);
    assert_eq!(duty.wanted().clients.len(), 1);
    duty.handle_time(200, false);
    assert_eq!(duty.wanted(), Wanted::default());

    duty.handle_mitigation(mitigation(3, &[1], 400)).unwrap();
    duty.handle_mitigation(Mitigation { stage: Stage::Withdrawn, ..mitigation(3, &[], 400) }).unwrap();
    assert_eq!(duty.wanted(), Wanted::default());
    assert!(!duty.is_mitigated(WWW));
}

#[test]
fn a_coordinator_that_is_there_says_who_is_let_in() {
    let mut duty = duty();
    duty.handle_mitigation(mitigation(1, &[1], 100)).unwrap();
    duty.handle_clients(WWW, 1, vec![client("ann")], false).unwrap();
    assert!(duty.wanted().clients.is_empty());
    duty.handle_clients(WWW, 1, vec![client("bob")], true).unwrap();
    assert!(duty.wanted().clients.into_keys().eq(["ann", "bob"]));
    duty.handle_clients(WWW, 2, vec![client("eve")], false).unwrap();
    duty.handle_clients(WWW, 3, vec![client("bob")], true).unwrap();
    assert!(duty.wanted().clients.into_keys().eq(["bob"]));
    duty.handle_time(100, true);
    assert!(duty.wanted().clients.into_keys().eq(["bob"]));
    let many = vec![client("x"); 10_001];
    assert!(duty.handle_clients(WWW, 4, many, true).is_err());
    assert!(duty.wanted().clients.into_keys().eq(["bob"]));
}

#[test]
fn relays_keep_their_lines() {
    let mut duty = duty();
    duty.handle_mitigation(mitigation(1, &[1, 2, 3], 100)).unwrap();
    let lines = |duty: &Duty| -> Vec<Option<usize>> {
        duty.wanted().registrations.iter().map(|registration| registration.line).collect()
    };
    assert_eq!(lines(&duty), [Some(0), Some(1), Some(0)]);
    duty.handle_mitigation(mitigation(1, &[2, 3, 4], 100)).unwrap();
    assert_eq!(lines(&duty), [Some(1), Some(0), Some(0)]);
    let mut plain = Duty::new(Kept::default(), 0);
    plain.handle_mitigation(mitigation(1, &[1], 100)).unwrap();
    assert_eq!(lines(&plain), [None]);
}

proptest! {
    /// What is kept makes the same again.
    #[test]
    fn a_restart_changes_nothing(ids in proptest::collection::vec((0_u64..5, 1_u8..20, 1_u64..100), 0..20)) {
        let mut duty = Duty::new(Kept::default(), 0);
        for (id, number, expires) in ids {
            duty.handle_mitigation(mitigation(id, &[number, number + 1], expires)).unwrap();
        }
        duty.handle_clients(WWW, 1, vec![client("ann")], true).unwrap();
        let again = Duty::new(duty.kept(), 0);
        prop_assert_eq!(again.wanted(), duty.wanted());
    }

    /// At the end of time nothing is left, however it came about.
    #[test]
    fn everything_ends(ids in proptest::collection::vec((0_u64..5, 1_u8..20, 1_u64..100), 0..20)) {
        let mut duty = Duty::new(Kept::default(), 3);
        for (id, number, expires) in ids {
            duty.handle_mitigation(mitigation(id, &[number], expires)).unwrap();
            duty.handle_standing(&standing(&[number], &[number.wrapping_add(1)]));
        }
        duty.handle_time(100, false);
        prop_assert_eq!(duty.wanted(), Wanted::default());
    }
}
