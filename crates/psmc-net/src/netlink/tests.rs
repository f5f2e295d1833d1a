//! Links, addresses, routes and rules of real namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

use tokio::time::timeout;

use super::*;
use psmc_testbed::netns::{Namespace, NetnsError, link_pair};

/// Two namespaces with links `a1`–`b1` and `a2`–`b2`, of which the first is looked at.
fn pair() -> (Namespace, Namespace) {
    let new = || Namespace::new().expect("this test needs root, for it makes network namespaces");
    let (a, b) = (new(), new());
    for number in 1..=2 {
        link_pair(&a, &format!("a{number}"), &b, &format!("b{number}")).unwrap();
        a.add_address(&format!("a{number}"), net(&format!("10.0.{number}.1/24"))).unwrap();
    }
    (a, b)
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

async fn next(events: &mut LinkEvents) -> NetworkEvent {
    timeout(Duration::from_secs(5), events.next()).await.expect("no event came").unwrap()
}

/// The next event that is about the link called `name`.
async fn next_of(events: &mut LinkEvents, name: &str) -> LinkState {
    loop {
        match next(events).await {
            NetworkEvent::Link(state) if state.name == name => return state,
            NetworkEvent::Link(_)
            | NetworkEvent::AddressChanged { .. }
            | NetworkEvent::RouteChanged { .. }
            | NetworkEvent::RoutingChanged => {}
        }
    }
}

#[test]
fn links_are_looked_up() {
    let (a, _b) = pair();
    a.block_on(|| async {
        let netlink = Netlink::new().unwrap();
        let index = netlink.link_index("a1").await.unwrap();
        assert_eq!(netlink.link_mtu("a1").await.unwrap(), 1500);
        netlink.set_mtu(index, 1400).await.unwrap();
        assert_eq!(netlink.link_mtu("a1").await.unwrap(), 1400);
        assert!(netlink.addresses(index).await.unwrap().contains(&net("10.0.1.1/24")));
        let error = netlink.link_index("nowhere").await.unwrap_err();
        assert!(matches!(error, NetlinkError::NoSuchLink { name } if name == "nowhere"));
    })
    .unwrap();
}

#[test]
fn routes_come_and_go() {
    let (a, _b) = pair();
    a.block_on(|| async {
        let netlink = Netlink::new().unwrap();
        let index = netlink.link_index("a1").await.unwrap();
        for destination in ["192.0.2.0/24", "2001:db8::/32"].map(net) {
            netlink.add_route(destination, index).await.unwrap();
            let error = netlink.add_route(destination, index).await.unwrap_err();
            assert!(matches!(error, NetlinkError::Refused { .. }), "{error}");
            netlink.remove_route(destination, index).await.unwrap();
            netlink.remove_route(destination, index).await.unwrap();
            netlink.add_route(destination, index).await.unwrap();
        }
    })
    .unwrap();
}

#[test]
fn uplinks_are_those_with_a_default_route_the_best_first() {
    let (a, b) = pair();
    a.block_on(|| async {
        let netlink = Netlink::new().unwrap();
        assert_eq!(netlink.uplinks(&[]).await.unwrap(), []);
        let (first, second) =
            (netlink.link_index("a1").await.unwrap(), netlink.link_index("a2").await.unwrap());
        netlink.add_route(net("::/0"), first).await.unwrap();
        netlink.add_gateway_route(net("0.0.0.0/0"), "10.0.2.9".parse().unwrap(), None).await.unwrap();
        let v4 = Uplink { name: "a2".into(), index: second, v4: true, v6: false, metric: 0 };
        let v6 = Uplink { name: "a1".into(), index: first, v4: false, v6: true, metric: 1024 };
        assert_eq!(netlink.uplinks(&[]).await.unwrap(), [v4.clone(), v6]);
        assert_eq!(netlink.uplinks(&[first]).await.unwrap(), std::slice::from_ref(&v4));
        // A link without a carrier is no uplink, though its routes stay.
        b.set_link("b1", false).unwrap();
        assert_eq!(netlink.uplinks(&[]).await.unwrap(), [v4]);
    })
    .unwrap();
}

#[test]
fn a_link_is_seen_to_go_down_and_up() {
    let (a, b) = pair();
    a.block_on(|| async {
        let mut events = LinkEvents::open().await.unwrap();
        for up in [false, true, false] {
            a.set_link("a1", up).unwrap();
            assert_eq!(next_of(&mut events, "a1").await.up, up);
        }
        // The far end takes the carrier away.
        b.set_link("b2", false).unwrap();
        assert!(!next_of(&mut events, "a2").await.up);
    })
    .unwrap();
}

#[test]
fn links_and_addresses_are_seen_to_appear() -> Result<(), NetnsError> {
    let (a, b) = pair();
    a.block_on(|| async {
        let mut events = LinkEvents::open().await.unwrap();
        link_pair(&a, "a3", &b, "b3").unwrap();
        let state = next_of(&mut events, "a3").await;
        a.add_address("a3", net("10.0.3.1/24")).unwrap();
        while next(&mut events).await != (NetworkEvent::AddressChanged { index: state.index }) {}
    })
    .map_err(NetnsError::Runtime)
}

#[test]
fn what_happens_while_nobody_listens_is_found_out() {
    let (a, _b) = pair();
    a.block_on(|| async {
        let mut events = LinkEvents::open().await.unwrap();
        // While this thread is busy the socket's buffer overflows.
        for _ in 0..300 {
            a.set_link("a2", false).unwrap();
            a.set_link("a2", true).unwrap();
        }
        a.set_link("a1", false).unwrap();
        while next_of(&mut events, "a1").await.up {}
    })
    .unwrap();
}

/// What a site makes of a namespace in which its interface is `a1`.
fn steering(index: u32, gateway: u32) -> (BTreeSet<Rule>, BTreeMap<IpNet, RouteWay>) {
    let rule = |priority, is_v6, packets, table, without_default| Rule {
        priority,
        is_v6,
        packets,
        table,
        without_default,
    };
    let unmarked = Packets::Unmarked(0x5000_0001);
    let between = Packets::Between(Ipv4Addr::new(10, 0, 2, 1), Ipv4Addr::new(203, 0, 113, 5));
    let rules = BTreeSet::from([
        rule(5114, false, between, TABLE, false),
        rule(5115, false, unmarked, TABLE, true),
        rule(5115, true, unmarked, TABLE, true),
        rule(5116, false, unmarked, MAIN_TABLE, true),
    ]);
    let hop = |interface, last| Hop { interface, gateway: Some(Ipv4Addr::new(10, 0, last, 9)) };
    let hops = |hops: &[Hop]| RouteWay::Hops(hops.iter().copied().collect());
    let routes = BTreeMap::from([
        (net("0.0.0.0/0"), RouteWay::Into(index)),
        (net("::/0"), RouteWay::Into(index)),
        (net("192.0.2.0/24"), RouteWay::Into(index)),
        (net("192.0.2.128/25"), RouteWay::Throw),
        (net("ff00::/8"), RouteWay::Throw),
        (net("203.0.113.5/32"), hops(&[hop(index, 1), hop(gateway, 2)])),
        (net("203.0.113.6/32"), hops(&[hop(gateway, 2)])),
        (net("203.0.113.7/32"), hops(&[Hop { interface: gateway, gateway: None }])),
    ]);
    (rules, routes)
}

const TABLE: u32 = 0x5000_0002;

#[test]
fn rules_and_tables_become_what_they_should_be() {
    let (a, _b) = pair();
    a.block_on(|| async {
        let netlink = Netlink::new().unwrap();
        let (first, second) =
            (netlink.link_index("a1").await.unwrap(), netlink.link_index("a2").await.unwrap());
        let (rules, routes) = steering(first, second);
        let is_ours = |rule: &Rule| rule.table == TABLE || rule.priority == 5116;
        let change = async |rules: &BTreeSet<Rule>, routes: &BTreeMap<IpNet, RouteWay>| {
            let in_table = netlink.match_table(TABLE, routes).await.unwrap();
            (netlink.match_rules(rules, is_ours).await.unwrap(), in_table)
        };
        let changes = |made, removed| Changes { made, removed };
        assert_eq!(change(&rules, &routes).await, (changes(4, 0), changes(8, 0)));
        assert_eq!(change(&rules, &routes).await, (changes(0, 0), changes(0, 0)), "all is recognized");
        let (mut fewer, mut others) = (rules.clone(), routes.clone());
        fewer.pop_first();
        others.insert(net("192.0.2.0/24"), RouteWay::Throw);
        others.remove(&net("::/0"));
        assert_eq!(change(&fewer, &others).await, (changes(0, 1), changes(1, 2)));
        let none = (BTreeSet::new(), BTreeMap::new());
        assert_eq!(change(&none.0, &none.1).await, (changes(0, 3), changes(0, 7)));
    })
    .unwrap();
}

#[test]
fn packets_with_the_mark_take_another_way() {
    let (a, _b) = pair();
    a.block_on(|| async {
        let netlink = Netlink::new().unwrap();
        let (first, second) =
            (netlink.link_index("a1").await.unwrap(), netlink.link_index("a2").await.unwrap());
        netlink.add_gateway_route(net("0.0.0.0/0"), "10.0.2.9".parse().unwrap(), None).await.unwrap();
        let (rules, routes) = steering(first, second);
        netlink.match_table(TABLE, &routes).await.unwrap();
        netlink.match_rules(&rules, |rule| rule.table == TABLE).await.unwrap();
        let way = async |address: &str, mark| {
            let way = netlink.way_to(address.parse().unwrap(), mark, None).await;
            way.map(|way| way.interface)
        };
        assert_eq!(way("192.0.2.1", 0).await, Some(first));
        assert_eq!(way("192.0.2.1", 0x5000_0001).await, Some(second));
        assert_eq!(way("192.0.2.200", 0).await, Some(second), "what is thrown is asked for elsewhere");
        assert_eq!(way("2001:db8::1", 0x5000_0001).await, None);
        let own = netlink.way_to("10.0.1.1".parse().unwrap(), 0, None).await.unwrap();
        assert!(own.is_local);
        let over = netlink.way_to("203.0.113.9".parse().unwrap(), 0, Some(second)).await.unwrap();
        assert_eq!(over.gateway, Some("10.0.2.9".parse().unwrap()));
        assert_eq!(over.source, Some("10.0.2.1".parse().unwrap()));
    })
    .unwrap();
}

/// What can happen to two links: the command, as `ip` takes it.
const HAPPENINGS: [&str; 14] = [
    "link set a1 down",
    "link set a1 up",
    "link set a2 down",
    "link set a2 up",
    "link set a2 name a9",
    "link set a9 name a2",
    "addr add 10.0.2.7/24 dev a2",
    "addr flush dev a2",
    "route add default via 10.0.1.9 metric 100",
    "route add default via 10.0.2.9 metric 200",
    "route replace default via 10.0.2.8 metric 100",
    "route del default",
    "-6 route add default dev a1 metric 50",
    "-6 route del default",
];

/// Whoever looks at the uplinks when he is told of a change knows them as well as if he had just begun, in whatever order things
/// happen, and be it that they fail.
#[test]
fn after_every_sequence_of_changes_what_is_known_is_what_is() {
    let (a, _b) = pair();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    // xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
    let mut next_happening = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        HAPPENINGS[usize::try_from(random % HAPPENINGS.len() as u64).unwrap()]
    };
    let sequences: Vec<String> =
        (0..25).map(|_| (0..10).map(|_| next_happening().to_owned() + "\n").collect()).collect();
    let host = &a;
    a.block_on(|| async move {
        let (netlink, mut events) = (Netlink::new().unwrap(), LinkEvents::open().await.unwrap());
        let mut known = netlink.uplinks(&[]).await.unwrap();
        for sequence in sequences {
            happen(host, &sequence);
            while known != netlink.uplinks(&[]).await.unwrap() {
                let told = timeout(Duration::from_secs(1), events.next()).await;
                told.unwrap_or_else(|_| panic!("nobody told of a change in:\n{sequence}")).unwrap();
                known = netlink.uplinks(&[]).await.unwrap();
            }
        }
    })
    .unwrap();
}

/// Runs all lines with `ip`, of which some may be impossible.
fn happen(host: &Namespace, lines: &str) {
    let mut command = Command::new("ip");
    command.args(["-force", "-batch", "-"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = host.spawn(&mut command).unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    child.wait().unwrap();
}

#[test]
fn routes_and_rules_are_seen_to_change() {
    let (a, _b) = pair();
    let host = &a;
    a.block_on(|| async move {
        let mut events = LinkEvents::open().await.unwrap();
        let netlink = Netlink::new().unwrap();
        let index = netlink.link_index("a1").await.unwrap();
        netlink.add_route(net("192.0.2.0/24"), index).await.unwrap();
        let come = NetworkEvent::RouteChanged { table: MAIN_TABLE, destination: net("192.0.2.0/24") };
        while next(&mut events).await != come {}
        happen(host, "rule add pref 9 lookup main");
        while next(&mut events).await != NetworkEvent::RoutingChanged {}
        happen(host, "link set a2 down");
        while next_of(&mut events, "a2").await.up {}
    })
    .unwrap();
}
