//! The control connections of a session: when to dial, what to say first, which connection counts.

use std::time::{Duration, Instant};

use psmc_wire::Label;
use psmc_wire::control::CloseReason;
use psmc_wire::crypto::{KeySource, Role};

use crate::ids::ConnectionId;

/// The first wait after a failed dial.
const MIN_BACKOFF: Duration = Duration::from_millis(100);

/// The longest wait after a failed dial: a peer that is back shall be reached within two seconds.
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// The longest wait while the peer was connected a moment ago: one that is started again shall be reached before what waits for it
/// is stale.
const EAGER_BACKOFF: Duration = Duration::from_millis(250);

/// How long that moment lasts: a restart of its machine.
const EAGER_TIME: Duration = Duration::from_secs(60);

/// How long a site that was dialled leaves it to the other one to dial again.
const COURTESY: Duration = Duration::from_millis(250);

/// A connection that lasted shorter has changed nothing for the better: the next dial waits as after a failure.
const STABLE_TIME: Duration = MAX_BACKOFF;

/// A full handshake with fresh secrets happens this often (design §3): within a quarter of an hour there are new keys, and if a
/// handshake can't bring them there is time left for an exchange within the session.
const REFRESH: Duration = Duration::from_secs(14 * 60);

/// A connection on which no hello has arrived is given up after this time.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections of one peer that may wait for their hello at the same time; a further one ends the oldest.
const MAX_CONNECTIONS: usize = 4;

/// If both sites dial at once, the connections come up within this time of each other. Both then go on with the
/// one that the site with the smaller key has dialled (as BGP does by its identifiers, RFC 4271 §6.8).
const COLLISION: Duration = Duration::from_secs(2);

/// A connection that is up.
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) role: Role,
    pub(crate) label: Label,
    /// Taken when the hellos have been exchanged.
    pub(crate) keys: Option<Box<dyn KeySource>>,
    since: Instant,
}

impl Connection {
    /// Whether no hello has been heard on it.
    pub(crate) fn is_waiting(&self) -> bool {
        self.keys.is_some()
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
    /// When a connection that had lasted was lost.
    lost_at: Option<Instant>,
    /// Labels of connections that ended before there were keys for them.
    void_labels: Vec<Label>,
}

impl Control {
    /// A site that knows an endpoint dials at once. If both do, one of the connections gives way.
    pub(crate) fn new(can_dial: bool, smaller_key: bool, now: Instant) -> Self {
        let dial_at = can_dial.then_some(now);
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

    /// A dial has led to nothing. If the peer has dialled meanwhile, that is enough.
    pub(crate) fn on_dial_failed(&mut self, now: Instant) {
        self.dialing = false;
        if self.current.is_none_or(|(_, role, _)| role == Role::Dialer) {
            self.dial_at = Some(now + self.back_off(now));
        }
    }

    /// How long to wait before the next dial; longer each time.
    fn back_off(&mut self, now: Instant) -> Duration {
        let is_eager = self.lost_at.is_some_and(|at| now < at + EAGER_TIME);
        let wait = self.backoff.min(if is_eager { EAGER_BACKOFF } else { MAX_BACKOFF });
        self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
        wait
    }

    /// Dials at once, unless a dial is under way.
    pub(crate) fn want(&mut self, now: Instant) {
        if self.can_dial && !self.dialing {
            self.dial_at = Some(self.dial_at.map_or(now, |at| at.min(now)));
        }
    }

    /// Knows where to dial, or does not any more. A connection that there is stays.
    pub(crate) fn set_can_dial(&mut self, can_dial: bool, now: Instant) {
        self.can_dial = can_dial;
        if !can_dial {
            self.dial_at = None;
        } else if self.current.is_none() {
            self.want(now);
        }
    }

    /// Dials at once, unless a dial is under way, and whenever it must be done again.
    pub(crate) fn dial_from_now_on(&mut self, now: Instant) {
        self.can_dial = true;
        self.backoff = MIN_BACKOFF;
        self.want(now);
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
        self.connections.push(Connection { id, role, label, keys: Some(keys), since: now });
        let mut waiting = self.connections.iter().filter(|connection| connection.is_waiting());
        let oldest = waiting.next()?.id;
        (waiting.count() >= MAX_CONNECTIONS).then(|| {
            self.end(oldest);
            (oldest, CloseReason::Superseded)
        })
    }

    /// The connection with that id.
    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.id == id)
    }

