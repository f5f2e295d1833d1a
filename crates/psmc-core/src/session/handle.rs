//! A peer and its paths in the hands of a driver, which changes them.
//!
//! Settings of a session that change while it lasts.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psmc_wire::control::{Limits, Message, Probe, Tier};
use psmc_wire::counts::Counts;
use psmc_wire::frame::{PathUse, StreamOpening, StreamOutcome};
use psmc_wire::{BufPool, PacketBuf, PathId, StreamId};

use super::{PathError, Session, StreamError};
use crate::batch::PathAddress;
use crate::classify::{ClassId, bucket_of_tcp};
use crate::config::{Gateway, PathConfig, PathTuning, PeerConfig, SchedulerKind};
use crate::congestion::CongestionConfig;
use crate::path::{Teller, Via};
use crate::scheduler;
use crate::shared::Shared;
use crate::streams::StreamStatus;

/// A peer to be changed, from [`Site::peer`](crate::Site::peer).
///
/// Poll the site once the handle is gone, as after any change.
#[derive(Debug)]
pub struct PeerHandle<'a> {
    session: &'a mut Session,
    shared: &'a mut Shared,
}

impl<'a> PeerHandle<'a> {
    pub(crate) fn new(session: &'a mut Session, shared: &'a mut Shared) -> Self {
        Self { session, shared }
    }

    /// A path to the peer.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if there is none of this id.
    pub fn path(self, path: PathId) -> Result<PathHandle<'a>, PathError> {
        let index = self.session.path_index(path).ok_or(PathError::Unknown)?;
        let Self { session, shared } = self;
        Ok(PathHandle { id: path, index, session, shared })
    }

    /// The open path of that name.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if there is none.
    pub fn path_named(self, name: &str) -> Result<PathHandle<'a>, PathError> {
        let path = self.session.path_by_name(name).ok_or(PathError::Unknown)?;
        self.path(path)
    }

    /// Opens a path to the peer.
    ///
    /// # Errors
    /// [`PathError`] if it can't have this path.
    pub fn add_path(&mut self, config: PathConfig, now: Instant) -> Result<PathId, PathError> {
        self.session.add_path(config, false, self.shared, now)
    }

    /// Opens a path to the peer that is to lead through relays. It is silent until it is [led](PathHandle::lead).
    ///
    /// # Errors
    /// [`PathError`] if it can't have this path.
    pub fn add_relayed_path(&mut self, config: PathConfig, now: Instant) -> Result<PathId, PathError> {
        self.session.add_path(config, true, self.shared, now)
    }

    /// A stream to the peer.
    ///
    /// # Errors
    /// [`StreamError::Unknown`] if there is none of this id, or it has ended.
    pub fn stream(self, id: StreamId) -> Result<StreamHandle<'a>, StreamError> {
        let Self { session, shared } = self;
        if !session.streams.contains(id) {
            return Err(StreamError::Unknown);
        }
        Ok(StreamHandle { id, session, shared })
    }

    /// Opens a stream to the peer; its answer is an [event](crate::StreamEvent::Answered).
    ///
    /// # Errors
    /// [`StreamError`] if it can't be had.
    pub fn open_stream(&mut self, opening: StreamOpening, now: Instant) -> Result<StreamId, StreamError> {
        self.session.open_stream(opening, self.shared, now)
    }

    /// The streams as they stand.
    #[must_use]
    pub fn streams(&self) -> Vec<StreamStatus> {
        self.session.streams()
    }

    /// Dials the peer anew, whatever connection there is: there are other ways to it than before. A site that did not
    /// dial this peer does so from now on. Harmless while a dial is under way.
    pub fn redial(&mut self, now: Instant) {
        self.session.redial(now);
    }

    /// Has another scheduler choose the paths to the peer. No packet is lost.
    pub fn set_scheduler(&mut self, kind: SchedulerKind) {
        self.session.set_scheduler(kind);
    }

    /// Keeps a flow to the peer on one path until then, whatever the scheduler says, and also on a path on standby; so it shows
    /// what that path carries. Its packets go by the scheduler while the path does not answer. The peer does the
    /// same for its own direction.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if there is no such path.
    pub fn pin(
        &mut self,
        flow: TcpFlow,
        path: PathId,
        until: Instant,
        now: Instant,
    ) -> Result<(), PathError> {
        self.session.path_index(path).ok_or(PathError::Unknown)?;
        let bucket = bucket_of_tcp(flow.source, flow.destination, self.shared.flow_key);
        self.session.pins.insert(bucket, path, until, now);
        Ok(())
    }

    /// What this site has counted by colour of its paths to the peer, as of now. Each delay sample is told once.
    pub fn counts(&mut self, now: Instant) -> Counts {
        self.session.counts(0, Teller::Own, now)
    }

    /// Asks the peer for the same; [`Event::Counts`](crate::Event::Counts) tells, or nothing if the peer does not count. To be
    /// called again when that was told, or will not be. Says whether there is a connection for that.
    pub fn ask_for_counts(&mut self) -> bool {
        self.session.ask_for_counts(self.shared)
    }

    /// Asks the peer to answer what this site asks it from a socket of its own, to find out what a NAT makes of that. Says whether
    /// there is a connection by which the peer could be asked.
    pub fn probe(&mut self, probe: Probe) -> bool {
        let Some((connection, ..)) = self.session.control.current() else { return false };
        self.shared.messages.push_back((connection, Message::Probe(probe)));
        true
    }

    /// Treats the peer's packets as `config` says from now on. Its name, its key and its prefixes are not changed by that.
    pub fn reconfigure(&mut self, config: PeerConfig, now: Instant) {
        self.session.reconfigure(config, self.shared, now);
    }
}

