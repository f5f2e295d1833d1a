use std::time::Instant;

use serde_json::{Value, json};

use super::*;

/// Peers of a large site.
const PEERS: usize = 1000;

/// Paths of each of them.
const PATHS: usize = 64;

fn path(name: &str, state: &str) -> Value {
    json!({
        "name": name, "id": 2, "state": state, "uplink": "wwan0", "weight": 3, "mtu": 1500, "rtt_ms": 25.5, "loss_pct": 2.0,
        "rate_mbps": 48.25, "tx_bytes": 123_456_789_u64, "rx_bytes": 23_456_789, "tx_packets": 345_678, "rx_packets": 45_678,
        "lost_packets": 6789,
    })
}

fn peer(name: &str, paths: &[Value]) -> Value {
    let class = json!({
        "name": "voice", "queued_packets": 1, "queued_bytes": 200, "tx_packets": 3, "marked_packets": 4,
        "drops": {"codel": 5, "full": 0, "stale": 0},
    });
    json!({
        "name": name, "public_key": "k", "state": "connected", "control": {"connected": true, "since_s": 5.0}, "allowed_ips": [],
        "heard_s": 0.5, "tx_bytes": 1, "rx_bytes": 2, "tx_packets": 3, "rx_packets": 4, "drops": {"queue": 7, "duplicate": 0},
        "parts": {"split": 1, "waiting": 2}, "reorder": {"late": 3, "held": 4}, "repair": {"resent": 5},
        "unresponsive": {"held_back_bytes": 6, "limits": 1}, "shedding": {"foreign": 8}, "classes": [class],
        "paths": paths,
    })
}

fn scraped(peers: &[Value]) -> Scraped {
    let site = json!({
        "name": "hq", "public_key": "k", "interface": "psmc0", "addresses": [], "listen": "0.0.0.0:5115", "uptime_s": 1.5,
        "version": "0.1.0", "registered": [{"relay": "fra1", "public_key": "k", "registered": true}],
    });
    let status = json!({"site": site, "peers": peers, "counters": {"replayed": 9}});
    let mut status: Status = serde_json::from_value(status).unwrap();
    status.peers.iter_mut().for_each(tell_paths_apart);
    Scraped::new(status)
}

#[test]
fn values_have_base_units_and_labels() {
    let mut unmeasured = path("eth0", "dead");
    for key in ["uplink", "rtt_ms", "rate_mbps"] {
        unmeasured.as_object_mut().unwrap().remove(key);
    }
    let text = METRICS.text(scraped(&[peer("van", &[path("eth0", "active"), unmeasured])]));
    for line in [
        "psmcd_site_info{site=\"hq\",version=\"0.1.0\",public_key=\"k\",interface=\"psmc0\"} 1",
        "psmcd_uptime_seconds 1.5",
        "psmcd_relay_registered{relay=\"fra1\"} 1",
        "psmcd_events_total{event=\"replayed\"} 9",
        "psmcd_io_calls_total{io=\"udp_sent\"} 0",
        "psmcd_peer_state{peer=\"van\"} 2",
        "psmcd_peer_heard_age_seconds{peer=\"van\"} 0.5",
        "psmcd_peer_dropped_packets_total{peer=\"van\",reason=\"queue\"} 7",
        "psmcd_peer_parts_waiting_packets{peer=\"van\"} 2",
        "psmcd_peer_reorder_packets_total{peer=\"van\",event=\"late\"} 3",
        "psmcd_peer_unresponsive_bytes_total{peer=\"van\",event=\"held_back\"} 6",
        "psmcd_peer_unresponsive_limits_total{peer=\"van\"} 1",
        "psmcd_peer_shed_total{peer=\"van\",event=\"foreign\"} 8",
        "psmcd_class_dropped_packets_total{peer=\"van\",class=\"voice\",reason=\"codel\"} 5",
        "psmcd_path_state{peer=\"van\",path=\"eth0\",opened_by=\"site\"} 4",
        "psmcd_path_state{peer=\"van\",path=\"eth0\",opened_by=\"peer\"} 0",
        "psmcd_path_rtt_seconds{peer=\"van\",path=\"eth0\",opened_by=\"site\"} 0.0255",
        "psmcd_path_loss_ratio{peer=\"van\",path=\"eth0\",opened_by=\"site\"} 0.02",
        "psmcd_path_rate_bytes_per_second{peer=\"van\",path=\"eth0\",opened_by=\"site\"} 6031250.0",
        "psmcd_path_sent_bytes_total{peer=\"van\",path=\"eth0\",opened_by=\"site\"} 123456789",
    ] {
        assert!(text.lines().any(|told| told == line), "{line}: {text}");
    }
    // What rises and falls is no counter, and what was not measured is not told.
    for part in
        ["event=\"held\"", "event=\"waiting\"", "rtt_seconds{peer=\"van\",path=\"eth0\",opened_by=\"peer\""]
    {
        assert!(!text.contains(part), "{part}: {text}");
    }
}

/// A path that was replaced is on its way out while its successor has its name; and a peer calls its paths what it likes.
#[test]
fn no_two_series_are_the_same() {
    let theirs = |id: u32| {
        let mut path = path("eth0", "active");
        let fields = path.as_object_mut().unwrap();
        fields.remove("uplink");
        fields.insert("id".to_owned(), id.into());
        path
    };
    let paths = [path("eth0", "closing"), path("eth0", "standby"), theirs(1), theirs(3)];
    let text = METRICS.text(scraped(&[peer("van", &paths)]));
    let mut series: Vec<_> = text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
    let count = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), count);
    assert!(text.contains("psmcd_path_state{peer=\"van\",path=\"eth0\",opened_by=\"site\"} 3\n"), "{text}");
}

#[test]
fn the_text_of_a_large_site_is_written_in_little_time() {
    let paths: Vec<_> = (0..PATHS).map(|number| path(&format!("path{number}"), "active")).collect();
    let peers: Vec<_> = (0..PEERS).map(|number| peer(&format!("site{number}"), &paths)).collect();
    let scraped = scraped(&peers);
    let started = Instant::now();
    let text = METRICS.text(scraped);
    let (time, series) = (started.elapsed(), text.lines().filter(|line| !line.starts_with('#')).count());
    println!(
        "{series} series of {PEERS} peers with {PATHS} paths: {} MB in {time:.0?}",
        text.len() / 1_000_000
    );
    // However many paths there are.
    assert!((MAX_PATHS * 11..MAX_PATHS * 11 + PEERS * 60).contains(&series), "{series}");
    let untold = format!("psmcd_paths_untold {}", PEERS * PATHS - MAX_PATHS);
    assert!(text.lines().any(|line| line == untold), "{untold}");
}
