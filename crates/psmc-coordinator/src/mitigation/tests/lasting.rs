//! Alerts and routes that last or end, restarts, and whatever else happens.

use proptest::prelude::*;

use super::*;

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
    let mut relays = RelayPool::new(["r0", "r2", "r3", "r9"].map(info));
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
