//! Paths that lead through relays, at the site that has reserved the session there and at the other one.

use std::time::Instant;

use psmc_wire::PathId;
use psmc_wire::control::{Message, PathVia};
use psmc_wire::ids::KeyBytes;

use super::receive::{DatagramOrigin, Refusal};
use super::{MAX_PATHS, PathError, Session};
use crate::batch::PathAddress;
use crate::event::Event;
use crate::path::{Path, Via};
use crate::shared::Shared;

impl Session {
    /// Leads a path of this site through a session that was reserved at its relay, and tells the peer.
    pub(super) fn lead_path(
        &mut self,
        index: usize,
        via: Via,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), PathError> {
        if !self.paths[index].opened_here {
            return Err(PathError::Unknown);
        }
        let (id, before) = (self.paths[index].id, self.paths[index].state());
        self.paths[index].lead_through(via, now);
        self.note_state(index, before, shared, now);
        self.announce_via(id, shared);
        Ok(())
    }

    /// Takes a path that leads through a relay for one that works, on the word of that relay; unless the peer has not been
    /// told of the relay, for want of a connection.
    pub(super) fn trust_path(&mut self, index: usize, shared: &mut Shared, now: Instant) {
        let is_told = self.control.current().is_some() && self.paths[index].first_hop.relay().is_some();
        if is_told {
            let before = self.paths[index].state();
            self.paths[index].liveness.trust();
            self.note_state(index, before, shared, now);
        }
    }

    /// Tells the peer through which relay a path leads, if it does and there is a connection.
    pub(super) fn announce_via(&mut self, id: PathId, shared: &mut Shared) {
        let Some((connection, ..)) = self.control.current() else {
            return;
        };
        if let Some(via) = self.path_mut(id).and_then(Path::tell_via) {
            shared.messages.push_back((connection, Message::PathVia(via)));
        }
    }

    /// The peer tells through which relay a path of its own leads. One at which this site has registered does not know
    /// yet where this site is: the path is opened at once, and its challenge tells.
    pub(super) fn on_path_via(
        &mut self,
        via: PathVia,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        let id = via.path;
        let registered = shared.relays.get(&via.relay).copied();
        if shared.hidden && registered.is_none() {
            return Err(Refusal::Elsewhere);
        }
        if let Some(index) = self.path_index(id).filter(|&index| !self.paths[index].opened_here) {
            let before = self.paths[index].state();
            if let Some(address) = registered {
                self.paths[index].answer_at(address, now);
            }
            self.paths[index].on_path_via(via, now);
            self.note_state(index, before, shared, now);
            return Ok(());
        }
        self.vias.retain(|other| other.path != id);
        let takes = self.path_index(id).is_none() && self.is_openable(id) && self.vias.len() < MAX_PATHS;
        if !takes {
            return Err(Refusal::NoSuchPath);
        }
        self.vias.push(via);
        if let Some(address) = registered {
            self.open_peer_path(id, address, shared, now);
            shared.events.push_back(Event::PathOpened { peer: self.peer, path: id });
        }
        Ok(())
    }

    /// This site has registered with a relay, which takes its datagrams at `address`.
    pub(crate) fn on_registered(
        &mut self,
        relay: KeyBytes,
        address: PathAddress,
        shared: &mut Shared,
        now: Instant,
    ) {
        for index in 0..self.paths.len() {
            let path = &mut self.paths[index];
            if path.opened_here || path.first_hop.relay() != Some(relay) {
                continue;
            }
            let before = path.state();
            path.answer_at(address, now);
            self.note_state(index, before, shared, now);
        }
    }

    /// Whether a datagram comes from where it may: to a hidden site from relays only, and on paths that are open. Whoever
    /// guesses the address of such a site must not learn, not even by a key that is right, that he has hit it.
    pub(super) fn may_come_from(
        &self,
        known: Option<usize>,
        origin: &DatagramOrigin,
        shared: &Shared,
    ) -> bool {
        let Some(index) = known.filter(|_| shared.hidden) else { return !shared.hidden };
        let is_relay = |address: &PathAddress| address.remote == origin.remote;
        is_relay(&self.paths[index].address) || shared.relays.values().any(is_relay)
    }
}
