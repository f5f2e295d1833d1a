//! The peers of a site as the control side sees them.

use std::collections::BTreeSet;
use std::time::Instant;

use psmc_core::PeerId;
use psmc_wire::PathId;

use super::DaemonError;
use super::control::Control;
use super::paths::OpenPath;
use super::relays::Spares;
use super::settings::{peer_config, routes_for};
use crate::config::{self, Name};

/// A peer as the control side sees it.
pub(super) struct Peer {
    pub(super) id: PeerId,
    pub(super) config: config::Peer,
    pub(super) paths: Vec<OpenPath>,
    /// Sockets of removed paths, closed when the engine has forgotten the path.
    pub(super) retired: Vec<OpenPath>,
    /// What takes the place of relays that fail.
    pub(super) spares: Spares,
    /// Names of paths that were removed by hand, here or at the peer. The configuration doesn't bring them back.
    pub(super) removed: BTreeSet<Name>,
    pub(super) last_error: Option<String>,
}

impl Peer {
    pub(super) fn path_named(&self, name: &str) -> Option<&OpenPath> {
        self.paths.iter().find(|path| path.settings.name.as_str() == name)
    }

    /// Whether a configured path is neither open nor removed by hand.
    pub(super) fn is_missing(&self, name: &Name) -> bool {
        self.path_named(name.as_str()).is_none() && !self.removed.contains(name)
    }

    /// Puts a path aside whose removal has begun.
    pub(super) fn retire_path(&mut self, id: PathId) {
        for path in self.paths.extract_if(.., |path| path.id == id) {
            self.removed.insert(path.settings.name.clone());
            self.retired.push(path);
        }
    }
}

impl Control {
    /// Adds a peer of the configuration, with routes to what is behind it.
    pub(super) async fn add_peer(&mut self, config: config::Peer) -> Result<(), DaemonError> {
        let engine = peer_config(&config, self.identity.public());
        let added = self.plane.call(move |plane| plane.site.add_peer(engine, Instant::now())).await?;
        let name = config.name.to_string();
        let id = added.map_err(|source| DaemonError::Peer { name, source })?;
        for net in config.allowed_ips.iter().flat_map(|allowed| routes_for(allowed.net())) {
            // The kernel has made the routes of the interface's own networks.
            let is_own = self.site.addresses.iter().any(|address| address.net().trunc() == net);
            if !is_own {
                self.netlink.add_route(net, self.tun_index).await?;
            }
        }
        let spares = self.spares(&config);
        self.peers.push(Peer {
            id,
            config,
            paths: Vec::new(),
            retired: Vec::new(),
            spares,
            removed: BTreeSet::new(),
            last_error: None,
        });
        Ok(())
    }

    /// Whether this site is the one to open connections to the peer.
    pub(super) fn is_dialing(&self, peer: &Peer) -> bool {
        peer.config.endpoint.is_some() || !peer.paths.is_empty()
    }

    /// Where a peer stands in the list, unless it has been removed.
    pub(super) fn peer_index(&self, id: PeerId) -> Option<usize> {
        self.peers.iter().position(|peer| peer.id == id)
    }
}
