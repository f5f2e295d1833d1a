//! Paths that come, change and go.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use psmc_wire::control::{PathInfo, Tier};
use psmc_wire::datagram::Header;
use psmc_wire::frame::{PathUse, PathUseFrame};
use psmc_wire::{Label, PathId};
use thiserror::Error;

use super::receive::Refusal;
use super::{MAX_PATHS, Session};
use crate::batch::{PathAddress, SocketId, Transmit};
use crate::config::{PathConfig, PathTuning, SchedulerKind};
use crate::congestion::CongestionConfig;
use crate::event::Event;
use crate::ids::PeerId;
use crate::path::{Path, PathState, Tokens};
use crate::scheduler;
use crate::shared::Shared;

/// Why a path was not added or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// There are as many as there can be.
    #[error("the peer has {MAX_PATHS} paths already; remove one first")]
    TooMany,
    /// Another path has this name.
    #[error("the peer has a path of this name already")]
    NameTaken,
    /// There is none of that name or id.
    #[error("the peer has no such path")]
    Unknown,
    /// All ids have been used since the keys were last renewed.
    #[error("no path ids are free before the tunnel's keys are renewed; try again in a quarter of an hour")]
    NoIds,
    /// The path is about to be removed.
    #[error("the path is being removed")]
    Closing,
    /// It is its tier that spares the path.
    #[error("the tier of the path is {}: give it another one for it to carry data", .0.name())]
    Spared(Tier),
}

/// A path that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SilentPath {
    /// To whom it leads.
    pub peer: PeerId,
    /// The path.
    pub path: PathId,
    /// Where its datagrams go.
    pub address: PathAddress,
    /// The round trip that it had when it answered.
    pub rtt: Option<Duration>,
}

