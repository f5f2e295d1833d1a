//! TCP connections that the sites end.

use psmc_sim::link::{Jitter, LinkConfig};
use psmc_sim::{CongestionControl, TrafficKind};

use crate::world::{Lab, direction, lossy, ms, pair, secs, side_by_side};

/// 40 Mb/s at 35 ± 8 ms, and 90 Mb/s at 55 ± 20 ms that lose one in a hundred.
fn radio(seed: u64, split: bool) -> (Lab, [psmc_sim::HostId; 2]) {
    let link = |mbit, delay, spread, loss| {
        let there = LinkConfig { jitter: Jitter::Normal(ms(spread)), ..direction(mbit, ms(delay), 300) };
        [lossy(there, loss), direction(mbit, ms(delay), 300)]
    };
    let (mut lab, hosts, ids) = pair(seed, &[link(40, 35, 8, 0.0), link(90, 55, 20, 1.0)]);
    lab.tunnel_of(hosts, &ids, 0, |peer| peer.config.split = split);
    (lab, hosts)
}

fn tcp(congestion_control: CongestionControl, bytes: Option<u64>) -> TrafficKind {
    TrafficKind::Tcp { congestion_control, flows: 1, bytes, buffer: 4 << 20 }
}

/// Megabits per second in ten seconds, with the start.
fn goodput(kind: TrafficKind, split: bool, seed: u64) -> f64 {
    let (mut lab, hosts) = radio(seed, split);
    let flow = lab.traffic(kind, hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(100)]);
    lab.run_for(secs(1));
    lab.goodput(flow, secs(10))
}

#[test]
fn whatever_its_sender_is_a_connection_gets_what_a_flood_gets() {
    let median = |run: &(dyn Fn(u64) -> f64 + Sync)| {
        let mut rates = side_by_side(1..=3, run);
        rates.sort_by(f64::total_cmp);
        rates[1]
    };
    let flood = median(&|seed| goodput(TrafficKind::Udp { rate: 200_000_000, payload: 1300 }, false, seed));
    for sender in [CongestionControl::Reno, CongestionControl::Cubic, CongestionControl::Bbr] {
        let [forwarded, split] =
            [false, true].map(|split| median(&|seed| goodput(tcp(sender, None), split, seed)));
        println!(
            "{sender:?}: {forwarded:.1} Mb/s forwarded, {split:.1} ended at the sites, a flood {flood:.1}"
        );
        assert!(split >= 0.97 * flood, "{sender:?}: {split:.1}, a flood {flood:.1}");
    }
}

#[test]
fn a_file_arrives_whole_and_its_end_with_it() {
    let (mut lab, hosts) = radio(1, true);
    let file = lab.traffic(
        tcp(CongestionControl::Cubic, Some(3_000_000)),
        hosts[0],
        hosts[1],
        "10.77.0.2",
        [secs(1), secs(100)],
    );
    lab.run_for(secs(10));
    let tally = lab.tally(file);
    assert_eq!((tally.bytes, tally.done, tally.broken), (3_000_000, true, 0));
}
