//! Who is connected, what clients are told, and what they complain about.

use std::collections::BTreeMap;
use std::time::Duration;

use psmc_net::keys::PublicKey;
use psmc_signal::parts::{Parts, TooMany};
use psmc_signal::{Message, Role, Routes};

use super::void::longest_grant;
use super::{Engine, OrderError};
use crate::config::Client;
use crate::now;
use crate::publish::GroupRoutes;
use crate::relay::Granted;
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
            tracing::debug!(key = %joined.key, "closed: the peer does not read");
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

    /// Acknowledges something once it is stored.
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

/// How long the complaint of a client counts.
const SUSPECT_FOR: Duration = Duration::from_secs(30);

/// Clients that have to complain about a relay before it is replaced: one alone may be the attacker's, also one that is the
/// only one there.
const COMPLAINTS: usize = 2;

/// Complaints that are remembered at most.
const MAX_SUSPICIONS: usize = 4096;

impl Engine {
    /// Tells all clients that are connected and admitted the routes of a service as they are.
    pub(super) fn tell_clients(&mut self, service: &str) {
        let all: Vec<(SessionId, PublicKey)> =
            self.sessions.clients().map(|joined| (joined.session, joined.key)).collect();
        for (session, key) in all {
            match self.news_for(service, key) {
                Some(routes) => {
                    self.counts.told += 1;
                    self.sessions.send(session, Message::Routes(routes));
                }
                None => self.counts.not_told += 1,
            }
        }
    }

    /// Tells a client that has just come of all services of which there are routes, and of those of which there were: it
    /// may have missed their end.
    pub(super) fn tell_client_everything(&mut self, session: SessionId) {
        let Some(Joined { key, .. }) = self.sessions.get(session) else { return };
        let key = *key;
        let services: Vec<String> = self.routes.keys().cloned().collect();
        for service in services {
            match self.news_for(&service, key) {
                Some(routes) => {
                    self.counts.told += u64::from(routes.record.is_some());
                    self.sessions.send(session, Message::Routes(routes));
                }
                None => self.counts.not_told += 1,
            }
        }
    }

    /// The routes of a service for a client; `None` if it is not to know.
    fn news_for(&self, name: &str, key: PublicKey) -> Option<Routes> {
        let client = self.client(key)?;
        if self.blocked.contains(&client.name) {
            return None;
        }
        let routes = self.routes.get(name)?.iter().find(|routes| routes.group == client.group)?;
        let grants = self.grants(name, client, routes);
        Some(Routes { service: name.to_owned(), record: routes.record.clone(), grants })
    }

    fn grants(&self, name: &str, client: &Client, routes: &GroupRoutes) -> Vec<String> {
        let (Some(service), Some(life)) = (self.service(name), self.lives.get(name)) else {
            return Vec::new();
        };
        let of_group = life.state().routes.get(&routes.group);
        let relays = of_group.into_iter().flatten().filter_map(|name| self.relay(name));
        let granted = |relay: &crate::config::Relay| Granted {
            relay: relay.public_key,
            site: client.public_key,
            expires_s: life.state().expires.seconds(),
            max_rate: service.relay_rate.map(psmc_toml::Rate::bits_per_second),
            gateway: false,
        };
        relays.map(|relay| granted(relay).sign(&self.config.private_key)).collect()
    }

    pub(super) fn block(&mut self, client: String, blocked: bool) -> Result<(), OrderError> {
        if !self.config.clients.iter().any(|known| known.name == client) {
            return Err(OrderError::UnknownClient(client));
        }
        let had = self.holders();
        let has_changed = if blocked { self.blocked.insert(client) } else { self.blocked.remove(&client) };
        if has_changed {
            self.take_back_from_all_but_holders(&had, longest_grant(&self.config));
            self.batch.blocked = Some(self.blocked.iter().cloned().collect());
            self.tell_gateways_of_clients();
        }
        Ok(())
    }

    /// Somebody says that a relay has failed. A gateway is believed; clients are if there are two of them.
    pub(super) fn handle_complaint(
        &mut self,
        role: Role,
        key: PublicKey,
        service: &str,
        relay: &str,
        reason: &str,
    ) {
        let named = self.config.relays.iter().find(|known| known.public_key.to_string() == relay);
        let Some(relay) = named.map(|relay| relay.name.clone()) else { return };
        let is_its_own = self.service(service).is_some_and(|service| service.gateway == Some(key));
        let believed = match role {
            Role::Gateway => is_its_own,
            Role::Client => self.suspect(key, &relay),
            Role::Watcher => false,
        };
        if let Some(life) = self.lives.get_mut(service).filter(|_| believed) {
            self.counts.relays_reported += 1;
            life.handle_relay_failed(&relay, reason, &mut self.relays, now());
        }
    }

    /// Remembers that a client complains about a relay, and says whether that is enough.
    fn suspect(&mut self, key: PublicKey, relay: &str) -> bool {
        let Some(client) = self.client(key).filter(|client| !self.blocked.contains(&client.name)) else {
            return false;
        };
        let name = client.name.clone();
        let now = now();
        self.suspicions.retain(|_, until| *until > now);
        if self.suspicions.len() >= MAX_SUSPICIONS {
            return false;
        }
        self.suspicions.insert((relay.to_owned(), name), now + SUSPECT_FOR);
        self.suspicions.keys().filter(|(about, _)| about == relay).count() >= COMPLAINTS
    }

    fn client(&self, key: PublicKey) -> Option<&Client> {
        self.config.clients.iter().find(|client| client.public_key == key)
    }

    pub(super) fn relay(&self, name: &str) -> Option<&crate::config::Relay> {
        self.config.relays.iter().find(|relay| relay.name == name)
    }
}
