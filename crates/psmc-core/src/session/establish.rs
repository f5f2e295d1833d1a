//! The exchange of hellos, and what follows from it.

use std::time::Instant;

use psmc_wire::Incarnation;
use psmc_wire::control::{Capabilities, CloseReason, Hello, Limits, Message, VERSION};
use psmc_wire::crypto::{Aead, KeySource, Role};
use psmc_wire::frame::PathUse;

use super::Session;
use super::control::Hangup;
use super::receive::Refusal;
use crate::event::Event;
use crate::ids::ConnectionId;
use crate::keys::NewKeys;
use crate::path::Path;
use crate::reorder::{Reorder, ReorderLimits};
use crate::shared::Shared;

impl Session {
    /// A control connection to the peer is up.
    pub(crate) fn handle_connected(
        &mut self,
        id: ConnectionId,
        role: Role,
        keys: Box<dyn KeySource>,
        shared: &mut Shared,
        now: Instant,
    ) {
        let label = shared.allocate_label(self.peer);
        let surplus = self.control.on_connected(id, role, label, keys, now);
        if let Some(hangup) = surplus {
            self.hang_up(hangup, shared);
        }
        if role == Role::Dialer {
            self.say_hello(id, shared);
        }
        shared.release_labels(self.control.take_void_labels());
    }

    /// The peer has sent a message.
    ///
    /// # Errors
    /// [`Refusal::OutOfTurn`] if it should not have.
    pub(crate) fn handle_message(
        &mut self,
        id: ConnectionId,
        message: Message,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        let connection = self.control.get_mut(id).ok_or(Refusal::OutOfTurn)?;
        let greeted = !connection.is_waiting();
        let result = if let (Message::Hello(hello), false) = (&message, greeted) {
            self.on_hello(id, hello, shared, now)
        } else if greeted || matches!(message, Message::Close(_) | Message::Unknown(_)) {
            self.on_message(id, message, shared, now)
        } else {
            Err(Refusal::OutOfTurn)
        };
        shared.release_labels(self.control.take_void_labels());
        result
    }

    /// A message on a connection that has heard HELLO, or one that needs none.
    fn on_message(
        &mut self,
        id: ConnectionId,
        message: Message,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        match message {
            Message::Hello(_) => {
                self.refuse((id, CloseReason::Protocol), shared);
                return Err(Refusal::OutOfTurn);
            }
            Message::PathInfo(info) => return self.on_path_info(info),
            Message::PathVia(via) => return self.on_path_via(via, shared, now),
            Message::CountsWanted(request) => return self.on_counts_wanted(id, request, shared, now),
            Message::Counts(counts) => return self.on_counts(counts, shared),
            Message::Limits(limits) => self.udp_limit.set_peers(limits.udp_rate),
            Message::About(about) => self.on_about(&about),
            Message::Seen(seen) => self.on_seen(seen),
            Message::Drops(drops) => self.on_drops(&drops, now),
            Message::Shed(ask) => self.on_shed(id, &ask, shared, now),
            Message::Shedding(answer) => self.on_shedding(answer),
            // A hidden site heeds nothing that does not come through its relays.
            Message::Probe(_) if shared.hidden => {}
            Message::Probe(probe) => shared.probes.on_message(self.peer, probe, now),
            Message::Close(reason) => {
                // With the peer go the connections that it ends.
                if reason == CloseReason::Shutdown {
                    self.end_streams(shared);
                }
                shared.events.push_back(Event::Closed { peer: self.peer, reason });
                shared.events.push_back(Event::Hangup(id));
            }
            Message::Unknown(_) => {}
        }
        Ok(())
    }

    /// A control connection has ended.
    pub(crate) fn handle_disconnected(&mut self, id: ConnectionId, shared: &mut Shared, now: Instant) {
        self.control.on_disconnected(id, now);
        shared.release_labels(self.control.take_void_labels());
    }

    /// A dial has led to nothing.
    pub(crate) fn handle_dial_failed(&mut self, now: Instant) {
        self.control.on_dial_failed(now);
    }

    /// Dials the peer, whatever connection there is.
    pub(crate) fn redial(&mut self, now: Instant) {
        self.control.dial_from_now_on(now);
    }

    /// Ends the session.
    pub(crate) fn close(&mut self, shared: &mut Shared) {
        for hangup in self.control.close() {
            self.hang_up(hangup, shared);
        }
        shared.release_labels(self.control.take_void_labels());
        shared.release_labels(self.keys.clear());
        self.end_streams(shared);
        self.egress.clear(&mut shared.pool);
        self.forget_repairs(shared);
    }

    pub(super) fn hang_up(&mut self, (id, reason): Hangup, shared: &mut Shared) {
        shared.messages.push_back((id, Message::Close(reason)));
        shared.events.push_back(Event::Hangup(id));
    }

    /// Ends a connection and listens to it no more.
    fn refuse(&mut self, hangup: Hangup, shared: &mut Shared) {
        self.control.end(hangup.0);
        self.hang_up(hangup, shared);
    }

