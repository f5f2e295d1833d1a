mod lasting;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use psmc_signal::{Alert, AlertKind, Measured, Stage};

use super::*;

const NOW: Moment = Moment(1_800_000_000_000);

const MS: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

/// Of an alert where it does not matter: longer than any test.
const LASTS: Duration = Duration::from_hours(24);

fn policy() -> Policy {
    Policy {
        service: "www".to_owned(),
        groups: vec!["staff".to_owned(), "public".to_owned()],
        relays_per_group: 2,
        relay_mbps: Some(20.0),
        has_gateway: true,
        lifetime: 600 * SECOND,
        hold: 60 * SECOND,
        prepare: false,
    }
}

/// So many relays that answer, the first ones faster.
fn relays(count: usize) -> RelayPool {
    let info =
        |number: usize| RelayInfo { name: format!("r{number}"), capacity_mbps: 100.0, latency_ms: None };
    let mut relays = RelayPool::new((0..count).map(info));
    for number in 0..count {
        relays.answers(&format!("r{number}"), (10 + u32::try_from(number).unwrap()) * MS);
    }
    relays
}

fn alert(id: &str) -> Alert {
    Alert {
        id: id.to_owned(),
        service: "www".to_owned(),
        target: None,
        kind: AlertKind::Rate,
        measured: Measured::default(),
        usual: Measured::default(),
    }
}

fn loss(loss: f64) -> Measured {
    Measured { packets: Some(100.0), loss: Some(loss), ..Measured::default() }
}

/// A life, its relays, and its actions so far, without notes.
struct Bed {
    life: Life,
    relays: RelayPool,
    now: Moment,
}

impl Bed {
    fn new(policy: Policy, count: usize) -> Self {
        let mut relays = relays(count);
        let life = Life::resume(policy, State::default(), &mut relays, NOW);
        Self { life, relays, now: NOW }
    }

    fn alert(&mut self, source: &str, id: &str) {
        self.life.handle_alert(source, alert(id), LASTS, &mut self.relays, self.now);
    }

    /// Lets the gateway be registered at all relays.
    fn ready(&mut self) {
        let all = self.life.state().all_relays().cloned().collect();
        self.life.handle_ready(all, self.now);
    }

    fn published(&mut self) {
        let serial = self.life.state().serial;
        self.life.handle_published(serial, self.now);
    }

    /// Lets time pass, from one due time to the next.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.life.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.life.handle_timeout(&mut self.relays, self.now);
        }
        self.now = end;
    }

    fn actions(&mut self) -> Vec<Action> {
        let all = std::iter::from_fn(|| self.life.poll_action());
        all.filter(|action| !matches!(action, Action::Note(_))).collect()
    }

    fn stage(&self) -> Stage {
        self.life.state().stage
    }

    /// An attack that is answered.
    fn active() -> Self {
        let mut bed = Self::new(policy(), 8);
        bed.alert("gateway", "1");
        bed.ready();
        bed.published();
        bed.actions();
        assert_eq!(bed.stage(), Stage::Active);
        bed
    }
}

fn cap(relay: &str, serves: bool) -> Action {
    Action::Cap { relay: relay.to_owned(), serves }
}

fn routes(pairs: &[(&str, &[&str])]) -> RelaySet {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    pairs.iter().map(|(group, relays)| ((*group).to_owned(), names(relays))).collect()
}

#[test]
fn an_alert_is_answered_as_soon_as_the_gateway_is_ready() {
    let mut bed = Bed::new(policy(), 8);
    assert_eq!(bed.actions(), []);
    bed.alert("gateway", "1");
    assert_eq!(bed.stage(), Stage::Requested);
    let expected = [cap("r0", true), cap("r1", true), cap("r2", true), cap("r3", true), Action::TellGateway];
    assert_eq!(bed.actions(), expected);
    bed.wait(100 * MS);
    assert_eq!(bed.actions(), [], "nobody is told of relays that do not know the gateway");
    bed.ready();
    assert_eq!(bed.actions(), [Action::Publish, Action::TellClients]);
    assert_eq!(bed.life.state().routes, routes(&[("staff", &["r0", "r1"]), ("public", &["r2", "r3"])]));
    assert_eq!(bed.stage(), Stage::Requested);
    bed.published();
    assert_eq!(bed.stage(), Stage::Active);
}

