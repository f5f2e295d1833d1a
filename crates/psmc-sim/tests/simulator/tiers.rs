//! TCP inside over paths that are not for the same.

use psmc_core::Tier;
use psmc_sim::HostId;

use crate::world::{Lab, bulk, direction, ms, pair, secs};

/// A line of 20 Mb/s, and mobile access with 30 Mb/s and a longer delay.
fn line_and_mobile(seed: u64, tier: Tier) -> (Lab, [HostId; 2]) {
    let link = |mbit, delay| [0; 2].map(|_| direction(mbit, ms(delay), 100));
    let (mut lab, hosts, links) = pair(seed, &[link(20, 10), link(30, 25)]);
    lab.tunnel_of(hosts, &links, 0, |peer| {
        if let Some(path) = peer.paths.get_mut(1) {
            path.config.tier = tier;
        }
    });
    (lab, hosts)
}

/// Megabits per second of payload of one flow in ten seconds, when it has found its rate.
fn goodput(seed: u64, tier: Tier) -> f64 {
    let (mut lab, hosts) = line_and_mobile(seed, tier);
    let flow = lab.traffic(bulk(), hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(1000)]);
    lab.run_for(secs(6));
    lab.goodput(flow, secs(10))
}

#[test]
fn a_flow_has_as_much_of_a_secondary_path_as_of_another_primary_one() {
    for seed in 1..=3 {
        let [primary, secondary] = [Tier::Primary, Tier::Secondary].map(|tier| goodput(seed, tier));
        println!("{secondary:.1} of {primary:.1} Mb/s");
        assert!(secondary >= 0.98 * primary, "{secondary:.1} of {primary:.1} Mb/s");
    }
}
