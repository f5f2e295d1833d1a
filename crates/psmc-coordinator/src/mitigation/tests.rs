use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
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
fn relays(count: usize) -> Relays {
    let info =
        |number: usize| RelayInfo { name: format!("r{number}"), capacity_mbps: 100.0, latency_ms: None };
    let mut relays = Relays::new((0..count).map(info));
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
    relays: Relays,
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
fn alerts_that_are_not_repeated_end() {
    let mut bed = Bed::active();
    bed.life.handle_alert("suricata", alert("s"), 60 * SECOND, &mut bed.relays, bed.now);
    bed.life.handle_return("gateway", bed.now + 30 * SECOND);
    bed.wait(30 * SECOND);
    assert_eq!(bed.life.state().alerts.len(), 1);
    bed.wait(30 * SECOND);
    assert_eq!((bed.life.state().alerts.len(), bed.stage()), (0, Stage::Active));
    bed.wait(60 * SECOND);
    assert_eq!(bed.stage(), Stage::Expiring);
}

#[test]
fn an_alert_counts_for_as_long_as_it_is_renewed() {
    let mut bed = Bed::new(policy(), 4);
    bed.life.handle_alert("hook", alert("h"), 60 * SECOND, &mut bed.relays, bed.now);
    for _ in 0..5 {
        bed.wait(50 * SECOND);
        assert!(bed.life.handle_renewal("hook", "h", 60 * SECOND, bed.now));
    }
    assert!(!bed.life.handle_renewal("hook", "other", 60 * SECOND, bed.now));
    assert!(!bed.life.handle_renewal("gateway", "h", 60 * SECOND, bed.now));
    // Saying it again renews it, too, for another time.
    bed.life.handle_alert("hook", alert("h"), 10 * SECOND, &mut bed.relays, bed.now);
    bed.wait(9 * SECOND);
    assert_eq!(bed.life.state().alerts.len(), 1);
    bed.wait(SECOND);
    assert_eq!(bed.life.state().alerts.len(), 0);
    assert!(!bed.life.handle_renewal("hook", "h", 60 * SECOND, bed.now), "it must be raised anew");
}

#[test]
fn a_guard_that_is_there_renews_what_it_has_said_since() {
    let mut bed = Bed::new(policy(), 4);
    let wait = |bed: &mut Bed, is_there: bool| {
        for _ in 0..120 {
            if is_there {
                bed.life.handle_presence("gateway", bed.now);
            }
            bed.wait(60 * SECOND);
        }
    };
    bed.life.handle_alert("gateway", alert("g"), 3600 * SECOND, &mut bed.relays, bed.now);
    bed.life.handle_alert("hook", alert("h"), 3600 * SECOND, &mut bed.relays, bed.now);
    wait(&mut bed, true);
    let ids =
        |bed: &Bed| bed.life.state().alerts.iter().map(|open| open.alert.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&bed), ["g"]);
    // Back after a while it has to say it again, however long it is there.
    bed.life.handle_return("gateway", bed.now + 30 * SECOND);
    bed.life.handle_presence("gateway", bed.now);
    bed.wait(30 * SECOND);
    assert_eq!(ids(&bed), [""; 0]);
    bed.life.handle_alert("gateway", alert("g"), 3600 * SECOND, &mut bed.relays, bed.now);
    wait(&mut bed, false);
    assert_eq!(ids(&bed), [""; 0], "it is gone");
}

#[test]
fn renewals_need_not_be_kept_one_by_one() {
    let mut bed = Bed::new(policy(), 4);
    bed.life.handle_alert("hook", alert("h"), 12 * SECOND, &mut bed.relays, bed.now);
    let kept = bed.life.state().clone();
    bed.wait(10 * SECOND);
    bed.life.handle_renewal("hook", "h", 12 * SECOND, bed.now);
    assert!(bed.life.state().is_as_good_as(&kept) && *bed.life.state() != kept);
    // Whoever goes on from what was kept gives it more time than that.
    let mut relays = relays(4);
    let resumed = Life::resume(policy(), kept.clone(), &mut relays, bed.now);
    assert!(resumed.state().alerts[0].until > bed.life.state().alerts[0].until);
    bed.life.handle_renewal("hook", "h", 120 * SECOND, bed.now);
    assert!(!bed.life.state().is_as_good_as(&kept));
    bed.life.handle_clear("hook", "h", bed.now);
    assert!(!bed.life.state().is_as_good_as(&kept));
}

