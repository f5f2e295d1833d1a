//! Ways to peers, over each uplink: the first thing that keeps one from working is what is told.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use psmc_api::{PathState, PathStatus, PeerStatus};
use psmc_net::probe::{IcmpError, IcmpKind, Walk};
use psmc_net::tls::TlsError;

use super::super::facts::{Facts, Gateway, Link, Tcp, Tls, Way};
use super::super::finding::{Fault, Finding};
use super::super::gather::LEAST_PACKET;

/// A search for the largest packet ends no further than this below it, in bytes (`psmc_core`'s `path/mtu`).
const SEARCH_GRAIN: u16 = 8;

/// By then a search has ended.
const SEARCH_TIME: f64 = 5.0;

/// What is so of a peer whatever leads to it is told once.
const OF_PEERS: [Fault; 6] = [
    Fault::PeerNotListening,
    Fault::PeerKeyWrong,
    Fault::OwnKeyRefused,
    Fault::PeerNotPsmc,
    Fault::ProtocolDiffers,
    Fault::HandshakeStalls,
];

const RELAY: &str = "let it through in any firewall on the way, or lead the path through a relay";

pub(super) fn all(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut told = BTreeSet::new();
    let in_front = |way: &&Way| way.state.as_ref().is_none_or(|path| path.portal.is_none());
    for way in facts.ways.iter().filter(in_front) {
        let found = of_way(way).filter(|finding| !is_explained(finding.fault, facts));
        let once = |finding: &Finding| {
            !OF_PEERS.contains(&finding.fault) || told.insert((finding.fault, way.peer.clone()))
        };
        findings.extend(found.filter(once));
    }
    findings.extend(of_others(facts));
    findings.extend(of_portals(facts));
    findings
}

/// Captive portals that psmcd has found. Whatever else does not work behind them follows from that.
fn of_portals(facts: &Facts) -> Vec<Finding> {
    let peers = facts.daemon.status().into_iter().flat_map(|status| &status.peers);
    let find = |path: &PathStatus| {
        let (page, interface) = (path.portal.as_ref()?, path.interface.as_ref()?);
        let seen = format!("it answers with a page of its own: {page}");
        Some(Finding::new(
            Fault::CaptivePortal,
            interface,
            seen,
            "sign in there, by a browser that uses this uplink",
        ))
    };
    peers.flat_map(|peer| &peer.paths).filter_map(find).collect()
}

/// Paths of the daemon to which no way was tried: what was added by hand, and what leads through machines of others.
fn of_others(facts: &Facts) -> Vec<Finding> {
    let peers = facts.daemon.status().into_iter().flat_map(|status| &status.peers);
    let of_peer = |peer: &PeerStatus| {
        let is_tried = |path: &PathStatus| {
            let mut known =
                facts.ways.iter().filter(|way| way.peer == peer.name).filter_map(|way| way.state.as_ref());
            known.any(|known| known.name == path.name)
        };
        let is_other = |path: &&PathStatus| {
            if path.portal.is_some() {
                return false;
            }
            let is_at_rest =
                matches!(path.state, PathState::Active | PathState::Standby | PathState::Closing);
            path.uplink.is_some() && (path.added || !path.relays.is_empty()) && !is_at_rest && !is_tried(path)
        };
        let find = |path: &PathStatus| {
            let fault = if path.relay_error.is_some() { Fault::RelayFailing } else { Fault::PathDead };
            let about = format!("{} over the path {}", peer.name, path.name);
            Some(Finding::new(fault, about, path.why.clone()?, "mend what it says, or `psmc path remove` it"))
        };
        let others = peer.paths.iter().filter(is_other).filter_map(find);
        others.collect::<Vec<_>>()
    };
    // Without a connection they wait for it, and so does whoever reads.
    peers.filter(|peer| peer.control.connected).flat_map(of_peer).collect()
}