    /// Whether a connection has to give way to one that the site with the smaller key has dialled at about the
    /// same time. To be asked when the hello arrives, before anything follows from it: so both sites make the
    /// keys of the same connection last.
    pub(crate) fn gives_way(&self, id: ConnectionId) -> bool {
        let preferred = if self.smaller_key { Role::Dialer } else { Role::Acceptor };
        let this =
            self.connections.iter().find(|connection| connection.id == id && connection.role != preferred);
        this.is_some_and(|this| {
            self.connections
                .iter()
                .any(|other| other.role == preferred && this.since < other.since + COLLISION)
        })
    }

    /// The hellos have been exchanged on a connection: it counts from here on, and the others end.
    pub(crate) fn on_established(&mut self, id: ConnectionId, now: Instant) -> Vec<Hangup> {
        let Some(role) = self.get_mut(id).map(|connection| connection.role) else {
            return Vec::new();
        };
        self.current = Some((id, role, now));
        self.dial_at = (self.can_dial && role == Role::Dialer).then(|| now + REFRESH);
        let older = self.take(|connection| connection.id != id);
        older.into_iter().map(|older| (older, CloseReason::Superseded)).collect()
    }

    /// A connection has ended.
    pub(crate) fn on_disconnected(&mut self, id: ConnectionId, now: Instant) {
        self.end(id);
        let lost = self.current.take_if(|(current, ..)| *current == id);
        let waiting = self.connections.iter().any(Connection::is_waiting);
        if self.current.is_some() || waiting || self.dialing || !self.can_dial {
            return;
        }
        // Whoever dialled before dials again at once; the other side waits, so that they don't collide.
        let wait = match lost {
            Some((_, Role::Acceptor, _)) => COURTESY,
            Some((.., since)) if since + STABLE_TIME <= now => {
                self.backoff = MIN_BACKOFF;
                self.lost_at = Some(now);
                Duration::ZERO
            }
            Some(_) | None => self.back_off(now),
        };
        self.dial_at = Some(self.dial_at.map_or(now + wait, |at| at.min(now + wait)));
    }

    /// Connections on which no hello came in time.
    pub(crate) fn take_overdue(&mut self, now: Instant) -> Vec<Hangup> {
        let ended =
            self.take(|connection| connection.is_waiting() && connection.since + HELLO_TIMEOUT <= now);
        for &id in &ended {
            self.on_disconnected(id, now);
        }
        ended.into_iter().map(|id| (id, CloseReason::Protocol)).collect()
    }

    /// Has no more to do with a connection.
    pub(crate) fn end(&mut self, id: ConnectionId) {
        self.take(|connection| connection.id == id);
    }

    /// Takes connections out of the list.
    fn take(&mut self, which: impl Fn(&Connection) -> bool) -> Vec<ConnectionId> {
        let ended: Vec<_> = self.connections.extract_if(.., |connection| which(connection)).collect();
        let unused = ended.iter().filter(|connection| connection.is_waiting());
        self.void_labels.extend(unused.map(|connection| connection.label));
        ended.into_iter().map(|connection| connection.id).collect()
    }

    /// The labels that no key will ever stand behind.
    pub(crate) fn take_void_labels(&mut self) -> Vec<Label> {
        std::mem::take(&mut self.void_labels)
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
        self.take(|_| true).into_iter().map(|id| (id, CloseReason::Shutdown)).collect()
    }

    /// When there is something to do.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let hello = self.connections.iter().filter(|c| c.is_waiting()).map(|c| c.since + HELLO_TIMEOUT).min();
        [hello, self.dial_at.filter(|_| !self.dialing)].into_iter().flatten().min()
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("current", &self.current).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use psmc_wire::crypto::PacketKey;

    use super::*;

    struct NoKeys;

    impl KeySource for NoKeys {
        fn packet_key(
            &self,
            _aead: psmc_wire::crypto::Aead,
            _sealer: Role,
            _epoch: u8,
        ) -> Box<dyn PacketKey> {
            unreachable!("no hello is heard in these tests")
        }

        fn exchange(&self) -> Box<dyn psmc_wire::crypto::KeyExchange> {
            unreachable!("no key is installed in these tests")
        }
    }

    #[test]
    fn a_site_that_learns_of_a_way_dials_whether_it_did_before_or_is_connected() {
        let now = Instant::now();
        let mut control = Control::new(false, false, now);
        assert!(!control.take_dial(now));
        control.dial_from_now_on(now);
        assert!(control.take_dial(now));
        control.dial_from_now_on(now);
        assert!(!control.take_dial(now), "a dial is under way");
        connect(&mut control, 1, Role::Dialer, now);
        establish(&mut control, 1, now);
        assert!(!control.take_dial(now));
        control.dial_from_now_on(now);
        assert!(control.take_dial(now));
    }

