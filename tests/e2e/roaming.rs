//! The van moves while it sends.

use std::time::{Duration, Instant};

use psmc_api::PathState;

use crate::harness::{
    End, Family, HQ, NameServer, Plan, Relay, Site, Stream, Tunnel, VAN, path_name, wait_for,
};
use psmc_testbed::steadily::{Measured, steadily};

/// How often a stream sends.
const INTERVAL: Duration = Duration::from_millis(5);

/// How long it takes until a stream flows again, at most.
const PATIENCE: Duration = Duration::from_secs(15);

/// What may be lost beyond what is on its way: what leaves between the loss of one address and the discovery of the other.
const SLACK: usize = 4;

#[test]
fn hardly_anything_is_lost_when_the_address_of_the_van_changes() {
    steadily(Measured::Loss, || {
        for family in [Family::V4, Family::V6] {
            let tunnel = Tunnel::start(Plan { links: 1, family, ..Plan::default() });
            let lost = lost_during(&tunnel, || change_address(&tunnel.van, VAN, family));
            println!("another address, {family:?}: lost {lost:?} packets of the van and of hq");
            assert!(lost.iter().all(|&lost| lost <= SLACK), "{lost:?}");
        }
    });
}

/// Behind a NAT the van doesn't know that it has moved. Only datagrams that get through tell the headquarters, which ask whether that is
/// so, for one round trip more.
#[test]
fn two_round_trips_are_lost_when_a_nat_takes_another_port() {
    steadily(Measured::Loss, || {
        let delay = Duration::from_millis(20);
        let mut tunnel = Tunnel::prepare(Relay::plan());
        let relay = Relay::start(&tunnel.hq, delay);
        tunnel.hq.start();
        tunnel.van.start();
        tunnel.wait_until_up();
        let lost = lost_during(&tunnel, || relay.rebind(&tunnel.hq));
        println!("another port behind {delay:?}: lost {lost:?} packets of the van and of hq");
        let on_their_way = usize::try_from(4 * delay.as_millis() / INTERVAL.as_millis()).unwrap();
        assert!(lost.iter().all(|&lost| lost <= on_their_way + SLACK), "{lost:?}");
        assert!(tunnel.hq.log().contains("address on a path has changed"));
    });
}

/// How many packets of the van and of the headquarters are lost when `happen` happens.
fn lost_during(tunnel: &Tunnel, happen: impl FnOnce()) -> [usize; 2] {
    let streams =
        [Stream::start(&tunnel.van, &tunnel.hq, INTERVAL), Stream::start(&tunnel.hq, &tunnel.van, INTERVAL)];
    let wait = || {
        let now = Instant::now();
        streams.each_ref().map(|stream| stream.wait_until_back(now, PATIENCE))
    };
    wait();
    happen();
    wait();
    streams.map(|stream| stream.finish().lost().len())
}

/// Nobody tells the van: it has to hear the headquarters, which answer from an address that they have.
#[test]
fn the_van_follows_when_the_address_of_the_headquarters_changes() {
    for family in [Family::V4, Family::V6] {
        let tunnel = Tunnel::start(Plan { links: 1, family, ..Plan::default() });
        let lost = lost_during(&tunnel, || change_address(&tunnel.hq, HQ, family));
        println!("another address of hq, {family:?}: lost {lost:?} packets of the van and of hq");
    }
}

/// The headquarters have another address after a power cut, and tell nobody but the name server, which knew nothing at first.
#[test]
fn the_van_follows_the_name_of_the_headquarters() {
    let endpoint = Some("hq.example:5115".to_owned());
    let mut tunnel = Tunnel::prepare(Plan { links: 1, endpoint, ..Plan::default() });
    let (path, server) = (path_name(VAN, 1), HQ.outer(1, Family::V4));
    // Nobody who calls there is answered: a name server, and no site.
    tunnel.hq.run(&["ip", "address", "add", "10.200.1.53/24", "dev", &HQ.link(1)]);
    let names = NameServer::start(&tunnel.hq, "10.200.1.53", &[]);
    tunnel.hq.start();
    tunnel.van.start_with_name_server("10.200.1.53");
    let waiting = |site: &Site| site.try_status()?.peers.remove(0).waiting.pop();
    let why = wait_for("a name without an address", PATIENCE, || {
        waiting(&tunnel.van).filter(|waiting| waiting.since_s > 2.0)
    });
    assert!(why.why.contains("cannot resolve `hq.example:5115`"), "{why:?}");
    names.set(&[server]);
    tunnel.van.wait_for_path(&path, &[PathState::Active], PATIENCE);

    let stream = Stream::start(&tunnel.van, &tunnel.hq, INTERVAL);
    tunnel.hq.kill();
    change_address(&tunnel.hq, HQ, Family::V4);
    tunnel.hq.start();
    let moved = Instant::now();
    names.set(&["10.200.1.77".parse().unwrap()]);
    wait_for("a path to the other address", PATIENCE, || {
        let path = tunnel.van.path(&path)?;
        (path.state == PathState::Active && path.remote? == "10.200.1.77:5115").then_some(())
    });
    println!("the van follows the name {:.1?} after it has moved", moved.elapsed());
    stream.finish();
    assert_eq!(tunnel.van.log().matches("cannot open a path").count(), 1, "{}", tunnel.van.log());
}

/// What a router remembers of the van's port leads nowhere any more, and the van's own probes keep that alive.
#[test]
fn a_local_port_that_leads_nowhere_is_left_for_another() {
    let tunnel = Tunnel::start(Plan { links: 1, ..Plan::default() });
    let remote = |site: &Site| site.peer().paths.first().and_then(|path| path.remote.clone());
    let before = remote(&tunnel.hq).expect("hq knows where the van is");
    let port = before.rsplit(':').next().expect("a port");
    let lost = lost_during(&tunnel, || {
        let rule = "add table ip stale; add chain ip stale in { type filter hook input priority 0; }; \
                    add rule ip stale in udp sport";
        tunnel.hq.run(&["nft", &format!("{rule} {port} drop")]);
    });
    println!("a port that leads nowhere: lost {lost:?} packets of the van and of hq");
    let is_left = || remote(&tunnel.hq).filter(|now| *now != before);
    wait_for("another port of the van", PATIENCE, is_left);
}

/// A new address comes and the old one goes.
fn change_address(site: &Site, end: End, family: Family) {
    let interface = end.link(1);
    let old = end.outer(1, family);
    let (new, old) = match family {
        Family::V4 => ("10.200.1.77/24", format!("{old}/24")),
        Family::V6 => ("fd00:200:1::77/64", format!("{old}/64")),
    };
    // Else the kernel removes all addresses of a subnet with the first one.
    let keep_others = format!("net.ipv4.conf.{interface}.promote_secondaries");
    site.namespace.sysctl(&keep_others, "1").unwrap();
    site.run(&["ip", "address", "add", new, "dev", &interface, "nodad"]);
    site.run(&["ip", "address", "del", &old, "dev", &interface]);
}
