//! What the simulator can do of what a scenario asks for.

use std::net::IpAddr;

use psmc_sim::{CongestionControl, TrafficKind};

use super::SimError;
use crate::scenario::{self, Scenario, Traffic, Tunnel, TunnelPath};

/// Headers of IPv4 or IPv6, and of UDP or of an ICMP echo.
const HEADERS: [usize; 2] = [20 + 8, 40 + 8];

/// The MTU of a link that has none of its own.
const LINK_MTU: usize = 1500;

/// The MTU inside a tunnel, unless it is set.
const TUNNEL_MTU: usize = 1400;

/// The most bytes that can be on their way in each direction of a connection: as much as Linux allows by default.
const MAX_BUFFER: usize = 4 << 20;

/// The fewest: a thousand connections that share a fast link have no more.
const MIN_BUFFER: usize = 64 << 10;

/// What all connections together may have on their way, so that a world of a thousand sites fits into a laptop.
const BUFFERS: usize = 1 << 30;

/// What each stream of traffic does, unless something in the scenario is beyond the simulator.
pub(super) fn kinds(scenario: &Scenario) -> Result<Vec<TrafficKind>, SimError> {
    let programs = scenario.programs.iter();
    let mut complaints: Vec<_> = programs
        .map(|program| format!("program \"{}\": the simulator runs no programs; leave it out", program.name))
        .collect();
    complaints.extend(scenario.tunnels.iter().flat_map(left_to_daemons));
    let buffer = (BUFFERS / connections(scenario).max(1)).clamp(MIN_BUFFER, MAX_BUFFER);
    let mut kinds = Vec::new();
    for traffic in &scenario.traffic {
        match kind(traffic, scenario, buffer) {
            Ok(kind) => kinds.push(kind),
            Err(reason) => complaints.push(format!("traffic \"{}\": {reason}", traffic.name)),
        }
    }
    if complaints.is_empty() { Ok(kinds) } else { Err(SimError::Unsupported(complaints)) }
}

/// What a simulation leaves out, and goes on.
pub(super) fn warnings(scenario: &Scenario) -> Vec<String> {
    let captured = scenario.links.iter().filter(|link| link.capture.is_some());
    captured.map(|link| format!("link \"{}\": a simulation writes no captures", link.name)).collect()
}

fn kind(traffic: &Traffic, scenario: &Scenario, buffer: usize) -> Result<TrafficKind, String> {
    match &traffic.kind {
        scenario::TrafficKind::Tcp { multipath: true, .. } => {
            Err("the simulator has no MPTCP; leave `multipath` out".to_owned())
        }
        scenario::TrafficKind::Tcp { congestion_control, flows, bytes, .. } => {
            let congestion_control = congestion_control_named(congestion_control)?;
            Ok(TrafficKind::Tcp { congestion_control, flows: *flows, bytes: *bytes, buffer })
        }
        scenario::TrafficKind::Quic { .. } => {
            Err("the simulator has no QUIC; choose the kind \"tcp\"".to_owned())
        }
        scenario::TrafficKind::Udp { adaptive: true, .. } => {
            Err("the simulator has no UDP that answers losses; leave `adaptive` out".to_owned())
        }
        scenario::TrafficKind::Udp { rate, payload, .. } => {
            fits(*payload, traffic.address, scenario)?;
            Ok(TrafficKind::Udp { rate: *rate, payload: *payload })
        }
        scenario::TrafficKind::Requests { congestion_control, rate, request, response } => {
            let congestion_control = congestion_control_named(congestion_control)?;
            let (rate, request, response) = (*rate, *request, *response);
            Ok(TrafficKind::Requests { rate, request, response, congestion_control })
        }
        scenario::TrafficKind::Ping { interval, payload } => {
            fits(*payload, traffic.address, scenario)?;
            Ok(TrafficKind::Ping { interval: *interval, payload: *payload })
        }
    }
}

fn congestion_control_named(name: &str) -> Result<CongestionControl, String> {
    match name {
        "cubic" => Ok(CongestionControl::Cubic),
        "reno" => Ok(CongestionControl::Reno),
        "bbr" => Ok(CongestionControl::Bbr),
        _ => Err(format!(
            "the simulator has no congestion control \"{name}\"; choose \"cubic\", \"reno\" or \"bbr\""
        )),
    }
}

/// How many connections there are at once, at most.
fn connections(scenario: &Scenario) -> usize {
    let flows = scenario.traffic.iter().map(|traffic| match &traffic.kind {
        scenario::TrafficKind::Tcp { flows, .. } => *flows,
        scenario::TrafficKind::Quic { .. }
        | scenario::TrafficKind::Udp { .. }
        | scenario::TrafficKind::Requests { .. }
        | scenario::TrafficKind::Ping { .. } => 0,
    });
    flows.sum()
}

/// Whether a packet to an address has room for so much payload.
fn fits(payload: usize, address: IpAddr, scenario: &Scenario) -> Result<(), String> {
    let inside = scenario.tunnels.iter().find(|tunnel| leads_to(tunnel, address));
    let mtu = inside.map_or(LINK_MTU, tunnel_mtu);
    let room = mtu - HEADERS[usize::from(address.is_ipv6())];
    if payload <= room {
        return Ok(());
    }
    Err(format!(
        "{payload} bytes of payload need fragments, which the simulator does not make; at most {room} do not"
    ))
}

/// What paths are set that the daemons do beside the engine: in virtual time there are no days, no daemon that counts, and no TLS.
const LEFT_TO_DAEMONS: [(&str, &str); 2] =
    [("quota", "counts no quotas"), ("transport", "has no transport but UDP")];

/// What is said of paths with such settings.
fn left_to_daemons(tunnel: &Tunnel) -> impl Iterator<Item = String> {
    LEFT_TO_DAEMONS.into_iter().flat_map(move |(setting, reason)| {
        let has = move |path: &&TunnelPath| path.settings.iter().any(|(key, _)| key == setting);
        tunnel.paths.iter().filter(has).map(move |path| {
            format!(
                "path \"{}\" of tunnel \"{}\": the simulator {reason}; leave `{setting}` out",
                path.name, tunnel.name
            )
        })
    })
}

fn leads_to(tunnel: &Tunnel, address: IpAddr) -> bool {
    tunnel.ends.iter().any(|end| {
        let own = end.addresses.iter().any(|net| net.addr() == address);
        own || end.networks.iter().any(|net| net.contains(&address))
    })
}

fn tunnel_mtu(tunnel: &Tunnel) -> usize {
    let set = tunnel.settings.iter().find(|(key, _)| key == "mtu");
    let set = set.and_then(|(_, value)| usize::try_from(value.as_integer()?).ok());
    set.unwrap_or(TUNNEL_MTU)
}
