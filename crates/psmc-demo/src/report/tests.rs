use std::time::Instant;

use psmc_api::PathEcn;

use super::*;
use crate::deliveries::Deliveries;

/// Twelve seconds of 80 Mbit/s, half of it while the link is cut, with a gap of 60 ms after the cut.
fn transfer() -> Transfer {
    let start = Instant::now();
    let mut deliveries = Deliveries::new(start);
    let (cut, mended) = (5000, 8000);
    for at in (1..=cut).chain(cut + 60..=12_000) {
        let bytes = if (cut..mended).contains(&at) { 5_000 } else { 10_000 };
        deliveries.add(start + Duration::from_millis(at), bytes);
    }
    Transfer {
        deliveries,
        cut: Duration::from_millis(cut)..Duration::from_millis(mended),
        hash_ok: true,
        paths: vec![path("dsl", PathState::Active), path("lte", PathState::Suspect)],
    }
}

fn path(name: &str, state: PathState) -> PathStatus {
    PathStatus {
        name: name.to_owned(),
        id: 0,
        state,
        since_s: 0.0,
        why: None,
        added: false,
        local: None,
        remote: None,
        relays: Vec::new(),
        ip_in_ip: false,
        relay_error: None,
        uplink: None,
        interface: None,
        weight: 1,
        max_rate_mbps: None,
        rtt_ms: None,
        rtt_var_ms: None,
        mtu: 1500,
        loss_pct: 0.0,
        ecn: PathEcn::Trying,
        marked_pct: 0.0,
        bottleneck: None,
        rate_mbps: None,
        tx_bytes: 41_234_567,
        rx_bytes: 0,
        tx_packets: 0,
        rx_packets: 0,
        lost_packets: 0,
        undelivered: 0,
    }
}

fn report() -> Report {
    Report::new(
        crate::network::DIRECT,
        Cut::Down,
        vec![38.204, 28.6, 19.1],
        Duration::from_micros(312_345),
        &transfer(),
    )
}

#[test]
fn people_get_tables() {
    insta::assert_snapshot!(report().table());
}

#[test]
fn scripts_get_one_object() {
    insta::assert_snapshot!(serde_json::to_string_pretty(&report()).unwrap());
}

#[test]
fn a_failure_is_not_hidden() {
    let report = Report { hash_ok: false, recovered_ms: None, ..report() };
    let table = report.table();
    assert!(table.contains("WRONG") && table.contains("recovered     no"), "{table}");
}
