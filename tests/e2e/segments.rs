//! Where on its way a path loses datagrams, as both sites and two relays between them count them.

use std::net::UdpSocket;
use std::thread::sleep;
use std::time::Duration;

use psmc_api::PathState;
use psmc_testbed::steadily::{Measured, steadily};
use serde_json::Value;

use crate::harness::{Family, Relayed, Site, wait_for};

const PATIENCE: Duration = Duration::from_secs(30);

/// What of a hundred datagrams is lost between the relays.
const PERCENT: u8 = 5;

/// Datagrams that are sent, and how many in a millisecond.
const DATAGRAMS: u32 = 30_000;
const AT_ONCE: u32 = 10;

/// Who counts on the way there.
const WITNESSES: [&str; 4] = ["van", "r0", "r1", "hq"];

/// What `psmc sla --segments --json` says of the only path.
fn segments(site: &Site) -> Value {
    let output = site.psmc(&["sla", "--segments", "--json", "hq"]);
    assert!(output.status.success(), "{output:?}");
    let mut reports: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    reports.remove(0)
}

/// What was lost on the way there since the same witnesses count: before each of them but the first, and within it.
fn lost(report: &Value) -> Option<Vec<[i64; 2]>> {
    let counts = report["to_peer"]["total"]["counts"].as_array()?;
    let number = |count: &Value, key: &str| count[key].as_i64();
    let lost = counts.windows(2).map(|pair| {
        let received = number(&pair[1], "received")?;
        let before = number(&pair[0], "handed_on")? - received;
        Some([before, number(&pair[1], "handed_on").map_or(0, |handed_on| received - handed_on)])
    });
    lost.collect()
}

/// All witnesses of both directions have told of some blocks.
fn all_count(report: &Value) -> bool {
    ["to_peer", "from_peer"].iter().all(|way| {
        let witnesses = report[way]["witnesses"].as_array().unwrap();
        let blocks = report[way]["blocks"].as_array().unwrap();
        witnesses.len() == WITNESSES.len()
            && witnesses.iter().all(|witness| witness["counts"] == true)
            && blocks.len() >= 2
    })
}

#[test]
fn loss_between_two_relays_is_counted_there_to_the_datagram_and_nowhere_else() {
    steadily(Measured::Loss, || {
        let mut world = Relayed::prepare(2, None);
        world.start("", &Relayed::path(&[0, 1]));
        let van = &world.tunnel.van;
        for site in [van, &world.tunnel.hq] {
            site.wait_for_path("r0-r1", &[PathState::Active], PATIENCE);
        }
        let report = wait_for("counts of all", PATIENCE, || Some(segments(van)).filter(all_count));
        let names: Vec<_> = report["to_peer"]["witnesses"].as_array().unwrap().iter().collect();
        assert!(names.iter().zip(WITNESSES).all(|(witness, name)| witness["name"] == name), "{names:?}");
        let before = lost(&report).expect("all count");
        world.worsen_between(1, PERCENT);

        send(&world);
        // What is dropped later, of challenges and acknowledgements, is counted soon, too.
        let (lost, by_nft) = wait_for("the same counts", PATIENCE, || {
            let by_nft = world.lost_between(1);
            let now = lost(&segments(&world.tunnel.van))?;
            let lost: Vec<_> = now
                .iter()
                .zip(&before)
                .map(|(now, before)| [now[0] - before[0], now[1] - before[1]])
                .collect();
            (u64::try_from(lost[1][0]) == Ok(by_nft)).then_some((lost, by_nft))
        });
        println!("before and in r0, r1, hq: {lost:?}; {by_nft} lost by nftables");
        assert!((400..2500).contains(&by_nft), "{by_nft} of {DATAGRAMS}");
        assert_eq!(lost, [[0, 0], [by_nft.cast_signed(), 0], [0, 0]]);
        let output = world.tunnel.van.psmc(&["sla", "--segments"]);
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{text}");
        assert!(
            text.contains("r0 → r1") && text.contains("in r1") && text.contains("r0-r1, from hq"),
            "{text}"
        );
    });
}

/// Sends through the tunnel, and looks on meanwhile, so that the counting goes on.
fn send(world: &Relayed) {
    let van = &world.tunnel.van;
    let socket = van.namespace.run(|| UdpSocket::bind((van.inner(Family::V4), 0))).unwrap();
    for number in 0..DATAGRAMS {
        // That nobody listens there is told by ICMP, and no harm.
        let _ = socket.send_to(&[0; 400], (world.tunnel.hq.inner(Family::V4), 9));
        if number % AT_ONCE == 0 {
            sleep(Duration::from_millis(1));
        }
        if number % 10_000 == 5000 {
            segments(van);
        }
    }
}
