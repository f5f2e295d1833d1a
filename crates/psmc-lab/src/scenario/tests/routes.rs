//! Automatic routes lead everywhere, by the fewest hops, and into no NAT; compared with a search of all ways.

use std::net::IpAddr;

use ipnet::IpNet;
use proptest::prelude::*;

use super::{reasons, right};
use crate::scenario::{HostId, LinkId, Scenario};

/// Up to seven hosts, links between them, and for some the number of their link that is the outside of a NAT.
fn network() -> impl Strategy<Value = Scenario> {
    let links = prop::collection::vec((0..7_usize, 1..7_usize), 1..12);
    (links, prop::collection::vec(prop::option::weighted(0.2, 0..4_usize), 7))
        .prop_map(|(links, nats)| scenario(&links, &nats))
}

fn scenario(links: &[(usize, usize)], nats: &[Option<usize>]) -> Scenario {
    let links: Vec<[usize; 2]> = links.iter().map(|(from, step)| [*from, (from + step) % 7]).collect();
    let mut text = String::new();
    for (host, nat) in nats.iter().enumerate() {
        let own: Vec<usize> = (0..links.len()).filter(|link| links[*link].contains(&host)).collect();
        if let Some(outside) = nat.filter(|_| !own.is_empty()).map(|nat| own[nat % own.len()]) {
            text += &format!(
                "[[host]]\nname = \"h{host}\"\nnat = {{ kind = \"symmetric\", outside = \"l{outside}\" }}\n"
            );
        }
    }
    for (index, [from, to]) in links.iter().enumerate() {
        text += &format!("[[link]]\nname = \"l{index}\"\nbetween = [\"h{from}\", \"h{to}\"]\n");
    }
    right(&text)
}

/// A link of a host: the link, and which of its ends the host is.
fn ports(scenario: &Scenario, host: HostId) -> impl Iterator<Item = (LinkId, usize)> {
    let ends = scenario
        .links
        .iter()
        .enumerate()
        .flat_map(|(link, it)| [0, 1].map(|end| (link, end, it.ends[end].host)));
    ends.filter(move |(_, _, at)| *at == host).map(|(link, end, _)| (LinkId(link), end))
}

/// Whether a host lets a packet in that comes by a link and goes to an address of another one.
fn lets_in(scenario: &Scenario, host: HostId, by: LinkId, to: LinkId) -> bool {
    by == to || scenario.hosts[host.0].nat.is_none_or(|nat| nat.outside != by)
}

/// The hops to the nearest end of a link, by a search of all ways.
fn shortest(scenario: &Scenario, from: HostId, to: LinkId, seen: &mut Vec<HostId>) -> Option<usize> {
    if scenario.links[to.0].ends.iter().any(|end| end.host == from) {
        return Some(0);
    }
    seen.push(from);
    let ways: Vec<usize> = ports(scenario, from)
        .filter_map(|(link, end)| {
            let next = scenario.links[link.0].ends[1 - end].host;
            let open = !seen.contains(&next) && lets_in(scenario, next, link, to);
            open.then(|| shortest(scenario, next, to, seen)).flatten().map(|hops| hops + 1)
        })
        .collect();
    seen.pop();
    ways.into_iter().min()
}

/// The hops that a packet takes to a host on a link, by the routes; `None` where it is dropped.
fn walk(scenario: &Scenario, from: HostId, address: IpAddr, to: LinkId) -> Option<usize> {
    let mut at = from;
    for hops in 0..=scenario.hosts.len() {
        if scenario.links[to.0].ends.iter().any(|end| end.host == at) {
            return Some(hops);
        }
        let routes = scenario.hosts[at.0].routes.iter().filter(|route| route.to.contains(&address));
        let via = routes.min_by_key(|route| 128 - route.to.prefix_len())?.via;
        let (link, end) = ports(scenario, at).find(|(link, end)| {
            scenario.links[link.0].ends[1 - end].addresses.iter().any(|net| net.addr() == via)
        })?;
        at = scenario.links[link.0].ends[1 - end].host;
    }
    panic!("a loop on the way from {from:?} to {address}");
}

proptest! {
    #[test]
    fn routes_are_the_shortest_ways(scenario in network()) {
        for from in (0..scenario.hosts.len()).map(HostId) {
            for (to, link) in scenario.links.iter().enumerate() {
                let address = link.ends[0].addresses[0].addr();
                let expected = shortest(&scenario, from, LinkId(to), &mut Vec::new());
                let walked = walk(&scenario, from, address, LinkId(to));
                prop_assert!(walked == expected, "{from:?} to {address}: {walked:?}, not {expected:?}\n{}", scenario.summary());
            }
        }
    }
}

