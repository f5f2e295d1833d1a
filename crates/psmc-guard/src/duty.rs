//! What a coordinator has asked for: at which relays the gateway is to be registered, and whom it lets in.
//!
//! A state machine without I/O. What was asked stays, with and without a connection, until it is withdrawn or expires.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use psmc_signal::parts::Parts;
use psmc_signal::{Client, Message, Mitigation, RelayOffer, Stage};
use serde::{Deserialize, Serialize};

/// Mitigations at a time: more than one for each service that a guard can have.
const MAX_MITIGATIONS: usize = 512;

/// Why a relay that answers is said to have failed, for people.
const SILENT: &str = "no client traffic through this relay, while clients arrive through others";

/// What is to be so at the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The relays to be registered at, in the order of their keys.
    pub registrations: Vec<Registration>,
    /// Who is let in, by name.
    pub clients: BTreeMap<String, Client>,
}

/// A relay to be registered at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The relay.
    pub relay: RelayOffer,
    /// The number of the hidden line by which, where there are any.
    pub line: Option<usize>,
}

/// How a registration fares, as psmcd says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether the relay leads peers here.
    pub is_registered: bool,
    /// Whether nothing comes through it from peers who come through others.
    pub is_silent: bool,
    /// Why it does not.
    pub error: Option<String>,
}

/// Remembers what is asked, and says how far it is done.
///
/// Give it the coordinator's messages, what psmcd says, and the time; have [`Duty::wanted`] done after each of them.
#[derive(Debug)]
pub struct Duty {
    mitigations: BTreeMap<u64, Mitigation>,
    /// Of a mitigation that has not come in full.
    relays: Parts<RelayOffer>,
    clients: ClientLists,
    placement: Placement,
    /// What was last said to be ready, by mitigation.
    ready: BTreeMap<u64, Vec<String>>,
    registered: BTreeSet<String>,
    failed: BTreeSet<String>,
}

/// What is kept over a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// All mitigations.
    pub mitigations: Vec<Mitigation>,
    /// Who is let in, by service.
    pub clients: BTreeMap<String, Vec<Client>>,
}

impl Duty {
    /// Begins with what was kept, for a gateway with so many hidden lines.
    #[must_use]
    pub fn new(kept: Kept, lines: usize) -> Self {
        let mitigations = kept.mitigations.into_iter().take(MAX_MITIGATIONS);
        let mut duty = Self {
            mitigations: mitigations.map(|mitigation| (mitigation.id, mitigation)).collect(),
            relays: Parts::default(),
            clients: ClientLists::new(kept.clients),
            placement: Placement::new(lines),
            ready: BTreeMap::new(),
            registered: BTreeSet::new(),
            failed: BTreeSet::new(),
        };
        duty.place();
        duty
    }

    /// Takes a mitigation, a part of one, or its end.
    ///
    /// # Errors
    /// Why it is not done, for people.
    pub fn handle_mitigation(&mut self, mut mitigation: Mitigation) -> Result<(), String> {
        let id = mitigation.id;
        let part = std::mem::take(&mut mitigation.relays);
        let whole = self.relays.join(id, part, mitigation.is_last).map_err(|error| error.to_string())?;
        let Some(relays) = whole else { return Ok(()) };
        (mitigation.relays, mitigation.is_last) = (relays, true);
        // Whoever says it again wants to hear again how far it is.
        self.ready.remove(&id);
        if mitigation.stage == Stage::Withdrawn {
            self.mitigations.remove(&id);
        } else if !self.mitigations.contains_key(&id) && self.mitigations.len() >= MAX_MITIGATIONS {
            return Err(format!("there are {MAX_MITIGATIONS} mitigations already"));
        } else {
            for relay in &mitigation.relays {
                self.failed.remove(&relay.public_key);
            }
            self.mitigations.insert(id, mitigation);
        }
        self.place();
        Ok(())
    }