impl Session {
    /// Opens a path. It carries data as soon as the peer has answered on it. One that is to lead through a relay is
    /// silent before there is a session there.
    pub(super) fn add_path(
        &mut self,
        config: PathConfig,
        is_relayed: bool,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<PathId, PathError> {
        let open = self.paths.iter().filter(|path| path.usage.effective() != PathUse::Closed);
        if open.clone().count() >= MAX_PATHS || self.paths.len() >= 2 * MAX_PATHS {
            return Err(PathError::TooMany);
        }
        if open.clone().any(|path| path.config.name == config.name) {
            return Err(PathError::NameTaken);
        }
        let config = config.checked();
        let id = self.take_id().ok_or(PathError::NoIds)?;
        let address = PathAddress { socket: config.socket, local_ip: None, remote: config.remote };
        let tokens = Tokens::new(shared.new_secret());
        let mut path = Path::new(id, config, true, address, self.config.keepalive, tokens, now);
        if is_relayed {
            path.await_hop();
        }
        self.insert_path(path);
        self.announce(id, shared);
        Ok(id)
    }

    /// The next id of this site's that no path has, nor has had under any key that there is. All others come before one that was used.
    fn take_id(&mut self) -> Option<PathId> {
        let first = self.next_path_id;
        loop {
            let id = PathId(self.next_path_id);
            self.next_path_id = self.next_path_id.wrapping_add(2);
            if self.path_index(id).is_none() && !self.spent.contains(id) {
                return Some(id);
            }
            if self.next_path_id == first {
                return None;
            }
        }
    }

    /// A path that the peer has opened: its first authentic datagram has arrived.
    pub(super) fn open_peer_path(
        &mut self,
        id: PathId,
        address: PathAddress,
        shared: &mut Shared,
        now: Instant,
    ) {
        let template = self.paths.iter().find(|path| path.opened_here).map(|path| &path.config);
        let mut config = PathConfig::learned(id, address, template);
        if let Some(at) = self.announced.iter().position(|info| info.path == id) {
            config.apply(self.announced.swap_remove(at));
        }
        let tokens = Tokens::new(shared.new_secret());
        let mut path = Path::new(id, config, false, address, self.config.keepalive, tokens, now);
        if let Some(at) = self.wished.iter().position(|wish| wish.path == id) {
            path.usage.on_peer_request(self.wished.swap_remove(at), now);
        }
        if let Some(at) = self.vias.iter().position(|via| via.path == id) {
            path.on_path_via(self.vias.swap_remove(at), now);
        }
        self.insert_path(path);
    }

    fn insert_path(&mut self, path: Path) {
        self.paths.insert(path);
        self.replan();
    }

    /// Tells the peer what a path is called and how it should be weighted, if there is a connection.
    pub(super) fn announce(&mut self, id: PathId, shared: &mut Shared) {
        let Some((connection, ..)) = self.control.current() else {
            return;
        };
        let Some(config) = self.path_mut(id).map(|path| path.config.clone()) else {
            return;
        };
        let tier = config.peers_tier();
        let PathConfig { weight, max_rate, name, .. } = config;
        let info = PathInfo { path: id, weight, max_rate, name, tier };
        shared.messages.push_back((connection, psmc_wire::control::Message::PathInfo(info)));
    }

    /// The peer tells about a path of its own.
    pub(super) fn on_path_info(&mut self, info: PathInfo) -> Result<(), Refusal> {
        let id = info.path;
        if let Some(path) = self.path_mut(id).filter(|path| !path.opened_here) {
            path.on_info(info);
            self.paths.note_renamed();
            self.after_use_changed(id);
            return Ok(());
        }
        self.announced.retain(|other| other.path != id);
        let takes = self.path_index(id).is_none() && self.is_openable(id) && self.announced.len() < MAX_PATHS;
        takes.then(|| self.announced.push(info)).ok_or(Refusal::NoSuchPath)
    }

    /// The paths are others, or count for more or less. What was given to paths and has not left yet is given
    /// anew: a flow that moves to another path would overtake itself otherwise. Copies stay where they are.
    pub(super) fn replan(&mut self) {
        self.scheduler.on_change();
        self.egress.on_paths_changed();
        if self.config.scheduler == SchedulerKind::Redundant {
            return;
        }
        self.extras.forget_held();
        let mut waiting: Vec<_> = self.paths.iter_mut().flat_map(Path::take_outbox).collect();
        waiting.sort_by_key(|packet| packet.queued_at);
        self.egress.put_back(waiting.into_iter());
    }

    /// The id of the open path of that name.
    pub(super) fn path_by_name(&self, name: &str) -> Option<PathId> {
        let named = |path: &&Path| path.config.name == name && path.usage.effective() != PathUse::Closed;
        self.paths.iter().find(named).map(|path| path.id)
    }

    /// Asks both sides to use a path differently.
    pub(super) fn set_use(&mut self, id: PathId, usage: PathUse, now: Instant) -> Result<(), PathError> {
        let path = self.path_mut(id).ok_or(PathError::Unknown)?;
        if path.usage.effective() == PathUse::Closed {
            return Err(PathError::Closing);
        }
        path.usage.request(usage, now);
        self.after_use_changed(id);
        Ok(())
    }

    /// The peer wishes something of a path.
    pub(super) fn on_path_use(&mut self, wish: PathUseFrame, now: Instant) -> Result<(), Refusal> {
        let Some(path) = self.path_mut(wish.path) else {
            return self.note_wish(wish, now);
        };
        if path.usage.on_peer_request(wish, now) {
            if wish.usage == PathUse::Closed {
                // Both sides have closed it now.
                path.usage.request(PathUse::Closed, now);
            }
            self.after_use_changed(wish.path);
        }
        Ok(())
    }

    /// The peer wishes something of a path whose first datagram has been overtaken by the wish.
    fn note_wish(&mut self, wish: PathUseFrame, now: Instant) -> Result<(), Refusal> {
        if !self.is_openable(wish.path) {
            return Err(Refusal::NoSuchPath);
        }
        self.wished.retain(|other| other.path != wish.path);
        if wish.usage == PathUse::Closed {
            self.announced.retain(|info| info.path != wish.path);
            self.vias.retain(|via| via.path != wish.path);
            self.spent.spend(wish.path, now);
        } else if self.wished.len() < MAX_PATHS {
            self.wished.push(wish);
        }
        Ok(())
    }

    /// Whether a path of this id, of which nothing has been heard, may be opened by the peer.
    pub(super) fn is_openable(&self, id: PathId) -> bool {
        let peers_own = (id.0 % 2 == 1) == self.config.smaller_key;
        let full = self.paths.len() >= 2 * MAX_PATHS;
        peers_own && !full && !self.spent.contains(id)
    }

    /// What waits in a path that may not carry data any more goes to the others.
    pub(super) fn after_use_changed(&mut self, id: PathId) {
        self.replan();
        let Some(index) = self.path_index(id) else { return };
        if self.paths[index].rank().is_none() {
            self.take_back(index);
        }
    }

    /// Changes what a path was configured with, at both ends.
    pub(super) fn reconfigure_path(&mut self, index: usize, change: PathTuning, shared: &mut Shared) {
        let path = &mut self.paths[index];
        path.reconfigure(change);
        let id = path.id;
        self.after_use_changed(id);
        self.announce(id, shared);
    }

    /// Has this site find the rate at which it sends on a path in another way.
    pub(super) fn set_congestion(&mut self, index: usize, congestion: CongestionConfig) {
        self.paths[index].set_congestion(congestion);
        self.replan();
    }

    /// Sets the scheduler, from the next packet on. What has been given to paths leaves on them:
    /// their outboxes drain, and the receiver restores the order.
    pub(super) fn set_scheduler(&mut self, kind: SchedulerKind) {
        if kind != self.config.scheduler {
            self.config.scheduler = kind;
            self.scheduler = scheduler::build(kind, self.config.bad_path_rule);
            self.unplaced = None;
        }
    }

    /// The network interface under some paths went down or came up.
    pub(crate) fn on_link(&mut self, socket: SocketId, up: bool, shared: &mut Shared, now: Instant) {
        for index in 0..self.paths.len() {
            if self.paths[index].address.socket == socket {
                let path = &mut self.paths[index];
                let before = path.state();
                path.liveness.on_link(up, now);
                self.note_state(index, before, shared, now);
            }
        }
    }

    /// The kernel has refused datagrams of this size from `socket` to `remote`.
    pub(crate) fn on_refused(&mut self, transmit: &Transmit, now: Instant) {
        let same =
            |address: PathAddress| (address.socket, address.remote) == (transmit.socket, transmit.remote);
        for path in self.paths.iter_mut().filter(|path| same(path.address)) {
            path.mtu.on_refused(transmit.segment_size, now);
        }
    }

    /// The source address of a batch is gone.
    pub(crate) fn on_source_gone(&mut self, transmit: &Transmit) {
        let gone =
            PathAddress { socket: transmit.socket, local_ip: transmit.local_ip, remote: transmit.remote };
        for index in 0..self.paths.len() {
            if self.paths[index].address == gone {
                self.paths[index].address.local_ip = None;
            }
        }
    }

    /// An address of this machine is gone: the peer is to hear soon from where this site answers. Its own paths leave from
    /// whatever address there is, and need not.
    pub(crate) fn on_address_gone(&mut self, gone: IpAddr, now: Instant) {
        for index in 0..self.paths.len() {
            let path = &self.paths[index];
            if !path.opened_here && path.address.local_ip == Some(gone) {
                self.paths[index].address.local_ip = None;
                self.paths[index].liveness.probe_now(now);
            }
        }
    }

    /// The addresses at which the peer calls.
    pub(crate) fn called_addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let called = self.paths.iter().filter(|path| !path.opened_here);
        called.filter_map(|path| path.address.local_ip)
    }

