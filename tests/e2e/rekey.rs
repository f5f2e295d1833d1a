//! New keys without a control connection.

use std::fs;
use std::time::Duration;

use crate::harness::{Family, Plan, Stream, Tunnel, wait_for};
use psmc_testbed::steadily::{Measured, steadily};

/// How often a stream sends.
const INTERVAL: Duration = Duration::from_millis(10);

/// For what takes the sites a few times the five seconds after which keys are exchanged here.
const PATIENCE: Duration = Duration::from_secs(60);

/// What drops every segment of control connections, of those that stand and of new ones.
const NO_CONTROL: &str = "table inet blocked { \
     chain in { type filter hook input priority 0; tcp dport 5115 drop; }; \
     chain out { type filter hook output priority 0; tcp sport 5115 drop; }; }";

#[test]
fn with_tcp_blocked_the_tunnel_goes_on_with_new_keys() {
    steadily(Measured::Loss, goes_on_with_new_keys);
}

fn goes_on_with_new_keys() {
    let mut tunnel = Tunnel::prepare(Plan::default());
    for site in [&tunnel.van, &tunnel.hq] {
        let text = fs::read_to_string(site.file("toml")).unwrap();
        site.configure(&text.replacen("[site]", "[site]\nrekey_after = \"5s\"", 1));
    }
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    tunnel.hq.run(&["nft", NO_CONTROL]);
    let streams =
        [Stream::start(&tunnel.van, &tunnel.hq, INTERVAL), Stream::start(&tunnel.hq, &tunnel.van, INTERVAL)];
    for site in [&tunnel.van, &tunnel.hq] {
        wait_for("the end of the control connection", PATIENCE, || {
            (!site.peer().control.connected).then_some(())
        });
    }
    let before = [&tunnel.van, &tunnel.hq].map(|site| site.peer().key_exchanges);
    for (site, before) in [&tunnel.van, &tunnel.hq].into_iter().zip(before) {
        let peer = wait_for("two more exchanges of keys", PATIENCE, || {
            Some(site.peer()).filter(|peer| peer.key_exchanges >= before + 2)
        });
        assert!(!peer.control.connected, "there is no other way to new keys");
        let status = site.psmc(&["status"]);
        let text = String::from_utf8_lossy(&status.stdout);
        assert!(text.contains("key exchanges through the tunnel"), "{text}");
    }
    tunnel.ping(Family::V4);
    for stream in streams {
        let deliveries = stream.finish();
        assert_eq!(deliveries.lost(), [0; 0], "of {} datagrams", deliveries.sent());
        assert_eq!(deliveries.duplicates(), 0);
    }
}
