//! People who transfer files, one after another.
//!
//! People who type: Telnet.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use super::chance::{bytes, exponential, pause, uniform};
use super::{Desk, Generator, Place, Seen, TcpSetup};
use crate::agenda::Agenda;
use crate::transport::{Owner, Route, Settings, StreamId};

/// Each of some people transfers a file, rests, and transfers the next one, each on a connection of its own.
#[derive(Debug)]
pub(super) struct Transfers {
    settings: Settings,
    users: usize,
    mean_bytes: f64,
    mean_pause: Duration,
    due: Due,
    senders: BTreeMap<StreamId, usize>,
    /// What was seen of each connection that the receiver has taken.
    receivers: BTreeMap<StreamId, u64>,
}

impl Transfers {
    /// So many people; both means are of exponential distributions.
    pub(super) fn new(
        place: &Place,
        tcp: TcpSetup,
        users: usize,
        mean_bytes: f64,
        mean_pause: Duration,
    ) -> Self {
        Self {
            settings: tcp.settings(),
            users,
            mean_bytes,
            mean_pause,
            due: Due::new(place),
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
        }
    }

    fn rest(&mut self, user: usize, desk: &mut Desk<'_>) {
        self.due.set(user, desk.now + pause(self.mean_pause, desk.rng));
    }

    fn begin(&mut self, user: usize, desk: &mut Desk<'_>) {
        let Some(stream) = connect(self.settings, desk) else {
            desk.note(Seen::Broken);
            return self.rest(user, desk);
        };
        desk.note(Seen::Sent);
        self.senders.insert(stream, user);
        let size = bytes(exponential(self.mean_bytes, desk.rng));
        desk.stack.fill(stream, size);
        desk.stack.finish(stream);
    }

    fn receive(&mut self, stream: StreamId, desk: &mut Desk<'_>) {
        let Some(tcp) = desk.stack.transport.get(stream) else {
            return;
        };
        let (received, finished) = (tcp.received(), tcp.peer_has_finished());
        let seen = self.receivers.entry(stream).or_default();
        let new = received - std::mem::replace(seen, received);
        if new > 0 {
            desk.note(Seen::Delivered(new));
        }
        if finished {
            self.receivers.remove(&stream);
            desk.stack.close(stream);
        }
    }
}

impl Generator for Transfers {
    fn handle_timeout(&mut self, desk: &mut Desk<'_>) {
        if desk.now >= desk.place.stop {
            self.due.clear();
            let all = std::mem::take(&mut self.senders)
                .into_keys()
                .chain(std::mem::take(&mut self.receivers).into_keys());
            return all.for_each(|stream| desk.stack.abort(stream));
        }
        if self.due.begins() {
            listen(self.settings, desk);
            (0..self.users).for_each(|user| self.rest(user, desk));
        }
        while let Some(user) = self.due.pop(desk.now) {
            self.begin(user, desk);
        }
    }

    fn handle_stream(&mut self, stream: StreamId, desk: &mut Desk<'_>) {
        let Some(&user) = self.senders.get(&stream) else {
            return self.receive(stream, desk);
        };
        if let Some(whole) = has_ended(stream, desk) {
            self.senders.remove(&stream);
            desk.stack.abort(stream);
            if !whole {
                desk.note(Seen::Broken);
            }
            self.rest(user, desk);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due.next()
    }
}

/// Each of some people opens a connection, types some packets, closes it, and opens the next one.
#[derive(Debug)]
pub(super) struct Telnet {
    settings: Settings,
    users: Vec<User>,
    packets: RangeInclusive<u32>,
    payload: u64,
    mean_gap: Duration,
    due: Due,
    by_stream: BTreeMap<StreamId, usize>,
}

#[derive(Clone, Debug, Default)]
struct User {
    stream: Option<StreamId>,
    /// Packets that are still to be typed.
    left: u32,
    /// When those were typed that have not arrived.
    typed: VecDeque<Instant>,
    arrived: u64,
}

impl Telnet {
    /// So many people; a session has so many packets of so many bytes, at exponentially distributed gaps.
    pub(super) fn new(
        place: &Place,
        tcp: TcpSetup,
        users: usize,
        packets: RangeInclusive<u32>,
        payload: usize,
        mean_gap: Duration,
    ) -> Self {
        Self {
            settings: tcp.settings(),
            users: vec![User::default(); users],
            packets,
            payload: payload as u64,
            mean_gap,
            due: Due::new(place),
            by_stream: BTreeMap::new(),
        }
    }

    fn rest(&mut self, user: usize, desk: &mut Desk<'_>) {
        self.due.set(user, desk.now + pause(self.mean_gap, desk.rng));
    }

    fn go_on(&mut self, user: usize, desk: &mut Desk<'_>) {
        match self.users[user].stream {
            Some(stream) => self.type_packet(user, stream, desk),
            None => self.begin(user, desk),
        }
    }

