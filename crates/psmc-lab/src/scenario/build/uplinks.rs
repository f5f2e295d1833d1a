//! What hosts with several uplinks ask of the routes.

use std::collections::BTreeSet;

use ipnet::IpNet;

use super::names::Directory;
use super::network::Network;
use crate::scenario::draft::Draft;
use crate::scenario::model::{HostId, LinkId, Sites, TrafficKind};

/// What tunnels and MPTCP ask of the routes.
pub(super) struct Demands {
    /// Networks that a site reaches through a tunnel, so that no route of ours has to lead there.
    pub(super) by_tunnel: Vec<(HostId, Vec<IpNet>)>,
    /// Hosts that bind to each of their links, and need a route by all of them.
    binding: BTreeSet<HostId>,
    /// Both ends of every tunnel, and of every stream of MPTCP.
    pairs: Vec<[HostId; 2]>,
}

impl Demands {
    pub(super) fn of(draft: &Draft, sites: &[Sites], directory: &Directory) -> Self {
        let streams = draft.traffic.iter().filter_map(|stream| match stream.kind.as_ref()? {
            TrafficKind::Tcp { multipath: true, .. } => {
                let host = |name| directory.hosts.find(name).map(HostId);
                Some([host(stream.from.as_ref()?)?, host(stream.to.as_ref()?)?])
            }
            TrafficKind::Tcp { .. }
            | TrafficKind::Quic { .. }
            | TrafficKind::Udp { .. }
            | TrafficKind::Requests { .. }
            | TrafficKind::Ping { .. } => None,
        });
        let streams: Vec<[HostId; 2]> = streams.collect();
        let tunnels = sites.iter().map(|sites| sites.each_ref().map(|end| end.host));
        let dialling = sites.iter().map(|sites| sites[0].host);
        Self {
            by_tunnel: sites.iter().flat_map(by_tunnel).collect(),
            binding: dialling.chain(streams.iter().flatten().copied()).collect(),
            pairs: tunnels.chain(streams.iter().copied()).collect(),
        }
    }

    /// Whether a host binds to each of its links.
    pub(super) fn binds(&self, host: HostId) -> bool {
        self.binding.contains(&host)
    }

    /// For every host its uplinks: the links by which it reaches the far end of a tunnel or of MPTCP.
    pub(super) fn uplinks(&self, network: &Network) -> Vec<BTreeSet<LinkId>> {
        let mut peers = vec![Vec::new(); network.hosts.len()];
        for [first, second] in &self.pairs {
            peers[first.0].push(*second);
            peers[second.0].push(*first);
        }
        let hosts = (0..network.hosts.len()).map(HostId);
        hosts.zip(peers).map(|(host, peers)| uplinks(network, host, &peers)).collect()
    }
}

fn by_tunnel(sites: &Sites) -> [(HostId, Vec<IpNet>); 2] {
    [0, 1].map(|end| (sites[1 - end].host, sites[end].networks.clone()))
}

/// The links of a host whose far end reaches one of its peers without it.
fn uplinks(network: &Network, host: HostId, peers: &[HostId]) -> BTreeSet<LinkId> {
    if peers.is_empty() || network.ports[host.0].len() < 2 {
        return BTreeSet::new();
    }
    let mut parts = vec![None; network.hosts.len()];
    let ports = &network.ports[host.0];
    for (part, port) in ports.iter().enumerate() {
        fill(network, host, network.far_end(*port).host, part, &mut parts);
    }
    let wanted: BTreeSet<Option<usize>> = peers.iter().map(|peer| parts[peer.0]).collect();
    let leads = |port: &&(LinkId, usize)| wanted.contains(&parts[network.far_end(**port).host.0]);
    ports.iter().filter(leads).map(|port| port.0).collect()
}

/// Marks all hosts that hang together with `from` when `without` is taken away, unless they are marked.
fn fill(network: &Network, without: HostId, from: HostId, part: usize, parts: &mut [Option<usize>]) {
    let mut open = vec![from];
    while let Some(host) = open.pop() {
        if host != without && parts[host.0].is_none() {
            parts[host.0] = Some(part);
            open.extend(network.ports[host.0].iter().map(|port| network.far_end(*port).host));
        }
    }
}
