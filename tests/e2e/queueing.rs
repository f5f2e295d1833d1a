//! What happens to packets while they wait for a path.

use psmc_testbed::stalls::StallWatch;

use crate::harness::{Family, Plan, Tunnel, iperf};
use psmc_testbed::steadily::{Measured, steadily};

/// Bytes of UDP's payload, and with the headers of UDP and IPv4.
const LENGTH: u64 = 1200;
const INNER: u64 = LENGTH + 8 + 20;

#[test]
fn plain_udp_keeps_to_the_limit_that_the_other_site_has() {
    steadily(Measured::Rate, || {
        const LIMIT: u64 = 5_000_000;
        const SECONDS: u64 = 3;
        let tunnel = Tunnel::start(Plan { udp_rate_limit: Some("5mbit"), ..Plan::default() });
        assert_eq!([&tunnel.van, &tunnel.hq].map(|site| site.peer().udp_rate_limit_mbps), [Some(5.0); 2]);
        let args = ["--udp", "--bitrate", "20M", "--length", "1200", "--time", "3"];
        let watch = StallWatch::start().unwrap();
        let report = iperf(&tunnel.van, &tunnel.hq, tunnel.hq.inner(Family::V4), &args);
        let stalls = watch.finish();
        let arrived = report.datagrams() as f64 * (1.0 - report.loss_percent() / 100.0);
        let share = arrived * (INNER * 8) as f64 / (LIMIT * SECONDS) as f64;
        println!("UDP has {share:.3} of its limit");
        // A burst of 64 KiB comes on top: 3.5 % of what may pass in 3 s.
        assert!((stalls.left_of(0.9)..1.1).contains(&share), "{stalls:?}: {report:?}");
        assert!(tunnel.van.peer().drops["udp_rate_limit"] > 1000, "{:?}", tunnel.van.peer().drops);
    });
}

#[test]
fn packets_are_counted_in_the_classes_that_they_belong_to() {
    let classes = "\n[[class]]\nname = \"pings\"\nprotocol = [\"icmp\", \"icmpv6\"]\ndscp = [\"AF11\"]\n";
    let tunnel = Tunnel::start(Plan { classes, ..Plan::default() });
    let hq = tunnel.hq.inner(Family::V4).to_string();
    // What `ping -Q` takes is the whole byte, and the code point is its upper six bits.
    for (dscp, count) in [(10, "3"), (46, "4"), (8, "5")] {
        let byte = (dscp << 2).to_string();
        tunnel.van.run(&["ping", "-Q", &byte, "-c", count, "-i", "0.05", &hq]);
    }
    for site in [&tunnel.van, &tunnel.hq] {
        let classes = site.peer().classes;
        let sent = |name: &str| classes.iter().find(|class| class.name == name).unwrap().tx_packets;
        // A host answers a ping with its own code point.
        assert_eq!(["pings", "voice", "background"].map(sent), [3, 4, 5], "{classes:?}");
    }
}