/// A stream to be used, from [`PeerHandle::stream`].
#[derive(Debug)]
pub struct StreamHandle<'a> {
    id: StreamId,
    session: &'a mut Session,
    shared: &'a mut Shared,
}

impl StreamHandle<'_> {
    /// Says what has become of the connection of a stream that the peer has opened. Unless it stands, the stream has ended.
    pub fn answer(self, outcome: StreamOutcome, now: Instant) {
        self.session.answer_stream(self.id, outcome, self.shared, now);
    }

    /// Bytes that should be written at the most; when there is room again after there was none, an
    /// [event](crate::StreamEvent::Writable) says so.
    pub fn room(&mut self) -> usize {
        self.session.streams.room(self.id)
    }

    /// How many bytes a buffer should have, so that it fills a datagram.
    #[must_use]
    pub fn chunk(&self) -> usize {
        self.session.stream_chunk(self.shared)
    }

    /// The pool from which buffers for [`write`](Self::write) should come.
    pub fn pool(&mut self) -> &mut BufPool {
        &mut self.shared.pool
    }

    /// Appends what is in the buffer. It arrives, unless the stream is reset.
    pub fn write(&mut self, bytes: PacketBuf, now: Instant) {
        self.session.write_stream(self.id, bytes, self.shared, now);
    }

    /// Nothing follows what was written.
    pub fn finish(self, now: Instant) {
        self.session.finish_stream(self.id, self.shared, now);
    }

    /// What can be taken, in order.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.session.streams.chunks(self.id)
    }

    /// Takes so many bytes of what can be taken.
    pub fn consume(&mut self, bytes: usize, now: Instant) {
        self.session.consume_stream(self.id, bytes, self.shared, now);
    }

    /// Whether everything was taken that will ever come. If so, and everything was written that ever will be, there is no
    /// such stream any more.
    #[must_use]
    pub fn take_end(self) -> bool {
        self.session.take_end(self.id, self.shared)
    }

    /// Ends the stream in both directions, whatever is on its way.
    pub fn reset(self, now: Instant) {
        self.session.reset_stream(self.id, self.shared, now);
    }
}

/// One direction of a TCP connection through the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFlow {
    /// Where its packets come from, at this site.
    pub source: SocketAddr,
    /// Where they go, at the peer.
    pub destination: SocketAddr,
}

/// A path to be changed, from [`PeerHandle::path`].
#[derive(Debug)]
pub struct PathHandle<'a> {
    id: PathId,
    /// Its place among those of the session, which stays while the handle has that.
    index: usize,
    session: &'a mut Session,
    shared: &'a mut Shared,
}

