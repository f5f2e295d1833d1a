//! The control connections of a session: when to dial, what to say first, which connection counts.

use std::time::{Duration, Instant};

use psmc_wire::control::{CloseReason, Hello};
use psmc_wire::crypto::{KeySource, Role};
use psmc_wire::{Incarnation, Label};

/// The first wait after a failed dial.
const MIN_BACKOFF: Duration = Duration::from_millis(100);

/// The longest wait after a failed dial: a peer that is back shall be reached within two seconds.
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// How long the site with the larger key leaves dialling to the other one.
const COURTESY: Duration = Duration::from_millis(250);

/// A full handshake with fresh secrets happens at least this often (design §3).
const REFRESH: Duration = Duration::from_secs(15 * 60);

/// A connection on which no hello has arrived is given up after this time.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections of one peer that may wait for their hello at the same time; a further one ends the oldest.
const MAX_CONNECTIONS: usize = 4;

/// If both sites dial at once, the connections come up within this time of each other. Both then keep the one
/// that the site with the smaller key has dialled (as BGP does by its identifiers, RFC 4271 §6.8).
const COLLISION: Duration = Duration::from_secs(2);

/// A control connection, numbered by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A connection that is up.
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) role: Role,
    pub(crate) label: Label,
    /// Taken when the hellos have been exchanged.
    pub(crate) keys: Option<Box<dyn KeySource>>,
    /// What this side has said.
    pub(crate) said: Option<Hello>,
    since: Instant,
}

impl Connection {
    /// Whether both sites know each other as they are, and so go on with their numbers.
    pub(crate) fn continues(&self, heard: &Hello) -> bool {
        self.said.as_ref().is_some_and(|said| {
            said.known_peer == heard.incarnation
                && heard.known_peer == said.incarnation
                && said.known_peer != Incarnation::NONE
        })
    }
}

/// A connection to be ended, and the reason to give.
pub(crate) type Hangup = (ConnectionId, CloseReason);

/// All connections of a session and the dialling of new ones.
#[derive(Default)]
pub(crate) struct Control {
    can_dial: bool,
    smaller_key: bool,
    connections: Vec<Connection>,
    current: Option<(ConnectionId, Role, Instant)>,
    dialing: bool,
    dial_at: Option<Instant>,
    backoff: Duration,
}

impl Control {
    /// A site that knows an endpoint dials: at once if its key is the smaller one, else after a courtesy.
    pub(crate) fn new(can_dial: bool, smaller_key: bool, now: Instant) -> Self {
        let wait = if smaller_key { Duration::ZERO } else { COURTESY };
        let dial_at = can_dial.then(|| now + wait);
        Self { can_dial, smaller_key, dial_at, backoff: MIN_BACKOFF, ..Self::default() }
    }

    /// Whether to dial now; says so once, until the dial has failed or led to a connection.
    pub(crate) fn take_dial(&mut self, now: Instant) -> bool {
        let due = !self.dialing && self.dial_at.is_some_and(|at| at <= now);
        if due {
            self.dialing = true;
            self.dial_at = None;
        }
        due
    }

    /// A dial has led to nothing.
    pub(crate) fn on_dial_failed(&mut self, now: Instant) {
        self.dialing = false;
        self.dial_at = Some(now + self.backoff);
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
    }

    /// Dials at once, unless a dial is under way.
    pub(crate) fn want(&mut self, now: Instant) {
        if self.can_dial && !self.dialing {
            self.dial_at = Some(self.dial_at.map_or(now, |at| at.min(now)));
        }
    }

    /// A connection is up; its hello is said by the dialer at once, by the acceptor when it has heard one.
    pub(crate) fn on_connected(
        &mut self,
        id: ConnectionId,
        role: Role,
        label: Label,
        keys: Box<dyn KeySource>,
        now: Instant,
    ) -> Option<Hangup> {
        if role == Role::Dialer {
            self.dialing = false;
        }
        self.connections.push(Connection { id, role, label, keys: Some(keys), said: None, since: now });
        (self.connections.len() > MAX_CONNECTIONS).then(|| (self.connections.remove(0).id, CloseReason::Superseded))
    }

    /// The connection with that id.
    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.id == id)
    }

    /// The hellos have been exchanged on a connection: it counts from here on, and the others end.
    pub(crate) fn on_established(&mut self, id: ConnectionId, now: Instant) -> Vec<Hangup> {
        let Some(role) = self.get_mut(id).map(|connection| connection.role) else { return Vec::new() };
        let preferred = if self.smaller_key { Role::Dialer } else { Role::Acceptor };
        if let Some((_, other, since)) = self.current
            && (other, role) == (preferred, preferred.peer())
            && now < since + COLLISION
        {
            self.connections.retain(|connection| connection.id != id);
            return vec![(id, CloseReason::Superseded)];
        }
        self.current = Some((id, role, now));
        self.backoff = MIN_BACKOFF;
        self.dial_at = (self.can_dial && role == Role::Dialer).then(|| now + REFRESH);
        let older = self.connections.extract_if(.., |connection| connection.id != id && connection.since <= now);
        older.map(|connection| (connection.id, CloseReason::Superseded)).collect()
    }

    /// A connection has ended.
    pub(crate) fn on_disconnected(&mut self, id: ConnectionId, now: Instant) {
        self.connections.retain(|connection| connection.id != id);
        let lost = self.current.take_if(|(current, ..)| *current == id);
        if self.current.is_none() && self.can_dial && !self.dialing {
            // Whoever dialled before dials again at once; the other side waits, so that they don't collide.
            let wait = match lost {
                Some((_, Role::Dialer, _)) => Duration::ZERO,
                Some((_, Role::Acceptor, _)) => COURTESY,
                None => self.backoff,
            };
            self.dial_at = Some(self.dial_at.map_or(now + wait, |at| at.min(now + wait)));
        }
    }

    /// Connections on which no hello came in time.
    pub(crate) fn take_overdue(&mut self, now: Instant) -> Vec<Hangup> {
        let overdue = |c: &mut Connection| c.keys.is_some() && c.since + HELLO_TIMEOUT <= now;
        let ended: Vec<_> =
            self.connections.extract_if(.., overdue).map(|c| (c.id, CloseReason::Protocol)).collect();
        for (id, _) in &ended {
            self.on_disconnected(*id, now);
        }
        ended
    }

    /// The connection to speak on, its role, and since when.
    pub(crate) fn current(&self) -> Option<(ConnectionId, Role, Instant)> {
        self.current
    }

    /// Ends all connections.
    pub(crate) fn close(&mut self) -> Vec<Hangup> {
        self.can_dial = false;
        self.dial_at = None;
        self.current = None;
        self.connections.drain(..).map(|connection| (connection.id, CloseReason::Shutdown)).collect()
    }

    /// When there is something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let hello = self.connections.iter().filter(|c| c.keys.is_some()).map(|c| c.since + HELLO_TIMEOUT).min();
        [hello, self.dial_at.filter(|_| !self.dialing)].into_iter().flatten().min()
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("current", &self.current).finish_non_exhaustive()
    }
}
