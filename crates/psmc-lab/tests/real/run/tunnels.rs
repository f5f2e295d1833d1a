//! Tunnels between hosts.

use super::{joined_by, tolerated, try_run, with_programs};
use psmc_testbed::steadily::{Measured, steadily};

/// The example, as it stands.
#[test]
fn dear_links_carry_what_their_tiers_say() {
    steadily(Measured::Rate, || {
        let results = try_run(include_str!("../../../../../scenarios/tiers.toml"), &with_programs()).unwrap();
        let failed: Vec<_> = results.checks.iter().filter(|check| !check.ok).collect();
        assert!(failed.is_empty(), "{failed:?}: {results:?}");
    });
}

/// The example, as it stands.
#[test]
fn a_quota_that_ends_during_a_transfer_costs_nothing_but_its_link() {
    steadily(Measured::Rate, || {
        let results = try_run(include_str!("../../../../../scenarios/quota.toml"), &with_programs()).unwrap();
        let failed: Vec<_> = results.checks.iter().filter(|check| !check.ok).collect();
        assert!(failed.is_empty(), "{failed:?}: {results:?}");
    });
}

/// The example, as it stands.
#[test]
fn a_stream_of_tls_has_all_of_its_link_and_keeps_queues_short() {
    steadily(Measured::Rate, || {
        let results = try_run(include_str!("../../../../../scenarios/hotel.toml"), &with_programs()).unwrap();
        let failed: Vec<_> = results.checks.iter().filter(|check| !check.ok).collect();
        assert!(failed.is_empty(), "{failed:?}: {results:?}");
    });
}

/// The example, as it stands.
#[test]
fn metered_links_are_spared() {
    steadily(Measured::Rate, || {
        let results =
            try_run(include_str!("../../../../../scenarios/metered.toml"), &with_programs()).unwrap();
        let failed: Vec<_> = results.checks.iter().filter(|check| !check.ok).collect();
        assert!(failed.is_empty(), "{failed:?}: {results:?}");
    });
}

#[test]
fn a_tunnel_uses_both_links() {
    steadily(Measured::Rate, || {
        let scenario = joined_by(&["dsl", "lte"])
            + r#"
[[tunnel]]
name = "vpn"
between = ["a", "b"]
[[traffic]]
name = "bulk"
kind = "tcp"
from = "a"
to = "b"
"#;
        let results = try_run(&scenario, &with_programs()).unwrap();
        let bulk = &results.traffic[0];
        assert_eq!(bulk.error, None);
        assert!(tolerated(&results, 22.0..40.0, 2.0).contains(&bulk.goodput_mbps), "{bulk:?}");
        assert_eq!(results.paths.len(), 2);
        // From a to b on each link.
        for (path, link) in results.paths.iter().zip(results.links.iter().step_by(2)) {
            let sent: f64 = path.sent_series_mbps.iter().map(|sample| sample.value).sum();
            let mean = sent / path.sent_series_mbps.len() as f64;
            // A sample that is late has what came meanwhile.
            assert!(
                tolerated(&results, 0.7..1.3, 0.1).contains(&(mean / link.rate_mbps)),
                "{path:?} {link:?}"
            );
            assert!(path.rtt_series_ms.len() > 10, "{path:?}");
        }
    });
}
