//! The control connections of a site: those that it dials, and those that it takes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use psmc_core::{ConnectionId, PeerId};
use psmc_wire::control::Message;
use psmc_wire::crypto::Role;

use super::Identity;
use super::flights::{Greeting, answer, finished, record, take_answer, take_finished, take_message};
use crate::stack::Stack;
use crate::transport::{CongestionControl, Owner, Route, Settings, StreamId};
use crate::world::SiteId;

/// Attempts to connect start this far apart, as those of the daemon do.
const STAGGER: Duration = Duration::from_millis(100);

/// An attempt without a connection is given up after this time, as the daemon does.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// A handshake that takes longer has failed, as the daemon has it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// A silent peer is asked after this time whether it is still there, and is gone after twice as long.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Room for the messages of a full set of paths, several times.
const BUFFER: usize = 64 * 1024;

/// The longest packet of a control connection: an Ethernet network's.
const MTU: usize = 1500;

/// What control connections are like.
pub(super) const SETTINGS: Settings = Settings {
    congestion_control: CongestionControl::Cubic,
    buffer: BUFFER,
    mtu: MTU,
    ecn: false,
    keep: true,
    timeout: Some(Duration::from_secs(2 * KEEP_ALIVE.as_secs())),
    keep_alive: Some(KEEP_ALIVE),
};

/// What the engine has to be told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// A connection is up; the keys of both ends follow from the secret.
    Connected { peer: PeerId, connection: ConnectionId, role: Role, secret: u64 },
    /// A message has arrived.
    Message(ConnectionId, Message),
    /// A connection has ended.
    Disconnected(ConnectionId),
    /// A dial has led to nothing.
    DialFailed(PeerId),
}

/// A connection, from its beginning.
#[derive(Debug)]
struct Connection {
    id: ConnectionId,
    phase: Phase,
    inbox: Vec<u8>,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Dialled, and not open yet.
    Opening(PeerId),
    /// The greeting is sent.
    Greeted(PeerId, u64),
    /// Taken; nobody has greeted yet.
    Waiting,
    /// The greeting is answered.
    Answered(PeerId, u64),
    /// Both ends have proved who they are.
    Up,
}

/// A dial that goes on.
#[derive(Debug, Default)]
struct Dial {
    /// Ways that are still to be tried, and when; the last one is the next.
    waiting: Vec<(Instant, Route)>,
    /// When attempts without a connection are given up.
    attempts: Vec<(Instant, StreamId)>,
}

impl Dial {
    /// Gives an attempt that has got so far time until `at`.
    fn extend(&mut self, stream: StreamId, at: Instant) {
        for (deadline, _) in self.attempts.iter_mut().filter(|(_, other)| *other == stream) {
            *deadline = at;
        }
    }

    /// When there is something to do.
    fn next_timeout(&self) -> Option<Instant> {
        let next = self.waiting.last().map(|(at, _)| *at);
        self.attempts.iter().map(|(at, _)| *at).chain(next).min()
    }
}

/// All connections of a site.
#[derive(Debug)]
pub(super) struct Control {
    site: SiteId,
    identity: Identity,
    peers: BTreeMap<PeerId, Identity>,
    connections: BTreeMap<StreamId, Connection>,
    dials: BTreeMap<PeerId, Dial>,
    next_connection: u64,
    next_secret: u64,
    notices: Vec<Notice>,
}

impl Control {
    /// Without connections. Secrets are counted from `first_secret`.
    pub(super) fn new(
        site: SiteId,
        identity: Identity,
        peers: BTreeMap<PeerId, Identity>,
        first_secret: u64,
    ) -> Self {
        Self {
            site,
            identity,
            peers,
            connections: BTreeMap::new(),
            dials: BTreeMap::new(),
            next_connection: 0,
            next_secret: first_secret,
            notices: Vec::new(),
        }
    }

    /// Tries all ways to a peer, one after the other started.
    pub(super) fn dial(&mut self, peer: PeerId, routes: Vec<Route>, stack: &mut Stack) {
        let times = (0..).map(|place| stack.now + STAGGER * place);
        let mut waiting: Vec<_> = times.zip(routes).collect();
        waiting.reverse();
        self.dials.insert(peer, Dial { waiting, attempts: Vec::new() });
        self.handle_timeout(stack);
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, stack: &mut Stack) {
        let peers: Vec<_> = self.dials.keys().copied().collect();
        for peer in peers {
            self.start_attempts(peer, stack);
            self.give_up_attempts(peer, stack);
            self.finish_dial(peer);
        }
    }