impl PathHandle<'_> {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> PathId {
        self.id
    }

    /// Bytes of the IP packets that it has carried since it was opened, in both directions; without the headers of a tunnel in
    /// which it travels.
    #[must_use]
    pub fn carried(&self) -> u64 {
        self.session.paths()[self.index].carried()
    }

    /// Leads a path that this site has opened through a session that it has reserved at a relay. To be called for each
    /// new session: after [`PeerHandle::add_relayed_path`], after [`Event::HopWanted`](crate::Event::HopWanted), when the
    /// relay has forgotten the old one, and for another relay. The path is validated anew, and the peer is told.
    ///
    /// # Errors
    /// [`PathError::Unknown`] if the peer has opened it.
    pub fn lead(&mut self, via: Via, now: Instant) -> Result<(), PathError> {
        self.session.lead_path(self.index, via, self.shared, now)
    }

    /// Has the path carry data before it has answered, because the relay through which it was just [led](Self::lead) says
    /// that it reaches the peer. It has 300 ms to answer; if it does not, it is as it would have been without that word,
    /// and what it has carried is sent again by other paths. Harmless for any other path, and while there is no connection, by
    /// which the peer could have been told.
    pub fn trust(&mut self, now: Instant) {
        self.session.trust_path(self.index, self.shared, now);
    }

    /// Measures the round trip, by a challenge of its own that leaves at once, whatever state the path is in. An answer is told
    /// by [`Event::Measured`](crate::Event::Measured) with this number; no answer is told by nothing. Says whether anything can
    /// leave: nothing does while the link is down, or the path waits for a session at its relays.
    pub fn measure(&mut self, number: u64) -> bool {
        self.session.paths[self.index].measure(number)
    }

    /// Sets how often the path is probed while it is idle.
    pub fn set_keepalive(&mut self, interval: Duration) {
        self.session.paths[self.index].set_keepalive(interval);
    }

    /// Has the path send datagrams of its own until then, so that one leaves in each `interval` at least, whatever else is sent: to
    /// tell what is lost where traffic is thin. They are bounded to a hundredth of the path's rate; the far end drops them, and
    /// acknowledges them. Nothing is sent on a path that does not answer.
    pub fn fill_gaps(&mut self, interval: Duration, until: Instant) {
        self.session.paths[self.index].fill_gaps(interval, until);
    }

    /// Makes the probes of an idle path tell as much as data would: every other one is as large as a full datagram, and their
    /// intervals differ, so that nothing that comes and goes at a pace of its own stays between them.
    pub fn set_scrutiny(&mut self, scrutiny: bool) {
        self.session.paths[self.index].set_scrutiny(scrutiny);
    }

    /// Removes the path without losing a packet: what is on its way still arrives, what waits goes elsewhere.
    ///
    /// # Errors
    /// [`PathError::Closing`] if it is being removed.
    pub fn remove(&mut self, now: Instant) -> Result<(), PathError> {
        self.session.set_use(self.id, PathUse::Closed, now)
    }

    /// Makes the path a standby, or puts it back into use, at both ends.
    ///
    /// # Errors
    /// [`PathError::Closing`] if it is being removed, [`PathError::Spared`] if it would be no standby any more but for its tier.
    pub fn set_standby(&mut self, standby: bool, now: Instant) -> Result<(), PathError> {
        let path = &self.session.paths[self.index];
        if !standby && path.config.tier >= Tier::Backup && path.usage.effective() == PathUse::Available {
            return Err(PathError::Spared(path.config.tier));
        }
        let usage = if standby { PathUse::Standby } else { PathUse::Available };
        self.session.set_use(self.id, usage, now)
    }

    /// Changes what the path was configured with; at both ends if this site has opened it.
    pub fn reconfigure(&mut self, change: PathTuning) {
        self.session.reconfigure_path(self.index, change, self.shared);
    }

    /// Has this site find the rate at which it sends on the path in another way. The peer's own way stays.
    pub fn set_congestion(&mut self, congestion: CongestionConfig) {
        self.session.set_congestion(self.index, congestion);
    }

    /// Gives the path another socket or destination.
    pub fn rebind(&mut self, address: PathAddress, now: Instant) {
        self.session.rebind_path(self.index, address, self.shared, now);
    }
}

impl Session {
    /// Treats packets as `config` says from now on. The prefixes and their priority stay: they are the site's to give.
    pub(super) fn reconfigure(&mut self, config: PeerConfig, shared: &mut Shared, now: Instant) {
        let allowed_ips = std::mem::take(&mut self.config.allowed_ips);
        let gateway = Gateway { priority: self.config.gateway.priority, ..config.gateway };
        let before = std::mem::replace(&mut self.config, PeerConfig { allowed_ips, gateway, ..config });
        let config = &self.config;
        if (config.scheduler, config.bad_path_rule) != (before.scheduler, before.bad_path_rule) {
            self.scheduler = scheduler::build(config.scheduler, config.bad_path_rule);
            self.unplaced = None;
        }
        self.reorder.set_policy(config.reorder);
        if config.keepalive != before.keepalive {
            let keepalive = config.keepalive;
            self.paths.iter_mut().for_each(|path| path.set_keepalive(keepalive));
        }
        if config.can_dial != before.can_dial {
            self.control.set_can_dial(config.can_dial, now);
        }
        if config.udp_rate_limit != before.udp_rate_limit {
            let udp_rate = config.udp_rate_limit;
            self.udp_limit.set_own(udp_rate);
            if let Some((connection, ..)) = self.control.current() {
                shared.messages.push_back((connection, Message::Limits(Limits { udp_rate })));
            }
        }
        self.tell_if_streams_changed(shared);
    }

    /// Sorts packets into the site's classes, which are others.
    pub(crate) fn set_classes(&mut self, shared: &mut Shared) {
        let moved = self.egress.set_classes(shared.classes.list());
        let class_of = |before: ClassId| moved.get(before.index()).copied().unwrap_or_default();
        for path in &mut self.paths {
            path.shares.clear();
            path.sent.for_each_packet(|packet| packet.class = class_of(packet.class));
        }
        self.extras.for_each_packet(|packet| packet.class = class_of(packet.class));
        self.paths.steer(shared.classes.list());
        self.unplaced = None;
        self.tell_if_streams_changed(shared);
    }
}