/// Whether it follows from what the firewall of this machine does, which is told.
fn is_explained(fault: Fault, facts: &Facts) -> bool {
    let drops = |protocol| facts.dropped.iter().any(|dropped| dropped.packet.protocol == protocol);
    fault == Fault::UdpBlocked && drops("udp")
        || [Fault::TcpBlocked, Fault::PeerUnreachable].contains(&fault) && drops("tcp")
}

fn about(way: &Way) -> String {
    let over = match (&way.interface, &way.path) {
        (Some(interface), _) => format!("{} over {interface}", way.peer),
        (None, Some(path)) => format!("{} over the path {path}", way.peer),
        (None, None) => way.peer.clone(),
    };
    match &way.relay {
        Some(relay) => format!("{over}, relay {relay}"),
        None => over,
    }
}

fn of_way(way: &Way) -> Option<Finding> {
    let find = |fault, seen: String, remedy: &str| Some(Finding::new(fault, about(way), seen, remedy));
    if let Some((fault, seen, remedy)) = of_link(way) {
        return find(fault, seen, &remedy);
    }
    if way.state.as_ref().is_some_and(|path| matches!(path.state, PathState::Active | PathState::Standby)) {
        return of_working(way);
    }
    if let Gateway::Silent(gateway) = way.gateway {
        return find(
            Fault::GatewaySilent,
            format!("the next hop {gateway} does not say where it is (ARP, neighbour discovery)"),
            "check the cable, the Wi-Fi, the address and the gateway of this uplink",
        );
    }
    let remote = way.remote;
    match &way.tcp {
        Tcp::Untried => of_state(way),
        Tcp::Refused if way.relay.is_some() => find(
            Fault::RelayFailing,
            format!("{remote} refuses connections"),
            "see whether psmc-relay runs there",
        ),
        Tcp::Refused => find(
            Fault::PeerNotListening,
            format!("{remote} refuses connections"),
            "see whether psmcd runs there, and listens at that port: `psmc status` says where",
        ),
        Tcp::NoAnswer => {
            let seen = format!("no answer from {remote} by TCP{}{}", said_of(&way.walk), stops_at(&way.walk));
            find(Fault::PeerUnreachable, seen, &unreachable_remedy(way))
        }
        Tcp::Failed(error) => {
            let seen =
                format!("cannot connect to {remote}: {error}{}{}", said_of(&way.walk), stops_at(&way.walk));
            find(Fault::PeerUnreachable, seen, &unreachable_remedy(way))
        }
        Tcp::Connected => of_connected(way),
    }
}

fn unreachable_remedy(way: &Way) -> String {
    format!(
        "see whether {} is right and the host runs, and let UDP and TCP of port {} in where it stops; if the peer is behind a NAT, \
         lead the path through a relay",
        way.remote.ip(),
        way.remote.port()
    )
}

/// What is wrong with the near end.
fn of_link(way: &Way) -> Option<(Fault, String, String)> {
    let interface = way.interface.as_deref().unwrap_or_default();
    let (remote, version) = (way.remote, if way.remote.is_ipv4() { "IPv4" } else { "IPv6" });
    match way.link {
        Link::Usable => None,
        Link::Missing => Some((
            Fault::InterfaceMissing,
            format!("there is no interface {interface}"),
            "plug it in, or correct the path's `interface`; `ip link` lists the interfaces".to_owned(),
        )),
        Link::Down => Some((
            Fault::InterfaceDown,
            format!("{interface} is down, or has no carrier"),
            format!("`ip link set {interface} up`, and check its cable or radio"),
        )),
        Link::NoSuchAddress => Some((
            Fault::AddressMissing,
            format!(
                "{} is no address of this machine",
                way.local.map(|local| local.to_string()).unwrap_or_default()
            ),
            "correct the path's `address`, or leave it out; `ip address` lists the addresses".to_owned(),
        )),
        Link::NoAddress => Some((
            Fault::InterfaceNoAddress,
            format!("{interface} has no {version} address, and the path leads to {remote}"),
            format!(
                "have {interface} get one (DHCP, router advertisements), or give the path another `endpoint`"
            ),
        )),
        Link::NoRoute => Some((
            Fault::NoRoute,
            format!("no route leads to {} over {interface}", remote.ip()),
            format!(
                "add a default route by {interface}: `ip route add default via GATEWAY dev {interface} metric 200`"
            ),
        )),
    }
}

