//! Who is connected.

use std::collections::BTreeMap;

use psmc_net::keys::PublicKey;
use psmc_signal::parts::{Parts, TooMany};
use psmc_signal::{Message, Role};

use crate::signal::{Joined, SessionId};

/// Connections of one key at a time: one that is dead and not missed yet, and the one that has taken its place.
const MAX_OF_ONE_KEY: usize = 2;

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: BTreeMap<SessionId, Joined>,
    /// Relays at which gateways are registered, of which more are to come.
    ready: BTreeMap<SessionId, Parts<String>>,
    /// Alerts that were taken since the last look at the disk, and by whom they came.
    notes: Vec<(SessionId, Message)>,
}

impl Sessions {
    /// A connection is there; of those with the same key the oldest may have to go.
    pub(super) fn add(&mut self, joined: Joined) {
        let same = |other: &&Joined| other.key == joined.key && other.role == joined.role;
        let older: Vec<SessionId> = self.all.values().filter(same).map(|other| other.session).collect();
        if let Some(oldest) = older.first().filter(|_| older.len() >= MAX_OF_ONE_KEY) {
            self.all.remove(oldest);
        }
        self.all.insert(joined.session, joined);
    }

    pub(super) fn remove(&mut self, session: SessionId) {
        self.all.remove(&session);
    }

    /// Hangs up on all others.
    pub(super) fn keep_only(&mut self, is_known: impl Fn(&Joined) -> bool) {
        self.all.retain(|_, joined| is_known(joined));
    }

    pub(super) fn get(&self, session: SessionId) -> Option<&Joined> {
        self.all.get(&session)
    }

    /// The connections of a gateway.
    pub(super) fn of_gateway(&self, key: PublicKey) -> Vec<SessionId> {
        let ours = |joined: &&Joined| joined.role == Role::Gateway && joined.key == key;
        self.all.values().filter(ours).map(|joined| joined.session).collect()
    }

    /// The connections of clients.
    pub(super) fn clients(&self) -> impl Iterator<Item = &Joined> {
        self.all.values().filter(|joined| joined.role == Role::Client)
    }

    /// How many there are of a kind.
    pub(super) fn count(&self, role: Role) -> usize {
        self.all.values().filter(|joined| joined.role == role).count()
    }

    /// Has a message sent. A connection on which too much waits is given up: it comes back, and is told everything anew.
    pub(super) fn send(&mut self, session: SessionId, message: Message) {
        let Some(joined) = self.all.get(&session) else { return };
        if joined.outgoing.try_send(message).is_err() {
            tracing::debug!(key = %joined.key, "hung up: it does not take what it is told");
            self.all.remove(&session);
        }
    }

    /// Joins what a gateway says of the relays at which it is registered; all of them if that was the last part.
    pub(super) fn join_ready(
        &mut self,
        session: SessionId,
        id: u64,
        relays: Vec<String>,
        is_last: bool,
    ) -> Result<Option<Vec<String>>, TooMany> {
        self.ready.retain(|session, _| self.all.contains_key(session));
        self.ready.entry(session).or_default().join(id, relays, is_last)
    }

    /// Refuses what was said, which ends the connection.
    pub(super) fn refuse(&mut self, session: SessionId, reason: &str) {
        self.send(session, Message::Refused { reason: reason.to_owned() });
        self.all.remove(&session);
    }

    /// Has something acknowledged once it is kept.
    pub(super) fn note(&mut self, session: SessionId, id: String) {
        self.notes.push((session, Message::Noted { id }));
    }

    /// Acknowledges what was kept. What was not is said again by whoever hears nothing.
    pub(super) fn send_notes(&mut self, is_kept: bool) {
        for (session, note) in std::mem::take(&mut self.notes) {
            if is_kept {
                self.send(session, note);
            }
        }
    }
}