#[test]
fn alerts_that_were_kept_without_an_end_get_one() {
    let mut bed = Bed::active();
    let mut text = serde_json::to_value(bed.life.state()).unwrap();
    let open = text["alerts"][0].as_object_mut().unwrap();
    open.insert("until".to_owned(), serde_json::Value::Null);
    open.remove("lasts_s");
    open.remove("unconfirmed");
    let state: State = serde_json::from_value(text).unwrap();
    bed.life = Life::resume(policy(), state, &mut bed.relays, bed.now);
    assert_eq!(bed.life.state().alerts.len(), 1);
    bed.wait(59 * SECOND);
    assert_eq!(bed.life.state().alerts.len(), 1);
    bed.wait(SECOND);
    assert_eq!(bed.life.state().alerts.len(), 0);
}

#[test]
fn after_a_restart_it_goes_on() {
    let bed = Bed::active();
    let text = serde_json::to_string(bed.life.state()).unwrap();
    let state: State = serde_json::from_str(&text).unwrap();
    assert_eq!(&state, bed.life.state());
    let now = bed.now + 3600 * SECOND;
    // Relays have not answered yet, and one is not configured any more.
    let info = |name: &str| RelayInfo { name: name.to_owned(), capacity_mbps: 1.0, latency_ms: None };
    let mut relays = Relays::new(["r0", "r2", "r3", "r9"].map(info));
    let life = Life::resume(policy(), state, &mut relays, now);
    let mut bed = Bed { life, relays, now };
    bed.wait(MS);
    let actions = bed.actions();
    assert!(actions.contains(&Action::Publish) && actions.contains(&Action::TellGateway), "{actions:?}");
    assert!(actions.contains(&cap("r0", true)));
    assert_eq!(bed.stage(), Stage::Active);
    assert!(bed.life.state().expires > now);
    assert_eq!(bed.relays.user("r0"), Some("www"));
}

/// Else clients, which believe the first one of a serial number, would keep what another key has signed.
#[test]
fn after_a_restart_routes_that_expire_have_another_serial_number_and_last_no_longer() {
    let mut bed = Bed::active();
    bed.life.handle_clear("gateway", "1", bed.now);
    bed.wait(61 * SECOND);
    assert_eq!(bed.stage(), Stage::Expiring);
    let before = bed.life.state().clone();
    bed.relays = relays(6);
    bed.life = Life::resume(policy(), before.clone(), &mut bed.relays, bed.now);
    let renews = |bed: &mut Bed, serial: u64| {
        bed.actions();
        bed.wait(Duration::ZERO);
        let told = [Action::Publish, Action::TellClients, Action::TellGateway];
        assert_eq!(bed.actions(), told);
        let state = bed.life.state();
        assert!(state.serial > serial);
        assert_eq!((state.expires, state.stage), (before.expires, Stage::Expiring));
        state.serial
    };
    let serial = renews(&mut bed, before.serial);
    // The file is read anew, with what may be another key.
    bed.life.handle_policy(policy(), &mut bed.relays, bed.now);
    renews(&mut bed, serial);
    bed.wait(600 * SECOND);
    assert_eq!(bed.stage(), Stage::Withdrawn);
}

#[test]
fn what_ended_while_nobody_was_left_to_say_so_is_withdrawn_again() {
    let (mut relays, state) = (relays(2), State { id: 3, serial: 9, ..State::default() });
    let mut bed = Bed { life: Life::resume(policy(), state, &mut relays, NOW), relays, now: NOW };
    assert_eq!(bed.actions(), [Action::Withdraw]);
    // Where there never was anything there is nothing to take back.
    assert_eq!(Bed::new(policy(), 2).actions(), []);
}

#[test]
fn another_policy_keeps_what_it_admits() {
    let mut bed = Bed::new(policy(), 6);
    bed.alert("guard", "1");
    bed.ready();
    bed.published();
    bed.actions();
    let (id, serial) = (bed.life.state().id, bed.life.state().serial);
    let [first, others @ ..] = &policy().groups[..] else { panic!("two groups") };
    let given_up = bed.life.state().relays[&others[0]].clone();
    let kept = bed.life.state().relays[first].clone();
    let narrower = Policy { groups: vec![first.clone()], ..policy() };
    bed.life.handle_policy(narrower, &mut bed.relays, bed.now);
    bed.wait(MS);
    let actions = bed.actions();
    assert!(
        given_up.iter().all(|relay| actions.contains(&cap(relay, false)) && bed.relays.user(relay).is_none())
    );
    assert!(kept.iter().all(|relay| actions.contains(&cap(relay, true))));
    assert!(actions.contains(&Action::Publish), "{actions:?}");
    let state = bed.life.state();
    assert_eq!((state.id, state.stage, &state.relays[first]), (id, Stage::Active, &kept));
    assert!(state.serial > serial && !state.routes.contains_key(&others[0]));
    bed.life.handle_removal(&mut bed.relays, bed.now);
    assert_eq!(bed.stage(), Stage::Withdrawn);
    assert!(kept.iter().all(|relay| bed.relays.user(relay).is_none()));
}