    /// Paths of this site's own that could answer and do not.
    pub(crate) fn silent_paths(&self) -> impl Iterator<Item = SilentPath> + '_ {
        let is_silent = |path: &&Path| {
            path.opened_here
                && matches!(path.state(), PathState::Probing | PathState::Dead)
                && path.liveness.link_is_up()
                && !path.first_hop.is_awaited()
                && path.usage.effective() != PathUse::Closed
        };
        let describe = |path: &Path| SilentPath {
            peer: self.peer,
            path: path.id,
            address: path.address,
            rtt: path.rtt.smoothed(),
        };
        self.paths.iter().filter(is_silent).map(describe)
    }

    /// Where the datagrams of a path go.
    pub(crate) fn path_address(&self, id: PathId) -> Option<PathAddress> {
        self.path_index(id).map(|index| self.paths[index].address)
    }

    /// The network says that it has not delivered the datagram to `remote` with this header. What the path has on its way is
    /// sent again elsewhere at once.
    pub(crate) fn on_undelivered(
        &mut self,
        remote: SocketAddr,
        header: &Header,
        shared: &mut Shared,
        now: Instant,
    ) {
        let Some(index) = self.path_index(header.path) else { return };
        let path = &mut self.paths[index];
        let before = path.state();
        path.on_undelivered(remote, header.packet_number, now);
        self.note_state(index, before, shared, now);
    }

    /// Whether a datagram with this label is for the peer.
    pub(crate) fn is_labelled(&self, label: Label) -> bool {
        self.keys.is_peer_label(label)
    }

    /// A path has got another socket or destination and must be validated anew.
    pub(super) fn rebind_path(
        &mut self,
        index: usize,
        address: PathAddress,
        shared: &mut Shared,
        now: Instant,
    ) {
        let path = &mut self.paths[index];
        let before = path.state();
        path.config.socket = address.socket;
        path.config.remote = address.remote;
        path.rebind(address, now);
        self.note_state(index, before, shared, now);
    }

    /// Draws the conclusions if the state of a path is not `before` any more.
    pub(super) fn note_state(&mut self, index: usize, before: PathState, shared: &mut Shared, now: Instant) {
        let (id, state) = (self.paths[index].id, self.paths[index].state());
        if state == before {
            return;
        }
        self.paths[index].state_since = now;
        shared.events.push_back(Event::PathChanged { peer: self.peer, path: id, state });
        self.replan();
        if state == PathState::Active {
            self.last_active = now;
        }
        self.rescue();
    }

    /// Takes back what paths that don't work have not delivered, to be sent again. A suspect is left alone if
    /// there is none better.
    pub(super) fn rescue(&mut self) {
        let best = self.paths.iter().filter_map(Path::rank).min();
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            let is_best = path.rank().is_some() && path.rank() == best;
            if path.state() == PathState::Active || is_best || !path.holds_packets() {
                continue;
            }
            path.counters.resent_packets += path.sent.packets() as u64;
            // Of what was sent and what waited, the older goes in front.
            self.take_back(index);
            let path = &mut self.paths[index];
            self.egress.put_back_sent(path.sent.take_packets());
            // What a suspect has sent may arrive, and tells of it then.
            if path.state() != PathState::Suspect {
                path.sent.forget_all();
            }
        }
    }

    /// Forgets the closed paths on which nothing is on its way any more.
    pub(super) fn forget_closed_paths(&mut self, shared: &mut Shared, now: Instant) {
        for index in (0..self.paths.len()).rev() {
            let Some(forget_at) = self.paths[index].usage.forget_at() else {
                continue;
            };
            if forget_at > now {
                continue;
            }
            let mut path = self.paths.remove(index);
            self.spent.spend(path.id, now);
            self.counters.forgotten_resent += path.counters.resent_packets;
            self.counters.forgotten_dropped += path.counters.dropped_packets;
            self.egress.put_back(path.sent.take_packets());
            self.replan();
            shared.events.push_back(Event::PathForgotten { peer: self.peer, path: path.id });
        }
    }
}
