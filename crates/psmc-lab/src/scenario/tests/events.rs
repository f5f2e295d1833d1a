//! Events are in the order of time, and each starts from what the earlier ones have made of a link.

use std::time::Duration;

use psmc_sim::link::{LinkConfig, QueueLimit, Rate};

use super::{reasons, right};
use crate::scenario::{Action, Event, LinkId, ProgramId, TunnelId};

const NETWORK: &str = r#"
    [[link]]
    name = "dsl"
    between = ["van", "hq"]
    rate = "50mbit"
    delay = "20ms"
    [[tunnel]]
    name = "vpn"
    between = ["van", "hq"]
    [[program]]
    name = "web"
    host = "hq"
    command = ["nginx"]
"#;

fn events(events: &str) -> Vec<Event> {
    right(&format!("{NETWORK}{events}")).events
}

fn change(event: &Event) -> &[LinkConfig; 2] {
    let Action::Change(LinkId(0), configs) = &event.action else { panic!("{event:?}") };
    configs
}

#[test]
fn they_are_sorted_by_time() {
    let found = events(
        "[[event]]\nat = \"2s\"\nrestore = \"dsl\"\n[[event]]\nat = \"1s\"\ncut = \"dsl\"\n[[event]]\nat = \"2s\"\nkill = \"web\"",
    );
    let times: Vec<u64> = found.iter().map(|event| event.at.as_secs()).collect();
    assert_eq!(times, [1, 2, 2]);
    assert!(matches!(found[0].action, Action::Cut(LinkId(0))));
    assert!(matches!(found[1].action, Action::Restore(LinkId(0))));
    assert!(matches!(found[2].action, Action::Kill(ProgramId(0))));
}

#[test]
fn a_change_keeps_what_it_does_not_name() {
    let found = events(
        r#"
        [[event]]
        at = "1s"
        change = "dsl"
        rate = "5mbit"
        [[event]]
        at = "2s"
        change = "dsl"
        direction = "back"
        delay = "1s"
        [[event]]
        at = "3s"
        restore = "dsl"
        [[event]]
        at = "4s"
        change = "dsl"
        mtu = 1400
        "#,
    );
    let [forward, back] = change(&found[1]);
    assert_eq!((&forward.rate, &back.rate), (&Rate::Fixed(5_000_000), &Rate::Fixed(5_000_000)));
    assert_eq!((forward.delay, back.delay), (Duration::from_millis(20), Duration::from_secs(1)));
    assert_eq!(forward.queue, QueueLimit::Packets(167), "a modem does not get another queue with its rate");
    let [forward, _] = change(&found[3]);
    assert_eq!((&forward.rate, forward.mtu), (&Rate::Fixed(50_000_000), Some(1400)));
}

#[test]
fn a_change_does_not_end_a_black_hole() {
    let found = events(
        "[[event]]\nat = \"1s\"\nblack_hole = \"dsl\"\ndirection = \"forward\"\n\
         [[event]]\nat = \"2s\"\nchange = \"dsl\"\nloss = \"1%\"\n[[event]]\nat = \"3s\"\nblack_hole = \"dsl\"\ndirection = \"back\"",
    );
    assert!(matches!(found[0].action, Action::BlackHole(LinkId(0), [true, false])));
    assert_eq!(change(&found[1]).each_ref().map(|config| config.black_hole), [true, false]);
    assert!(matches!(found[2].action, Action::BlackHole(LinkId(0), [true, true])));
}

#[test]
fn sites_are_killed_by_tunnel_and_host() {
    let found =
        events("[[event]]\nat = \"1s\"\nkill = \"vpn.hq\"\n[[event]]\nat = \"2s\"\nrestart = \"vpn.van\"");
    assert!(matches!(found[0].action, Action::KillSite(TunnelId(0), 1)));
    assert!(matches!(found[1].action, Action::RestartSite(TunnelId(0), 0)));
}

#[test]
fn a_flood_lasts_until_the_end() {
    let found = events(
        "[[event]]\nat = \"7s\"\nflood = { from = \"van\", to = \"hq\", via = \"dsl\", rate = \"1mbit\" }",
    );
    let Action::Flood { to, duration, .. } = &found[0].action else { panic!("{found:?}") };
    assert_eq!((to.to_string().as_str(), *duration), ("10.1.0.2", Duration::from_secs(3)));
}

#[test]
fn an_event_does_something() {
    assert_eq!(reasons(&format!("{NETWORK}[[event]]\nat = \"1s\"")), ["the event does nothing"]);
}
