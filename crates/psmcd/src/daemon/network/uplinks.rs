//! Paths over every uplink, as uplinks come and go.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psmc_core::PeerId;
use psmc_net::netlink::{NetlinkError, Uplink};
use tokio::time::timeout;

use super::HostNetwork;
use crate::config::{Endpoint, Name, PathSettings};
use crate::daemon::DaemonError;
use crate::daemon::control::Control;
use crate::daemon::paths::{OpenError, uplink_settings};
use crate::machine::{nat64_prefix, no_common_version};

/// What becomes of a path that was opened because there was an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is used.
    Used,
    /// It is kept, without being used: its link is there, and leads nowhere just now.
    Idle,
    /// It is closed: its link is gone, or is called otherwise, or it was for a host without any uplink.
    Closed,
}

impl Fate {
    pub(super) fn of(settings: &PathSettings, wanted: &BTreeSet<Name>, links: &BTreeSet<String>) -> Self {
        let has_link =
            settings.interface.as_ref().is_some_and(|interface| links.contains(interface.as_str()));
        match (wanted.contains(&settings.name), has_link) {
            (true, _) => Self::Used,
            (false, true) => Self::Idle,
            (false, false) => Self::Closed,
        }
    }
}

/// Whether an uplink leads to the address.
fn leads_to(uplink: &Uplink, remote: &SocketAddr) -> bool {
    if remote.is_ipv4() { uplink.v4 } else { uplink.v6 }
}

/// The first of the addresses to which the uplink leads.
pub(in crate::daemon) fn reached_by(uplink: &Uplink, remotes: &[SocketAddr]) -> Option<SocketAddr> {
    remotes.iter().copied().find(|remote| leads_to(uplink, remote))
}

/// Nothing else is done while it is asked for a prefix, which is only worth a word in a warning.
const NAT64_PATIENCE: Duration = Duration::from_millis(300);

impl HostNetwork {
    /// The names of all links.
    async fn link_names(&self) -> Result<BTreeSet<String>, NetlinkError> {
        self.netlink.link_names().await
    }

    /// Adds the way that the routes name, if it leads through no uplink, or does not leave this host.
    async fn add_way_by_routes(&self, remote: SocketAddr, paths: &mut Vec<PathSettings>) {
        let mark = self.numbers.mark.get();
        let Some(way) = self.netlink.way_to(remote.ip(), mark, None).await else { return };
        let plain = |name: &str| name.parse().ok().map(PathSettings::plain);
        if way.is_local {
            paths.extend(plain("any").filter(|_| paths.is_empty()));
            return;
        }
        let name = self.link_name(way.interface).await;
        let is_known = paths.iter().any(|path| path.name.as_str() == name);
        if way.interface != self.interface.index && !is_known {
            let over = |path| PathSettings { interface: name.parse().ok(), ..path };
            paths.extend(plain(&name).map(over));
        }
    }
}

impl Control {
    /// Opens the paths that uplinks which have come make possible, and ends those of uplinks that are gone.
    pub(super) async fn match_uplinks(&mut self) {
        for peer in 0..self.peers.len() {
            self.open_configured_paths(peer).await;
        }
    }

    /// A peer that could not be reached, and to which there is a path now, is dialled at once.
    pub(in crate::daemon) async fn dial_over_new_paths(&mut self, peer: usize) -> Result<(), DaemonError> {
        let id = self.peers[peer].id;
        if self.connections.supersede(id) {
            return Ok(());
        }
        self.plane
            .post(move |plane| {
                if plane.site.status(id).is_some_and(|status| status.connected_since.is_none())
                    && let Ok(mut peer) = plane.site.peer(id)
                {
                    peer.redial(Instant::now());
                }
            })
            .await
    }

