//! Sites: tunnels over the links of the world.

use psmc_core::PathState;
use psmc_sim::{HostId, NatKind, SiteId, TrafficId, TrafficKind};

use crate::world::{self, Lab, bulk, direction, ms, net, pair, secs, tunnel_address};

/// What of a path's rate is payload of TCP in the tunnel: segments of 1348 bytes in packets of 1467.
const TUNNEL_SHARE: f64 = 1348.0 / 1467.0;

/// Tunnels of a large world, with two sites each.
const TUNNELS: u16 = 500;

/// UDP at so many Mb/s.
fn udp(mbit: u64) -> TrafficKind {
    TrafficKind::Udp { rate: mbit * 1_000_000, payload: 1000 }
}

fn path_states(lab: &Lab, site: SiteId) -> Vec<PathState> {
    let status = lab.world.site_status(site, 0).expect("it runs");
    status.paths.iter().map(|path| path.state).collect()
}

#[test]
fn one_connection_fills_one_path() {
    let link = direction(50, ms(10), 84);
    let (mut lab, hosts, links) = pair(1, &[[link.clone(), link]]);
    let [van, _] = lab.tunnel(hosts, &links, 0);
    lab.run_for(secs(1));
    assert_eq!(path_states(&lab, van), [PathState::Active]);
    let traffic = lab.traffic(bulk(), hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(60)]);
    lab.run_for(secs(3));
    let rate = lab.goodput(traffic, secs(5));
    assert!(rate >= 0.9 * 50.0 * TUNNEL_SHARE, "{rate} Mb/s");
}

#[test]
fn two_paths_carry_what_one_could_not() {
    let link = direction(50, ms(10), 84);
    let (mut lab, hosts, links) = pair(1, &[[link.clone(), link.clone()], [link.clone(), link]]);
    let [van, _] = lab.tunnel(hosts, &links, 0);
    lab.run_for(secs(1));
    assert_eq!(path_states(&lab, van), [PathState::Active; 2]);
    let traffic = lab.traffic(udp(75), hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(60)]);
    lab.run_for(secs(4));
    let rate = lab.goodput(traffic, secs(5));
    assert!(rate >= 0.97 * 75.0, "{rate} Mb/s");
}

#[test]
fn when_a_link_is_cut_the_other_one_takes_over_at_once() {
    let link = direction(50, ms(10), 84);
    let (mut lab, hosts, links) = pair(1, &[[link.clone(), link.clone()], [link.clone(), link]]);
    let [van, _] = lab.tunnel(hosts, &links, 0);
    let traffic = lab.traffic(udp(20), hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(60)]);
    lab.run_for(secs(5));
    lab.world.set_link_up(links[0], false);
    lab.run_for(secs(3));
    assert_eq!(path_states(&lab, van), [PathState::Dead, PathState::Active]);
    lab.world.set_link_up(links[0], true);
    lab.run_for(secs(3));
    assert_eq!(path_states(&lab, van), [PathState::Active; 2]);
    let tally = lab.tally(traffic);
    assert!(tally.longest_gap < ms(300), "{:?}", tally.longest_gap);
}

#[test]
fn a_site_that_was_killed_comes_back() {
    let link = direction(50, ms(10), 84);
    for killed in [0, 1] {
        let (mut lab, hosts, links) = pair(1, &[[link.clone(), link.clone()]]);
        let sites = lab.tunnel(hosts, &links, 0);
        let traffic = lab.traffic(udp(5), hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(60)]);
        lab.run_for(secs(3));
        lab.world.kill_site(sites[killed]);
        lab.run_for(secs(2));
        assert!(lab.goodput(traffic, secs(1)) < 0.1, "nobody is there");
        lab.world.start_site(sites[killed]).expect("a good setup");
        lab.run_for(secs(3));
        let rate = lab.goodput(traffic, secs(2));
        assert!(rate > 4.9, "site {killed} killed: {rate} Mb/s");
    }
}

