//! Which relays the paths of a site have.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use psmc_core::PeerId;
use psmc_wire::PathId;

use super::{Caller, Destination, Goal, Keeper, KeeperSpec, Spares, Wanted};
use crate::config::{Endpoint, Host, MAX_CHAIN, Name, PathSettings, Paths, Peer, Relay};
use crate::daemon::control::Control;
use crate::daemon::paths::{OpenError, local_end};

/// What a path is led through.
pub(in crate::daemon) struct Lead {
    /// The relays, the nearest first.
    pub(in crate::daemon) relays: Vec<Relay>,
    /// What may take their place.
    pub(in crate::daemon) spares: Spares,
    /// With IP-in-IP, where the tunnel leads, and the address of this site in it.
    pub(in crate::daemon) wrapped: Option<(Goal, Ipv4Addr)>,
    /// Whether data may follow as soon as the relay says that it leads to the peer.
    pub(in crate::daemon) is_trusted: bool,
}

impl Control {
    /// What keeps a path's sessions at its relays.
    pub(in crate::daemon) fn keeper(&self, peer: PeerId, path: PathId) -> Option<&Keeper> {
        let peer = self.peers.iter().find(|other| other.id == peer)?;
        peer.paths.iter().find(|open| open.id == path)?.keeper.as_ref()
    }

    /// The spare relays of a peer that is about to be added.
    pub(in crate::daemon) fn spares(&self, peer: &Peer) -> Spares {
        let named = |names: &[Name]| -> Vec<_> {
            self.relays.iter().filter(|relay| names.contains(&relay.name)).cloned().collect()
        };
        let used: Vec<_> = match &peer.paths {
            Paths::EveryUplink => Vec::new(),
            Paths::Listed(paths) => paths.iter().flat_map(|path| named(&path.relays)).collect(),
        };
        Spares::new(&named(&peer.spare_relays), &used)
    }

    /// As whom this site calls relays.
    pub(in crate::daemon) fn caller(&self) -> Caller {
        let grants = self.grants.clone();
        Caller { identity: self.identity.clone(), name: self.site.name.to_string(), grants }
    }

    /// Reserves the sessions of a path at its relays, and keeps them.
    pub(in crate::daemon) fn keep_relays(
        &mut self,
        peer: usize,
        path: PathId,
        settings: &PathSettings,
        Lead { relays, spares, wrapped, is_trusted }: Lead,
    ) -> Keeper {
        let key = self.peers[peer].config.public_key;
        let destination = match (wrapped, &settings.endpoint) {
            // A name could mean another address by the time of the reservation.
            (Some((Goal::Address(peer), _)), Some(endpoint)) => {
                Destination::Endpoint(Endpoint { host: Host::Ip(peer.ip()), port: endpoint.port })
            }
            (_, Some(endpoint)) => Destination::Endpoint(endpoint.clone()),
            (_, None) => Destination::Gateway(key),
        };
        let (keeper, work) = Keeper::new(KeeperSpec {
            caller: self.caller(),
            local_end: local_end(settings),
            relays,
            spares,
            wanted: Wanted {
                destination,
                inside: wrapped.map(|(_, inside)| inside),
                rate: settings.max_rate.map(|rate| rate.bits_per_second()),
            },
            is_trusted,
            peer: self.peers[peer].id,
            path,
            name: settings.name.clone(),
            plane: self.plane.poster(),
        });
        self.spawn_keeper(work);
        keeper
    }

    /// The relays of these names, if they make a path.
    pub(in crate::daemon) fn relays_named(&self, names: &[Name]) -> Result<Vec<Relay>, OpenError> {
        let distinct: BTreeSet<_> = names.iter().collect();
        if names.len() > MAX_CHAIN || distinct.len() < names.len() {
            return Err(OpenError::BadChain);
        }
        let named = |name: &Name| {
            let found = self.relays.iter().find(|relay| relay.name == *name).cloned();
            let known = || self.relays.iter().map(|relay| relay.name.as_str()).collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| OpenError::UnknownRelay { name: name.clone(), known: known() })
        };
        names.iter().map(named).collect()
    }
}
