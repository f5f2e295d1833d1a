//! TCP connections that this site ends: on one side a host, whose TCP a [`Stack`] answers, on the other a stream to a peer.
//!
//! Near its client, a connection's first segment is kept until the peer says that the server has answered; only then does the stack get
//! it. So a client hears what it would have heard without us: a reset, an ICMP error, or nothing. Near its server, the stack calls in
//! the client's name.
//!
//! ```text
//!   hosts ── tunnel's interface ──▶ on_packet ──▶ stack ── sockets ──▶ pump ──▶ streams ──▶ site
//!         ◀── tunnel's interface ── turn ◀─────── stack ── sockets ◀── pump ◀── streams ◀── site
//! ```

mod connection;
mod pump;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use psmc_core::{PeerId, Site, StreamEvent, StreamHandle};
use psmc_net::poller::{Poller, Wants};
use psmc_net::stack::{self, Accepted, ConnectError, Stack, StackConfig};
use psmc_service::daemon::SystemError;
use psmc_wire::frame::{StreamOpening, StreamOutcome};
use psmc_wire::ip::tcp::{self, Ends, Syn, Unreachable};
use psmc_wire::{PacketBuf, StreamId};

use super::DaemonError;
use super::control::Control;
use super::interface::Interface;
use super::often::Often;
use super::settings::tun_config;
use crate::config::{self, Tcp};
use connection::{Connection, Stage};

/// What the poller calls the stack's device, the stack, and from there on its sockets; other tokens are smaller.
const DEVICE: u64 = 1 << 33;
const STACK: u64 = DEVICE + 1;
const SOCKETS: u64 = 1 << 34;

/// Reads of the stack's device in a row, so that others have their turn.
const READS: usize = 32;

/// Connections that are being made, at either end. First segments beyond these are forwarded as packets, and those of peers refused.
const MAX_PENDING: usize = 4096;

/// A flood of first segments does not have them looked through more often.
const BETWEEN_SWEEPS: Duration = Duration::from_millis(250);

/// How long one may take to be made: longer than Linux tries to connect, or to have its answer acknowledged.
const PATIENCE: Duration = Duration::from_secs(150);

/// How long the stack gets packets of a connection that has ended, after the last: it answers what is sent again (RFC 9293 §3.6.1),
/// and what its host has no room for waits in the stack, which asks for room every two minutes at least.
const LINGERING: Duration = Duration::from_secs(150);

/// The same after a reset, which only has to leave: whoever sends more is to hear from the host meant that there is no connection.
const AFTER_RESET: Duration = Duration::from_secs(1);

/// So many of these are known at the most.
const MAX_LINGERING: usize = 64 * 1024;

/// What the stack keeps of a connection in each direction: a third of a second of 100 Mbit/s between a host and its site.
const BUFFER: u32 = 4 << 20;

/// All connections that this site ends.
#[derive(Debug)]
pub(super) struct Splits {
    stack: Stack,
    /// Whether there are packets of the stack, or connections to be accepted.
    device_due: bool,
    stack_due: bool,
    /// Connections with something to do, and the room of those before them.
    due: Vec<u64>,
    served: Vec<u64>,
    /// Packets for the stack, and of the stack for hosts.
    into: Vec<PacketBuf>,
    out: Vec<PacketBuf>,
    connections: HashMap<u64, Connection>,
    /// By the ends of the packets that the host at this side sends.
    flows: HashMap<Ends, u64>,
    streams: HashMap<Key, u64>,
    next: u64,
    /// When each of those that are being made will have taken too long.
    pending: VecDeque<(Instant, u64)>,
    /// When those that stand were taken from these: it takes as long as there are many.
    swept_at: Option<Instant>,
    /// When those that have ended may be forgotten, and how long after their last packet.
    lingering: VecDeque<(Instant, u64)>,
    ended: HashMap<u64, Lingering>,
    accepted: Vec<Accepted>,
    /// Empty ones, to be read into.
    buffers: Vec<PacketBuf>,
    failures: Often,
}

/// A connection that has ended, and whose packets the stack still gets.
#[derive(Debug)]
struct Lingering {
    ends: Ends,
    /// When one has last passed.
    heard_at: Instant,
    /// How long after that it is forgotten.
    time: Duration,
}