    /// The paths to a peer whose file lists none: one over each uplink that leads to it, and over what the routes say is the way.
    pub(in crate::daemon) async fn paths_over_uplinks(
        &mut self,
        peer: usize,
        endpoint: &Endpoint,
    ) -> Result<Vec<PathSettings>, OpenError> {
        let remotes = self.names.addresses_of(endpoint, self.peers[peer].id, &mut self.tasks)?;
        let uplinks = self.network.uplinks().await.map_err(DaemonError::from)?;
        let usable = uplinks.iter().filter(|uplink| reached_by(uplink, &remotes).is_some());
        let mut paths = uplink_settings(usable);
        for remote in &remotes {
            self.network.add_way_by_routes(*remote, &mut paths).await;
        }
        let mut why_none = None;
        if paths.is_empty() && !uplinks.is_empty() {
            let prefix = timeout(NAT64_PATIENCE, nat64_prefix()).await.ok().flatten();
            let notice = no_common_version(&self.peers[peer].config.name, endpoint, &remotes, prefix);
            self.network.say(notice.to_string());
            why_none = Some(notice.to_string());
        }
        self.peers[peer].waiting.explain(why_none);
        let transport = self.peers[peer].config.transport;
        let leading = |path| PathSettings { endpoint: Some(endpoint.clone()), transport, ..path };
        Ok(paths.into_iter().map(leading).collect())
    }

    /// Ends or rests those paths over uplinks that are not among `wanted`.
    pub(in crate::daemon) async fn end_other_paths(
        &mut self,
        peer: usize,
        wanted: &[PathSettings],
    ) -> Result<(), DaemonError> {
        if !self.peers[peer].paths.iter().any(|path| path.is_automatic) {
            return Ok(());
        }
        let wanted: BTreeSet<Name> = wanted.iter().map(|path| path.name.clone()).collect();
        let links = self.network.link_names().await?;
        let mut closed = Vec::new();
        let name_of = self.peers[peer].config.name.clone();
        for path in self.peers[peer].paths.iter_mut().filter(|path| path.is_automatic) {
            let fate = Fate::of(&path.settings, &wanted, &links);
            let is_idle = fate == Fate::Idle;
            if fate == Fate::Closed {
                tracing::info!(peer = %name_of, path = %path.settings.name, "uplink of a path removed");
                closed.push((path.id, path.sockets()));
            } else if is_idle != path.is_idle {
                path.is_idle = is_idle;
                let (socket, name, up) = (path.socket, path.settings.name.as_str(), path.may_be_used());
                tracing::info!(path = name, uplink = !is_idle, "the uplink of a path has changed");
                self.plane.post(move |plane| plane.site.handle_link(socket, up, Instant::now())).await?;
            }
        }
        for (path, sockets) in closed {
            self.end_path(peer, path).await?;
            // What has become of its interface has nothing to do with it.
            for socket in sockets {
                self.plane.post(move |plane| plane.close_port(socket)).await?;
            }
        }
        Ok(())
    }

    /// The address of an endpoint that is reached through `settings`' interface: of the version that it has.
    pub(in crate::daemon) async fn address_over(
        &mut self,
        endpoint: &Endpoint,
        settings: &PathSettings,
        peer: PeerId,
    ) -> Result<SocketAddr, OpenError> {
        let remotes = self.names.addresses_of(endpoint, peer, &mut self.tasks)?;
        let local = settings.address.map(|address| address.get());
        if let Some(local) = local {
            let same = remotes.iter().find(|remote| remote.is_ipv4() == local.is_ipv4());
            return Ok(*same.unwrap_or(&remotes[0]));
        }
        let Some(interface) = &settings.interface else { return Ok(remotes[0]) };
        let uplinks = self.network.uplinks().await.map_err(DaemonError::from)?;
        let uplink = uplinks.iter().find(|uplink| uplink.name == interface.as_str());
        Ok(uplink.and_then(|uplink| reached_by(uplink, &remotes)).unwrap_or(remotes[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uplink(v4: bool, v6: bool) -> Uplink {
        Uplink { name: "wan0".to_owned(), index: 2, v4, v6, metric: 0 }
    }

    #[test]
    fn an_uplink_takes_the_address_of_its_version() {
        let remotes: Vec<SocketAddr> =
            ["[2001:db8::5]:5115", "203.0.113.5:5115"].map(|text| text.parse().unwrap()).into();
        assert_eq!(reached_by(&uplink(true, true), &remotes), Some(remotes[0]));
        assert_eq!(reached_by(&uplink(false, true), &remotes), Some(remotes[0]));
        assert_eq!(reached_by(&uplink(true, false), &remotes), Some(remotes[1]));
        assert_eq!(reached_by(&uplink(true, false), &remotes[..1]), None);
    }
}