    fn say_hello(&mut self, id: ConnectionId, shared: &mut Shared) {
        let incarnation = self.incarnation;
        self.said_streams = self.takes_streams(shared);
        let streams = if self.said_streams { Capabilities::STREAMS } else { Capabilities::default() };
        let Some(connection) = self.control.get_mut(id) else {
            return;
        };
        let hello = Hello {
            version: VERSION,
            incarnation,
            label: connection.label,
            aead: shared.aead,
            mtu: shared.mtu,
            name: shared.name.clone(),
            capabilities: Capabilities::REKEY.with(Capabilities::SHED).with(streams),
        };
        shared.messages.push_back((id, Message::Hello(hello)));
    }

    fn on_hello(
        &mut self,
        id: ConnectionId,
        heard: &Hello,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        if heard.version < VERSION {
            self.refuse((id, CloseReason::Version), shared);
            return Err(Refusal::OutOfTurn);
        }
        if self.control.gives_way(id) {
            self.refuse((id, CloseReason::Superseded), shared);
            return Ok(());
        }
        let role = self.control.get_mut(id).ok_or(Refusal::OutOfTurn)?.role;
        if role == Role::Acceptor {
            self.say_hello(id, shared);
        }
        let connection = self.control.get_mut(id).ok_or(Refusal::OutOfTurn)?;
        let label = connection.label;
        // Not whether the peer knows this site: it may have said this before it did, and then never sent anything.
        let fresh = heard.incarnation != self.peer_incarnation;
        let source = connection.keys.take().ok_or(Refusal::OutOfTurn)?;
        if fresh {
            self.start_anew(heard.incarnation, shared, now);
        }
        let aead = match (heard.aead, shared.aead) {
            (Aead::Aes256Gcm, Aead::Aes256Gcm) => Aead::Aes256Gcm,
            (Aead::ChaCha20Poly1305, _) | (_, Aead::ChaCha20Poly1305) => Aead::ChaCha20Poly1305,
        };
        self.peer_takes_streams = heard.capabilities.contains(Capabilities::STREAMS);
        self.shedding.is_peer_able = heard.capabilities.contains(Capabilities::SHED);
        let is_renewable = heard.capabilities.contains(Capabilities::REKEY);
        let keys = NewKeys { label, peer_label: heard.label, role, aead, source, is_renewable };
        let void = self.keys.install(keys, now);
        shared.release_labels(void);
        self.on_established(id, heard, fresh, shared, now);
        Ok(())
    }

    fn on_established(
        &mut self,
        id: ConnectionId,
        heard: &Hello,
        fresh: bool,
        shared: &mut Shared,
        now: Instant,
    ) {
        for hangup in self.control.on_established(id, now) {
            self.hang_up(hangup, shared);
        }
        self.say_about(shared);
        self.sightings.start_anew(now);
        let limits = Limits { udp_rate: self.config.udp_rate_limit };
        shared.messages.push_back((id, Message::Limits(limits)));
        let own: Vec<_> = self.paths.iter().filter(|path| path.opened_here).map(|path| path.id).collect();
        for path in own {
            self.announce(path, shared);
            self.announce_via(path, shared);
        }
        for path in &mut self.paths {
            path.liveness.probe_now(now);
        }
        let name = heard.name.clone();
        shared.events.push_back(Event::Connected { peer: self.peer, name, fresh });
    }

    /// One of the sites has lost its state: both begin with new numbers and empty windows, under new keys only.
    /// What waits to be sent goes on waiting.
    fn start_anew(&mut self, peer: Incarnation, shared: &mut Shared, now: Instant) {
        self.peer_incarnation = peer;
        self.peer_software = None;
        self.udp_limit.set_peers(None);
        shared.release_labels(self.keys.clear());
        for path in &mut self.paths {
            // Of what was sent and what waited, the older goes in front.
            self.egress.put_back(path.take_outbox());
            self.egress.put_back(path.sent.take_packets());
        }
        self.end_streams(shared);
        self.egress.forget_order(&mut shared.pool);
        self.forget_repairs(shared);
        let lasts = |path: &Path| path.opened_here && path.usage.effective() != PathUse::Closed;
        let (lasting, ended): (Vec<_>, _) = self.paths.take_all().into_iter().partition(lasts);
        let spent = lasting.iter().filter(|path| !path.first_hop.outlives_session());
        shared.events.extend(spent.map(|path| Event::HopWanted { peer: self.peer, path: path.id }));
        lasting.into_iter().for_each(|path| self.paths.insert(path.renewed(now)));
        let forgotten = ended.iter().map(|path| Event::PathForgotten { peer: self.peer, path: path.id });
        shared.events.extend(forgotten);
        self.clock = crate::clock::SessionClock::new(now);
        self.sequences = super::Sequences::default();
        self.assembly.clear(&mut shared.pool);
        self.reorder = Reorder::new(self.config.reorder, ReorderLimits::default());
        self.spent = super::SpentIds::default();
        self.announced.clear();
        self.vias.clear();
        self.wished.clear();
        self.waiting = super::Waiting::default();
        self.scheduler.on_change();
    }
}

impl Path {
    /// The same path as if it had never been used.
    fn renewed(self, now: Instant) -> Self {
        let (link_up, keepalive) = (self.liveness.link_is_up(), self.keepalive());
        let usage = self.usage.renewed(now);
        let first_hop = self.first_hop.renewed();
        let (opened_here, address) = (self.opened_here, self.address);
        let mut path = Self::new(self.id, self.config, opened_here, address, keepalive, self.tokens, now);
        path.usage = usage;
        path.resume(first_hop, now);
        if !link_up {
            path.liveness.on_link(false, now);
        }
        path
    }
}
