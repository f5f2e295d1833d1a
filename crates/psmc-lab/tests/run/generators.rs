//! Every generator gets what the link has to give.

use std::ops::Range;

use psmc_lab::results::TrafficResult;

use crate::{joined_by, results};

/// Payload that a link of 20 Mbit/s carries: more than what is left after a slow start, less than the link has.
const FULL: Range<f64> = 14.0..20.0;

/// What a single stream gets on a link, all the time.
fn alone(stream: &str) -> TrafficResult {
    on(&joined_by(&["dsl"]), stream)
}

fn on(network: &str, stream: &str) -> TrafficResult {
    let stream = format!("[[traffic]]\nname = \"stream\"\nfrom = \"a\"\nto = \"b\"\n{stream}\n");
    let result = results(&(network.to_owned() + &stream)).traffic.remove(0);
    assert_eq!(result.error, None, "{result:?}");
    result
}

#[test]
fn tcp_fills_the_link() {
    for congestion_control in ["cubic", "bbr"] {
        let result = alone(&format!("kind = \"tcp\"\ncongestion_control = \"{congestion_control}\""));
        assert!(FULL.contains(&result.goodput_mbps), "{result:?}");
    }
}

#[test]
fn a_transfer_ends_when_everything_has_arrived() {
    for kind in ["kind = \"tcp\"\nflows = 3\nbytes = \"500kB\"", "kind = \"quic\"\nbytes = \"1500kB\""] {
        let result = alone(kind);
        assert_eq!(result.bytes, 1_500_000);
        // At 20 Mbit/s that takes 0.6 s.
        assert!((8.0..20.0).contains(&result.goodput_mbps), "{result:?}");
        assert!(result.goodput_series_mbps.len() < 20, "{result:?}");
    }
}

#[test]
fn several_links_carry_one_mptcp_connection() {
    let links = joined_by(&["dsl", "lte"]);
    let both = on(&links, "kind = \"tcp\"\nmultipath = true");
    assert!((24.0..40.0).contains(&both.goodput_mbps), "{both:?}");
    let one = on(&links, "kind = \"tcp\"");
    assert!(FULL.contains(&one.goodput_mbps), "{one:?}");
}

#[test]
fn quic_fills_the_link() {
    for congestion_control in ["cubic", "newreno", "bbr"] {
        let result = alone(&format!("kind = \"quic\"\ncongestion_control = \"{congestion_control}\""));
        assert!(FULL.contains(&result.goodput_mbps), "{result:?}");
    }
}

#[test]
fn udp_has_its_rate_and_counts_what_is_lost() {
    let stream = "kind = \"udp\"\nrate = \"4mbit\"\npayload = 500";
    let result = alone(stream);
    // A thousand a second, for two seconds. A machine that does something else sends them late, and several at once.
    assert!(
        (1950..=2000).contains(&result.sent.unwrap()) && result.loss_percent.unwrap() < 2.0,
        "{result:?}"
    );
    assert!((3.8..4.05).contains(&result.goodput_mbps), "{result:?}");
    let latency = result.latency.unwrap();
    assert!(latency.min_ms.abs() < 1e-9 && latency.p50_ms < 2.0, "{latency:?}");

    let lossy = joined_by(&["dsl"]) + "loss = \"10%\"\njitter = \"2ms\"\nreordering = true\n";
    let result = on(&lossy, stream);
    // Within five standard deviations, and what the queue may drop.
    let loss = result.loss_percent.unwrap();
    let deviation = (0.1_f64 * 0.9 / 2000.0).sqrt() * 100.0;
    assert!((10.0 - 5.0 * deviation..12.0 + 5.0 * deviation).contains(&loss), "{loss}");
    assert!(result.reordered_percent.unwrap() > 5.0, "{result:?}");
    assert!(result.latency.unwrap().p99_ms > 4.0);
}

#[test]
fn requests_are_answered_within_two_round_trips_and_the_transfer() {
    let result = alone("kind = \"requests\"\nrate = 50\nresponse = \"10kB\"");
    let sent = result.sent.unwrap();
    // A Poisson process: within five standard deviations.
    assert!((50..150).contains(&sent), "{sent}");
    assert_eq!(result.loss_percent, Some(0.0));
    // The last ones may be answered after the end.
    let unanswered = sent - result.bytes / 10_000;
    assert!(result.bytes.is_multiple_of(10_000) && unanswered < 10, "{result:?}");
    assert!((24.0..40.0).contains(&result.latency.unwrap().p50_ms));
}

#[test]
fn ping_takes_a_round_trip() {
    let result = alone("kind = \"ping\"\ninterval = \"20ms\"");
    let latency = result.latency.unwrap();
    assert!((10.0..13.0).contains(&latency.p50_ms), "{latency:?}");
    assert_eq!((result.sent, result.loss_percent), (Some(100), Some(0.0)));
}

/// A stream of each kind, for a part of the time.
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
        format!("[[traffic]]\nname = 'stream{number}'\nfrom = 'a'\nto = 'b'\nstop = '1s'\n{kind}\n")
    })
    .collect()
}

#[test]
fn everything_runs_over_ipv6() {
    let links = joined_by(&["dsl"]) + "addresses = ['fd00::1/64', 'fd00::2/64']\n";
    for stream in results(&(links + &of_each_kind())).traffic {
        assert!(stream.bytes > 0 && stream.error.is_none(), "{stream:?}");
    }
}

#[test]
fn what_cannot_get_through_says_so_and_does_not_hang() {
    let dead = joined_by(&["dsl"]) + "loss = '100%'\n";
    for stream in results(&(dead + &of_each_kind())).traffic {
        assert_eq!((stream.bytes, stream.error.as_deref()), (0, Some("nothing arrived")), "{stream:?}");
    }
}