impl Splits {
    /// None yet, on this stack.
    ///
    /// # Errors
    /// Those of the poller.
    pub(super) fn new(mut stack: Stack, poller: &Poller) -> io::Result<Self> {
        poller.add(stack.tun().as_fd(), DEVICE)?;
        poller.add(stack.as_fd(), STACK)?;
        Ok(Self {
            stack,
            device_due: false,
            stack_due: false,
            due: Vec::new(),
            served: Vec::new(),
            into: Vec::new(),
            out: Vec::new(),
            connections: HashMap::new(),
            flows: HashMap::new(),
            streams: HashMap::new(),
            next: SOCKETS,
            pending: VecDeque::new(),
            swept_at: None,
            lingering: VecDeque::new(),
            ended: HashMap::new(),
            accepted: Vec::new(),
            buffers: Vec::new(),
            failures: Often::new(6),
        })
    }

    /// The poller tells of something with this token. Whether that is one of these.
    pub(super) fn set_due(&mut self, token: u64) -> bool {
        match token {
            DEVICE => self.device_due = true,
            STACK => self.stack_due = true,
            SOCKETS.. => self.note_due(token),
            _ => return false,
        }
        true
    }

    /// Whether there is something to do at once.
    pub(super) fn is_due(&self) -> bool {
        self.device_due || self.stack_due || !self.due.is_empty()
    }

    fn note_due(&mut self, token: u64) {
        if let Some(connection) = self.connections.get_mut(&token)
            && !mem::replace(&mut connection.is_due, true)
        {
            self.due.push(token);
        }
    }

    /// Takes a packet that a host has sent into the tunnel: for the stack, if it belongs to a connection that is ended here or begins
    /// one, and otherwise for the site.
    pub(super) fn on_packet(&mut self, packet: PacketBuf, site: &mut Site, now: Instant) {
        let Some(ends) = tcp::ends(packet.packet()) else {
            // An ICMP error is addressed to whom it is about.
            let about = tcp::ends_of_quoted(packet.packet()).map(|[from, to]| [to, from]);
            if about.is_some_and(|ends| self.flows.contains_key(&ends)) {
                self.into.push(packet);
            } else {
                site.handle_packet(packet, now);
            }
            return;
        };
        if let Some(&token) = self.flows.get(&ends) {
            let is_reset = tcp::is_reset(packet.packet());
            match self.connections.get(&token).map(|connection| &connection.stage) {
                // The client asks once more, its answer is on its way; or it has lost patience.
                Some(Stage::Asked(_)) => {
                    if is_reset {
                        self.give_up(token, site, now);
                    }
                    return site.recycle(packet);
                }
                Some(stage) => {
                    if is_reset && matches!(stage, Stage::Answered) {
                        self.give_up(token, site, now);
                    }
                    return self.into.push(packet);
                }
                None if !tcp::has_syn(packet.packet()) => {
                    self.note_lingering(token, now);
                    return self.into.push(packet);
                }
                // Its ports are used again.
                None => drop(self.flows.remove(&ends)),
            }
        }
        match site.connection_to_split(packet.packet()) {
            Some((peer, opening)) => self.begin(peer, opening, packet, site, now),
            None => site.handle_packet(packet, now),
        }
    }

    /// Asks the peer to connect to a server.
    fn begin(&mut self, peer: PeerId, opening: StreamOpening, syn: PacketBuf, site: &mut Site, now: Instant) {
        let has_room = self.has_room_for_one(now);
        let opened = site.peer(peer).ok().filter(|_| has_room).map(|mut peer| peer.open_stream(opening, now));
        let Some(Ok(stream)) = opened else { return site.handle_packet(syn, now) };
        self.insert(Connection::new(peer, stream, opening, Stage::Asked(syn)), now);
    }

    fn insert(&mut self, connection: Connection, now: Instant) -> u64 {
        let token = self.next;
        self.next += 1;
        self.flows.insert(connection.ends(), token);
        self.streams.insert((connection.peer, connection.stream), token);
        self.pending.push_back((now + PATIENCE, token));
        self.connections.insert(token, connection);
        token
    }

    /// Whether one more may be made.
    fn has_room_for_one(&mut self, now: Instant) -> bool {
        if self.pending.len() >= MAX_PENDING && self.swept_at.is_none_or(|at| at + BETWEEN_SWEEPS <= now) {
            self.swept_at = Some(now);
            self.pending.retain(|(_, token)| self.connections.get(token).is_some_and(Connection::is_pending));
        }
        self.pending.len() < MAX_PENDING
    }

