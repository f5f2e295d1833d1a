//! A thousand sites in one world.

use psmc_sim::{HostId, TrafficId, TrafficKind};

use crate::world::{self, Lab, direction, ms, secs, tunnel_address};

/// Tunnels, with two sites each.
const TUNNELS: u16 = 500;

fn run(seed: u64) -> Vec<world::Tally> {
    let mut lab = Lab::new(seed);
    let traffics: Vec<_> = (0..TUNNELS).map(|number| tunnel(&mut lab, number)).collect();
    lab.run_for(secs(3));
    traffics.into_iter().map(|traffic| lab.tally(traffic)).collect()
}

/// Two hosts with a link and a tunnel between them, and pings in it.
fn tunnel(lab: &mut Lab, number: u16) -> TrafficId {
    let hosts: [HostId; 2] = [lab.world.add_host(), lab.world.add_host()];
    let link = direction(10, ms(5 + u64::from(number % 50)), 64);
    let id = lab.link([(hosts[0], "10.1.0.1/24"), (hosts[1], "10.1.0.2/24")], [link.clone(), link]);
    let [number, _] = number.to_le_bytes();
    lab.tunnel(hosts, &[id], number);
    let kind = TrafficKind::Ping { interval: ms(100), payload: 56 };
    lab.traffic(kind, hosts[0], hosts[1], &tunnel_address(number, 1), [secs(1), ms(2500)])
}

#[test]
fn a_thousand_sites_live_in_one_world_and_always_do_the_same() {
    let tallies = run(1);
    assert!(tallies.iter().all(|tally| (tally.sent, tally.arrived) == (15, 15)), "every tunnel works");
    assert!(run(1) == tallies, "the same seed does the same");
}
