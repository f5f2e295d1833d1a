//! The network of this machine: routes, rules, firewall, addresses.

use std::net::IpAddr;
use std::time::Duration;

use psmcd::config::{Config, Host};

use super::super::facts::{Astray, Facts, Overlap, Unled, UnledWhy};
use super::super::finding::{Fault, Finding};
use super::super::firewall::Dropped;

/// Many NATs forget a flow of UDP after half a minute, though RFC 4787 (REQ-5) has them wait for two.
const SHORT_MEMORY: Duration = Duration::from_secs(30);

/// So many wrong checksums are more than a bit that has flipped, if they are more than one datagram in [`PER`].
const MANY: u64 = 5;
const PER: u64 = 200;

pub(super) fn all(config: &Config, facts: &Facts) -> Vec<Finding> {
    let network = &facts.network;
    let mut findings: Vec<Finding> = network.astray.iter().map(of_astray).collect();
    findings.extend(network.overlaps.iter().map(of_overlap));
    findings.extend(facts.dropped.iter().map(of_dropped));
    findings.extend(facts.unled.iter().map(of_unled));
    findings.extend(of_checksums(facts));
    findings.extend(of_own_endpoint(config, facts));
    findings.extend(of_keepalive(config, facts));
    findings
}

fn of_astray(astray: &Astray) -> Finding {
    let Astray { net, address, by, rules } = astray;
    let way = match by {
        Some(by) => format!("packets to {address} leave by {by}"),
        None => format!("no route leads to {address}"),
    };
    let rules = if rules.is_empty() {
        String::new()
    } else {
        format!("; before the rules of psmcd are asked: {}", rules.join(", "))
    };
    Finding::new(
        Fault::RouteConflict,
        "",
        format!("{net} is behind a peer, but {way}{rules}"),
        "remove that rule or route, or end the other VPN that has made it; `ip rule` and `ip route show table all` list them",
    )
}

fn of_overlap(overlap: &Overlap) -> Finding {
    let Overlap { local, interface, of_peer } = overlap;
    let of_containers = ["docker", "br-", "podman", "cni", "virbr", "lxc"];
    let is_of_containers = of_containers.iter().any(|prefix| interface.starts_with(prefix));
    let whose = if is_of_containers { ", a network of containers or virtual machines" } else { "" };
    Finding::new(
        Fault::Overlap,
        "",
        format!("{local} on {interface}{whose} is within {of_peer}, which is behind a peer"),
        "if hosts of the peer have such addresses, renumber one of the two",
    )
}

fn of_dropped(Dropped { packet, by }: &Dropped) -> Finding {
    let way = if packet.is_input { "incoming" } else { "outgoing" };
    let what = if packet.protocol == "udp" { "datagrams" } else { "connections" };
    let port = match (packet.to_port, packet.from_port) {
        (Some(port), _) => format!("to port {port}"),
        (None, Some(port)) => format!("that answer from port {port}"),
        (None, None) => String::new(),
    };
    let protocol = packet.protocol.to_uppercase();
    Finding::new(
        Fault::FirewallDrops,
        "",
        format!("{by} drops {way} {what} of {protocol} {port}"),
        "let UDP and TCP of this port through; `nft -a list ruleset` shows the rule",
    )
}

fn of_unled(Unled { peer, why }: &Unled) -> Finding {
    match why {
        UnledWhy::Unresolved(name) => Finding::new(
            Fault::NameUnresolved,
            peer,
            format!("no name server has an address of `{name}`"),
            "check the name, and the name servers in /etc/resolv.conf",
        ),
        UnledWhy::Own(address) => Finding::new(
            Fault::EndpointIsOwn,
            peer,
            format!("the endpoint {address} is an address of this machine"),
            "write the address at which the other site is reached",
        ),
        UnledWhy::NoUplink(address) => Finding::new(
            Fault::NoUplink,
            peer,
            format!("no interface that is up has a default route, and no route leads to {address}"),
            "connect to a network; `ip route` lists the routes",
        ),
        UnledWhy::Version(notice) => Finding::new(Fault::NoCommonVersion, peer, &notice.seen, &notice.remedy),
    }
}

fn of_checksums(facts: &Facts) -> Option<Finding> {
    let (received, wrong) = facts.machine.datagrams?;
    let is_many = wrong >= MANY && wrong * PER > received;
    is_many.then(|| {
        Finding::new(
            Fault::ChecksumErrors,
            "",
            format!("{wrong} datagrams had wrong checksums, and {received} were right (InCsumErrors in /proc/net/snmp)"),
            "turn off offloads of the network interface, `ethtool -K NAME rx off tx off gso off gro off`, and see whether the number \
             still grows; else a line, a modem or a router corrupts them",
        )
    })
}

fn of_own_endpoint(config: &Config, facts: &Facts) -> Option<Finding> {
    let endpoint = config.site.endpoint.as_ref()?;
    let Host::Ip(address) = endpoint.host else { return None };
    let is_own = facts.network.addresses.iter().any(|(own, _)| own.addr() == address);
    (!is_own).then(|| {
        Finding::new(
            Fault::BehindNat,
            "",
            format!("the endpoint {endpoint} is no address of this machine"),
            format!(
                "have the router that has it forward port {} of UDP and TCP to this machine",
                endpoint.port
            ),
        )
    })
}

fn of_keepalive(config: &Config, facts: &Facts) -> Vec<Finding> {
    let is_private = |interface: &str| {
        let of_interface = facts.network.addresses.iter().filter(|(_, name)| name == interface);
        let mut v4 = of_interface.filter_map(|(net, _)| match net.addr() {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        v4.any(|address| address.is_private())
    };
    let is_long = |peer: &&psmcd::config::Peer| peer.keepalive > SHORT_MEMORY;
    let mut findings = Vec::new();
    for peer in config.peers.iter().filter(is_long) {
        let mut ways = facts.ways.iter().filter(|way| way.peer == peer.name.as_str() && way.remote.is_ipv4());
        let behind_nat = |interface: &String| {
            let is_remote_private = facts.ways.iter().any(|way| {
                way.interface.as_ref() == Some(interface)
                    && matches!(way.remote.ip(), IpAddr::V4(address) if address.is_private())
            });
            is_private(interface) && !is_remote_private
        };
        if let Some(interface) = ways.find_map(|way| way.interface.clone().filter(behind_nat)) {
            findings.push(Finding::new(
                Fault::KeepaliveLong,
                peer.name.as_str(),
                format!(
                    "its keepalive is {} s, and {interface} has a private address, so that there is a NAT",
                    peer.keepalive.as_secs()
                ),
                "set `keepalive` to 25 s or less, as many NATs forget a flow of UDP after 30 s",
            ));
        }
    }
    findings
}