    fn forget_lingering(&mut self, now: Instant) {
        while let Some(&(until, token)) = self.lingering.front()
            && let is_too_many = self.lingering.len() > MAX_LINGERING
            && (until <= now || is_too_many)
        {
            self.lingering.pop_front();
            let Some(&Lingering { ends, heard_at, time }) = self.ended.get(&token) else { continue };
            let until = heard_at + time;
            if until > now && !is_too_many {
                self.lingering.push_back((until, token));
                continue;
            }
            self.ended.remove(&token);
            if self.flows.get(&ends) == Some(&token) {
                self.flows.remove(&ends);
            }
        }
    }

    /// A packet of a connection that has ended passes, one way or the other.
    fn note_lingering(&mut self, token: u64, now: Instant) {
        if let Some(lingering) = self.ended.get_mut(&token) {
            lingering.heard_at = now;
        }
    }

    /// Gives up a connection that is being made.
    fn give_up(&mut self, token: u64, site: &mut Site, now: Instant) {
        if let Some(gone) = self.remove(token, AFTER_RESET, now) {
            reset(site, (gone.peer, gone.stream), now);
        }
    }

    /// Ends the connections of a peer that is about to be removed: nobody tells of its streams afterwards.
    pub(super) fn end_those_of(&mut self, peer: PeerId, site: &mut Site, now: Instant) {
        let theirs = self.connections.iter().filter(|(_, connection)| connection.peer == peer);
        for token in theirs.map(|(&token, _)| token).collect::<Vec<_>>() {
            let Some(gone) = self.remove(token, AFTER_RESET, now) else { continue };
            reset(site, (gone.peer, gone.stream), now);
            if let Stage::Stands(socket) = gone.stage {
                stack::reset(socket);
            }
        }
    }

    /// Something has happened to a stream.
    pub(super) fn on_event(
        &mut self,
        (peer, stream): Key,
        event: StreamEvent,
        site: &mut Site,
        poller: &Poller,
        now: Instant,
    ) {
        if let StreamEvent::Opened(opening) = event {
            return self.call(peer, stream, opening, site, poller, now);
        }
        let Some(&token) = self.streams.get(&(peer, stream)) else { return };
        match event {
            StreamEvent::Answered(outcome) => self.on_answer(token, outcome, site, now),
            StreamEvent::Readable | StreamEvent::Writable => self.note_due(token),
            StreamEvent::Reset => {
                if let Some(Stage::Stands(socket)) =
                    self.remove(token, AFTER_RESET, now).map(|gone| gone.stage)
                {
                    stack::reset(socket);
                }
            }
            StreamEvent::Opened(_) => {}
        }
    }

    /// Calls a server in the name of a client of the peer's.
    fn call(
        &mut self,
        peer: PeerId,
        stream: StreamId,
        opening: StreamOpening,
        site: &mut Site,
        poller: &Poller,
        now: Instant,
    ) {
        let StreamOpening { client, server, dscp } = opening;
        // It would come back to this stack, with the same ends.
        let refused = if site.owner_of(server.ip()).is_some() {
            Some(StreamOutcome::Prohibited)
        } else if !self.has_room_for_one(now) || self.flows.contains_key(&[client, server]) {
            Some(StreamOutcome::Full)
        } else {
            None
        };
        let called = match refused {
            Some(outcome) => Err(outcome),
            None => self.stack.connect(client, server, dscp).map_err(|error| {
                tracing::debug!(%error, %client, %server, "cannot call a server for a client");
                StreamOutcome::Full
            }),
        };
        let socket = match called {
            Ok(socket) => socket,
            Err(outcome) => return answer(site, (peer, stream), outcome, now),
        };
        let token = self.insert(Connection::new(peer, stream, opening, Stage::Called(socket)), now);
        if self.listen_to(token, Wants { data: false, room: true }, poller).is_err() {
            self.remove(token, AFTER_RESET, now);
            answer(site, (peer, stream), StreamOutcome::Full, now);
        }
    }