#[test]
fn whoever_dials_has_a_route_by_every_uplink() {
    let scenario = right(
        r#"
        [[link]]
        name = "dsl"
        between = ["van", "isp-a"]
        [[link]]
        name = "lte"
        between = ["van", "isp-b"]
        [[link]]
        name = "a"
        between = ["isp-a", "internet"]
        [[link]]
        name = "b"
        between = ["isp-b", "internet"]
        [[link]]
        name = "fiber"
        between = ["internet", "hq"]
        addresses = ["203.0.113.1/24", "203.0.113.5/24"]
        [[tunnel]]
        name = "vpn"
        between = ["van", "hq"]
        "#,
    );
    let to: IpNet = "203.0.113.0/24".parse().unwrap();
    let van = scenario.hosts.iter().find(|host| host.name == "van").unwrap();
    let via: Vec<String> =
        van.routes.iter().filter(|route| route.to.contains(&to)).map(|route| route.via.to_string()).collect();
    assert_eq!(via, ["10.1.0.2", "10.2.0.2"]);
    let endpoints: Vec<String> =
        scenario.tunnels[0].paths.iter().map(|path| path.endpoint.to_string()).collect();
    assert_eq!(endpoints, ["203.0.113.5", "203.0.113.5"]);
}

/// What is sent to the van's address on one uplink must not arrive by the other one.
#[test]
fn nobody_takes_a_site_for_a_way_between_its_uplinks() {
    let scenario = right(
        r#"
        [[link]]
        name = "dsl"
        between = ["van", "isp-a"]
        [[link]]
        name = "lte"
        between = ["van", "isp-b"]
        [[link]]
        name = "a"
        between = ["isp-a", "internet"]
        [[link]]
        name = "b"
        between = ["isp-b", "internet"]
        [[link]]
        name = "fiber"
        between = ["isp-a", "hq"]
        [[link]]
        name = "lan"
        between = ["van", "laptop"]
        [[tunnel]]
        name = "vpn"
        between = ["van", "hq"]
        "#,
    );
    let lte: IpNet = "10.2.0.0/24".parse().unwrap();
    let via = |name: &str| {
        let host = scenario.hosts.iter().find(|host| host.name == name).unwrap();
        host.routes.iter().find(|route| route.to.contains(&lte)).map(|route| route.via.to_string())
    };
    assert_eq!(via("isp-a").as_deref(), Some("10.3.0.2"), "by the internet, not by the van");
    assert_eq!(via("laptop").as_deref(), Some("10.6.0.1"), "the van is its gateway");
}

#[test]
fn networks_behind_a_site_are_left_to_the_tunnel() {
    let scenario = right(include_str!("../../../../../scenarios/branch.toml"));
    let lan: IpNet = "192.168.10.0/24".parse().unwrap();
    let leads = |name: &str| {
        let host = scenario.hosts.iter().find(|host| host.name == name).unwrap();
        host.routes.iter().any(|route| route.to == lan || route.to.prefix_len() == 0)
    };
    assert!(leads("desk"), "it knows its gateway");
    assert!(!leads("branch"), "psmcd makes that route");
}

/// Of two providers the near one is the best way to what is behind it, and the other one another way.
#[test]
fn a_customer_of_two_providers_has_a_default_route_by_each() {
    let mut text = String::new();
    for site in 0..100 {
        for provider in ["a", "b"] {
            text += &format!(
                "[[link]]\nname = \"{provider}{site}\"\nbetween = [\"s{site}\", \"isp-{provider}\"]\n"
            );
        }
        text += &format!("[[tunnel]]\nname = \"t{site}\"\nbetween = [\"s{site}\", \"hq\"]\n");
    }
    for [name, host] in [["ia", "isp-a"], ["ib", "isp-b"], ["fiber", "hq"]] {
        text += &format!("[[link]]\nname = \"{name}\"\nbetween = [\"{host}\", \"internet\"]\n");
    }
    let scenario = right(&text);
    let site = &scenario.hosts[0];
    let via = |hop: &str| site.routes.iter().filter(|route| route.via.to_string() == hop).count();
    // One for each of the other sites' links to the second provider, and for that of the provider itself.
    assert_eq!([via("10.1.0.2"), via("10.2.0.2")], [1, 1 + 99 + 1]);
    assert_eq!(scenario.tunnels[0].paths.len(), 2);
}

#[test]
fn a_thousand_sites_are_no_trouble() {
    let mut text = String::new();
    for site in 0..1000 {
        text += &format!("[[link]]\nname = \"l{site}\"\nbetween = [\"s{site}\", \"isp\"]\n");
        text += &format!("[[tunnel]]\nname = \"t{site}\"\nbetween = [\"s{site}\", \"hq\"]\n");
        text += &format!("[[traffic]]\nkind = \"ping\"\nfrom = \"hq\"\nto = \"s{site}\"\n");
    }
    text += "[[link]]\nname = \"fiber\"\nbetween = [\"isp\", \"hq\"]\n";
    let scenario = right(&text);
    assert_eq!((scenario.hosts.len(), scenario.tunnels.len()), (1002, 1000));
    assert_eq!(scenario.hosts[0].routes.len(), 1);
    assert_eq!(scenario.traffic[999].address, scenario.tunnels[999].ends[0].addresses[0].addr());
}

/// In a chain everybody lies between others, and nobody has a default route.
#[test]
fn too_many_routes_are_refused() {
    let link = |number: usize| {
        format!("[[link]]\nname = \"l{number}\"\nbetween = [\"h{number}\", \"h{}\"]\n", number + 1)
    };
    let chain: String = (0..1500).map(link).collect();
    // A host in the middle has a route to all links but its own two; one at an end has a default route.
    let count = 1499 * 1498 + 2;
    assert_eq!(reasons(&chain), [format!("the hosts would need {count} routes, and 2000000 is the most")]);
}
