//! The relays that a site knows, and what it has to do with them.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use psmc_net::tls::{Acceptor, Secured};
use psmc_wire::PathId;
use tokio::sync::mpsc;

use super::gateway::Registered;
use super::registration::Callers;
use super::{BoxedStream, Caller, Destination, Goal, Grants, Keeper, KeeperSpec, Looks, Spares, Wanted};
use crate::config::{self, Endpoint, Host, MAX_CHAIN, Name, PathSettings, Paths, Relay, TunnelEnd};
use crate::daemon::DaemonError;
use crate::daemon::paths::{OpenError, local_end};
use crate::daemon::peers::{Peer, Peers};
use crate::daemon::plane::{PlaneHandle, Poster};
use crate::daemon::tasks::Tasks;

/// Connections that came through relays and wait to be taken over.
const MAX_CALLED: usize = 64;

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

/// The relays that a site knows, and what it has to do with them.
pub(in crate::daemon) struct Relays {
    /// Those that paths may lead through.
    known: Vec<Relay>,
    /// Other machines that they may.
    tunnel_ends: Vec<TunnelEnd>,
    /// As whom this site calls them.
    caller: Caller,
    /// How good paths were that may get another one.
    looks: Looks,
    /// Those at which this site is a gateway.
    pub(super) registrations: Vec<Registered>,
    /// What a registration does with those who call through its relay.
    pub(super) door: Door,
    called: mpsc::Receiver<(Box<Secured<BoxedStream>>, Name)>,
    plane: Poster,
}

/// Where calls go that come through relays.
pub(super) struct Door {
    /// Shakes hands with those who call.
    pub(super) acceptor: Acceptor,
    pub(super) callers: Callers,
}

impl Relays {
    /// These, called as `caller`, who lets others in by `acceptor`.
    pub(in crate::daemon) fn new(
        (known, tunnel_ends): (Vec<Relay>, Vec<TunnelEnd>),
        caller: Caller,
        acceptor: Acceptor,
        plane: Poster,
    ) -> Self {
        let (callers, called) = mpsc::channel(MAX_CALLED);
        Self {
            known,
            tunnel_ends,
            caller,
            looks: Looks::default(),
            registrations: Vec::new(),
            door: Door { acceptor, callers },
            called,
            plane,
        }
    }

    /// Those that paths may lead through.
    pub(in crate::daemon) fn known(&self) -> &[Relay] {
        &self.known
    }

    /// Has these take the place of those that were known before.
    pub(in crate::daemon) fn replace(&mut self, known: Vec<Relay>, tunnel_ends: Vec<TunnelEnd>) {
        (self.known, self.tunnel_ends) = (known, tunnel_ends);
    }

    /// Other machines that paths may lead through.
    pub(in crate::daemon) fn tunnel_ends(&self) -> &[TunnelEnd] {
        &self.tunnel_ends
    }

    /// The machine that only unwraps, through which a path with these settings leads.
    pub(in crate::daemon) fn tunnel_end(&self, settings: &PathSettings) -> Option<&TunnelEnd> {
        let [name] = settings.relays.as_slice() else { return None };
        self.tunnel_ends.iter().find(|end| end.name == *name)
    }

    /// As whom this site calls relays.
    pub(in crate::daemon) fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// What this site may show to relays that do not know it.
    pub(in crate::daemon) fn grants(&self) -> &Grants {
        &self.caller.grants
    }

    /// The next one who has called through a relay, and the relay. May be dropped and called again.
    pub(in crate::daemon) async fn next_call(&mut self) -> Option<(Box<Secured<BoxedStream>>, Name)> {
        self.called.recv().await
    }

    /// Looks at the paths of peers that have spare relays, and tells their keepers.
    pub(in crate::daemon) async fn look_at_paths(
        &mut self,
        peers: &Peers,
        plane: &PlaneHandle,
    ) -> Result<(), DaemonError> {
        self.looks.look(peers, plane).await
    }

    /// A task that keeps something at relays tells the plane what it has.
    pub(super) fn plane(&self) -> Poster {
        self.plane.clone()
    }

    /// The spare relays of a peer that is about to be added.
    pub(in crate::daemon) fn spares(&self, peer: &config::Peer) -> Spares {
        let named = |names: &[Name]| -> Vec<_> {
            self.known.iter().filter(|relay| names.contains(&relay.name)).cloned().collect()
        };
        let used: Vec<_> = match &peer.paths {
            Paths::EveryUplink => Vec::new(),
            Paths::Listed(paths) => paths.iter().flat_map(|path| named(&path.relays)).collect(),
        };
        Spares::new(&named(&peer.spare_relays), &used)
    }

    /// Reserves the sessions of a path at its relays, and keeps them.
    pub(in crate::daemon) fn keep(
        &self,
        peer: &Peer,
        path: PathId,
        settings: &PathSettings,
        Lead { relays, spares, wrapped, is_trusted }: Lead,
        tasks: &mut Tasks,
    ) -> Keeper {
        let key = peer.config.public_key;
        let destination = match (wrapped, &settings.endpoint) {
            // A name could mean another address by the time of the reservation.
            (Some((Goal::Address(to), _)), Some(endpoint)) => {
                Destination::Endpoint(Endpoint { host: Host::Ip(to.ip()), port: endpoint.port })
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
            peer: peer.id,
            path,
            name: settings.name.clone(),
            plane: self.plane(),
        });
        tasks.spawn_keeper(work);
        keeper
    }

    /// The relays of these names, if they make a path.
    pub(in crate::daemon) fn named(&self, names: &[Name]) -> Result<Vec<Relay>, OpenError> {
        let distinct: BTreeSet<_> = names.iter().collect();
        if names.len() > MAX_CHAIN || distinct.len() < names.len() {
            return Err(OpenError::BadChain);
        }
        let named = |name: &Name| {
            let found = self.known.iter().find(|relay| relay.name == *name).cloned();
            let known = || self.known.iter().map(|relay| relay.name.as_str()).collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| OpenError::UnknownRelay { name: name.clone(), known: known() })
        };
        names.iter().map(named).collect()
    }
}
