//! What happens while a scenario runs.

use psmc_lab::results::{Results, Sample};

use crate::{joined_by, results};

/// A stream that the link has room for.
const STREAM: &str = r#"
[[traffic]]
name = "stream"
kind = "udp"
from = "a"
to = "b"
rate = "4mbit"
payload = 500
"#;

fn with_events(events: &[&str]) -> Results {
    let events: String = events.iter().map(|event| format!("[[event]]\n{event}\n")).collect();
    results(&(joined_by(&["dsl"]) + STREAM + &events))
}

/// The mean of a series between two moments.
fn mean(series: &[Sample], from: f64, to: f64) -> f64 {
    let values: Vec<_> =
        series.iter().filter(|it| it.at_s > from && it.at_s <= to).map(|it| it.value).collect();
    assert!(!values.is_empty(), "{series:?}");
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn what_is_cut_comes_back_when_it_is_restored() {
    for action in ["cut = \"dsl\"", "black_hole = \"dsl\"", "black_hole = \"dsl\"\ndirection = \"forward\""] {
        let results = with_events(&[&format!("at = \"500ms\"\n{action}"), "at = \"1s\"\nrestore = \"dsl\""]);
        let stream = &results.traffic[0];
        let loss = |from, to| mean(&stream.loss_series_percent, from, to);
        assert!(loss(0.05, 0.45) < 1.0 && loss(1.2, 2.0) < 1.0, "{action}: {stream:?}");
        assert!(loss(0.7, 1.0) > 99.0, "{action}: {stream:?}");
        assert!((450.0..700.0).contains(&stream.longest_gap_ms.unwrap()), "{action}: {stream:?}");
        assert_eq!(results.events.len(), 2);
        assert!((0.5..0.8).contains(&results.events[0].happened_s), "{:?}", results.events);
    }
}

#[test]
fn a_black_hole_has_a_direction() {
    let results = with_events(&["at = \"0s\"\nblack_hole = \"dsl\"\ndirection = \"back\""]);
    assert_eq!(results.traffic[0].loss_percent, Some(0.0));
}

#[test]
fn a_link_changes() {
    let results = with_events(&["at = \"1s\"\nchange = \"dsl\"\nrate = \"2mbit\"\nqueue = \"4 packets\""]);
    let rate = |from, to| mean(&results.links[0].rate_series_mbps, from, to);
    // Headers of IP and UDP included.
    assert!((4.0..4.4).contains(&rate(0.1, 1.0)), "{:?}", results.links[0]);
    assert!((1.9..2.1).contains(&rate(1.1, 2.0)), "{:?}", results.links[0]);
}

#[test]
fn a_flood_takes_the_room_of_others() {
    let flood = "at = \"1s\"\nflood = { from = \"a\", to = \"b\", rate = \"60mbit\", duration = \"500ms\" }";
    let results = with_events(&[flood]);
    let loss = |from, to| mean(&results.traffic[0].loss_series_percent, from, to);
    assert!(loss(0.0, 0.9) < 1.0, "{:?}", results.traffic[0]);
    assert!(loss(1.2, 1.5) > 30.0, "{:?}", results.traffic[0]);
    assert!(loss(1.8, 2.0) < 1.0, "{:?}", results.traffic[0]);
}

#[test]
fn who_roams_is_reached_at_the_new_address_only() {
    let links = joined_by(&["dsl"]) + "addresses = ['10.0.0.1/24', '10.0.0.2/24']\n";
    let roam = "[[event]]\nat = '1s'\nroam = { host = 'a', link = 'dsl', addresses = ['10.0.0.9/24'] }\n";
    let ping = |name: &str, [from, to]: [&str; 2], [start, stop]: [&str; 2]| {
        format!(
            "[[traffic]]\nname = '{name}'\nkind = 'ping'\ninterval = '20ms'\n\
             from = '{from}'\nto = '{to}'\nstart = '{start}'\nstop = '{stop}'\n"
        )
    };
    let scenario = links
        + roam
        + &ping("before", ["b", "a"], ["0s", "900ms"])
        + &ping("old", ["b", "a"], ["1500ms", "2s"])
        + &ping("new", ["a", "b"], ["1500ms", "2s"]);
    let results = results(&scenario);
    let losses: Vec<_> = results.traffic.iter().map(|stream| stream.loss_percent).collect();
    assert_eq!(losses, [Some(0.0), Some(100.0), Some(0.0)], "{results:?}");
}

/// A host loses its routes with the links that they need. Those of a link that is still down cannot come back yet.
#[test]
fn a_link_is_restored_while_another_one_of_the_same_host_is_down() {
    let link = |name: &str, between: &str| format!("[[link]]\nname = '{name}'\nbetween = [{between}]\n");
    let links = [("dsl", "'a', 'x'"), ("lte", "'a', 'y'"), ("x-far", "'x', 'b'"), ("y-far", "'y', 'c'")];
    let ping = |to: &str, via: &str| {
        format!(
            "[[traffic]]\nkind = 'ping'\ninterval = '20ms'\nstart = '1s'\n\
             from = 'a'\nto = '{to}'\naddress = '{via}'\n"
        )
    };
    let event = |at: &str, what: &str| format!("[[event]]\nat = '{at}'\n{what}\n");
    let scenario = "[scenario]\nduration = '1500ms'\n".to_owned()
        + &links.map(|(name, between)| link(name, between)).concat()
        + &ping("b", "10.3.0.2")
        + &ping("c", "10.4.0.2")
        + &event("100ms", "cut = 'dsl'")
        + &event("200ms", "cut = 'lte'")
        + &event("300ms", "restore = 'dsl'");
    let losses: Vec<_> = results(&scenario).traffic.iter().map(|stream| stream.loss_percent).collect();
    assert_eq!(losses, [Some(0.0), Some(100.0)]);
}
