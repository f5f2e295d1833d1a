//! Paths are added, changed and removed by hand while traffic flows.

use std::time::{Duration, Instant};

use crate::harness::{Bulk, Deliveries, HQ, Plan, Stream, Tunnel, VAN, path_name, wait_for};
use psmc_testbed::steadily::{Measured, steadily};

/// The longest time without a byte over TCP around such a change.
const MAX_GAP: Duration = Duration::from_secs(1);

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a shaped link carries, in Mbit/s.
const MBIT: u64 = 40;

#[test]
fn not_a_packet_is_lost_while_paths_are_changed_by_hand() {
    steadily(Measured::Loss, || {
        for scheduler in ["wrr", "earliest"] {
            let tunnel = Tunnel::start(Plan { links: 3, scheduler, ..Plan::default() });
            let interval = Duration::from_micros(500);
            let streams = [
                Stream::start(&tunnel.van, &tunnel.hq, interval),
                Stream::start(&tunnel.hq, &tunnel.van, interval),
            ];
            for command in COMMANDS {
                tunnel.van.psmc_ok(command);
                let done = Instant::now();
                for stream in &streams {
                    stream.wait_until_back(done + Duration::from_millis(150), PATIENCE);
                }
            }
            let deliveries = streams.map(Stream::finish);
            println!("{scheduler}: {:?} packets there and back", deliveries.each_ref().map(Deliveries::sent));
            for (deliveries, way) in deliveries.iter().zip(["there", "back"]) {
                assert_eq!(deliveries.lost(), [0; 0], "{scheduler}, {way}");
                assert_eq!(deliveries.duplicates(), 0, "{scheduler}, {way}");
            }
        }
    });
}

#[test]
fn tcp_goes_on_while_paths_are_changed_by_hand() {
    steadily(Measured::Time, || {
        let tunnel = Tunnel::start(Plan { links: 3, mbit: Some(MBIT), ..Plan::default() });
        let bulk = Bulk::start(&tunnel.van, &tunnel.hq);
        bulk.wait_for_bytes(4 << 20, PATIENCE);
        for command in COMMANDS {
            tunnel.van.psmc_ok(command);
            let gap = bulk.longest_gap_in(Duration::from_millis(200), PATIENCE);
            assert!(gap < MAX_GAP, "{command:?}: {gap:?}");
        }
        bulk.finish();
    });
}

/// All that can be done to paths; in the end they are as they were.
const COMMANDS: &[&[&str]] = &[
    &["path", "remove", "hq", "van-link2"],
    &["path", "add", "hq", "again", "--interface", "v2", "--endpoint", "10.200.2.2:5115"],
    &["path", "set", "hq", "van-link1", "--weight", "10"],
    &["path", "set", "hq", "van-link1", "--max-rate", "30mbit"],
    &["path", "set", "hq", "van-link1", "--congestion", "cubic"],
    &["path", "set", "hq", "van-link1", "--congestion", "fixed", "--max-rate", "30mbit"],
    &["path", "set", "hq", "van-link1", "--congestion", "model"],
    &["path", "set", "hq", "van-link1", "--state", "standby"],
    &["path", "set", "hq", "van-link3", "--state", "standby"],
    &["path", "set", "hq", "again", "--state", "standby"],
    &["path", "set", "hq", "van-link1", "--state", "active"],
    &["path", "set", "hq", "van-link3", "--state", "active"],
    &["path", "set", "hq", "van-link1", "--max-rate", "none"],
    &["path", "set", "hq", "van-link1", "--tier", "secondary"],
    &["path", "set", "hq", "van-link3", "--tier", "backup"],
    &["path", "set", "hq", "again", "--tier", "never"],
    &["path", "set", "hq", "van-link1", "--tier", "never"],
    &["path", "set", "hq", "again", "--tier", "primary"],
    &["path", "remove", "hq", "van-link1"],
    &["path", "remove", "hq", "van-link3"],
    &["path", "add", "hq", "van-link1", "--interface", "v1", "--endpoint", "10.200.1.2:5115"],
    &["path", "add", "hq", "van-link3", "--interface", "v3", "--endpoint", "10.200.3.2:5115"],
    &["path", "remove", "hq", "again"],
    &["path", "add", "hq", "van-link2", "--interface", "v2", "--endpoint", "10.200.2.2:5115"],
];

