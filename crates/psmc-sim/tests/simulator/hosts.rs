//! Hosts without a tunnel: transport, losses, routes and NATs.

use psmc_sim::{CongestionControl, NatKind, TrafficKind};

use crate::world::{Lab, bulk, direction, ip, lossy, ms, net, pair, secs};

/// What of a link's rate is payload of full-size TCP segments, with timestamps.
const TCP_SHARE: f64 = 1448.0 / 1500.0;

fn ping() -> TrafficKind {
    TrafficKind::Ping { interval: ms(100), payload: 56 }
}

#[test]
fn a_tcp_connection_fills_a_link() {
    for (mbit, delay, queue) in [(50, 10, 84), (20, 25, 84), (100, 5, 1000), (10, 50, 64)] {
        for congestion_control in [CongestionControl::Cubic, CongestionControl::Reno] {
            let there = direction(mbit, ms(delay), queue);
            let (mut lab, [a, b], _) = pair(1, &[[there.clone(), there]]);
            let kind = TrafficKind::Tcp { congestion_control, flows: 1, bytes: None, buffer: 4 << 20 };
            let traffic = lab.traffic(kind, a, b, "10.1.0.2", [ms(0), secs(60)]);
            lab.run_for(secs(5));
            let rate = lab.goodput(traffic, secs(10));
            let capacity = mbit as f64 * TCP_SHARE;
            assert!(rate >= 0.9 * capacity, "{mbit} Mb/s, {delay} ms, {congestion_control:?}: {rate} Mb/s");
        }
    }
}

#[test]
fn a_tcp_connection_finds_its_way_through_losses() {
    for (percent, at_least) in [(0.5, 7.0), (2.0, 3.0)] {
        let there = lossy(direction(50, ms(10), 84), percent);
        let back = direction(50, ms(10), 84);
        let (mut lab, [a, b], _) = pair(1, &[[there, back]]);
        let traffic = lab.traffic(bulk(), a, b, "10.1.0.2", [ms(0), secs(60)]);
        lab.run_for(secs(5));
        let rate = lab.goodput(traffic, secs(20));
        // The rate that Mathis et al. (1997) give for Reno: MSS / RTT * sqrt(3 / 2p).
        let reno = 1448.0 * 8.0 / 0.02 * (1.5 / (percent / 100.0)).sqrt() / 1e6;
        assert!(rate > at_least && rate < 2.0 * reno, "{percent} %: {rate} Mb/s; Reno has {reno}");
    }
}

#[test]
fn a_transfer_of_so_many_bytes_brings_them_and_ends() {
    let there = lossy(direction(20, ms(10), 64), 1.0);
    let (mut lab, [a, b], _) = pair(5, &[[there.clone(), there]]);
    let kind = TrafficKind::Tcp {
        congestion_control: CongestionControl::Reno,
        flows: 3,
        bytes: Some(1_000_000),
        buffer: 1 << 20,
    };
    let traffic = lab.traffic(kind, a, b, "10.1.0.2", [ms(0), secs(60)]);
    lab.run_for(secs(30));
    let tally = lab.tally(traffic);
    assert_eq!((tally.bytes, tally.done, tally.broken), (3_000_000, true, 0));
}

#[test]
fn a_connection_to_nobody_breaks() {
    let there = direction(20, ms(10), 64);
    let (mut lab, [a, b], links) = pair(5, &[[there.clone(), there]]);
    lab.world.set_link_up(links[0], false);
    let traffic = lab.traffic(bulk(), a, b, "10.1.0.2", [ms(0), secs(60)]);
    lab.run_for(secs(1));
    assert_eq!(lab.tally(traffic).broken, 1);
}

#[test]
fn udp_loses_what_the_link_loses() {
    let there = lossy(direction(100, ms(10), 1000), 5.0);
    let (mut lab, [a, b], _) = pair(7, &[[there.clone(), there]]);
    let kind = TrafficKind::Udp { rate: 20_000_000, payload: 1000 };
    let traffic = lab.traffic(kind, a, b, "10.1.0.2", [ms(0), secs(20)]);
    lab.run_for(secs(21));
    let tally = lab.tally(traffic);
    assert_eq!(tally.sent, 50_000);
    let lost = (tally.sent - tally.arrived) as f64 / tally.sent as f64;
    // Four standard deviations of a binomial distribution.
    let bound = 4.0 * (0.05 * 0.95 / 50_000f64).sqrt();
    assert!((lost - 0.05).abs() < bound, "{lost}");
    assert_eq!(tally.late, 0);
}

#[test]
fn a_ping_takes_the_round_trip_over_both_families() {
    for (addresses, to) in
        [(["10.1.0.1/24", "10.1.0.2/24"], "10.1.0.2"), (["fd01::1/64", "fd01::2/64"], "fd01::2")]
    {
        let mut lab = Lab::new(1);
        let [a, b] = [lab.world.add_host(), lab.world.add_host()];
        let link = direction(1000, ms(15), 64);
        lab.link([(a, addresses[0]), (b, addresses[1])], [link.clone(), link]);
        let traffic = lab.traffic(ping(), a, b, to, [ms(0), secs(2)]);
        lab.run_for(secs(3));
        let tally = lab.tally(traffic);
        assert_eq!((tally.sent, tally.arrived), (20, 20), "{to}");
        assert!(tally.delays.iter().all(|rtt| (ms(30)..ms(31)).contains(rtt)), "{:?}", tally.delays);
    }
}