    /// Takes a part of the list of those who are let in.
    ///
    /// # Errors
    /// Why it is not done, for people.
    pub fn handle_clients(
        &mut self,
        service: &str,
        revision: u64,
        clients: Vec<Client>,
        is_last: bool,
    ) -> Result<(), String> {
        self.clients.handle_part(service, revision, clients, is_last)
    }

    /// Takes how registrations fare, by the public keys of their relays, and returns what is to be said about it.
    pub fn handle_standing(&mut self, standing: &BTreeMap<String, Standing>) -> Vec<Message> {
        let mut messages = self.failures(standing);
        let registered = standing.iter().filter(|(_, standing)| standing.is_registered);
        self.registered = registered.map(|(key, _)| key.clone()).collect();
        for mitigation in self.mitigations.values() {
            let keys = mitigation.relays.iter().map(|relay| &relay.public_key);
            let relays: Vec<String> = keys.filter(|key| self.registered.contains(*key)).cloned().collect();
            let said = self.ready.get(&mitigation.id);
            if said.map_or(!relays.is_empty(), |said| *said != relays) {
                messages.extend(Message::ready(mitigation.id, &relays));
                self.ready.insert(mitigation.id, relays);
            }
        }
        messages
    }

    /// There is a connection to a coordinator, which may not know what was said before.
    pub fn handle_connected(&mut self) {
        self.ready.clear();
        self.failed.clear();
        self.clients.forget_parts();
        self.relays.forget();
    }

    /// Ends what has expired at `now`, in seconds since 1970. While no coordinator is there to say who is let in, those of a
    /// service whose last mitigation expires are not any more.
    pub fn handle_time(&mut self, now: u64, is_connected: bool) {
        let expired = self.mitigations.extract_if(.., |_, mitigation| mitigation.expires <= now);
        let services: BTreeSet<String> = expired.map(|(_, mitigation)| mitigation.service).collect();
        if services.is_empty() {
            return;
        }
        for service in services {
            if !is_connected && !self.is_mitigated(&service) {
                self.clients.remove(&service);
            }
        }
        self.place();
    }

    /// What is to be so.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        let registrations = self.relays().into_values().map(|relay| Registration {
            line: self.placement.line_of(&relay.public_key),
            relay: relay.clone(),
        });
        Wanted { registrations: registrations.collect(), clients: self.clients.all() }
    }

    /// Whether something is done for a service.
    #[must_use]
    pub fn is_mitigated(&self, service: &str) -> bool {
        self.mitigations.values().any(|mitigation| mitigation.service == service)
    }

    /// Whether its visitors are led another way.
    #[must_use]
    pub fn is_active(&self, service: &str) -> bool {
        let active = |stage| !matches!(stage, Stage::Prepared | Stage::Withdrawn);
        self.mitigations.values().any(|mitigation| mitigation.service == service && active(mitigation.stage))
    }

    /// All mitigations.
    pub fn mitigations(&self) -> impl Iterator<Item = &Mitigation> {
        self.mitigations.values()
    }

    /// Whether the gateway is registered at the relay with this public key.
    #[must_use]
    pub fn is_registered(&self, key: &str) -> bool {
        self.registered.contains(key)
    }

    /// What is to be kept over a restart.
    #[must_use]
    pub fn kept(&self) -> Kept {
        Kept { mitigations: self.mitigations.values().cloned().collect(), clients: self.clients.by_service() }
    }

    /// Relays that were registered and are not, that refuse, or through which nothing comes: said once.
    fn failures(&mut self, standing: &BTreeMap<String, Standing>) -> Vec<Message> {
        let mut messages = Vec::new();
        for mitigation in self.mitigations.values() {
            for relay in &mitigation.relays {
                let key = &relay.public_key;
                let now = standing.get(key);
                if now.is_some_and(|now| now.is_registered && !now.is_silent) {
                    self.failed.remove(key);
                    continue;
                }
                let lost = self.registered.contains(key).then(|| "the registration was lost".to_owned());
                let reason = match now {
                    Some(now) if now.is_registered => Some(SILENT.to_owned()),
                    Some(Standing { error: Some(error), .. }) => Some(error.clone()),
                    Some(_) | None => lost,
                };
                if let Some(reason) = reason
                    && self.failed.insert(key.clone())
                {
                    let (service, relay) = (mitigation.service.clone(), key.clone());
                    messages.push(Message::RelayFailed { service, relay, reason });
                }
            }
        }
        messages
    }

    /// The relays of all mitigations by their keys.
    fn relays(&self) -> BTreeMap<&str, &RelayOffer> {
        let offers = self.mitigations.values().flat_map(|mitigation| &mitigation.relays);
        offers.map(|relay| (relay.public_key.as_str(), relay)).collect()
    }

    fn place(&mut self) {
        let keys: BTreeSet<String> = self.relays().into_keys().map(str::to_owned).collect();
        self.placement.place(&keys);
        self.failed.retain(|key| keys.contains(key));
        self.ready.retain(|id, _| self.mitigations.contains_key(id));
    }
}

