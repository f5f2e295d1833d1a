//! Networks that let no UDP through, and paths that travel in streams of TLS there.

use std::fs;
use std::time::{Duration, Instant};

use psmc_api::PathState;
use psmc_testbed::steadily::{Measured, steadily};

use crate::harness::{
    Bulk, Family, HQ, NameServer, Nginx, Plan, Site, Tunnel, VAN, iperf, path_name, wait_for,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// What a link carries, in Mbit/s.
const MBIT: u64 = 40;

/// How soon a path that UDP does not serve any more is served by a stream.
const SOON: Duration = Duration::from_secs(3);

/// How soon it is UDP's again.
const BACK: Duration = Duration::from_secs(30);

/// A tunnel over one link, whose path has this transport.
fn over_one_link(transport: &str) -> Tunnel {
    let tunnel = Tunnel::prepare(Plan { links: 1, mbit: Some(MBIT), ..Plan::default() });
    let file = tunnel.van.file("toml");
    let text = fs::read_to_string(&file).unwrap() + &format!("transport = \"{transport}\"\n");
    fs::write(&file, text).unwrap();
    tunnel
}

/// What becomes of UDP at the headquarters from now on.
fn treat_udp(tunnel: &Tunnel, verdict: &str) {
    let interface = HQ.link(1);
    let table = format!(
        "table inet hotel {{ chain in {{ type filter hook input priority 0; iif {interface} meta l4proto udp {verdict}; }}; \
         chain out {{ type filter hook output priority 0; oif {interface} meta l4proto udp drop; }}; }}"
    );
    tunnel.hq.run(&["nft", &table]);
}

fn let_udp_through(tunnel: &Tunnel) {
    tunnel.hq.run(&["nft", "delete table inet hotel"]);
}

#[test]
fn a_stream_of_tls_has_all_of_a_link_that_lets_no_udp_through() {
    steadily(Measured::Rate, || {
        let mut tunnel = over_one_link("tls");
        treat_udp(&tunnel, "drop");
        tunnel.hq.start();
        tunnel.van.start();
        tunnel.wait_until_up();
        tunnel.ping(Family::V4);
        tunnel.ping(Family::V6);
        for (from, to) in [(&tunnel.van, &tunnel.hq), (&tunnel.hq, &tunnel.van)] {
            let report = iperf(from, to, to.inner(Family::V4), &["--time", "5", "--omit", "1"]);
            println!("{:.1} of {MBIT} Mbit/s", report.mbps());
            assert!(report.mbps() > 0.8 * MBIT as f64, "{report:?}");
        }
    });
}

/// A flow goes on over a stream when UDP is blocked, and by UDP when it is not any more.
fn a_flow_survives(verdict: &'static str) {
    let mut tunnel = over_one_link("auto");
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    let (van, path) = (&tunnel.van, path_name(VAN, 1));
    let stream = format!("{path}-tls");
    assert!(van.path(&stream).is_none(), "UDP works");
    let bulk = Bulk::start(van, &tunnel.hq);
    bulk.wait_for_bytes(4_000_000, PATIENCE);
    treat_udp(&tunnel, verdict);
    let blocked = Instant::now();
    van.wait_for_path(&stream, &[PathState::Active], PATIENCE);
    let at = bulk.bytes();
    bulk.wait_for_bytes(at + 1_000_000, PATIENCE);
    let gap = bulk.longest_gap_since(blocked);
    println!("{verdict}: on TLS after {:.1?}, longest gap {gap:.1?}", blocked.elapsed());
    assert!(gap < SOON, "{gap:?}");
    let_udp_through(&tunnel);
    let restored = Instant::now();
    van.wait_for_path(&path, &[PathState::Active], BACK);
    wait_for("the end of the stream", BACK, || van.path(&stream).is_none().then_some(()));
    println!("by UDP alone after {:.1?}", restored.elapsed());
    let at = bulk.bytes();
    bulk.wait_for_bytes(at + 1_000_000, PATIENCE);
    bulk.finish();
    tunnel.ping(Family::V4);
}

#[test]
fn a_flow_survives_that_udp_is_dropped() {
    steadily(Measured::Time, || a_flow_survives("drop"));
}

#[test]
fn a_flow_survives_that_udp_is_rejected() {
    steadily(Measured::Time, || a_flow_survives("reject"));
}

/// What is left of UDP where it is throttled.
const THROTTLED: &str = "limit rate over 125 kbytes/second burst 30 kbytes drop";

#[test]
fn a_flow_goes_on_over_a_stream_where_udp_is_throttled() {
    steadily(Measured::Rate, || {
        let mut tunnel = over_one_link("auto");
        tunnel.hq.start();
        tunnel.van.start();
        tunnel.wait_until_up();
        let (van, path) = (&tunnel.van, path_name(VAN, 1));
        let stream = format!("{path}-tls");
        let bulk = Bulk::start(van, &tunnel.hq);
        bulk.wait_for_bytes(20_000_000, PATIENCE);
        let interface = HQ.link(1);
        let table = format!(
            "table inet hotel {{ chain in {{ type filter hook input priority 0; iif {interface} meta l4proto udp {THROTTLED}; }}; \
             chain out {{ type filter hook output priority 0; oif {interface} meta l4proto udp {THROTTLED}; }}; }}"
        );
        tunnel.hq.run(&["nft", &table]);
        let throttled = Instant::now();
        van.wait_for_path(&stream, &[PathState::Active], PATIENCE);
        let fallen = throttled.elapsed();
        assert!(fallen < SOON, "{fallen:?}");
        // The stream is a trial for some seconds; later UDP is tried again, beside it.
        let rate_of = |bytes: usize| {
            let (at, since) = (bulk.bytes(), Instant::now());
            bulk.wait_for_bytes(at + bytes, PATIENCE);
            (bulk.bytes() - at) as f64 * 8e-6 / since.elapsed().as_secs_f64()
        };
        let (trial, mbps) = (rate_of(15_000_000), rate_of(70_000_000));
        println!("on TLS after {fallen:.1?}, then {trial:.1} and {mbps:.1} of {MBIT} Mbit/s");
        // Alone on two processors it is 0.86 of the rate, and was 0.8 beside a compiler; the headers of three layers take the rest.
        assert!(trial > 0.5 * MBIT as f64 && mbps > 0.7 * MBIT as f64, "{trial} {mbps}");
        let_udp_through(&tunnel);
        let restored = Instant::now();
        wait_for("the end of the stream", BACK, || van.path(&stream).is_none().then_some(()));
        println!("by UDP alone after {:.1?}", restored.elapsed());
        bulk.finish();
    });
}

/// What many hotels let through: HTTPS, and nothing else.
fn let_https_through(tunnel: &Tunnel) {
    let interface = HQ.link(1);
    let table = format!(
        "table inet hotel {{ chain in {{ type filter hook input priority 0; iif {interface} meta l4proto udp drop; \
         iif {interface} meta l4proto tcp tcp dport != 443 drop; }}; }}"
    );
    tunnel.hq.run(&["nft", &table]);
}

#[test]
fn a_network_that_lets_https_through_is_enough() {
    let mut tunnel = over_one_link("auto");
    let_https_through(&tunnel);
    let file = tunnel.hq.file("toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("[site]", "[site]\nlisten_tls = 443", 1)).unwrap();
    tunnel.hq.start();
    tunnel.van.start();
    let stream = format!("{}-tls", path_name(VAN, 1));
    tunnel.van.wait_for_path(&stream, &[PathState::Active], PATIENCE);
    tunnel.ping(Family::V4);
    let status = tunnel.van.path(&stream).unwrap();
    assert!(status.in_stream && status.tier == "primary", "{status:?}");
    // A site that is restarted is dialled again.
    tunnel.hq.kill();
    tunnel.van.wait_for_path(&stream, &[PathState::Dead, PathState::Probing], PATIENCE);
    tunnel.hq.start();
    tunnel.van.wait_for_path(&stream, &[PathState::Active], PATIENCE);
    tunnel.ping(Family::V4);
    // A path that is removed takes its stream with it; the control connection stays.
    let connections = || tunnel.hq.run(&["ss", "-Htn", "sport", "=", ":443"]).matches("ESTAB").count();
    let before = connections();
    tunnel.van.psmc_ok(&["path", "remove", "hq", &path_name(VAN, 1)]);
    wait_for("the end of the stream", PATIENCE, || tunnel.van.path(&stream).is_none().then_some(()));
    wait_for("its end at the other site", PATIENCE, || (connections() < before).then_some(()));
}

/// A web server that shares its port with a site: it passes on, by name and without looking inside, what asks for `name`; all else finds
/// nobody.
fn web_server(site: &Site, address: &str, name: &str) -> Nginx {
    let streams = format!(
        "stream {{\nmap $ssl_preread_server_name $to {{ {name} 127.0.0.1:5115; default 127.0.0.1:9; }}\n\
         server {{ listen {address}; ssl_preread on; proxy_pass $to; }}\n}}"
    );
    Nginx::start(site, "load_module /usr/lib/nginx/modules/ngx_stream_module.so;", &streams)
}

#[test]
fn a_web_server_passes_streams_on_by_name() {
    const NAME: &str = "vpn.example.net";
    const RESOLVER: &str = "127.0.0.53";
    let endpoint = Some(format!("{NAME}:5115"));
    let mut tunnel = Tunnel::prepare(Plan { links: 1, endpoint, ..Plan::default() });
    let file = tunnel.van.file("toml");
    let text = fs::read_to_string(&file).unwrap() + "transport = \"tls\"\n";
    fs::write(&file, text).unwrap();
    let_https_through(&tunnel);
    let address = HQ.outer(1, Family::V4);
    let _names = NameServer::start(&tunnel.van, RESOLVER, &[address]);
    tunnel.hq.start();
    let _nginx = web_server(&tunnel.hq, &format!("{address}:443"), NAME);
    tunnel.van.start_with_name_server(RESOLVER);
    tunnel.wait_until_up();
    tunnel.ping(Family::V4);
    assert!(
        iperf(&tunnel.van, &tunnel.hq, tunnel.hq.inner(Family::V4), &["--time", "1"]).bytes() > 1_000_000
    );
}

/// A path over an uplink, of which the file says nothing.
#[test]
fn paths_over_uplinks_have_the_transport_of_their_peer_and_follow_it() {
    let mut tunnel = Tunnel::prepare(Plan { links: 1, ..Plan::default() });
    let file = tunnel.van.file("toml");
    let text = fs::read_to_string(&file).unwrap();
    let text = text.split("\n[[peer.path]]").next().unwrap().to_owned();
    let endpoint = format!("endpoint = \"{}:5115\"\n", HQ.outer(1, Family::V4));
    fs::write(&file, text.clone() + &endpoint).unwrap();
    tunnel.hq.start();
    tunnel.van.start();
    let van = &tunnel.van;
    let path = VAN.link(1);
    van.wait_for_path(&path, &[PathState::Active], PATIENCE);
    assert!(!van.path(&path).unwrap().in_stream);
    van.reload(&format!("{text}{endpoint}transport = \"tls\"\n"), "");
    wait_for("a path in a stream", PATIENCE, || {
        van.path(&path).filter(|path| path.in_stream && path.state == PathState::Active).map(drop)
    });
    tunnel.ping(Family::V4);
}