#[test]
fn a_site_behind_a_nat_reaches_the_other_one() {
    for kind in [NatKind::EndpointIndependent, NatKind::Symmetric] {
        let mut lab = Lab::new(3);
        let [van, router, hq] = [(); 3].map(|()| lab.world.add_host());
        let link = direction(50, ms(5), 84);
        let inside =
            lab.link([(van, "192.168.1.2/24"), (router, "192.168.1.1/24")], [link.clone(), link.clone()]);
        let outside = lab.link([(router, "10.1.0.1/24"), (hq, "10.1.0.2/24")], [link.clone(), link]);
        lab.world.add_route(van, net("0.0.0.0/0"), world::ip("192.168.1.1"));
        lab.world.set_forwarding(router);
        lab.world.set_nat(router, kind, outside);
        lab.tunnel([van, hq], &[inside], 0);
        let up = lab.traffic(udp(10), van, hq, "10.77.0.2", [secs(1), secs(60)]);
        let down = lab.traffic(udp(10), hq, van, "10.77.0.1", [secs(1), secs(60)]);
        lab.run_for(secs(2));
        for traffic in [up, down] {
            let rate = lab.goodput(traffic, secs(2));
            assert!(rate > 9.8, "{kind:?}: {rate} Mb/s");
        }
    }
}

#[test]
fn a_site_that_moves_to_another_address_goes_on() {
    let link = direction(50, ms(10), 84);
    let (mut lab, hosts, links) = pair(1, &[[link.clone(), link]]);
    lab.tunnel(hosts, &links, 0);
    let traffic = lab.traffic(udp(5), hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(60)]);
    lab.run_for(secs(3));
    lab.world.readdress(hosts[0], links[0], vec![net("10.1.0.77/24")]);
    let rate = lab.goodput(traffic, secs(3));
    assert!(rate > 4.9, "{rate} Mb/s");
    // The control connection was from the old address; a new one comes.
    lab.run_for(secs(30));
    assert!(lab.goodput(traffic, secs(3)) > 4.9);
}

#[test]
fn the_same_seed_does_the_same_and_another_one_does_not() {
    let run = |seed| {
        let link = world::lossy(direction(20, ms(10), 64), 1.0);
        let (mut lab, hosts, links) = pair(seed, &[[link.clone(), link.clone()], [link.clone(), link]]);
        lab.tunnel(hosts, &links, 0);
        let kinds = [
            bulk(),
            udp(3),
            TrafficKind::Ping { interval: ms(50), payload: 56 },
            TrafficKind::Requests {
                rate: 20.0,
                request: 300,
                response: 20_000,
                congestion_control: psmc_sim::CongestionControl::Reno,
            },
        ];
        for kind in kinds {
            lab.traffic(kind, hosts[0], hosts[1], "10.77.0.2", [secs(1), secs(4)]);
        }
        lab.run_for(secs(5));
        let counters = links.iter().map(|link| format!("{:?}", lab.world.link_counters(*link)));
        (lab.tallies.clone(), counters.collect::<Vec<_>>())
    };
    let (first, again, other) = (run(1), run(1), run(2));
    assert!(first == again, "the same seed");
    assert!(first != other, "another seed");
}

fn thousand_sites(seed: u64) -> Vec<world::Tally> {
    let mut lab = Lab::new(seed);
    let traffics: Vec<_> = (0..TUNNELS).map(|number| small_tunnel(&mut lab, number)).collect();
    lab.run_for(secs(3));
    traffics.into_iter().map(|traffic| lab.tally(traffic)).collect()
}

/// Two hosts with a link and a tunnel between them, and pings in it.
fn small_tunnel(lab: &mut Lab, number: u16) -> TrafficId {
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
    let tallies = thousand_sites(1);
    assert!(tallies.iter().all(|tally| (tally.sent, tally.arrived) == (15, 15)), "every tunnel works");
    assert!(thousand_sites(1) == tallies, "the same seed does the same");
}