    /// When there is something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.dials.values().filter_map(Dial::next_timeout).min()
    }

    /// Something has happened to a connection.
    pub(super) fn handle_stream(&mut self, stream: StreamId, stack: &mut Stack) {
        let Some(tcp) = stack.transport.get(stream) else {
            return;
        };
        let (open, ended) = (tcp.is_open(), tcp.peer_has_finished());
        let connection = self.connections.entry(stream).or_insert_with(|| {
            self.next_connection += 1;
            Connection { id: ConnectionId(self.next_connection), phase: Phase::Waiting, inbox: Vec::new() }
        });
        connection.inbox.append(&mut stack.transport.take_received(stream));
        if let Phase::Opening(peer) = connection.phase
            && open
        {
            self.next_secret += 1;
            let secret = self.next_secret;
            connection.phase = Phase::Greeted(peer, secret);
            let greeting = Greeting { from: self.identity, to: self.peers[&peer], secret };
            stack.write(stream, &greeting.encode());
            if let Some(dial) = self.dials.get_mut(&peer) {
                dial.extend(stream, stack.now + HANDSHAKE_TIMEOUT);
            }
        }
        self.advance(stream, stack);
        if ended {
            self.drop_connection(stream, stack);
        }
    }

    /// Writes a message to a connection.
    pub(super) fn write(&mut self, connection: ConnectionId, message: &Message, stack: &mut Stack) {
        if let Some(stream) = self.stream_of(connection) {
            stack.write(stream, &record(message));
        }
    }

    /// Ends a connection once what was written to it is sent.
    pub(super) fn hang_up(&mut self, connection: ConnectionId, stack: &mut Stack) {
        if let Some(stream) = self.stream_of(connection) {
            self.connections.remove(&stream);
            stack.close(stream);
            self.notices.push(Notice::Disconnected(connection));
        }
    }

    /// What the engine has to be told.
    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    fn stream_of(&self, id: ConnectionId) -> Option<StreamId> {
        self.connections.iter().find(|(_, connection)| connection.id == id).map(|(stream, _)| *stream)
    }

    fn start_attempts(&mut self, peer: PeerId, stack: &mut Stack) {
        let Some(dial) = self.dials.get_mut(&peer) else {
            return;
        };
        while let Some((_, route)) = dial.waiting.pop_if(|(at, _)| *at <= stack.now) {
            let Some(stream) = stack.connect(Owner::Site(self.site), &route, SETTINGS) else {
                continue;
            };
            self.next_connection += 1;
            let id = ConnectionId(self.next_connection);
            dial.attempts.push((stack.now + ATTEMPT_TIMEOUT, stream));
            self.connections
                .insert(stream, Connection { id, phase: Phase::Opening(peer), inbox: Vec::new() });
        }
    }

    fn give_up_attempts(&mut self, peer: PeerId, stack: &mut Stack) {
        let Some(dial) = self.dials.get_mut(&peer) else {
            return;
        };
        let now = stack.now;
        for (_, stream) in dial.attempts.extract_if(.., |(at, _)| *at <= now) {
            self.connections.remove(&stream);
            stack.abort(stream);
        }
    }

    /// Tells the engine if there is nothing left to hope for.
    fn finish_dial(&mut self, peer: PeerId) {
        let hopeless = |dial: &Dial| dial.waiting.is_empty() && dial.attempts.is_empty();
        if self.dials.get(&peer).is_some_and(hopeless) {
            self.dials.remove(&peer);
            self.notices.push(Notice::DialFailed(peer));
        }
    }

    /// Takes what has arrived on a connection as far as it goes.
    fn advance(&mut self, stream: StreamId, stack: &mut Stack) {
        let Some(connection) = self.connections.get_mut(&stream) else {
            return;
        };
        match connection.phase {
            Phase::Opening(_) => {}
            Phase::Greeted(peer, secret) => {
                if take_answer(&mut connection.inbox) {
                    stack.write(stream, &finished());
                    self.come_up(stream, peer, Role::Dialer, secret, stack);
                }
            }
            Phase::Waiting => {
                if let Some(greeting) = Greeting::take(&mut connection.inbox) {
                    self.answer(stream, greeting, stack);
                }
            }
            Phase::Answered(peer, secret) => {
                if take_finished(&mut connection.inbox) {
                    self.come_up(stream, peer, Role::Acceptor, secret, stack);
                }
            }
            Phase::Up => {
                while let Some(message) = take_message(&mut connection.inbox) {
                    self.notices.push(Notice::Message(connection.id, message));
                }
            }
        }
    }

    fn answer(&mut self, stream: StreamId, greeting: Greeting, stack: &mut Stack) {
        let known = self.peers.iter().find(|(_, identity)| **identity == greeting.from);
        let peer = known.filter(|_| greeting.to == self.identity).map(|(peer, _)| *peer);
        let Some(peer) = peer else {
            self.connections.remove(&stream);
            return stack.abort(stream);
        };
        if let Some(connection) = self.connections.get_mut(&stream) {
            connection.phase = Phase::Answered(peer, greeting.secret);
            stack.write(stream, &answer());
            self.advance(stream, stack);
        }
    }

    fn come_up(&mut self, stream: StreamId, peer: PeerId, role: Role, secret: u64, stack: &mut Stack) {
        let Some(connection) = self.connections.get_mut(&stream) else {
            return;
        };
        connection.phase = Phase::Up;
        let connection = connection.id;
        if role == Role::Dialer {
            let others = self.dials.remove(&peer).into_iter().flat_map(|dial| dial.attempts);
            for (_, other) in others.filter(|(_, other)| *other != stream) {
                self.connections.remove(&other);
                stack.abort(other);
            }
        }
        self.notices.push(Notice::Connected { peer, connection, role, secret });
        self.advance(stream, stack);
    }

    /// The peer has ended a connection, or it broke.
    fn drop_connection(&mut self, stream: StreamId, stack: &mut Stack) {
        let Some(connection) = self.connections.remove(&stream) else {
            return;
        };
        stack.close(stream);
        match connection.phase {
            Phase::Up => self.notices.push(Notice::Disconnected(connection.id)),
            Phase::Opening(peer) | Phase::Greeted(peer, _) => {
                if let Some(dial) = self.dials.get_mut(&peer) {
                    dial.attempts.retain(|(_, other)| *other != stream);
                }
                self.finish_dial(peer);
            }
            Phase::Waiting | Phase::Answered(..) => {}
        }
    }
}
