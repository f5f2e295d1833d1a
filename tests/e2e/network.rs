//! Uplinks that come and go, routes that are anything, and what others do to the tunnel's interface.

use std::fs;
use std::process::Command;
use std::time::Duration;

use psmc_api::PathState;

use crate::harness::{Family, NameServer, Plan, Site, Tunnel, VAN, wait_for};

/// For what takes half a second: a small machine is busy at times.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the headquarters are, behind every uplink.
const ENDPOINT: &str = "203.0.113.5";

/// Nobody's address: only a tunnel with a default route leads there.
const BEYOND: &str = "198.51.100.7";

/// The same over IPv6.
const ENDPOINT_V6: &str = "2001:db8::5";

/// A name server on the Internet.
const NAME_SERVER: &str = "198.51.100.53";

/// The van's datagrams and connections to the headquarters that leave by the tunnel's own interface are dropped and counted.
const OWN_PACKETS: &str = "table inet own { chain out { type filter hook output priority 0; \
    oifname \"psmc0\" meta l4proto { tcp, udp } th dport 5115 counter drop; }; }";

/// Two hosts without links, the van with a path over every uplink that it will have, and with these networks behind the
/// headquarters.
fn prepare(allowed_ips: &str) -> Tunnel {
    let tunnel = Tunnel::prepare(Plan { links: 0, ..Plan::default() });
    let (van, hq) = (&tunnel.van, &tunnel.hq);
    for (site, other, inside) in [(van, hq, 2), (hq, van, 1)] {
        let (networks, endpoint) = if site.end.name == "van" {
            (allowed_ips.to_owned(), format!("endpoint = \"{ENDPOINT}:5115\"\n"))
        } else {
            ("\"10.77.0.2/32\"".to_owned(), String::new())
        };
        site.configure(&format!(
            "[site]\nname = \"{}\"\nprivate_key = \"{}\"\naddresses = [\"10.77.0.{inside}/24\"]\n\
             control_socket = '{}'\n\n[[peer]]\nname = \"{}\"\npublic_key = \"{}\"\n\
             allowed_ips = [{networks}]\n{endpoint}",
            site.end.name,
            site.key.to_base64().as_str(),
            site.file("sock").display(),
            other.end.name,
            other.key.public(),
        ));
    }
    for address in [ENDPOINT, BEYOND, NAME_SERVER, ENDPOINT_V6] {
        hq.run(&["ip", "address", "add", address, "dev", "lo"]);
    }
    tunnel
}

/// Gives the van the uplink `number`, as DHCP does: the link first, then the address, then the route.
fn uplink(tunnel: &Tunnel, number: u8) {
    let name = format!("v{number}");
    tunnel.lay(number);
    add_route(&tunnel.van, &name, number);
}

fn add_route(van: &Site, name: &str, number: u8) {
    let (gateway, metric) = (format!("10.200.{number}.2"), format!("{number}00"));
    van.run(&["ip", "route", "add", "default", "via", &gateway, "dev", name, "metric", &metric]);
}

fn wait_until_reached(van: &Site, address: &str) {
    wait_for(&format!("an answer of {address}"), PATIENCE, || {
        van.try_run(&["ping", "-c", "1", "-W", "1", "-I", "psmc0", address]).status.success().then_some(())
    });
}

/// The names of the paths that are in use, or would be.
fn paths(van: &Site) -> Vec<String> {
    let paths = van.peer().paths.into_iter();
    let counts = |state| !matches!(state, PathState::Closing | PathState::Dead);
    paths.filter(|path| counts(path.state)).map(|path| path.name).collect()
}

fn wait_for_paths(van: &Site, expected: &[&str]) {
    wait_for(&format!("the paths {expected:?}"), PATIENCE, || {
        let peer = van.try_status()?.peers.remove(0);
        let active = peer.paths.iter().filter(|path| path.state == PathState::Active).count();
        (active == expected.len() && paths(van) == expected).then_some(())
    });
}