    /// Registers the socket of a connection.
    fn listen_to(&mut self, token: u64, wants: Wants, poller: &Poller) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&token) else { return Ok(()) };
        let Some(socket) = connection.stage.socket() else { return Ok(()) };
        poller.add(socket.as_fd(), token)?;
        connection.wants = wants;
        poller.set_wants(socket.as_fd(), token, wants)
    }

    /// The peer has called a server, or not.
    fn on_answer(&mut self, token: u64, outcome: StreamOutcome, site: &mut Site, now: Instant) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let Stage::Asked(syn) = mem::replace(&mut connection.stage, Stage::Answered) else { return };
        let (key, server) = ((connection.peer, connection.stream), connection.opening.server);
        if outcome == StreamOutcome::Open {
            match self.stack.listen(server.port()) {
                Ok(()) => self.into.push(syn),
                Err(error) => {
                    if self.failures.note(now).is_some() {
                        tracing::warn!(%error, port = server.port(), "cannot accept connections for servers");
                    }
                    self.refuse(&syn, None, server, site);
                    site.recycle(syn);
                    // Nobody listens, so that nobody need stop.
                    if let Some(connection) = self.connections.get_mut(&token) {
                        connection.stage = Stage::Over;
                    }
                    self.forget(token);
                    reset(site, key, now);
                }
            }
            return;
        }
        connection.stage = Stage::Over;
        // The client may ask again at once.
        self.forget(token);
        match outcome {
            StreamOutcome::Refused => self.refuse(&syn, None, server, site),
            StreamOutcome::Unreachable => self.refuse(&syn, Some(Unreachable::Host), server, site),
            StreamOutcome::Prohibited | StreamOutcome::Full => return site.handle_packet(syn, now),
            // It hears nothing, as it would have without us.
            StreamOutcome::TimedOut | StreamOutcome::Open => {}
        }
        site.recycle(syn);
    }

    /// Tells a client that its server can't be reached, or that it has refused.
    fn refuse(&mut self, syn: &PacketBuf, why: Option<Unreachable>, server: SocketAddr, site: &mut Site) {
        let Some(syn) = Syn::parse(syn.packet()) else { return };
        let told = why.map_or_else(|| Some(syn.reset()), |why| syn.unreachable(why, server.ip()));
        if let Some(told) = told {
            let mut packet = site.pool().take();
            packet.fill(&told);
            self.out.push(packet);
        }
    }

    /// Forgets a connection; the stack goes on answering what its host sends again.
    fn remove(&mut self, token: u64, time: Duration, now: Instant) -> Option<Connection> {
        let connection = self.forget(token)?;
        let ends = connection.ends();
        self.flows.insert(ends, token);
        self.ended.insert(token, Lingering { ends, heard_at: now, time });
        self.lingering.push_back((now + AFTER_RESET, token));
        Some(connection)
    }

    /// Forgets a connection of which the stack knows nothing.
    fn forget(&mut self, token: u64) -> Option<Connection> {
        let connection = self.connections.remove(&token)?;
        self.streams.remove(&(connection.peer, connection.stream));
        self.flows.remove(&connection.ends());
        if matches!(connection.stage, Stage::Answered) {
            self.stack.unlisten(connection.opening.server.port());
        }
        Some(connection)
    }

    /// Does all that is due: packets to and from the stack, new connections, and bytes between sockets and streams.
    pub(super) fn turn(&mut self, site: &mut Site, interface: &mut Interface, poller: &Poller, now: Instant) {
        self.give_up_overdue(site, now);
        self.forget_lingering(now);
        if !self.into.is_empty() {
            self.stack.tun().send(&mut self.into, site.pool(), false);
        }
        if mem::take(&mut self.stack_due) {
            self.accept(site, poller, now);
        }
        let mut due = mem::replace(&mut self.due, mem::take(&mut self.served));
        for token in due.drain(..) {
            self.serve(token, site, poller, now);
        }
        self.served = due;
        if mem::take(&mut self.device_due) {
            self.read(site, now);
        }
        if !self.out.is_empty() {
            interface.give(&mut self.out, site);
        }
    }

    /// Reads what the stack sends to hosts, and drops what is of no connection: the kernel announces itself on any device.
    fn read(&mut self, site: &mut Site, now: Instant) {
        let known = self.out.len();
        for _ in 0..READS {
            match self.stack.tun().try_recv(site.pool(), &mut self.out) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot read what TCP connections that end here send");
                    break;
                }
            }
        }
        let (flows, ended) = (&self.flows, &mut self.ended);
        let mut is_ours = |packet: &PacketBuf| {
            let token = tcp::ends(packet.packet()).and_then(|[from, to]| flows.get(&[to, from]));
            if let Some(lingering) = token.and_then(|token| ended.get_mut(token)) {
                lingering.heard_at = now;
            }
            token.is_some()
        };
        for foreign in self.out.extract_if(known.., |packet| !is_ours(packet)) {
            site.recycle(foreign);
        }
    }

    /// Takes the connections that clients have made.
    fn accept(&mut self, site: &mut Site, poller: &Poller, now: Instant) {
        let mut accepted = mem::take(&mut self.accepted);
        if let Err(error) = self.stack.accept(&mut accepted) {
            if self.failures.note(now).is_some() {
                tracing::warn!(%error, "cannot accept TCP connections that are to end here: clients are reset");
            }
            self.reset_answered(site, now);
        }
        for Accepted { client, server, stream } in accepted.drain(..) {
            let token = self.flows.get(&[client, server]).copied();
            let connection = token.and_then(|token| Some((token, self.connections.get_mut(&token)?)));
            let Some((token, connection)) =
                connection.filter(|(_, one)| matches!(one.stage, Stage::Answered))
            else {
                stack::reset(stream);
                continue;
            };
            connection.stage = Stage::Stands(stream);
            self.stack.unlisten(server.port());
            if self.listen_to(token, Wants { data: true, room: false }, poller).is_err() {
                self.give_up(token, site, now);
                continue;
            }
            // Its server may have sent something before.
            self.note_due(token);
        }
        self.accepted = accepted;
    }

    /// Resets all whose clients could be accepted, and are not: they would be told of again and again.
    fn reset_answered(&mut self, site: &mut Site, now: Instant) {
        let is_answered = |(_, connection): &(&u64, &Connection)| matches!(connection.stage, Stage::Answered);
        let answered: Vec<_> = self.connections.iter().filter(is_answered).map(|(token, _)| *token).collect();
        for token in answered {
            self.give_up(token, site, now);
        }
    }

    /// Gives up connections that are not made in time.
    fn give_up_overdue(&mut self, site: &mut Site, now: Instant) {
        while let Some(&(until, token)) = self.pending.front()
            && until <= now
        {
            self.pending.pop_front();
            if self.connections.get(&token).is_some_and(Connection::is_pending) {
                self.give_up(token, site, now);
            }
        }
    }

    /// Resets all connections, so that no host waits in vain, and gives hosts the segments that say so.
    pub(super) fn end(&mut self, site: &mut Site, interface: &mut Interface, now: Instant) {
        for (_, connection) in self.connections.drain() {
            if let Stage::Stands(socket) | Stage::Called(socket) = connection.stage {
                stack::reset(socket);
            }
        }
        loop {
            self.read(site, now);
            if self.out.is_empty() {
                return;
            }
            interface.give(&mut self.out, site);
        }
    }
}

