//! Every generator gets what the link has to give.

use std::ops::Range;

use psmc_lab::results::TrafficResult;

use crate::{joined_by, results};

/// Payload that a link of 20 Mbit/s carries: more than TCP gets after a slow start, less than the link has.
const FULL: Range<f64> = 14.0..20.0;

/// What a single stream gets on a link.
fn alone(stream: &str) -> TrafficResult {
    let scenario = joined_by(&["dsl"])
        + &format!("[[traffic]]\nname = \"stream\"\nfrom = \"a\"\nto = \"b\"\n{stream}\n");
    let result = results(&scenario).traffic.remove(0);
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
fn quic_fills_the_link() {
    for congestion_control in ["cubic", "newreno", "bbr"] {
        let result = alone(&format!("kind = \"quic\"\ncongestion_control = \"{congestion_control}\""));
        assert!(FULL.contains(&result.goodput_mbps), "{result:?}");
    }
}

#[test]
fn ping_takes_a_round_trip() {
    let result = alone("kind = \"ping\"\ninterval = \"20ms\"");
    let latency = result.latency.unwrap();
    assert!((10.0..12.0).contains(&latency.p50_ms), "{latency:?}");
    assert_eq!(result.sent, Some(100));
}