/// Clients of all services at most: psmcd has a peer for each.
const MAX_CLIENTS: usize = 10_000;

/// Lists that have come in full, and those of which parts are missing.
#[derive(Debug, Default)]
struct ClientLists {
    lists: BTreeMap<String, Vec<Client>>,
    parts: BTreeMap<String, (u64, Vec<Client>)>,
}

impl ClientLists {
    fn new(lists: BTreeMap<String, Vec<Client>>) -> Self {
        Self { lists, parts: BTreeMap::new() }
    }

    /// Takes a part of a list. A part of another revision begins anew.
    fn handle_part(
        &mut self,
        service: &str,
        revision: u64,
        clients: Vec<Client>,
        is_last: bool,
    ) -> Result<(), String> {
        let (_, mut list) =
            self.parts.remove(service).filter(|(begun, _)| *begun == revision).unwrap_or_default();
        let others = self.lists.iter().filter(|(name, _)| *name != service).map(|(_, list)| list.len());
        let waiting = self.parts.values().map(|(_, list)| list.len());
        let count = others.chain(waiting).sum::<usize>() + list.len() + clients.len();
        if count > MAX_CLIENTS {
            return Err(format!("{count} clients are more than the {MAX_CLIENTS} that a gateway lets in"));
        }
        list.extend(clients);
        if is_last {
            self.lists.insert(service.to_owned(), list);
        } else {
            self.parts.insert(service.to_owned(), (revision, list));
        }
        Ok(())
    }

    /// The rest of what has begun will not come.
    fn forget_parts(&mut self) {
        self.parts.clear();
    }

    fn remove(&mut self, service: &str) {
        self.lists.remove(service);
    }

    /// All of them by name. Services of one gateway can share clients.
    fn all(&self) -> BTreeMap<String, Client> {
        let clients = self.lists.values().flatten();
        clients.map(|client| (client.name.clone(), client.clone())).collect()
    }

    fn by_service(&self) -> BTreeMap<String, Vec<Client>> {
        self.lists.clone()
    }
}

/// Spreads relays over lines: each new one gets the line with the fewest, and keeps it.
#[derive(Debug)]
struct Placement {
    lines: usize,
    placed: BTreeMap<String, usize>,
}

impl Placement {
    fn new(lines: usize) -> Self {
        Self { lines, placed: BTreeMap::new() }
    }

    /// Places these relays, and no others.
    fn place(&mut self, keys: &BTreeSet<String>) {
        self.placed.retain(|key, _| keys.contains(key));
        for key in keys {
            if let Some(line) = self.emptiest() {
                self.placed.entry(key.clone()).or_insert(line);
            }
        }
    }

    fn line_of(&self, key: &str) -> Option<usize> {
        self.placed.get(key).copied()
    }

    fn emptiest(&self) -> Option<usize> {
        let load = |line: &usize| self.placed.values().filter(|placed| *placed == line).count();
        (0..self.lines).min_by_key(load)
    }
}