#[test]
fn what_is_not_ready_in_time_is_published_later() {
    let mut bed = Bed::new(policy(), 8);
    bed.alert("gateway", "1");
    bed.actions();
    bed.life.handle_ready(BTreeSet::from(["r0".to_owned(), "r2".to_owned()]), bed.now);
    bed.wait(499 * MS);
    assert_eq!(bed.actions(), []);
    bed.wait(MS);
    assert_eq!(bed.actions(), [Action::Publish, Action::TellClients]);
    assert_eq!(bed.life.state().routes, routes(&[("staff", &["r0"]), ("public", &["r2"])]));
    let serial = bed.life.state().serial;
    bed.ready();
    assert_eq!(bed.actions(), [Action::Publish, Action::TellClients]);
    assert!(bed.life.state().serial > serial);
}

#[test]
fn without_a_gateway_nobody_is_waited_for() {
    let mut bed = Bed::new(Policy { has_gateway: false, ..policy() }, 4);
    bed.alert("person", "1");
    assert!(bed.actions().contains(&Action::Publish));
}

#[test]
fn alerts_of_several_sources_are_one_mitigation_and_all_must_be_cleared() {
    let mut bed = Bed::active();
    let id = bed.life.state().id;
    bed.alert("hook", "1");
    bed.alert("gateway", "1");
    assert_eq!((bed.actions(), bed.life.state().id), (vec![], id));
    bed.life.handle_clear("gateway", "1", bed.now);
    bed.life.handle_clear("hook", "other", bed.now);
    bed.wait(100 * SECOND);
    assert_eq!(bed.stage(), Stage::Active);
    bed.life.handle_clear("hook", "1", bed.now);
    bed.wait(59 * SECOND);
    assert_eq!(bed.stage(), Stage::Active);
    bed.wait(SECOND);
    assert_eq!(bed.stage(), Stage::Expiring);
}

#[test]
fn a_pause_of_the_attack_changes_nothing() {
    let mut bed = Bed::active();
    bed.life.handle_clear("gateway", "1", bed.now);
    bed.wait(50 * SECOND);
    bed.alert("gateway", "2");
    bed.wait(100 * SECOND);
    assert_eq!(bed.stage(), Stage::Active);
}

#[test]
fn routes_are_renewed_long_before_they_expire_and_expire_in_the_end() {
    let mut bed = Bed::active();
    let first = bed.life.state().expires;
    bed.wait(200 * SECOND);
    assert_eq!(bed.actions(), [Action::Publish, Action::TellClients, Action::TellGateway]);
    assert!(bed.life.state().expires > first);
    bed.life.handle_clear("gateway", "1", bed.now);
    bed.wait(60 * SECOND);
    assert_eq!(bed.stage(), Stage::Expiring);
    assert_eq!(bed.actions(), [Action::TellGateway]);
    bed.wait(540 * SECOND);
    assert_eq!(bed.stage(), Stage::Withdrawn);
    let actions = bed.actions();
    assert_eq!(actions[..2], [Action::Withdraw, Action::TellClients]);
    assert_eq!(
        actions.iter().filter(|action| matches!(action, Action::Cap { serves: false, .. })).count(),
        4
    );
    assert_eq!(actions.last(), Some(&Action::TellGateway));
    assert_eq!((bed.life.poll_timeout(), bed.relays.count_free(bed.now)), (None, 8));
}

#[test]
fn an_attack_that_comes_back_while_routes_expire_is_answered_anew() {
    let mut bed = Bed::active();
    bed.life.handle_clear("gateway", "1", bed.now);
    bed.wait(100 * SECOND);
    assert_eq!(bed.stage(), Stage::Expiring);
    bed.actions();
    bed.alert("gateway", "2");
    let actions = bed.actions();
    assert!(actions.contains(&Action::Publish), "the gateway is registered still: {actions:?}");
    bed.published();
    bed.wait(500 * SECOND);
    assert_eq!(bed.stage(), Stage::Active);
}

#[test]
fn what_is_prepared_is_published_at_once() {
    let mut bed = Bed::new(Policy { prepare: true, ..policy() }, 8);
    assert_eq!(bed.stage(), Stage::Prepared);
    assert_eq!(bed.actions().last(), Some(&Action::TellGateway));
    bed.ready();
    assert_eq!(bed.actions(), [], "no client is told yet");
    bed.wait(5000 * SECOND);
    assert!(bed.actions().iter().all(|action| *action == Action::TellGateway));
    bed.alert("gateway", "1");
    assert_eq!(bed.actions(), [Action::TellGateway, Action::Publish, Action::TellClients]);
    bed.published();
    bed.life.handle_clear("gateway", "1", bed.now);
    bed.wait(2000 * SECOND);
    assert_eq!(bed.stage(), Stage::Prepared);
    assert!(bed.actions().contains(&Action::Withdraw));
    assert_eq!(bed.relays.count_free(bed.now), 4);
}

