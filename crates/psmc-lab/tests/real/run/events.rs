//! What happens while a scenario runs.

use psmc_lab::results::{Results, Sample};

use super::{DEEP, joined_by, late, results, tolerated};
use psmc_testbed::steadily::{Measured, steadily};

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

/// Four seconds of it.
fn with_events(events: &[&str]) -> Results {
    let events: String = events.iter().map(|event| format!("[[event]]\n{event}\n")).collect();
    results(&(joined_by(&["dsl"]).replace("2s", "4s") + DEEP + STREAM + &events))
}

/// The mean of a series between two moments.
fn mean(series: &[Sample], from: f64, to: f64) -> f64 {
    let values = between(series, from, to);
    values.iter().sum::<f64>() / values.len() as f64
}

/// The values between two moments, of which there must be some.
fn between(series: &[Sample], from: f64, to: f64) -> Vec<f64> {
    let values: Vec<_> =
        series.iter().filter(|it| it.at_s > from && it.at_s <= to).map(|it| it.value).collect();
    assert!(!values.is_empty(), "{series:?}");
    values
}

#[test]
fn what_is_cut_comes_back_when_it_is_restored() {
    steadily(Measured::Time, || {
        for action in
            ["cut = \"dsl\"", "black_hole = \"dsl\"", "black_hole = \"dsl\"\ndirection = \"forward\""]
        {
            let results = with_events(&[&format!("at = \"1s\"\n{action}"), "at = \"2s\"\nrestore = \"dsl\""]);
            let stream = &results.traffic[0];
            let [cut, restored] = results.events.as_slice() else { panic!("{:?}", results.events) };
            let (cut, restored) = (cut.happened_s, restored.happened_s);
            for (happened, due) in [(cut, 1000.0), (restored, 2000.0)] {
                assert!(
                    late(&results, due..due + 300.0, 1).contains(&(1000.0 * happened)),
                    "{:?}",
                    results.events
                );
            }
            // What is on the way when it is cut is lost as well: after a stall that may be a lot.
            let loss = |from, to| mean(&stream.loss_series_percent, from, to);
            assert!(loss(0.05, cut - 0.4) < 1.0 && loss(restored + 0.2, 4.0) < 1.0, "{action}: {stream:?}");
            assert!(loss(cut + 0.2, restored - 0.2) > 99.0, "{action}: {stream:?}");
            let outage = 1000.0 * (restored - cut);
            let (gap, longest) = (stream.longest_gap_ms.unwrap(), results.stalls.unwrap().longest_ms);
            assert!(
                late(&results, outage - 50.0 - longest..outage + 200.0, 2).contains(&gap),
                "{action}: {stream:?}"
            );
        }
    });
}

#[test]
fn a_black_hole_has_a_direction() {
    steadily(Measured::Loss, || {
        let results = with_events(&["at = \"0s\"\nblack_hole = \"dsl\"\ndirection = \"back\""]);
        assert_eq!(results.traffic[0].loss_percent, Some(0.0));
    });
}

#[test]
fn a_link_changes() {
    steadily(Measured::Rate, || {
        let results =
            with_events(&["at = \"1s\"\nchange = \"dsl\"\nrate = \"2mbit\"\nqueue = \"4 packets\""]);
        let rate = |from, to| mean(&results.links[0].rate_series_mbps, from, to);
        // Headers of IP and UDP included.
        assert!(tolerated(&results, 4.0..4.4, 0.9).contains(&rate(0.1, 1.0)), "{:?}", results.links[0]);
        // First goes what a stall has left in the queue, which was deep until then.
        assert!(tolerated(&results, 1.9..2.1, 2.5).contains(&rate(1.5, 4.0)), "{:?}", results.links[0]);
    });
}

#[test]
fn a_flood_takes_the_room_of_others() {
    steadily(Measured::Loss, || {
        let flood =
            "at = \"1s\"\nflood = { from = \"a\", to = \"b\", rate = \"120mbit\", duration = \"1s\" }";
        let results = with_events(&[flood]);
        let losses = &results.traffic[0].loss_series_percent;
        assert!(mean(losses, 0.0, 0.9) < 1.0 && mean(losses, 3.5, 4.0) < 1.0, "{losses:?}");
        let worst = between(losses, 1.0, 2.5).into_iter().fold(0.0, f64::max);
        assert!(worst > 30.0, "{losses:?}");
    });
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