    fn connect(control: &mut Control, id: u32, role: Role, now: Instant) -> Option<Hangup> {
        control.on_connected(ConnectionId(id.into()), role, Label(id), Box::new(NoKeys), now)
    }

    /// The hellos have been exchanged.
    fn establish(control: &mut Control, id: u32, now: Instant) -> Vec<Hangup> {
        let id = ConnectionId(id.into());
        control.get_mut(id).expect("it is up").keys = None;
        control.on_established(id, now)
    }

    #[test]
    fn what_the_smaller_key_dials_wins_if_both_dial_at_once() {
        let start = Instant::now();
        let first = (Role::Dialer, Role::Acceptor);
        for (smaller_key, (own, other)) in [(true, first), (false, (first.1, first.0))] {
            for (lag, gives_way) in [(Duration::ZERO, true), (COLLISION, false)] {
                let mut control = Control::new(true, smaller_key, start);
                connect(&mut control, 1, own, start);
                connect(&mut control, 2, other, start + lag);
                assert!(!control.gives_way(ConnectionId(1)), "smaller key: {smaller_key}");
                assert_eq!(
                    control.gives_way(ConnectionId(2)),
                    gives_way,
                    "smaller key: {smaller_key}, {lag:?}"
                );
            }
        }
    }

    #[test]
    fn labels_without_keys_are_given_back() {
        let now = Instant::now();
        let mut control = Control::new(true, true, now);
        connect(&mut control, 1, Role::Dialer, now);
        connect(&mut control, 2, Role::Acceptor, now);
        assert_eq!(establish(&mut control, 1, now), [(ConnectionId(2), CloseReason::Superseded)]);
        assert_eq!(control.take_void_labels(), [Label(2)]);
        control.on_disconnected(ConnectionId(1), now);
        assert_eq!(control.take_void_labels(), [], "the keys have the label");
        for id in 3..8 {
            connect(&mut control, id, Role::Acceptor, now);
        }
        assert_eq!(control.take_void_labels(), [Label(3)], "one too many waits for its hello");
        assert_eq!(control.take_overdue(now + HELLO_TIMEOUT).len(), MAX_CONNECTIONS);
        assert_eq!(control.take_void_labels().len(), MAX_CONNECTIONS);
    }

    #[test]
    fn a_connection_that_does_not_last_counts_as_a_failure() {
        let mut now = Instant::now();
        let mut control = Control::new(true, true, now);
        let mut wait_after = |lasts: Duration, id: u32| {
            connect(&mut control, id, Role::Dialer, now);
            establish(&mut control, id, now);
            now += lasts;
            control.on_disconnected(ConnectionId(id.into()), now);
            control.next_timeout().expect("it is dialled again") - now
        };
        assert_eq!(wait_after(Duration::ZERO, 1), MIN_BACKOFF);
        assert_eq!(wait_after(Duration::ZERO, 2), 2 * MIN_BACKOFF);
        assert_eq!(wait_after(STABLE_TIME, 3), Duration::ZERO);
        assert_eq!(wait_after(Duration::ZERO, 4), MIN_BACKOFF);
    }

    #[test]
    fn a_peer_that_was_there_a_moment_ago_is_dialled_more_often() {
        let start = Instant::now();
        let mut control = Control::new(true, true, start);
        connect(&mut control, 1, Role::Dialer, start);
        establish(&mut control, 1, start);
        let lost = start + STABLE_TIME;
        control.on_disconnected(ConnectionId(1), lost);
        let mut now = lost;
        let mut longest = Duration::ZERO;
        while now < lost + EAGER_TIME {
            assert!(control.take_dial(now));
            control.on_dial_failed(now);
            let next = control.next_timeout().expect("it is dialled again");
            longest = longest.max(next - now);
            now = next;
        }
        assert_eq!(longest, EAGER_BACKOFF);
        assert!(control.take_dial(now));
        control.on_dial_failed(now);
        assert_eq!(control.next_timeout(), Some(now + MAX_BACKOFF), "by then it is gone for longer");
    }

    #[test]
    fn a_failed_dial_is_repeated_unless_the_peer_has_dialled() {
        let now = Instant::now();
        let mut control = Control::new(true, true, now);
        assert!(control.take_dial(now) && !control.take_dial(now), "asked for once");
        control.on_dial_failed(now);
        assert_eq!(control.next_timeout(), Some(now + MIN_BACKOFF));
        assert!(control.take_dial(now + MIN_BACKOFF));
        connect(&mut control, 1, Role::Acceptor, now);
        establish(&mut control, 1, now);
        control.on_dial_failed(now);
        assert_eq!(control.next_timeout(), None);
    }
}