#[test]
fn the_nearest_of_those_that_carry_most_are_taken() {
    let info = |name: &str, capacity_mbps, latency_ms| RelayInfo {
        name: name.to_owned(),
        capacity_mbps,
        latency_ms,
    };
    let mut relays = Relays::new([
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

/// What can happen.
#[derive(Clone, Debug)]
enum Step {
    Alert(u8),
    Clear(u8),
    Ready,
    PartlyReady(u8),
    Published,
    RelayFailed(u8),
    RelayBack(u8),
    Report(bool),
    Prepare,
    Withdraw,
    Restart,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3_u8).prop_map(Step::Alert),
        (0..3_u8).prop_map(Step::Clear),
        Just(Step::Ready),
        any::<u8>().prop_map(Step::PartlyReady),
        Just(Step::Published),
        (0..6_u8).prop_map(Step::RelayFailed),
        (0..6_u8).prop_map(Step::RelayBack),
        any::<bool>().prop_map(Step::Report),
        Just(Step::Prepare),
        Just(Step::Withdraw),
        Just(Step::Restart),
        (0..400_000_u64).prop_map(Step::Wait),
    ]
}

fn carry_out(bed: &mut Bed, step: &Step) {
    let name = |number: &u8| format!("r{number}");
    match step {
        Step::Alert(id) => bed.alert("gateway", &id.to_string()),
        Step::Clear(id) => bed.life.handle_clear("gateway", &id.to_string(), bed.now),
        Step::Ready => bed.ready(),
        Step::PartlyReady(mask) => {
            let ready = (0..6).filter(|bit| mask >> bit & 1 == 1).map(|bit| name(&bit)).collect();
            bed.life.handle_ready(ready, bed.now);
        }
        Step::Published => bed.published(),
        Step::RelayFailed(relay) => {
            bed.relays.is_silent(&name(relay));
            bed.life.handle_relay_failed(&name(relay), "gone", &mut bed.relays, bed.now);
        }
        Step::RelayBack(relay) => {
            bed.relays.answers(&name(relay), MS);
            bed.life.handle_relay_found(bed.now);
        }
        Step::Report(good) => {
            let measured = loss(if *good { 0.0 } else { 0.9 });
            bed.life.handle_report(&measured, &mut bed.relays, bed.now);
        }
        Step::Prepare => bed.life.handle_prepare(&mut bed.relays, bed.now),
        Step::Withdraw => bed.life.handle_withdraw(&mut bed.relays, bed.now),
        Step::Restart => {
            let state = bed.life.state().clone();
            bed.relays = relays(6);
            bed.life = Life::resume(policy(), state, &mut bed.relays, bed.now);
        }
        Step::Wait(ms) => bed.wait(Duration::from_millis(*ms)),
    }
}

proptest! {
    /// Whatever happens: no relay serves two groups, clients are told of relays that the service has only, serial numbers rise
    /// with each publication, caps follow who has a relay, and an attack that is over leaves nothing behind.
    #[test]
    fn whatever_happens(steps in proptest::collection::vec(step(), 1..80)) {
        let mut bed = Bed::new(policy(), 6);
        let mut published = 0;
        let mut capped: BTreeMap<String, bool> = BTreeMap::new();
        let finish = [Step::Clear(0), Step::Clear(1), Step::Clear(2), Step::Withdraw, Step::Wait(1)];
        for step in steps.iter().chain(&finish) {
            if matches!(step, Step::Restart) {
                capped.clear();
            }
            carry_out(&mut bed, step);
            for action in bed.actions() {
                match action {
                    Action::Publish => {
                        let serial = bed.life.state().serial;
                        prop_assert!(serial > published || matches!(step, Step::Wait(_)));
                        published = serial;
                    }
                    Action::Cap { relay, serves } => drop(capped.insert(relay, serves)),
                    Action::TellGateway | Action::Withdraw | Action::TellClients | Action::Note(_) => {}
                }
            }
            let state = bed.life.state();
            let all: Vec<&String> = state.all_relays().collect();
            let unique: BTreeSet<&String> = all.iter().copied().collect();
            prop_assert_eq!(all.len(), unique.len());
            prop_assert!(state.relays.values().all(|relays| relays.len() <= 2));
            for relay in &unique {
                prop_assert_eq!(bed.relays.user(relay), Some("www"));
                prop_assert_eq!(capped.get(*relay), Some(&true));
            }
            let served = capped.iter().filter(|(_, serves)| **serves).count();
            prop_assert_eq!(served, unique.len());
            prop_assert!(state.alerts.len() <= 3);
            if state.stage == Stage::Withdrawn {
                prop_assert!(unique.is_empty() && state.routes.is_empty() && bed.life.poll_timeout().is_none());
            }
            if !state.alerts.is_empty() {
                prop_assert!(state.is_under_way(), "an attack is being answered: {:?}", state.stage);
            }
        }
        prop_assert_eq!(bed.stage(), Stage::Withdrawn);
    }
}