/// Rules and routes of the host, and the addresses of the tunnel's interface.
fn network(site: &Site) -> String {
    let commands: [&[&str]; 5] = [
        &["ip", "-4", "route", "show", "table", "all"],
        &["ip", "-6", "route", "show", "table", "all"],
        &["ip", "-4", "rule"],
        &["ip", "-6", "rule"],
        &["ip", "-4", "-brief", "address", "show", "to", "10.77.0.0/16"],
    ];
    let all = commands.map(|command| site.run(command)).concat();
    // The kernel chooses link-local addresses anew each time.
    let stays = all.lines().filter(|line| !line.contains("fe80:") && !line.contains("multicast"));
    stays.map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[test]
fn the_paths_are_those_of_the_uplinks_that_there_are() {
    let mut tunnel = prepare("\"10.77.0.1/32\"");
    tunnel.hq.start();
    tunnel.van.start();
    wait_for("the daemon", PATIENCE, || tunnel.van.try_status());
    assert_eq!(paths(&tunnel.van), [""; 0], "without an uplink there is no path");
    uplink(&tunnel, 1);
    wait_for_paths(&tunnel.van, &["v1"]);
    uplink(&tunnel, 2);
    wait_for_paths(&tunnel.van, &["v1", "v2"]);
    let van = &tunnel.van;
    van.run(&["ip", "route", "del", "default", "dev", "v1"]);
    wait_for_paths(van, &["v2"]);
    add_route(van, "v1", 1);
    wait_for_paths(van, &["v1", "v2"]);
    van.run(&["ip", "link", "set", "v2", "name", "usb0"]);
    wait_for_paths(van, &["v1", "usb0"]);
    van.run(&["ip", "link", "del", "v1"]);
    wait_for_paths(van, &["usb0"]);
}

#[test]
fn a_full_tunnel_carries_nothing_of_itself_and_leaves_nothing_behind() {
    let mut tunnel = prepare("\"0.0.0.0/0\", \"::/0\"");
    tunnel.van.run(&["nft", OWN_PACKETS]);
    for interface in ["all", "default"] {
        tunnel.van.namespace.sysctl(&format!("net.ipv4.conf.{interface}.rp_filter"), "1").unwrap();
    }
    // Before there is any network.
    tunnel.van.start();
    tunnel.hq.start();
    wait_for("the daemon", PATIENCE, || tunnel.van.try_status());
    uplink(&tunnel, 1);
    uplink(&tunnel, 2);
    wait_for_paths(&tunnel.van, &["v1", "v2"]);
    wait_until_reached(&tunnel.van, BEYOND);
    for up in [false, true] {
        for name in ["v1", "v2"] {
            tunnel.van.namespace.set_link(name, up).unwrap();
        }
    }
    for (name, number) in [("v1", 1), ("v2", 2)] {
        add_route(&tunnel.van, name, number);
    }
    wait_until_reached(&tunnel.van, BEYOND);
    wait_for_paths(&tunnel.van, &["v1", "v2"]);
    let during = wait_for("ways for answers over both uplinks", PATIENCE, || {
        let has = |network: &String| {
            (1..=2).all(|n| network.contains(&format!("nexthop via 10.200.{n}.2 dev v{n}")))
        };
        Some(network(&tunnel.van)).filter(has)
    });
    tunnel.van.kill();
    tunnel.van.start();
    wait_until_reached(&tunnel.van, BEYOND);
    wait_for("the same routes", PATIENCE, || (network(&tunnel.van) == during).then_some(()));
    assert!(tunnel.van.terminate().success());
    let after = network(&tunnel.van);
    let own = ["psmc0", "throw", "511", "nexthop", ENDPOINT];
    let is_foreign = |line: &&str| !own.iter().any(|word| line.contains(word));
    let expected: Vec<_> = during.lines().filter(is_foreign).collect();
    assert_eq!(after.lines().collect::<Vec<_>>(), expected);
    assert_carries_nothing_of_itself(&tunnel.van);
}

fn assert_carries_nothing_of_itself(van: &Site) {
    let counted = van.run(&["nft", "list", "table", "inet", "own"]);
    assert!(counted.contains("counter packets 0 bytes 0"), "the tunnel carried itself: {counted}");
}

/// Changes the van's configuration, whose text must have `from`.
fn edit(van: &Site, from: &str, to: &str) {
    let text = fs::read_to_string(van.file("toml")).unwrap();
    assert!(text.contains(from), "no {from} in {text}");
    van.configure(&text.replace(from, to));
}

#[test]
fn a_full_tunnel_may_have_a_path_without_an_interface() {
    let mut tunnel = prepare("\"0.0.0.0/0\"");
    tunnel.van.run(&["nft", OWN_PACKETS]);
    let endpoint = format!("endpoint = \"{ENDPOINT}:5115\"\n");
    edit(&tunnel.van, &endpoint, &format!("{endpoint}\n[[peer.path]]\nname = \"any\"\n"));
    assert!(tunnel.van.check().contains("by the routing table"));
    uplink(&tunnel, 1);
    tunnel.hq.start();
    tunnel.van.start();
    wait_for_paths(&tunnel.van, &["any"]);
    wait_until_reached(&tunnel.van, BEYOND);
    assert_carries_nothing_of_itself(&tunnel.van);
}

/// The first uplink has IPv4 only, the second one IPv6 only, and nobody knows the name before there is one.
#[test]
fn a_name_is_looked_up_outside_of_the_tunnel_and_reached_by_uplinks_of_either_version() {
    let mut tunnel = prepare("\"0.0.0.0/0\", \"::/0\"");
    tunnel.van.run(&["nft", OWN_PACKETS]);
    edit(&tunnel.van, ENDPOINT, "hq.example");
    let addresses = [ENDPOINT, ENDPOINT_V6].map(|address| address.parse().unwrap());
    let _server = NameServer::start(&tunnel.hq, NAME_SERVER, &addresses);
    tunnel.hq.start();
    tunnel.van.start_with_name_server(NAME_SERVER);
    let why = wait_for("a reason", PATIENCE, || tunnel.van.try_status()?.peers.remove(0).waiting.pop());
    assert!(why.why.contains("hq.example"), "{why:?}");
    for (number, without) in [(1, Family::V6), (2, Family::V4)] {
        tunnel.lay(number);
        let address = VAN.outer(number, without).to_string();
        let length = if without == Family::V4 { 24 } else { 64 };
        tunnel.van.run(&["ip", "address", "del", &format!("{address}/{length}"), "dev", &VAN.link(number)]);
    }
    add_route(&tunnel.van, "v1", 1);
    tunnel.van.run(&["ip", "-6", "route", "add", "default", "via", "fd00:200:2::2", "dev", "v2"]);
    wait_for_paths(&tunnel.van, &["v1", "v2"]);
    wait_until_reached(&tunnel.van, BEYOND);
    assert_carries_nothing_of_itself(&tunnel.van);
    assert!(tunnel.van.terminate().success());
}

#[test]
fn an_uplink_of_the_other_version_only_is_said_to_be_one() {
    let mut tunnel = prepare("\"10.77.0.1/32\"");
    tunnel.lay(1);
    tunnel.van.run(&["ip", "-6", "route", "add", "default", "via", "fd00:200:1::2", "dev", "v1"]);
    tunnel.van.start();
    let said = format!("the endpoint {ENDPOINT}:5115 has no IPv6 address");
    wait_for("a word about it", PATIENCE, || tunnel.van.log().contains(&said).then_some(()));
    wait_for("the same in the status", PATIENCE, || {
        let waiting = tunnel.van.try_status()?.peers[0].waiting.clone();
        waiting.iter().any(|path| path.name.is_none() && path.why.contains(&said)).then_some(())
    });
}

#[test]
fn an_uplink_in_the_network_of_the_tunnel_is_named_by_check_and_log() {
    let mut tunnel = prepare("\"10.77.0.1/32\"");
    uplink(&tunnel, 1);
    let said = "the uplink v1 has the address 10.77.0.9/24, in the tunnel's own network";
    assert!(!tunnel.van.check().contains(said));
    tunnel.van.run(&["ip", "address", "add", "10.77.0.9/24", "dev", "v1"]);
    assert!(tunnel.van.check().contains(said), "{}", tunnel.van.check());
    tunnel.van.start();
    wait_for("a word of the log", PATIENCE, || tunnel.van.log().contains(said).then_some(()));
}

#[test]
fn what_others_undo_is_made_again() {
    let mut tunnel = prepare("\"0.0.0.0/0\"");
    tunnel.hq.start();
    tunnel.van.start();
    uplink(&tunnel, 1);
    wait_until_reached(&tunnel.van, BEYOND);
    let van = &tunnel.van;
    let before = network(van);
    let table =
        before.lines().find_map(|line| line.split_once("default dev psmc0 table ")?.1.split(' ').next());
    let table = table.unwrap();
    let undo: [&[&str]; 6] = [
        &["ip", "link", "del", "psmc0"],
        &["ip", "link", "set", "psmc0", "down"],
        &["ip", "address", "flush", "dev", "psmc0"],
        &["ip", "route", "flush", "table", table],
        &["ip", "rule", "del", "pref", "5117"],
        &["ip", "rule", "add", "pref", "7", "not", "fwmark", "9", "lookup", table],
    ];
    for command in undo {
        van.run(command);
        wait_for(&format!("the end of {command:?}"), PATIENCE, || (network(van) == before).then_some(()));
        wait_until_reached(van, BEYOND);
    }
    assert!(van.log().contains("tunnel interface was deleted; recreating it"));
}

#[test]
fn a_daemon_starts_although_its_interface_is_set_down_meanwhile() {
    let mut tunnel = prepare("\"0.0.0.0/0\"");
    uplink(&tunnel, 1);
    tunnel.hq.start();
    let again_and_again = "yes link set psmc0 down | head -n 20000 | ip -force -batch - 2> /dev/null";
    let van = &mut tunnel.van;
    let mut meddler = van.namespace.spawn(Command::new("sh").args(["-c", again_and_again])).unwrap();
    van.start();
    // It has failed where there was no interface yet.
    let _ = meddler.wait().unwrap();
    wait_until_reached(van, BEYOND);
}

#[test]
fn a_daemon_whose_interface_cannot_be_made_again_ends() {
    let mut tunnel = prepare("\"10.77.0.1/32\"");
    tunnel.van.start();
    wait_for("the daemon", PATIENCE, || tunnel.van.try_status());
    tunnel.van.while_stopped(|van| {
        van.run(&["ip", "link", "del", "psmc0"]);
        van.run(&["ip", "link", "add", "psmc0", "type", "veth", "peer", "name", "other"]);
    });
    let status = tunnel.van.wait_for_end();
    assert_eq!(status.code(), Some(1));
    assert!(tunnel.van.log().contains("psmc0"), "{}", tunnel.van.log());
    assert!(!tunnel.van.run(&["ip", "rule"]).contains("5115"));
}

#[test]
fn a_network_that_is_local_too_stays_local_as_long_as_it_is() {
    let mut tunnel = prepare("\"10.77.0.1/32\", \"192.168.10.0/24\", \"198.51.100.0/24\"");
    uplink(&tunnel, 1);
    let way = |van: &Site| van.run(&["ip", "route", "get", "192.168.10.9"]);
    tunnel.van.run(&["ip", "address", "add", "192.168.10.7/24", "dev", "v1"]);
    tunnel.hq.start();
    tunnel.van.start();
    wait_until_reached(&tunnel.van, BEYOND);
    let van = &tunnel.van;
    assert!(way(van).contains("dev v1"), "{}", way(van));
    let said = "192.168.10.0/24 is also a network of this host";
    wait_for("a word about it", PATIENCE, || van.log().contains(said).then_some(()));
    van.run(&["ip", "address", "del", "192.168.10.7/24", "dev", "v1"]);
    wait_for("the way through the tunnel", PATIENCE, || way(van).contains("dev psmc0").then_some(()));
    van.run(&["ip", "address", "add", "192.168.10.7/24", "dev", "v1"]);
    wait_for("the way on the link", PATIENCE, || way(van).contains("dev v1").then_some(()));
}
