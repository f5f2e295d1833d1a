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

/// A blast that is running; ends on drop.
struct Blast(Child);

impl Blast {
    fn start(from: &Site, to: &Site) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", BLAST, &to.inner(Family::V4).to_string()]).stdin(Stdio::null());
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
            let _blast = Blast::start(&tunnel.van, &tunnel.hq);
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