/// Whether TCP connections of any of these classes are to be ended.
pub(super) fn splits_any(classes: &[config::Class]) -> bool {
    classes.iter().any(|class| class.tcp == Some(Tcp::Split))
}

impl Control {
    /// Has TCP connections end on a stack of their own if that is wanted, and not so already.
    ///
    /// # Errors
    /// [`DaemonError::Stack`] if there can be none here.
    pub(super) async fn end_tcp_if(&mut self, wanted: bool) -> Result<(), DaemonError> {
        if !wanted || self.ends_tcp {
            return Ok(());
        }
        let mtu = tun_config(&self.site).mtu;
        let stack = Stack::new(&StackConfig { mtu, congestion: None, buffer: BUFFER })?;
        let begun = self.plane.call(move |plane| plane.split_on(stack)).await?;
        begun.map_err(SystemError::of("the poller for TCP connections that end here"))?;
        self.ends_tcp = true;
        Ok(())
    }
}

/// A stream and the peer to whom it leads.
type Key = (PeerId, StreamId);

fn stream_of(site: &mut Site, (peer, stream): Key) -> Option<StreamHandle<'_>> {
    site.peer(peer).ok()?.stream(stream).ok()
}

/// Says what has become of a connection that a peer wants.
pub(super) fn answer(site: &mut Site, key: Key, outcome: StreamOutcome, now: Instant) {
    if let Some(stream) = stream_of(site, key) {
        stream.answer(outcome, now);
    }
}

fn reset(site: &mut Site, key: Key, now: Instant) {
    if let Some(stream) = stream_of(site, key) {
        stream.reset(now);
    }
}

/// What the client is to hear.
fn outcome_of(error: &ConnectError) -> StreamOutcome {
    match error {
        ConnectError::Refused => StreamOutcome::Refused,
        ConnectError::Unreachable(_) => StreamOutcome::Unreachable,
        ConnectError::TimedOut => StreamOutcome::TimedOut,
        ConnectError::Failed(_) => StreamOutcome::Full,
    }
}
