//! Every generator gets what the link has to give.

use std::ops::Range;

use psmc_lab::results::{Results, TrafficResult};

use super::{DEEP, joined_by, late, results, tolerated};
use psmc_testbed::steadily::{Measured, steadily};

/// Payload that a link of 20 Mbit/s carries: more than what is left after a slow start, less than the link has.
const FULL: Range<f64> = 14.0..20.0;

/// What a single stream gets on a link, all the time, and in which run.
fn alone(stream: &str) -> (TrafficResult, Results) {
    on(&joined_by(&["dsl"]), stream)
}

fn on(network: &str, stream: &str) -> (TrafficResult, Results) {
    let stream = format!("[[traffic]]\nname = \"stream\"\nfrom = \"a\"\nto = \"b\"\n{stream}\n");
    let results = results(&(network.to_owned() + &stream));
    let result = results.traffic[0].clone();
    assert_eq!(result.error, None, "{result:?}");
    (result, results)
}

/// Asserts that the goodput of a run of two seconds or more is within `range`, as far as the machine ran.
fn assert_goodput((result, run): &(TrafficResult, Results), range: Range<f64>) {
    let range = tolerated(run, range, 2.0);
    assert!(range.contains(&result.goodput_mbps), "{range:?}, {:?}: {result:?}", run.stalls);
}

#[test]
fn tcp_fills_the_link() {
    steadily(Measured::Rate, || {
        for congestion_control in ["cubic", "bbr"] {
            let run = alone(&format!("kind = \"tcp\"\ncongestion_control = \"{congestion_control}\""));
            assert_goodput(&run, FULL);
        }
    });
}

#[test]
fn a_transfer_ends_when_everything_has_arrived() {
    steadily(Measured::Rate, || {
        for kind in ["kind = \"tcp\"\nflows = 3\nbytes = \"500kB\"", "kind = \"quic\"\nbytes = \"1500kB\""] {
            // At 20 Mbit/s that takes 0.6 s, of time that a machine may not have at once.
            let run = on(&joined_by(&["dsl"]).replace("2s", "6s"), kind);
            assert_eq!(run.0.bytes, 1_500_000);
            assert_goodput(&run, 8.0..20.0);
            assert!(run.0.goodput_series_mbps.len() < 60, "{run:?}");
        }
    });
}

#[test]
fn several_links_carry_one_mptcp_connection() {
    steadily(Measured::Rate, || {
        let links = joined_by(&["dsl", "lte"]);
        assert_goodput(&on(&links, "kind = \"tcp\"\nmultipath = true"), 24.0..40.0);
        assert_goodput(&on(&links, "kind = \"tcp\""), FULL);
    });
}

#[test]
fn quic_fills_the_link() {
    steadily(Measured::Rate, || {
        for congestion_control in ["cubic", "newreno", "bbr"] {
            // Its connections begin with a guess of the round trip, and take longer where the machine stands still.
            let run =
                on(&for_long(), &format!("kind = \"quic\"\ncongestion_control = \"{congestion_control}\""));
            assert_goodput(&run, FULL);
        }
    });
}

#[test]
fn udp_has_its_rate_and_counts_what_is_lost() {
    steadily(Measured::Loss, || {
        let stream = "kind = \"udp\"\nrate = \"4mbit\"\npayload = 500";
        let deep = joined_by(&["dsl"]) + DEEP;
        let (result, run) = on(&deep, stream);
        // A thousand a second, for two seconds. A machine that does something else sends them late, and several at once.
        assert!((1950..=2000).contains(&result.sent.unwrap()), "{result:?}");
        // What is late by more than a moment does not count at the end.
        let loss = |range| tolerated(&run, range, 0.02);
        assert!(loss(0.0..2.0).contains(&result.loss_percent.unwrap()), "{result:?}");
        let latency = result.latency.clone().unwrap();
        assert!(
            latency.min_ms.abs() < 1e-9 && late(&run, 0.0..2.0, 1).contains(&latency.p50_ms),
            "{latency:?}"
        );
        assert_goodput(&(result, run), 3.8..4.05);

        let lossy = deep + "loss = \"10%\"\njitter = \"2ms\"\nreordering = true\n";
        let (result, _) = on(&lossy, stream);
        // Within five standard deviations, and what comes too late.
        let loss = result.loss_percent.unwrap();
        let deviation = (0.1_f64 * 0.9 / 2000.0).sqrt() * 100.0;
        assert!((10.0 - 5.0 * deviation..12.0 + 5.0 * deviation).contains(&loss), "{loss}");
        assert!(result.reordered_percent.unwrap() > 5.0, "{result:?}");
        assert!(result.latency.unwrap().p99_ms > 4.0);
    });
}

#[test]
fn requests_are_answered_within_two_round_trips_and_the_transfer() {
    steadily(Measured::Time, || {
        let (result, run) = alone("kind = \"requests\"\nrate = 50\nresponse = \"10kB\"");
        let sent = result.sent.unwrap();
        // A Poisson process: within five standard deviations.
        assert!((50..150).contains(&sent), "{sent}");
        // A few may wait for too long where the machine stands still.
        let unanswered = run.stalls.unwrap().share_percent / 10.0;
        assert!(result.loss_percent.unwrap() <= unanswered, "{result:?}");
        // The last ones may be answered after the end.
        let unanswered = sent - result.bytes / 10_000;
        assert!(result.bytes.is_multiple_of(10_000), "{result:?}");
        assert!(late(&run, 0.0..200.0, 2).contains(&(unanswered as f64 * 20.0)), "{result:?}");
        // Each of the four ways of a request may be held up.
        assert!(late(&run, 24.0..40.0, 4).contains(&result.latency.unwrap().p50_ms), "{run:?}");
    });
}

#[test]
fn ping_takes_a_round_trip() {
    steadily(Measured::Time, || {
        let (result, run) = alone("kind = \"ping\"\ninterval = \"20ms\"");
        let latency = result.latency.unwrap();
        assert!(late(&run, 10.0..13.0, 1).contains(&latency.p50_ms), "{latency:?}");
        assert_eq!((result.sent, result.loss_percent), (Some(100), Some(0.0)));
    });
}

/// A link for four seconds.
fn for_long() -> String {
    joined_by(&["dsl"]).replace("2s", "4s")
}

/// A stream of each kind, for a part of them.
fn of_each_kind() -> String {
    [
        "kind = 'tcp'",
        "kind = 'quic'",
        "kind = 'udp'\nrate = '1mbit'",
        "kind = 'requests'\nrate = 50\nresponse = '1kB'",
        "kind = 'ping'",
    ]
    .iter()
    .enumerate()
    .map(|(number, kind)| {
        format!("[[traffic]]\nname = 'stream{number}'\nfrom = 'a'\nto = 'b'\nstop = '3s'\n{kind}\n")
    })
    .collect()
}

#[test]
fn everything_runs_over_ipv6() {
    let links = for_long() + "addresses = ['fd00::1/64', 'fd00::2/64']\n";
    for stream in results(&(links + &of_each_kind())).traffic {
        assert!(stream.bytes > 0 && stream.error.is_none(), "{stream:?}");
    }
}

#[test]
fn what_cannot_get_through_says_so_and_does_not_hang() {
    let dead = for_long() + "loss = '100%'\n";
    for stream in results(&(dead + &of_each_kind())).traffic {
        assert_eq!((stream.bytes, stream.error.as_deref()), (0, Some("nothing arrived")), "{stream:?}");
    }
}
