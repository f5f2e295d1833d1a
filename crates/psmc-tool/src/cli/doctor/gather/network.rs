//! Addresses, routes and rules of this machine.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use psmc_net::netlink::{AnyRule, MainRoute, Netlink, NetlinkError};
use psmcd::config::{Config, Endpoint, Paths, Peer};
use psmcd::machine::{Marks, Notice, hidden};

use super::super::facts::{Astray, Daemon, Network, Overlap};
use super::super::firewall::Packet;

/// The first rules of a site have this priority (`daemon/network/steering`).
const FIRST_OWN_RULE: u32 = 5114;

/// So many networks are followed into the tunnel: a hub with thousands has the same rules for all of them.
const MAX_NETWORKS: usize = 64;

/// Addresses that stand for all of the Internet: nobody has them (RFC 5737, RFC 3849).
const SOMEWHERE: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(192, 0, 2, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// The index of the tunnel's interface, if there is one.
pub(super) async fn tunnel_interface(
    netlink: &Netlink,
    config: &Config,
    daemon: &Daemon,
) -> Result<Option<u32>, NetlinkError> {
    let running = daemon.status().map(|status| status.site.interface.as_str());
    let Some(name) = running.or(config.site.interface.as_ref().map(|name| name.as_str())) else {
        return Ok(None);
    };
    match netlink.link_index(name).await {
        Ok(index) => Ok(Some(index)),
        Err(NetlinkError::NoSuchLink { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The network, and what there is to say of networks of peers that are local ones.
pub(super) async fn look(
    netlink: &Netlink,
    config: &Config,
    daemon: &Daemon,
    (tun, marks): (Option<u32>, &Marks),
) -> Result<(Network, Vec<Notice>), NetlinkError> {
    let mut network = Network::default();
    for name in netlink.link_names().await? {
        let Ok(index) = netlink.link_index(&name).await else { continue };
        if Some(index) != tun {
            let addresses = netlink.addresses(index).await?;
            network.addresses.extend(addresses.into_iter().map(|address| (address, name.clone())));
        }
    }
    let of_peers: BTreeSet<IpNet> =
        config.peers.iter().flat_map(|peer| &peer.allowed_ips).map(|allowed| allowed.net().trunc()).collect();
    let routes = netlink.main_routes().await?;
    let local: Vec<&MainRoute> = routes.iter().filter(|route| Some(route.interface) != tun).collect();
    let mut notices = Vec::new();
    for route in &local {
        let destination = route.destination.trunc();
        let around = of_peers
            .iter()
            .find(|net| net.prefix_len() > 0 && **net != destination && net.contains(&destination));
        if of_peers.contains(&destination) && destination.prefix_len() > 0 {
            notices.push(hidden(destination));
        } else if let Some(around) = around {
            let interface = link_name(netlink, route.interface).await;
            network.overlaps.push(Overlap { local: destination, interface, of_peer: *around });
        }
    }
    notices.dedup();
    if let (Daemon::Running { .. }, Some(tun)) = (daemon, tun) {
        let rules = netlink.all_rules().await?;
        for net in of_peers.into_iter().take(MAX_NETWORKS) {
            let is_local = |address: IpAddr| local.iter().any(|route| route.destination.contains(&address));
            let address = address_in(net);
            if !is_local(address) {
                network.astray.extend(follow(netlink, (net, address), (tun, marks), &rules).await);
            }
        }
    }
    Ok((network, notices))
}

/// An address of a network, of which any will do.
fn address_in(net: IpNet) -> IpAddr {
    if net.prefix_len() == 0 {
        return if net.addr().is_ipv4() { SOMEWHERE.0.into() } else { SOMEWHERE.1.into() };
    }
    net.hosts().next().unwrap_or(net.addr())
}

/// Where packets to a network of a peer go, if that is not the tunnel.
async fn follow(
    netlink: &Netlink,
    (net, address): (IpNet, IpAddr),
    (tun, marks): (u32, &Marks),
    rules: &[AnyRule],
) -> Option<Astray> {
    let way = netlink.way_to(address, 0, None).await;
    if way.is_some_and(|way| way.interface == tun || way.is_local) {
        return None;
    }
    let by = match way {
        Some(way) => Some(link_name(netlink, way.interface).await),
        None => None,
    };
    let is_before = |rule: &&AnyRule| {
        rule.is_v6 == address.is_ipv6()
            && (1..FIRST_OWN_RULE).contains(&rule.priority)
            && !marks.tables.contains(&rule.table)
    };
    let rules = rules.iter().filter(is_before).map(|rule| format!("`{}`", rule.text)).collect();
    Some(Astray { net, address, by, rules })
}

pub(super) async fn link_name(netlink: &Netlink, index: u32) -> String {
    netlink.link_state(index).await.ok().flatten().map(|state| state.name).unwrap_or_default()
}

/// Packets of the tunnel that the firewall of this machine must let through.
pub(super) fn packets(config: &Config) -> Vec<Packet> {
    let mut packets = Vec::new();
    let mut add = |packet: Packet| {
        packets.extend(["udp", "tcp"].map(|protocol| Packet { protocol, ..packet }));
    };
    let plain = Packet {
        is_input: true,
        is_v4: true,
        protocol: "udp",
        from_port: None,
        to_port: None,
        is_first: true,
    };
    let is_called = config.peers.iter().any(|peer| peer.endpoint.is_none()) && !config.site.is_hidden;
    if is_called {
        add(Packet { to_port: Some(config.site.listen.port.get()), ..plain });
    }
    let dialled: BTreeSet<(u16, bool)> = config.peers.iter().flat_map(endpoints).map(of_endpoint).collect();
    for (port, is_v4) in dialled {
        add(Packet { is_input: false, is_v4, to_port: Some(port), ..plain });
        add(Packet { is_v4, from_port: Some(port), is_first: false, ..plain });
    }
    packets
}

/// Where a site dials a peer.
fn endpoints(peer: &Peer) -> Vec<&Endpoint> {
    match &peer.paths {
        Paths::EveryUplink => peer.endpoint.iter().collect(),
        Paths::Listed(paths) => {
            let straight = paths.iter().filter(|path| path.relays.is_empty());
            straight.filter_map(|path| path.endpoint.as_ref().or(peer.endpoint.as_ref())).collect()
        }
    }
}

fn of_endpoint(endpoint: &Endpoint) -> (u16, bool) {
    let is_v6 = endpoint.socket_addr().is_some_and(|address| address.is_ipv6());
    (endpoint.port.get(), !is_v6)
}