/// A path that carries data.
fn of_working(way: &Way) -> Option<Finding> {
    let failed = match &way.tcp {
        Tcp::Refused => Some("is refused".to_owned()),
        Tcp::NoAnswer => Some("has no answer".to_owned()),
        Tcp::Failed(error) => Some(format!("fails: {error}")),
        Tcp::Untried | Tcp::Connected => None,
    };
    if let Some(failed) = failed {
        let seen =
            format!("datagrams are answered, a connection to {} {failed}{}", way.remote, stops_at(&way.walk));
        return Some(Finding::new(
            Fault::TcpBlocked,
            about(way),
            seen,
            format!("TCP carries the keys: {RELAY}"),
        ));
    }
    let path = way.state.as_ref()?;
    let said = |it: &IcmpError| matches!(it.kind, IcmpKind::TooBig(_));
    let link_mtu = way.link_mtu.filter(|_| path.relays.is_empty() && !path.ip_in_ip)?;
    let is_hole = path.since_s > SEARCH_TIME
        && path.mtu.saturating_add(SEARCH_GRAIN) < link_mtu
        && !way.wide.as_ref().is_some_and(said);
    is_hole.then(|| {
        Finding::new(
            Fault::MtuBlackHole,
            about(way),
            format!("packets of {} bytes arrive, those of {link_mtu} bytes do not, and no router says so", path.mtu),
            format!(
                "nothing has to be done for the tunnel, which has found out; for all else, set the MTU of the interface to {}, or have \
                 ICMP let through",
                path.mtu
            ),
        )
    })
}

/// A way on which TCP connects, though the path does not work, or nobody knows whether it does.
fn of_connected(way: &Way) -> Option<Finding> {
    let find = |fault, seen: String, remedy: &str| Some(Finding::new(fault, about(way), seen, remedy));
    match &way.tls {
        Tls::Failed(TlsError::WrongKey { expected, found }) => find(
            Fault::PeerKeyWrong,
            format!("{} has the key {found}, and the file says {expected}", way.remote),
            "compare `public_key` with what `psmc pubkey` prints there, and see that the endpoint is that peer's",
        ),
        Tls::Failed(TlsError::KeyRefused) => find(
            Fault::OwnKeyRefused,
            format!("{} does not accept this site's key", way.remote),
            "add what `psmc pubkey` prints here as `public_key` of a [[peer]] there",
        ),
        Tls::Failed(TlsError::OtherProtocol) => find(
            Fault::ProtocolDiffers,
            format!("{} speaks TLS, but not this protocol", way.remote),
            "install the same release at both ends",
        ),
        Tls::Failed(error) => find(
            Fault::PeerNotPsmc,
            format!("{}: {}", way.remote, crate::error_chain(error)),
            "see which program listens there, and that the endpoint's port is that of psmcd",
        ),
        Tls::Stalled if too_small(way).is_none() => find(
            Fault::HandshakeStalls,
            format!("{} accepts a connection, and the handshake has no end", way.remote),
            "see whether psmcd there hangs; else packets of 1280 bytes vanish on the way: lower the MTU of the interface on the way, or \
             have ICMP let through",
        ),
        Tls::Stalled | Tls::Accepted | Tls::Untried => of_datagrams(way),
    }
}

/// What a router has said of the smallest packets that must arrive, if it is that they are too large.
fn too_small(way: &Way) -> Option<(u32, Option<IpAddr>)> {
    let IcmpError { from, kind: IcmpKind::TooBig(mtu) } = way.narrow? else { return None };
    (mtu < u32::from(LEAST_PACKET)).then_some((mtu, from))
}

