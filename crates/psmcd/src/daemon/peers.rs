//! The peers of a site as the control side sees them.

mod log;
mod path_lines;

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};
use std::time::Instant;

use psmc_core::{PeerError, PeerId, SchedulerKind};
use psmc_net::tls::AllowedKeys;
use psmc_wire::PathId;
use thiserror::Error;

use self::log::PathNews;
use self::path_lines::PathLines;
use super::DaemonError;
use super::control::Control;
use super::often::Often;
use super::paths::OpenPath;
use super::relays::{Keeper, Spares};
use super::routes::Routes;
use super::settings::peer_config;
use super::twins::Callers;
use super::waiting::Waiting;
use crate::config::{self, Name, PathSettings, Tcp};
use psmc_api::Response;

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
    /// What was told of each path.
    pub(super) told_paths: PathLines,
    /// What is to be said of them together.
    news: PathNews,
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
    /// A peer without paths, of the configuration.
    fn new(id: PeerId, config: config::Peer) -> Self {
        Self {
            id,
            config,
            paths: Vec::new(),
            retired: Vec::new(),
            spares: Spares::none(),
            removed: BTreeSet::new(),
            by_hand: ByHand::default(),
            on_standby: BTreeSet::new(),
            routes: Routes::default(),
            is_added: false,
            last_error: None,
            said_error: None,
            connection_lines: Often::new(CONNECTION_LINES),
            path_lines: Often::new(PATH_LINES),
            told_paths: PathLines::default(),
            news: PathNews::default(),
            waiting: Waiting::default(),
            callers: Callers::default(),
        }
    }

    /// Whether this site is the one to open connections to it.
    pub(super) fn is_dialed(&self) -> bool {
        self.config.endpoint.is_some() || !self.paths.is_empty()
    }

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

/// The peers of a site, in the order in which they came. Who is removed moves those behind him up.
#[derive(Default)]
pub(super) struct Peers {
    list: Vec<Peer>,
    /// Their keys, which are let in.
    allowed: AllowedKeys,
}

impl Peers {
    /// None yet. Their keys will be among those that `allowed` lets in.
    pub(super) fn new(allowed: AllowedKeys) -> Self {
        Self { list: Vec::new(), allowed }
    }

    /// Takes one in, behind the others.
    pub(super) fn add(&mut self, peer: Peer) {
        self.allowed.add(peer.config.public_key);
        self.list.push(peer);
    }

    /// Takes one out, and lets it in no longer.
    pub(super) fn remove(&mut self, index: usize) -> Peer {
        let peer = self.list.remove(index);
        self.allowed.replace(self.list.iter().map(|peer| peer.config.public_key).collect());
        peer
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Peer> {
        self.list.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Peer> {
        self.list.iter_mut()
    }

    /// Where a peer stands, unless it has been removed.
    pub(super) fn index_of(&self, id: PeerId) -> Option<usize> {
        self.list.iter().position(|peer| peer.id == id)
    }

    /// A peer, unless it has been removed.
    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.list.iter().find(|peer| peer.id == id)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.list.iter_mut().find(|peer| peer.id == id)
    }

    /// Where the peer of this name stands, or what to tell who thinks that there is one.
    pub(super) fn find(&self, name: &str) -> Result<usize, Response> {
        let found = self.list.iter().position(|peer| peer.config.name.as_str() == name);
        found.ok_or_else(|| {
            let names: Vec<_> = self.list.iter().map(|peer| peer.config.name.as_str()).collect();
            Response::error(format!("there is no peer `{name}`; this site has: {}", names.join(", ")))
        })
    }

    /// All open paths.
    pub(super) fn paths(&self) -> impl Iterator<Item = &OpenPath> {
        self.list.iter().flat_map(|peer| &peer.paths)
    }

    /// The same, to be changed.
    pub(super) fn paths_mut(&mut self) -> impl Iterator<Item = &mut OpenPath> {
        self.list.iter_mut().flat_map(|peer| &mut peer.paths)
    }

    /// An open path.
    pub(super) fn path_mut(&mut self, peer: PeerId, path: PathId) -> Option<&mut OpenPath> {
        self.get_mut(peer)?.paths.iter_mut().find(|open| open.id == path)
    }

    /// What keeps a path's sessions at its relays.
    pub(super) fn keeper(&self, peer: PeerId, path: PathId) -> Option<&Keeper> {
        self.get(peer)?.paths.iter().find(|open| open.id == path)?.keeper.as_ref()
    }
}

impl Index<usize> for Peers {
    type Output = Peer;

    fn index(&self, index: usize) -> &Peer {
        &self.list[index]
    }
}

impl IndexMut<usize> for Peers {
    fn index_mut(&mut self, index: usize) -> &mut Peer {
        &mut self.list[index]
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
        self.end_tcp_if(config.treatment.tcp == Tcp::Split).await?;
        let engine = peer_config(&config, self.identity.public());
        let id = self.plane.call(move |plane| plane.site.add_peer(engine, Instant::now())).await??;
        let spares = self.relays.spares(&config);
        self.peers.add(Peer { spares, is_added, ..Peer::new(id, config) });
        self.network.note_change();
        Ok(())
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