#[test]
fn a_removed_path_stays_removed_until_it_is_added_by_hand() {
    for remover in [VAN, HQ] {
        let tunnel = Tunnel::start(Plan::default());
        let (site, peer) = if remover.name == VAN.name { (&tunnel.van, "hq") } else { (&tunnel.hq, "van") };
        let name = path_name(VAN, 2);
        site.psmc_ok(&["path", "remove", peer, &name]);
        wait_for("the end of the path", PATIENCE, || tunnel.van.path(&name).is_none().then_some(()));
        // A change of the network has the daemon look for paths that it could open.
        tunnel.van.run(&["ip", "address", "add", "10.200.1.99/24", "dev", "v1"]);
        let stream = Stream::start(&tunnel.van, &tunnel.hq, Duration::from_millis(10));
        stream.wait_until_back(Instant::now() + Duration::from_secs(2), PATIENCE);
        stream.finish();
        assert!(
            tunnel.van.path(&name).is_none(),
            "removed by {}: {:?}",
            remover.name,
            tunnel.van.path(&name)
        );
        tunnel.van.psmc_ok(COMMANDS.last().unwrap());
        tunnel.wait_until_up();
    }
}

#[test]
fn not_a_packet_is_lost_while_schedulers_are_switched() {
    steadily(Measured::Loss, || {
        let tunnel = Tunnel::start(Plan { links: 3, ..Plan::default() });
        let interval = Duration::from_micros(500);
        let streams = [
            Stream::start(&tunnel.van, &tunnel.hq, interval),
            Stream::start(&tunnel.hq, &tunnel.van, interval),
        ];
        for scheduler in ["wrr", "redundant", "backup", "flow", "wrr-adaptive", "redundant", "earliest"] {
            tunnel.van.psmc_ok(&["peer", "set", "hq", "--scheduler", scheduler]);
            tunnel.hq.psmc_ok(&["peer", "set", "van", "--scheduler", scheduler]);
            assert_eq!(tunnel.van.peer().scheduler, scheduler);
            let done = Instant::now();
            for stream in &streams {
                stream.wait_until_back(done + Duration::from_millis(300), PATIENCE);
            }
        }
        let deliveries = streams.map(Stream::finish);
        println!("{:?} packets there and back", deliveries.each_ref().map(Deliveries::sent));
        for (deliveries, way) in deliveries.iter().zip(["there", "back"]) {
            assert_eq!(deliveries.lost(), [0; 0], "{way}");
            assert_eq!(deliveries.duplicates(), 0, "{way}");
        }
    });
}

#[test]
fn wrr_keeps_to_the_weights() {
    let tunnel = Tunnel::start(Plan { scheduler: "wrr", ..Plan::default() });
    tunnel.van.psmc_ok(&["path", "set", "hq", &path_name(VAN, 1), "--weight", "3"]);
    let sent = |link| tunnel.van.path(&path_name(VAN, link)).unwrap().tx_bytes;
    let before = [sent(1), sent(2)];
    let stream = Stream::start(&tunnel.van, &tunnel.hq, Duration::from_millis(1));
    stream.wait_until_back(Instant::now() + Duration::from_secs(2), PATIENCE);
    stream.finish();
    let [first, second] = [sent(1) - before[0], sent(2) - before[1]].map(|bytes| bytes as f64);
    let ratio = first / second;
    println!("weights 3 to 1: bytes {ratio:.2} to 1");
    assert!((2.0..4.0).contains(&ratio), "{ratio}");
}
