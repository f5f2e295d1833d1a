//! Which ways there are to try: those of psmcd.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use psmc_net::netlink::{Netlink, NetlinkError, Uplink};
use psmc_net::probe::Walk;
use psmcd::config::{Config, Endpoint, PathSettings, Paths, Peer};
use psmcd::machine::{Marks, addresses_of, nat64_prefix, no_common_version};
use tokio::time::timeout;

use super::super::facts::{Gateway, Link, Network, Tcp, Tls, Unled, UnledWhy, Way};
use super::network::link_name;

/// So many ways are tried at most: each takes some twenty sockets.
pub(super) const MAX_WAYS: usize = 32;

/// The prefix is only worth a word.
const NAT64_PATIENCE: Duration = Duration::from_millis(300);

/// The ways to try, and the peers to which there are none.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) unled: Vec<Unled>,
    pub(super) ways: Vec<Way>,
    /// How many more there are.
    pub(super) untried: usize,
}

struct Planner<'a> {
    netlink: &'a Netlink,
    config: &'a Config,
    network: &'a Network,
    uplinks: Vec<Uplink>,
    tun: Option<u32>,
    mark: u32,
    /// What names have been found to stand for.
    known: BTreeMap<Endpoint, Vec<SocketAddr>>,
    plan: Plan,
}

pub(super) async fn make(
    netlink: &Netlink,
    config: &Config,
    network: &Network,
    (tun, marks): (Option<u32>, &Marks),
) -> Result<Plan, NetlinkError> {
    let uplinks = netlink.uplinks(tun.as_slice()).await?;
    let (known, plan) = (BTreeMap::new(), Plan::default());
    let mut planner = Planner { netlink, config, network, uplinks, tun, mark: marks.mark, known, plan };
    for peer in &config.peers {
        if planner.plan.ways.len() > MAX_WAYS {
            planner.plan.untried += 1;
            continue;
        }
        match (&peer.paths, &peer.endpoint) {
            (Paths::Listed(paths), _) => {
                for path in paths {
                    planner.add_listed(peer, path).await;
                }
            }
            (Paths::EveryUplink, Some(endpoint)) => planner.add_uplinks(peer, endpoint).await,
            (Paths::EveryUplink, None) => {}
        }
    }
    let mut plan = planner.plan;
    plan.untried += plan.ways.len().saturating_sub(MAX_WAYS);
    plan.ways.truncate(MAX_WAYS);
    Ok(plan)
}

impl Planner<'_> {
    /// The addresses of an endpoint; none, and a word about it, if there is none that leads to the peer.
    async fn remotes(&mut self, peer: &Peer, endpoint: &Endpoint) -> Vec<SocketAddr> {
        if !self.known.contains_key(endpoint) {
            let addresses = addresses_of(endpoint).await;
            self.known.insert(endpoint.clone(), addresses);
        }
        let remotes = self.known.get(endpoint).cloned().unwrap_or_default();
        let is_own = |remote: &&SocketAddr| {
            let has_it = self.network.addresses.iter().any(|(own, _)| own.addr() == remote.ip());
            has_it && remote.port() == self.config.site.listen.port.get()
        };
        if remotes.is_empty() {
            self.leave(peer, UnledWhy::Unresolved(endpoint.host.to_string()));
        } else if let Some(own) = remotes.iter().find(is_own).copied() {
            self.leave(peer, UnledWhy::Own(own));
            return Vec::new();
        }
        remotes
    }

    fn leave(&mut self, peer: &Peer, why: UnledWhy) {
        self.plan.unled.push(Unled { peer: peer.name.to_string(), why });
    }

    async fn add_uplinks(&mut self, peer: &Peer, endpoint: &Endpoint) {
        let remotes = self.remotes(peer, endpoint).await;
        let Some(first) = remotes.first().copied() else { return };
        let before = self.plan.ways.len();
        let led: Vec<_> =
            self.uplinks.iter().filter_map(|uplink| Some((uplink, reached_by(uplink, &remotes)?))).collect();
        let led = led.into_iter().map(|(uplink, remote)| way(peer, Some(uplink.name.clone()), remote));
        self.plan.ways.extend(led);
        for remote in &remotes {
            self.add_way_by_routes(peer, *remote, before).await;
        }
        if self.plan.ways.len() > before {
            return;
        }
        if self.uplinks.is_empty() {
            self.leave(peer, UnledWhy::NoUplink(first));
        } else {
            let prefix = timeout(NAT64_PATIENCE, nat64_prefix()).await.ok().flatten();
            self.leave(peer, UnledWhy::Version(no_common_version(&peer.name, endpoint, &remotes, prefix)));
        }
    }

    /// Adds the way that the routes name, if it leads through no uplink.
    async fn add_way_by_routes(&mut self, peer: &Peer, remote: SocketAddr, since: usize) {
        let Some(found) = self.netlink.way_to(remote.ip(), self.mark, None).await else { return };
        if found.is_local || Some(found.interface) == self.tun {
            return;
        }
        let name = Some(link_name(self.netlink, found.interface).await);
        if !self.plan.ways[since..].iter().any(|way| way.interface == name) {
            self.plan.ways.push(way(peer, name, remote));
        }
    }

    async fn add_listed(&mut self, peer: &Peer, path: &PathSettings) {
        let relay =
            path.relays.first().and_then(|name| self.config.relays.iter().find(|relay| relay.name == *name));
        let endpoint = match relay {
            Some(relay) => Some(&relay.address),
            // The end of another's tunnel, of which nothing can be asked.
            None if !path.relays.is_empty() => None,
            None => path.endpoint.as_ref().or(peer.endpoint.as_ref()),
        };
        let Some(endpoint) = endpoint else { return };
        let remotes = self.remotes(peer, endpoint).await;
        let local = path.address.map(|address| address.get());
        let interface = path.interface.as_ref().map(ToString::to_string);
        let uplink = self.uplinks.iter().find(|uplink| Some(&uplink.name) == interface.as_ref());
        let by_uplink = uplink.and_then(|uplink| reached_by(uplink, &remotes));
        let of_version =
            local.and_then(|local| remotes.iter().find(|it| it.is_ipv4() == local.is_ipv4()).copied());
        let Some(remote) = of_version.or(by_uplink).or(remotes.first().copied()) else { return };
        self.plan.ways.push(Way {
            path: Some(path.name.to_string()),
            relay: relay.map(|relay| relay.name.to_string()),
            local,
            link_mtu: path.mtu.map(|mtu| mtu.get()),
            ..way(peer, interface, remote)
        });
    }
}

/// The first of the addresses to which the uplink leads.
fn reached_by(uplink: &Uplink, remotes: &[SocketAddr]) -> Option<SocketAddr> {
    remotes.iter().copied().find(|remote| if remote.is_ipv4() { uplink.v4 } else { uplink.v6 })
}

/// A way that has not been tried.
fn way(peer: &Peer, interface: Option<String>, remote: SocketAddr) -> Way {
    Way {
        peer: peer.name.to_string(),
        path: None,
        relay: None,
        interface,
        local: None,
        remote,
        link: Link::Usable,
        link_mtu: None,
        gateway: Gateway::Fine,
        tcp: Tcp::Untried,
        tls: Tls::Untried,
        walk: Ok(Walk::default()),
        narrow: None,
        wide: None,
        state: None,
    }
}
