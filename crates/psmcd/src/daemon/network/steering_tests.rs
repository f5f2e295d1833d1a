use proptest::prelude::*;

use super::*;

const TUN: u32 = 7;

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    Tunnel,
    /// By a route of the main table that is no default route.
    Local,
    Default,
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

fn view(networks: &[&str], local: &[&str]) -> View {
    let nets = |list: &[&str]| list.iter().map(|text| net(text)).collect();
    View { tun: TUN, networks: nets(networks), local: nets(local), ..View::default() }
}

fn numbers() -> Numbers {
    Numbers::of(PublicKey::from_bytes([7; 32]))
}

/// Looks a packet up as the kernel does: rule by rule, in each table the longest prefix.
fn look_up(view: &View, address: IpAddr, mark: u32) -> Exit {
    let numbers = numbers();
    let own = view.table();
    let is_v6 = address.is_ipv6();
    for rule in numbers.rules(view).into_iter().filter(|rule| rule.is_v6 == is_v6) {
        if rule.packets == Packets::Unmarked(mark) {
            continue;
        }
        let counts = |prefix_len: u8| !(rule.without_default && prefix_len == 0);
        if rule.table == MAIN_TABLE {
            if view.local.iter().any(|net| net.contains(&address)) {
                return Exit::Local;
            }
        } else if let Some((net, RouteWay::Into(TUN))) = longest(&own, address)
            && counts(net.prefix_len())
        {
            return Exit::Tunnel;
        }
    }
    if view.local.iter().any(|net| net.contains(&address)) { Exit::Local } else { Exit::Default }
}

fn longest(table: &BTreeMap<IpNet, RouteWay>, address: IpAddr) -> Option<(IpNet, RouteWay)> {
    let containing = table.iter().filter(|(net, _)| net.contains(&address));
    containing.max_by_key(|(net, _)| net.prefix_len()).map(|(net, way)| (*net, way.clone()))
}

/// What people expect: of all networks the one with the longest prefix, the local one of two that are the same; a default
/// route is a peer's if one has it.
fn expected(view: &View, address: IpAddr) -> Exit {
    let longest = |nets: &BTreeSet<IpNet>| {
        nets.iter().filter(|net| net.contains(&address)).map(IpNet::prefix_len).max()
    };
    match (longest(&view.networks), longest(&view.local)) {
        (Some(tunnel), Some(local)) if tunnel > local => Exit::Tunnel,
        (_, Some(_)) => Exit::Local,
        (Some(_), None) => Exit::Tunnel,
        (None, None) => Exit::Default,
    }
}

/// Addresses that differ in few places, so that networks nest and collide.
fn address() -> impl Strategy<Value = IpAddr> {
    let v4 = any::<u32>().prop_map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits & 0x4303_0181)));
    let v6 = any::<u128>().prop_map(|bits| {
        let bits = bits & (0x0103 << 112 | 0x8001 << 60 | 0x8003);
        IpAddr::from(std::net::Ipv6Addr::from_bits(bits))
    });
    prop_oneof![v4, v6]
}

fn network(least: u8) -> impl Strategy<Value = IpNet> {
    (address(), any::<u8>()).prop_map(move |(address, length)| {
        let most = IpNet::from(address).max_prefix_len();
        IpNet::new(address, least + length % (most + 1 - least)).unwrap().trunc()
    })
}

proptest! {
    #[test]
    fn the_longest_prefix_wins_in_two_tables_as_in_one(
        networks in prop::collection::btree_set(network(0), 0..8),
        local in prop::collection::btree_set(network(1), 0..8),
        addresses in prop::collection::vec(address(), 1..40),
    ) {
        let view = View { tun: TUN, networks, local, ..View::default() };
        for address in addresses {
            let exit = expected(&view, address);
            prop_assert_eq!(look_up(&view, address, 0), exit, "{}", address);
            let own = look_up(&view, address, numbers().mark.get());
            prop_assert_ne!(own, Exit::Tunnel, "{} of the tunnel itself", address);
        }
    }
}

#[test]
fn what_is_excluded_goes_as_without_a_tunnel() {
    let mut view = view(&["0.0.0.0/0", "198.51.100.0/24"], &[]);
    view.excluded = ["203.0.113.0/24", "198.51.100.0/24"].map(net).into();
    let exit = |address: &str| look_up(&view, address.parse().unwrap(), 0);
    assert_eq!(exit("203.0.113.9"), Exit::Default);
    assert_eq!(exit("198.51.100.9"), Exit::Default, "though a peer has the same network");
    assert_eq!(exit("192.0.2.9"), Exit::Tunnel);
}

#[test]
fn what_is_local_stays_local_in_a_full_tunnel() {
    let view = view(&["0.0.0.0/0", "::/0"], &["192.168.1.0/24"]);
    let exit = |address: &str| look_up(&view, address.parse().unwrap(), 0);
    assert_eq!(exit("192.168.1.9"), Exit::Local);
    assert_eq!(exit("192.168.2.9"), Exit::Tunnel);
    assert_eq!(exit("2001:db8::1"), Exit::Tunnel);
    for address in ["224.0.0.251", "255.255.255.255", "169.254.1.1", "fe80::1", "ff02::fb"] {
        assert_eq!(exit(address), Exit::Default, "{address}");
    }
}

#[test]
fn multicast_that_a_peer_is_given_goes_to_it() {
    let view = view(&["0.0.0.0/0", "239.1.0.0/16"], &[]);
    let exit = |address: &str| look_up(&view, address.parse().unwrap(), 0);
    assert_eq!((exit("239.1.2.3"), exit("239.2.2.3")), (Exit::Tunnel, Exit::Default));
}

#[test]
fn a_network_that_is_local_too_is_hidden() {
    let view = view(&["192.168.10.0/24", "10.77.0.0/24", "0.0.0.0/0"], &["192.168.10.0/24"]);
    assert_eq!(view.hidden(), BTreeSet::from([net("192.168.10.0/24")]));
}

#[test]
fn without_a_default_route_the_main_table_is_asked_as_ever() {
    let rules = numbers().rules(&view(&["10.77.0.0/24"], &[]));
    let priorities: Vec<_> = rules.iter().map(|rule| rule.priority).collect();
    assert_eq!(priorities, [NETWORKS]);
    assert!(rules.iter().all(|rule| numbers().owns(rule)));
}

#[test]
fn answers_may_come_over_any_uplink_that_leads_to_the_peer() {
    let mut view = view(&["0.0.0.0/0"], &[]);
    let to = Ipv4Addr::new(203, 0, 113, 5);
    let hop = |interface: u32| Hop { interface, gateway: Some(Ipv4Addr::new(192, 168, 1, 1)) };
    for last in 1..=2 {
        view.back.insert((Ipv4Addr::new(192, 168, 1, last), to), hop(last.into()));
    }
    let hops = RouteWay::Hops(BTreeSet::from([hop(1), hop(2)]));
    assert_eq!(view.back_table(), BTreeMap::from([(net("203.0.113.5/32"), hops)]));
    let rules = numbers().rules(&view);
    assert_eq!(rules.iter().filter(|rule| rule.priority == BACK).count(), 2);
    assert!(rules.iter().all(|rule| numbers().owns(rule)));
}

#[test]
fn sites_have_tables_of_their_own() {
    let of = |byte| Numbers::of(PublicKey::from_bytes([byte; 32]));
    assert_ne!(of(1).table, of(2).table);
    let numbers = of(1);
    assert_eq!(numbers.table & 1, 0);
    assert_eq!(numbers.back_table, numbers.table + 1);
    assert!(numbers.mark.get() >= NUMBERS);
}