    fn begin(&mut self, user: usize, desk: &mut Desk<'_>) {
        let Some(stream) = connect(self.settings, desk) else {
            desk.note(Seen::Broken);
            return self.rest(user, desk);
        };
        let (least, most) = (*self.packets.start(), *self.packets.end());
        let more = uniform(desk.rng) * f64::from(most.saturating_sub(least) + 1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between the ends")]
        let left = least + more as u32;
        self.users[user] = User { stream: Some(stream), left, ..User::default() };
        self.by_stream.insert(stream, user);
        self.rest(user, desk);
    }

    fn type_packet(&mut self, user: usize, stream: StreamId, desk: &mut Desk<'_>) {
        let state = &mut self.users[user];
        state.typed.push_back(desk.now);
        state.left = state.left.saturating_sub(1);
        let done = state.left == 0;
        desk.note(Seen::Sent);
        desk.stack.fill(stream, self.payload);
        if done {
            desk.stack.finish(stream);
        } else {
            self.rest(user, desk);
        }
    }

    /// The receiving end of a connection has changed.
    fn receive(&mut self, stream: StreamId, desk: &mut Desk<'_>) {
        let Some(tcp) = desk.stack.transport.get(stream) else {
            return;
        };
        let (received, finished) = (tcp.received(), tcp.peer_has_finished());
        let sender = desk.stack.transport.other_end(stream, desk.place.from);
        if let Some(user) = sender.and_then(|sender| self.by_stream.get(&sender)) {
            let state = &mut self.users[*user];
            while received >= (state.arrived + 1) * self.payload
                && let Some(sent_at) = state.typed.pop_front()
            {
                state.arrived += 1;
                desk.note(Seen::Delivered(self.payload));
                desk.note(Seen::Arrived { sent_at, late: false });
            }
        }
        if finished {
            desk.stack.close(stream);
        }
    }

    fn stop(&mut self, desk: &mut Desk<'_>) {
        self.due.clear();
        for stream in std::mem::take(&mut self.by_stream).into_keys() {
            desk.stack.abort(stream);
        }
    }
}

impl Generator for Telnet {
    fn handle_timeout(&mut self, desk: &mut Desk<'_>) {
        if desk.now >= desk.place.stop {
            return self.stop(desk);
        }
        if self.due.begins() {
            listen(self.settings, desk);
            (0..self.users.len()).for_each(|user| self.rest(user, desk));
        }
        while let Some(user) = self.due.pop(desk.now) {
            self.go_on(user, desk);
        }
    }

    fn handle_stream(&mut self, stream: StreamId, desk: &mut Desk<'_>) {
        let Some(&user) = self.by_stream.get(&stream) else {
            return self.receive(stream, desk);
        };
        if let Some(whole) = has_ended(stream, desk) {
            self.by_stream.remove(&stream);
            desk.stack.abort(stream);
            self.users[user] = User::default();
            if !whole {
                desk.note(Seen::Broken);
            }
            self.rest(user, desk);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due.next()
    }
}

/// When whose turn is, until traffic stops.
#[derive(Debug)]
pub(super) struct Due {
    users: Agenda<usize>,
    start: Option<Instant>,
    stop: Option<Instant>,
}

impl Due {
    /// Nobody's, but it begins.
    pub(super) fn new(place: &Place) -> Self {
        Self { users: Agenda::default(), start: Some(place.start), stop: Some(place.stop) }
    }

    /// Whether it begins: with the first call.
    pub(super) fn begins(&mut self) -> bool {
        self.start.take().is_some()
    }

    /// It is this user's turn then.
    pub(super) fn set(&mut self, user: usize, at: Instant) {
        self.users.set(user, Some(at));
    }

    /// The next user whose turn it is.
    pub(super) fn pop(&mut self, now: Instant) -> Option<usize> {
        self.users.pop(now)
    }

    /// It is nobody's turn any more.
    pub(super) fn clear(&mut self) {
        (self.start, self.stop, self.users) = (None, None, Agenda::default());
    }

    /// When something is to be done.
    pub(super) fn next(&self) -> Option<Instant> {
        [self.start, self.users.next(), self.stop].into_iter().flatten().min()
    }
}

/// Takes connections at the receiving host.
pub(super) fn listen(settings: Settings, desk: &mut Desk<'_>) {
    let Place { to, remote, .. } = desk.place;
    desk.stack.transport.listen(to, remote.port(), Owner::Traffic(desk.id), settings);
}

/// Opens a connection to it.
pub(super) fn connect(settings: Settings, desk: &mut Desk<'_>) -> Option<StreamId> {
    let Place { from, remote, .. } = desk.place;
    let route = Route { host: from, local: None, remote, bound: None };
    desk.stack.connect(Owner::Traffic(desk.id), &route, settings)
}

/// Whether a connection is over; `Some(true)` if both ends have finished it.
fn has_ended(stream: StreamId, desk: &Desk<'_>) -> Option<bool> {
    match desk.stack.transport.get(stream) {
        None => Some(false),
        Some(tcp) => tcp.is_over().then(|| tcp.has_finished()),
    }
}
