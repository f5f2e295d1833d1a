//! Daemons start, end and die in any order.

use std::time::{Duration, Instant};

use crate::harness::{Dials, Family, Plan, Site, Stream, Tunnel, wait_for};
use psmc_testbed::steadily::{Measured, steadily};

/// How often a stream sends.
const INTERVAL: Duration = Duration::from_millis(10);

/// How long it may take until traffic is back after a daemon was started again.
const BACK_WITHIN: Duration = Duration::from_secs(2);

/// How long after a power cut: nobody was told, and silence must speak for itself.
const BACK_AFTER_POWER_CUT: Duration = Duration::from_secs(10);

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn the_site_that_is_called_may_start_first() {
    let mut tunnel = Tunnel::prepare(Plan::default());
    tunnel.hq.start();
    wait_for_answer(&tunnel.hq);
    tunnel.van.start();
    tunnel.wait_until_up();
    tunnel.ping(Family::V4);
}

#[test]
fn the_site_that_calls_may_start_first() {
    let mut tunnel = Tunnel::prepare(Plan::default());
    tunnel.van.start();
    wait_for("a call in vain", PATIENCE, || tunnel.van.try_status()?.peers.remove(0).control.last_error);
    let started = Instant::now();
    tunnel.hq.start();
    tunnel.wait_until_up();
    println!("up {:.0?} after the called site was started", started.elapsed());
    tunnel.ping(Family::V4);
}

#[test]
fn traffic_is_back_after_the_van_was_killed() {
    is_back_after("the van was killed", |tunnel| tunnel.van.kill(), |tunnel| tunnel.van.start());
}

#[test]
fn traffic_is_back_after_the_headquarters_were_killed() {
    is_back_after("hq was killed", |tunnel| tunnel.hq.kill(), |tunnel| tunnel.hq.start());
}

#[test]
fn traffic_is_back_after_the_headquarters_were_restarted() {
    let stop = |tunnel: &mut Tunnel| assert!(tunnel.hq.terminate().success());
    is_back_after("hq was restarted", stop, |tunnel| tunnel.hq.start());
}

/// Streams in both directions come back by themselves after `down` and `up`.
fn is_back_after(what: &str, down: impl FnOnce(&mut Tunnel), up: impl FnOnce(&mut Tunnel)) {
    let mut tunnel = Tunnel::start(Plan::default());
    let there = Stream::start(&tunnel.van, &tunnel.hq, INTERVAL);
    let back = Stream::start(&tunnel.hq, &tunnel.van, INTERVAL);
    wait_until_flowing(&[&there, &back]);
    down(&mut tunnel);
    let started = Instant::now();
    up(&mut tunnel);
    let times = [&there, &back].map(|stream| stream.wait_until_back(started, PATIENCE));
    println!("traffic is back {times:.0?} after {what} and started again");
    assert!(times.iter().all(|time| *time < BACK_WITHIN), "{times:?}");
    tunnel.wait_until_up();
    drop([there, back].map(Stream::finish));
}

/// As when the power fails: no connection is closed, nobody says goodbye.
#[test]
fn traffic_is_back_after_a_power_cut_of_the_headquarters() {
    let mut tunnel = Tunnel::start(Plan::default());
    let there = Stream::start(&tunnel.van, &tunnel.hq, INTERVAL);
    wait_until_flowing(&[&there]);
    let silence =
        "table inet silence { chain out { type filter hook output priority 0; oifname \"h*\" drop; }; }";
    tunnel.hq.run(&["nft", silence]);
    tunnel.hq.kill();
    // Its connections are gone for good by the time the network is back.
    wait_for("the end of all connections", PATIENCE, || {
        tunnel.hq.run(&["ss", "-Htan"]).is_empty().then_some(())
    });
    tunnel.hq.run(&["nft", "delete table inet silence"]);
    let started = Instant::now();
    tunnel.hq.start();
    let time = there.wait_until_back(started, BACK_AFTER_POWER_CUT);
    println!("traffic is back {time:.0?} after a power cut of hq");
    there.finish();
}

#[test]
fn a_daemon_that_is_told_to_end_leaves_nothing_behind() {
    let mut tunnel = Tunnel::prepare(Plan::default());
    let before = [&tunnel.van, &tunnel.hq].map(network);
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    let during = [&tunnel.van, &tunnel.hq].map(network);
    assert!(during.iter().all(|network| network.contains("psmc0")), "{during:?}");
    let van = tunnel.van.terminate();
    let hq = tunnel.hq.terminate();
    assert!(van.success() && hq.success(), "{van} {hq}");
    assert_eq!([&tunnel.van, &tunnel.hq].map(network), before);
    assert!(!tunnel.van.file("sock").exists() && !tunnel.hq.file("sock").exists());
    assert!(tunnel.hq.log().contains("closed by the peer"), "hq was told");
}

#[test]
fn a_daemon_that_was_killed_leaves_nothing_that_its_successor_does_not_remove() {
    let mut tunnel = Tunnel::prepare(Plan::default());
    let before = network(&tunnel.van);
    tunnel.van.start();
    wait_for_answer(&tunnel.van);
    tunnel.van.kill();
    wait_for("the end of the interface", PATIENCE, || {
        (!tunnel.van.run(&["ip", "-oneline", "link"]).contains("psmc0")).then_some(())
    });
    assert!(tunnel.van.file("sock").exists(), "nobody was there to remove it");
    tunnel.van.start();
    wait_for_answer(&tunnel.van);
    assert!(tunnel.van.terminate().success());
    assert_eq!(network(&tunnel.van), before);
    assert!(!tunnel.van.file("sock").exists());
}

#[test]
fn two_sites_that_call_each_other_settle_on_one_connection() {
    steadily(Measured::Loss, || {
        let mut tunnel = Tunnel::prepare(Plan { dials: Dials::Both, ..Plan::default() });
        tunnel.hq.start();
        tunnel.van.start();
        tunnel.wait_until_up();
        let accepted =
            |tunnel: &Tunnel| [&tunnel.van, &tunnel.hq].map(|site| site.counter("control_accepted"));
        let settled = accepted(&tunnel);
        let streams = [
            Stream::start(&tunnel.van, &tunnel.hq, INTERVAL),
            Stream::start(&tunnel.hq, &tunnel.van, INTERVAL),
        ];
        // Longer than the back-off and the time in which the sites let each other go first.
        let long_enough = Duration::from_secs(3);
        let beginning = Instant::now();
        streams[0].wait_until_back(beginning + long_enough, 2 * long_enough);
        assert_eq!(accepted(&tunnel), settled, "nobody calls any more");
        for site in [&tunnel.van, &tunnel.hq] {
            assert!(site.peer().control.connected, "{:?}", site.peer());
        }
        for deliveries in streams.map(Stream::finish) {
            assert_eq!(deliveries.lost(), [0; 0]);
        }
    });
}

/// Interfaces, addresses, routes and rules of a host.
fn network(site: &Site) -> String {
    let commands: [&[&str]; 6] = [
        &["ip", "-oneline", "link"],
        &["ip", "-oneline", "address"],
        &["ip", "-4", "route", "show", "table", "all"],
        &["ip", "-6", "route", "show", "table", "all"],
        &["ip", "-4", "rule"],
        &["ip", "-6", "rule"],
    ];
    commands.map(|command| site.run(command)).concat()
}

fn wait_for_answer(site: &Site) {
    wait_for("the daemon's answer", PATIENCE, || site.try_status());
}

fn wait_until_flowing(streams: &[&Stream]) {
    let now = Instant::now();
    for stream in streams {
        stream.wait_until_back(now, PATIENCE);
    }
}