#[test]
fn a_relay_that_fails_is_replaced() {
    let mut bed = Bed::active();
    bed.life.handle_relay_failed("r1", "gone", &mut bed.relays, bed.now);
    assert_eq!(bed.actions(), [cap("r1", false), cap("r4", true), Action::TellGateway]);
    bed.ready();
    assert_eq!(bed.actions(), [Action::Publish, Action::TellClients]);
    assert_eq!(bed.life.state().routes, routes(&[("staff", &["r0", "r4"]), ("public", &["r2", "r3"])]));
    bed.life.handle_relay_failed("r1", "again", &mut bed.relays, bed.now);
    assert_eq!(bed.actions(), [], "it is not in use any more");
}

#[test]
fn without_a_replacement_clients_are_told_of_what_is_left_at_once() {
    let mut bed = Bed::new(policy(), 4);
    bed.alert("gateway", "1");
    bed.ready();
    bed.published();
    bed.actions();
    bed.life.handle_relay_failed("r0", "gone", &mut bed.relays, bed.now);
    assert!(bed.actions().contains(&Action::Publish));
    assert_eq!(bed.life.state().routes, routes(&[("staff", &["r1"]), ("public", &["r2", "r3"])]));
    // It is left alone for a minute, and taken again after that.
    bed.wait(59 * SECOND);
    bed.ready();
    assert_eq!(bed.life.state().routes["staff"], ["r1"]);
    bed.wait(3 * SECOND);
    bed.ready();
    assert_eq!(bed.life.state().routes["staff"], ["r1", "r0"]);
}

#[test]
fn groups_share_what_there_is() {
    let mut bed = Bed::new(policy(), 3);
    bed.alert("gateway", "1");
    bed.ready();
    let counts: Vec<usize> = bed.life.state().routes.values().map(Vec::len).collect();
    assert_eq!(counts, [1, 2]);
}

#[test]
fn without_any_relay_it_is_tried_again() {
    let mut bed = Bed::new(policy(), 2);
    bed.relays.is_silent("r0");
    bed.relays.is_silent("r1");
    bed.alert("gateway", "1");
    assert_eq!(bed.actions(), [Action::TellGateway]);
    bed.wait(10 * SECOND);
    assert_eq!(bed.actions(), []);
    bed.relays.answers("r1", MS);
    bed.life.handle_relay_found(bed.now);
    bed.wait(MS);
    bed.ready();
    bed.published();
    assert_eq!(bed.stage(), Stage::Active);
}

#[test]
fn reports_decide_whether_it_helps() {
    let mut bed = Bed::active();
    let report = |bed: &mut Bed, measured: Measured| {
        bed.now = bed.now + SECOND;
        bed.life.handle_report(&measured, &mut bed.relays, bed.now);
    };
    report(&mut bed, Measured::default());
    for _ in 0..2 {
        report(&mut bed, loss(0.01));
    }
    assert_eq!(bed.stage(), Stage::Active);
    report(&mut bed, loss(0.01));
    assert_eq!(bed.stage(), Stage::Effective);
    for _ in 0..4 {
        report(&mut bed, loss(0.5));
    }
    assert_eq!(bed.stage(), Stage::Effective);
    bed.actions();
    report(&mut bed, loss(0.5));
    assert_eq!(bed.stage(), Stage::Ineffective);
    assert_eq!(bed.life.state().relays, routes(&[("staff", &["r4", "r5"]), ("public", &["r6", "r7"])]));
    bed.ready();
    assert!(bed.actions().contains(&Action::Publish));
    for _ in 0..3 {
        report(&mut bed, loss(0.0));
    }
    assert_eq!(bed.stage(), Stage::Effective);
}

#[test]
fn the_nearest_of_those_that_carry_most_are_taken() {
    let info = |name: &str, capacity_mbps, latency_ms| RelayInfo {
        name: name.to_owned(),
        capacity_mbps,
        latency_ms,
    };
    let mut relays = RelayPool::new([
        info("narrow", 5.0, Some(1.0)),
        info("far", 100.0, Some(90.0)),
        info("near", 100.0, Some(3.0)),
        info("wide", 1000.0, Some(50.0)),
    ]);
    for relay in ["narrow", "far", "near", "wide"] {
        relays.answers(relay, MS);
    }
    assert_eq!(relays.take("www", 2, Some(50.0), NOW), ["near", "wide"]);
    assert_eq!(relays.take("www", 2, Some(50.0), NOW), ["narrow", "far"]);
}
