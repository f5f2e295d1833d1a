//! The peers of a site as the control side sees them.

use std::collections::BTreeSet;
use std::time::Instant;

use psmc_core::{PeerError, PeerId, SchedulerKind};
use psmc_wire::PathId;
use thiserror::Error;

use super::DaemonError;
use super::control::Control;
use super::often::Often;
use super::paths::OpenPath;
use super::relays::Spares;
use super::routes::Routes;
use super::settings::peer_config;
use super::twins::Callers;
use super::waiting::Waiting;
use crate::config::{self, Name, PathSettings};

/// Lines of the log in a minute about the connections of one peer: what a bad line brings. More are those of a fault that repeats
/// itself.
const CONNECTION_LINES: u32 = 12;

/// The same about its paths, of which there may be sixty-four.
const PATH_LINES: u32 = 256;

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
    /// What was changed by hand, and stays when the configuration is read again.
    pub(super) by_hand: ByHand,
    /// Paths that were told by hand to stand by.
    pub(super) on_standby: BTreeSet<PathId>,
    /// What is learned about ways to it.
    pub(super) routes: Routes,
    /// Whether it was added while the daemon ran.
    pub(super) is_added: bool,
    pub(super) last_error: Option<String>,
    /// The one that was said last. A connection that is refused again and again is news once.
    pub(super) said_error: Option<String>,
    /// Lines of the log about its connections, and about its paths.
    pub(super) connection_lines: Often,
    pub(super) path_lines: Often,
    /// Paths that cannot be opened yet.
    pub(super) waiting: Waiting,
    /// Who calls with its key.
    pub(super) callers: Callers,
}

/// What people have changed of a peer while the site runs.
#[derive(Debug, Default)]
pub(super) struct ByHand {
    /// Paths that were added.
    pub(super) added: BTreeSet<Name>,
    /// Which path takes a packet.
    pub(super) scheduler: Option<SchedulerKind>,
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
            match &path.learned {
                Some(relay) => self.routes.leave_out(relay.clone(), path.settings.clone()),
                None => drop(self.removed.insert(path.settings.name.clone())),
            }
            self.on_standby.remove(&id);
            self.by_hand.added.remove(&path.settings.name);
            self.retired.push(path);
        }
    }

    /// A path has other settings by hand. Those of one of the configuration are what that says.
    pub(super) fn note_settings(&mut self, id: PathId, change: impl FnOnce(&mut PathSettings)) {
        let Self { paths, by_hand, .. } = self;
        let path = paths.iter_mut().find(|path| path.id == id);
        if let Some(path) = path.filter(|path| by_hand.added.contains(&path.settings.name)) {
            change(&mut path.settings);
        }
    }

    /// Somebody wants a path to stand by, or not any more.
    pub(super) fn note_standby(&mut self, id: PathId, stands_by: bool) {
        if stands_by {
            self.on_standby.insert(id);
        } else {
            self.on_standby.remove(&id);
        }
        self.routes.ask_again();
    }

    /// Puts a path aside that may be wanted again.
    pub(super) fn set_aside(&mut self, id: PathId) {
        self.retired.extend(self.paths.extract_if(.., |path| path.id == id));
    }
}

impl Control {
    /// Adds a peer of the configuration.
    pub(super) async fn add_peer(&mut self, config: config::Peer) -> Result<(), DaemonError> {
        let name = config.name.to_string();
        match self.enter_peer(config, false).await {
            Ok(()) => Ok(()),
            Err(EnterError::Peer(source)) => Err(DaemonError::Peer { name, source }),
            Err(EnterError::Daemon(error)) => Err(error),
        }
    }

    /// Tells the engine of a peer. The routes to what is behind it follow.
    pub(super) async fn enter_peer(
        &mut self,
        config: config::Peer,
        is_added: bool,
    ) -> Result<(), EnterError> {
        let engine = peer_config(&config, self.identity.public());
        let id = self.plane.call(move |plane| plane.site.add_peer(engine, Instant::now())).await??;
        let spares = self.spares(&config);
        self.allowed.add(config.public_key);
        self.peers.push(Peer {
            id,
            config,
            paths: Vec::new(),
            retired: Vec::new(),
            spares,
            removed: BTreeSet::new(),
            by_hand: ByHand::default(),
            on_standby: BTreeSet::new(),
            routes: Routes::default(),
            is_added,
            last_error: None,
            said_error: None,
            connection_lines: Often::new(CONNECTION_LINES),
            path_lines: Often::new(PATH_LINES),
            waiting: Waiting::default(),
            callers: Callers::default(),
        });
        self.network.note_change();
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

/// Why there is no such peer.
#[derive(Debug, Error)]
pub(super) enum EnterError {
    /// The engine refuses it.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The daemon is ending.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
}
