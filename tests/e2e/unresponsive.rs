//! Flows that heed no loss are held down, and those that do are not.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use psmc_api::Flows;
use psmc_testbed::steadily::{Measured, steadily};

use crate::harness::{Family, Plan, Site, Tunnel, iperf_on, iperf_within, wait_for};

const POLICE: &str = "\n[unresponsive]\nmode = \"police\"\n";

/// What the link carries, in Mbit/s.
const MBIT: u64 = 2;

/// Sends UDP to `argv[1]` from 1,000 addresses of 10.78.0.0/22, three times what the link carries, until it is killed.
const BLAST: &str = r"
import random, socket, struct, sys, time
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
to = socket.inet_aton(sys.argv[1])
udp = struct.pack('!HHHH', 4000, 5000, 1008, 0) + bytes(1000)
begun, sent = time.monotonic(), 0
while True:
    while sent < (time.monotonic() - begun) * 750:
        source = struct.pack('!I', 0x0A4E0000 + random.randrange(1000))
        head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 0, 0, 0, 64, 17, 0, source, to)
        try:
            out.sendto(head + udp, (sys.argv[1], 0))
        except OSError:
            pass
        sent += 1
    time.sleep(0.005)
";

/// Sends 6 Mbit/s of UDP to `argv[1]`, in one flow, until it is killed.
const FLOOD: &str = r"
import socket, sys, time
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
begun, sent = time.monotonic(), 0
while True:
    while sent < (time.monotonic() - begun) * 750:
        try:
            out.sendto(bytes(1000), (sys.argv[1], 5000))
        except OSError:
            pass
        sent += 1
    time.sleep(0.005)
";

/// A blast that is running; ends on drop.
struct Blast(Child);

impl Blast {
    fn start(program: &str, from: &Site, to: &Site) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", program, &to.inner(Family::V4).to_string()]).stdin(Stdio::null());
        Self(from.namespace.spawn(&mut command).unwrap())
    }
}

impl Drop for Blast {
    fn drop(&mut self) {
        // Both fail only for a program that has ended.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn held(site: &Site) -> Flows {
    let output = site.psmc(&["flows", "--unresponsive", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_blast_from_a_thousand_addresses_leaves_tcp_its_share() {
    steadily(Measured::Rate, || {
        let [free, held_down] = ["", POLICE].map(|lines| {
            let tunnel =
                Tunnel::start(Plan { links: 1, mbit: Some(MBIT), classes: lines, ..Plan::default() });
            let _blast = Blast::start(BLAST, &tunnel.van, &tunnel.hq);
            if lines == POLICE {
                let found = wait_for("the blast is found", Duration::from_secs(30), || {
                    Some(held(&tunnel.van).flows).filter(|flows| !flows.is_empty())
                });
                let found: Vec<_> =
                    found.iter().map(|flow| (flow.kind.as_str(), flow.sources.as_str())).collect();
                assert_eq!(found, [("udp", "10.78.0.0/22")]);
            } else {
                wait_for("the queue is full", Duration::from_secs(30), || {
                    (tunnel.van.peer().drops["queue"] > 1000).then_some(())
                });
            }
            let address = tunnel.hq.inner(Family::V4);
            // Beside a blast that is free even the connection is not always made.
            let report = iperf_within(30, &tunnel.van, &tunnel.hq, address, &["--time", "10"]);
            let mbps = report.map_or(0.0, |report| report.mbps());
            let which = if lines == POLICE { "held down" } else { "free" };
            println!("TCP beside 1,000 addresses, {which}: {mbps:.2} Mbit/s; {:?}", tunnel.van.peer().drops);
            mbps
        });
        assert!(
            held_down > 3.0 * free && held_down > 0.4 * MBIT as f64,
            "{free} free, {held_down} held down"
        );
    });
}

/// What headquarters cannot send on to a branch, and acknowledges all the same, is held down in the van.
#[test]
fn a_flood_that_is_dropped_behind_the_peer_is_held_down_where_it_enters() {
    let mut tunnel = Tunnel::prepare(Plan { links: 1, mbit: Some(20), classes: POLICE, ..Plan::default() });
    let branch = tunnel.start_branch(1);
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    wait_for("the branch is reached", Duration::from_secs(30), || {
        let address = branch.inner(Family::V4).to_string();
        let ping = tunnel.van.try_run(&["ping", "-c", "1", "-W", "1", &address]);
        ping.status.success().then_some(())
    });
    let flood = Blast::start(FLOOD, &tunnel.van, &branch);
    let found = wait_for("the van holds it down", Duration::from_secs(60), || {
        let flows = held(&tunnel.van).flows;
        // The branch has 1 Mbit/s; where it is known and what it has room for is found out within some rounds.
        flows.into_iter().find(|flow| flow.limit.is_some_and(|limit| limit.bits_per_second < 2_500_000))
    });
    let destination = format!("{}/32", branch.inner(Family::V4));
    assert_eq!(
        (found.kind.as_str(), found.destinations.as_deref(), found.class.as_deref(), found.is_dropped_behind),
        ("udp", Some(&*destination), None, true)
    );
    let shown = String::from_utf8(tunnel.van.psmc(&["flows", "--unresponsive"]).stdout).unwrap();
    assert!(shown.contains("dropped behind hq") && shown.contains("any class"), "{shown}");
    drop(flood);
    wait_for("it is let go", Duration::from_secs(60), || held(&tunnel.van).flows.is_empty().then_some(()));
}

#[test]
fn reno_cubic_and_bbr_are_not_held_down() {
    let tunnel = Tunnel::start(Plan { links: 1, mbit: Some(5), classes: POLICE, ..Plan::default() });
    let address = tunnel.hq.inner(Family::V4);
    thread::scope(|scope| {
        let transfers = [("reno", 5301), ("cubic", 5302), ("bbr", 5303)].map(|(algorithm, port)| {
            let tunnel = &tunnel;
            scope.spawn(move || {
                let args = ["--time", "30", "--congestion", algorithm];
                iperf_on(port, &tunnel.van, &tunnel.hq, address, &args).mbps()
            })
        });
        let begun = Instant::now();
        while !transfers.iter().all(|transfer| transfer.is_finished()) {
            let flows = held(&tunnel.van);
            assert!(flows.flows.is_empty(), "after {:?}: {flows:?}", begun.elapsed());
            thread::sleep(Duration::from_millis(500));
        }
        let rates = transfers.map(|transfer| transfer.join().unwrap());
        println!("Reno, CUBIC and BBR have {rates:.2?} Mbit/s");
        assert!(rates.iter().all(|&mbps| mbps > 0.2), "{rates:?}");
    });
    assert_eq!(tunnel.van.peer().drops["unresponsive"], 0);
    assert!(tunnel.van.peer().drops["queue"] > 0, "they have met a full link");
}