#[test]
fn requests_come_at_their_rate_and_are_answered() {
    let there = direction(100, ms(10), 200);
    let (mut lab, [a, b], _) = pair(1, &[[there.clone(), there]]);
    let kind = TrafficKind::Requests {
        rate: 50.0,
        request: 200,
        response: 10_000,
        congestion_control: CongestionControl::Cubic,
    };
    let traffic = lab.traffic(kind, a, b, "10.1.0.2", [ms(0), secs(20)]);
    lab.run_for(secs(21));
    let tally = lab.tally(traffic);
    // Four standard deviations of a Poisson distribution with mean 1000.
    assert!((874..=1126).contains(&tally.sent), "{} requests", tally.sent);
    assert_eq!((tally.arrived, tally.bytes), (tally.sent, tally.sent * 10_000));
    // A round trip for the connection, and one for the request; the response fits the first window.
    assert!(tally.delays.iter().all(|time| (ms(40)..ms(60)).contains(time)));
}

/// Three hosts in a row, the middle one forwards and translates if it is told to.
fn row(nat: Option<NatKind>) -> (Lab, [psmc_sim::HostId; 3]) {
    let mut lab = Lab::new(1);
    let [a, router, b] = [(); 3].map(|()| lab.world.add_host());
    let link = direction(100, ms(5), 200);
    lab.link([(a, "192.168.1.2/24"), (router, "192.168.1.1/24")], [link.clone(), link.clone()]);
    let outside = lab.link([(router, "10.1.0.1/24"), (b, "10.1.0.2/24")], [link.clone(), link]);
    assert!(lab.world.add_route(a, net("0.0.0.0/0"), ip("192.168.1.1")));
    lab.world.set_forwarding(router);
    match nat {
        Some(kind) => lab.world.set_nat(router, kind, outside),
        None => assert!(lab.world.add_route(b, net("192.168.1.0/24"), ip("10.1.0.1"))),
    }
    (lab, [a, router, b])
}

#[test]
fn packets_are_forwarded_with_and_without_nat() {
    for nat in [None, Some(NatKind::EndpointIndependent), Some(NatKind::Symmetric)] {
        let (mut lab, [a, _, b]) = row(nat);
        let pings = lab.traffic(ping(), a, b, "10.1.0.2", [ms(0), secs(2)]);
        let tcp = lab.traffic(bulk(), a, b, "10.1.0.2", [ms(0), secs(2)]);
        lab.run_for(secs(3));
        assert_eq!(lab.tally(pings).arrived, 20, "{nat:?}");
        assert!(lab.tally(tcp).bytes > 10_000_000, "{nat:?}: {}", lab.tally(tcp).bytes);
    }
}

#[test]
fn nobody_outside_reaches_an_address_behind_a_nat_unasked() {
    let (mut lab, [a, _, b]) = row(Some(NatKind::EndpointIndependent));
    assert!(lab.world.add_route(b, net("192.168.1.0/24"), ip("10.1.0.1")));
    let kind = TrafficKind::Udp { rate: 1_000_000, payload: 500 };
    let to_nat = lab.traffic(kind, b, a, "10.1.0.1", [ms(0), secs(1)]);
    lab.run_for(secs(2));
    assert_eq!((lab.tally(to_nat).sent, lab.tally(to_nat).arrived), (250, 0));
}

#[test]
fn when_the_first_link_of_a_route_is_down_the_second_one_is_used() {
    let mut lab = Lab::new(1);
    let [a, b, c, d] = [(); 4].map(|()| lab.world.add_host());
    let link = || [direction(100, ms(5), 200), direction(100, ms(5), 200)];
    let first = lab.link([(a, "10.1.0.1/24"), (b, "10.1.0.2/24")], link());
    lab.link([(a, "10.2.0.1/24"), (c, "10.2.0.2/24")], link());
    lab.link([(b, "10.3.0.1/24"), (d, "10.3.0.2/24")], link());
    lab.link([(c, "10.4.0.1/24"), (d, "10.4.0.2/24")], link());
    lab.world.set_forwarding(b);
    lab.world.set_forwarding(c);
    for via in ["10.1.0.2", "10.2.0.2"] {
        assert!(lab.world.add_route(a, net("10.3.0.0/24"), ip(via)));
    }
    assert!(lab.world.add_route(c, net("10.3.0.0/24"), ip("10.4.0.2")));
    assert!(lab.world.add_route(d, net("10.1.0.0/24"), ip("10.3.0.1")));
    assert!(lab.world.add_route(d, net("10.2.0.0/24"), ip("10.4.0.1")));
    assert!(!lab.world.add_route(d, net("10.9.0.0/24"), ip("10.99.0.1")), "that is on no link");
    let traffic = lab.traffic(ping(), a, d, "10.3.0.2", [ms(0), secs(4)]);
    // Between two pings.
    lab.run_for(ms(2050));
    lab.world.set_link_up(first, false);
    lab.run_for(secs(3));
    assert_eq!(lab.tally(traffic).arrived, lab.tally(traffic).sent);
}

#[test]
fn a_damaged_packet_is_a_lost_one() {
    let corrupt = psmc_sim::link::Probability::new(0.1).expect("a chance");
    let there = psmc_sim::link::LinkConfig { corrupt, ..direction(100, ms(5), 1000) };
    let (mut lab, [a, b], _) = pair(1, &[[there.clone(), there]]);
    let kind = TrafficKind::Udp { rate: 8_000_000, payload: 1000 };
    let traffic = lab.traffic(kind, a, b, "10.1.0.2", [ms(0), secs(10)]);
    lab.run_for(secs(11));
    let tally = lab.tally(traffic);
    let lost = (tally.sent - tally.arrived) as f64 / tally.sent as f64;
    assert!((lost - 0.1).abs() < 4.0 * (0.1 * 0.9 / 10_000f64).sqrt(), "{lost}");
}