fn of_datagrams(way: &Way) -> Option<Finding> {
    let find = |fault, seen: String, remedy: &str| Some(Finding::new(fault, about(way), seen, remedy));
    if let Some((mtu, from)) = too_small(way) {
        let from = from.map(|from| format!("{from} says that ")).unwrap_or_default();
        return find(
            Fault::MtuTooSmall,
            format!("{from}the way to {} carries packets of {mtu} bytes only", way.remote),
            "have it carry at least 1280 bytes, as IPv6 asks for: raise the MTU of that link, or lead the path through another one",
        );
    }
    let wrong = match &way.walk {
        Ok(Walk { end: Some(IcmpError { kind: IcmpKind::TooBig(_) | IcmpKind::Expired, .. }), .. }) => None,
        Ok(Walk { end: Some(_), .. }) => Some(said_of(&way.walk)),
        Err(error) => Some(format!("; cannot send a datagram: {error}")),
        Ok(Walk { end: None, .. }) => None,
    };
    if let Some(wrong) = wrong.filter(|_| way.relay.is_none()) {
        let seen = format!("TCP to {} works, UDP does not{wrong}{}", way.remote, stops_at(&way.walk));
        return find(
            Fault::UdpBlocked,
            seen,
            &format!("give the peer transport = \"auto\", so that TLS carries the data; or {RELAY}"),
        );
    }
    of_state(way)
}

/// What the running daemon says of a path that does not work.
fn of_state(way: &Way) -> Option<Finding> {
    let path = way.state.as_ref()?;
    let find = |fault, seen: String, remedy: &str| Some(Finding::new(fault, about(way), seen, remedy));
    if let Some(error) = &path.relay_error {
        return find(
            Fault::RelayFailing,
            error.clone(),
            "see whether psmc-relay runs there and lists this site's key in an [[allow]]",
        );
    }
    let why = path.why.clone()?;
    if is_unheard(path) && matches!(way.tcp, Tcp::Connected) && way.relay.is_none() {
        // In the daemon's words, which say what to do as well.
        let (seen, remedy) = why.split_once("; TCP works: ").unwrap_or((&why, RELAY));
        return find(Fault::UdpBlocked, format!("{seen}{}; TCP works", stops_at(&way.walk)), remedy);
    }
    // Nothing can be said of UDP before there are keys: the connection is what is missing.
    let has_keys = path.tx_packets > 0;
    if has_keys { find(Fault::PathDead, why, "see the log of psmcd, here and there") } else { None }
}

/// Whether datagrams were sent on a path, and none has ever come.
fn is_unheard(path: &PathStatus) -> bool {
    path.tx_packets > 0 && path.rx_packets == 0
}

/// Who has said what of a datagram that could pass any number of routers.
fn said_of(walk: &Result<Walk, io::Error>) -> String {
    let Ok(Walk { end: Some(IcmpError { from, kind }), .. }) = walk else { return String::new() };
    let from = from.map_or_else(|| "somebody".to_owned(), |from| from.to_string());
    let what = match kind {
        IcmpKind::Expired => "that it has passed too many routers".to_owned(),
        IcmpKind::NoPort => "that nobody listens there, as firewalls say, too".to_owned(),
        IcmpKind::Unreachable => "that the host is not reached".to_owned(),
        IcmpKind::Prohibited => "that a firewall prohibits it".to_owned(),
        IcmpKind::TooBig(mtu) => format!("that it may have {mtu} bytes"),
        IcmpKind::Other(kind, code) => format!("ICMP {kind}/{code}"),
    };
    format!("; {from} says of a datagram {what}")
}

/// The last router that has answered.
fn stops_at(walk: &Result<Walk, io::Error>) -> String {
    let Ok(walk) = walk else { return String::new() };
    match walk.hops.last() {
        Some((1, hop)) => format!("; the last router that answers is {hop}, the first on the way"),
        Some((hops, hop)) => format!("; the last router that answers is {hop}, {hops} hops away"),
        None => "; no router on the way answers".to_owned(),
    }
}
