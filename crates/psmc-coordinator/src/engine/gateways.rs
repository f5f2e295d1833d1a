//! What gateways and clients say, and what gateways are told.

use std::collections::BTreeSet;
use std::time::Duration;

use psmc_net::keys::PublicKey;
use psmc_signal::{Client, Message, Mitigation, RelayOffer, Role, Stage};

use super::{Engine, Order};
use crate::now;
use crate::relay::Granted;
use crate::signal::{Joined, SessionId};

/// What alerts of a gateway are called.
pub(crate) const SOURCE: &str = "gateway";

/// How long a gateway that is back may take to repeat the alerts that still hold.
const REPEAT_WITHIN: Duration = Duration::from_secs(30);

/// Clients in one message: with long names and eight addresses each they fit into a frame.
const CLIENTS_AT_ONCE: usize = 24;

impl Engine {
    pub(super) fn handle_joined(&mut self, joined: Joined) {
        let (session, key, role) = (joined.session, joined.key, joined.role);
        self.sessions.add(joined);
        match role {
            Role::Gateway => {
                for service in self.services_of(key) {
                    if let Some(life) = self.lives.get_mut(&service) {
                        life.handle_return(SOURCE, now() + REPEAT_WITHIN);
                    }
                    self.tell_clients_of(&service, session);
                    self.tell_mitigation(&service, session);
                }
            }
            Role::Client => self.tell_client_everything(session),
            // It says by itself what goes on.
            Role::Watcher => {}
        }
    }

    /// Alerts of guards that are connected go on: they would say so if not.
    pub(super) fn renew_by_presence(&mut self) {
        for service in &self.config.services {
            let is_there = service.gateway.is_some_and(|key| !self.sessions.of_gateway(key).is_empty());
            if let Some(life) = self.lives.get_mut(&service.title()).filter(|_| is_there) {
                life.handle_presence(SOURCE, now());
            }
        }
    }

    pub(super) fn handle_said(&mut self, session: SessionId, message: Message) {
        let Some(Joined { key, role, .. }) = self.sessions.get(session) else { return };
        let (key, role) = (*key, *role);
        match (role, message) {
            (_, Message::RelayFailed { service, relay, reason }) => {
                self.handle_complaint(role, key, &service, &relay, &reason);
            }
            (Role::Gateway, Message::Alert(alert)) => {
                let (id, service) = (alert.id.clone(), alert.service.clone());
                let order = Order::Alert { source: SOURCE.to_owned(), alert: Box::new(alert), lasts: None };
                self.carry_out(session, key, id, &service, order);
            }
            (Role::Gateway, Message::Clear { id, service }) => {
                let order =
                    Order::Clear { source: SOURCE.to_owned(), id: id.clone(), service: service.clone() };
                self.carry_out(session, key, id, &service, order);
            }
            (Role::Gateway, Message::Ready { id, relays, is_last }) => {
                match self.sessions.join_ready(session, id, relays, is_last) {
                    Ok(Some(relays)) => self.handle_ready(key, id, &relays),
                    Ok(None) => {}
                    Err(error) => self.refuse(session, &error.to_string()),
                }
            }
            (Role::Gateway, Message::Report { service, through_relays, .. }) => {
                if !self.speaks_for(key, &service) {
                    return;
                }
                if let Some(life) = self.lives.get_mut(&service) {
                    life.handle_report(&through_relays, &mut self.relays, now());
                }
            }
            (Role::Watcher, Message::Alert(alert)) => self.handle_watcher_alert(session, key, alert),
            (Role::Watcher, Message::Clear { id, .. }) => self.handle_watcher_clear(session, key, id),
            (Role::Watcher, Message::Ready { .. } | Message::Report { .. }) => {
                self.refuse(session, "watchers have no say in that: dial as a gateway, with a gateway's key");
            }
            (
                Role::Client,
                Message::Alert(_) | Message::Clear { .. } | Message::Ready { .. } | Message::Report { .. },
            ) => self.refuse(session, "clients have no say in that: dial as a gateway, with a gateway's key"),
            (
                _,
                Message::Hello { .. }
                | Message::Welcome { .. }
                | Message::Noted { .. }
                | Message::Declined { .. }
                | Message::Mitigation(_)
                | Message::Clients { .. }
                | Message::Routes(_),
            ) => self.refuse(session, "that is not said here"),
            (_, Message::Refused { .. } | Message::Ping | Message::Unknown) => {}
        }
    }

    /// Does what a gateway wants for a service of its own.
    fn carry_out(&mut self, session: SessionId, key: PublicKey, id: String, service: &str, order: Order) {
        if !self.speaks_for(key, service) {
            return self.refuse(session, "that service has another gateway: see its `gateway`");
        }
        match self.handle_order(order) {
            Ok(()) => self.sessions.note(session, id),
            Err(error) => self.refuse(session, &error.to_string()),
        }
    }

    pub(super) fn refuse(&mut self, session: SessionId, reason: &str) {
        self.counts.refused += 1;
        self.sessions.refuse(session, reason);
    }

    fn handle_ready(&mut self, key: PublicKey, id: u64, relays: &[String]) {
        let registered = self.config.relays.iter().filter(|relay| {
            let text = relay.public_key.to_string();
            relays.contains(&text)
        });
        let ready: BTreeSet<String> = registered.map(|relay| relay.name.clone()).collect();
        for service in self.services_of(key) {
            if let Some(life) = self.lives.get_mut(&service).filter(|life| life.state().id == id) {
                life.handle_ready(ready.clone(), now());
            }
        }
    }

    fn speaks_for(&self, key: PublicKey, service: &str) -> bool {
        self.service(service).is_some_and(|service| service.gateway == Some(key))
    }

    fn services_of(&self, gateway: PublicKey) -> Vec<String> {
        let ours = self.config.services.iter().filter(|service| service.gateway == Some(gateway));
        ours.map(crate::config::Service::title).collect()
    }

    /// Tells a service's gateway where the mitigation stands.
    pub(super) fn tell_gateways(&mut self, service: &str) {
        let Some(gateway) = self.service(service).and_then(|service| service.gateway) else { return };
        for session in self.sessions.of_gateway(gateway) {
            self.tell_mitigation(service, session);
        }
    }

    /// Tells a service's gateway anew whom to let in.
    pub(super) fn tell_gateways_of_clients(&mut self) {
        let services: Vec<(String, PublicKey)> = self
            .config
            .services
            .iter()
            .filter_map(|service| service.gateway.map(|gateway| (service.title(), gateway)))
            .collect();
        for (service, gateway) in services {
            for session in self.sessions.of_gateway(gateway) {
                self.tell_clients_of(&service, session);
            }
        }
    }

    fn tell_mitigation(&mut self, service: &str, session: SessionId) {
        let Some(mitigation) = self.mitigation(service) else { return };
        for part in Message::mitigation(&mitigation) {
            self.sessions.send(session, part);
        }
    }

    /// What a gateway is to do for a service; `None` if there never was anything.
    fn mitigation(&self, name: &str) -> Option<Mitigation> {
        let (service, state) = (self.service(name)?, self.lives.get(name)?.state());
        if state.id == 0 {
            return None;
        }
        let offer = |relay: &crate::config::Relay| RelayOffer {
            name: relay.name.clone(),
            address: relay.address,
            public_key: relay.public_key.to_string(),
            grant: Some(
                Granted {
                    relay: relay.public_key,
                    site: service.site_key(),
                    expires_s: state.expires.seconds() + service.lifetime.as_secs(),
                    max_rate: None,
                    gateway: true,
                }
                .sign(&self.config.private_key),
            ),
        };
        let ours = |relay: &&crate::config::Relay| state.all_relays().any(|name| *name == relay.name);
        let relays = match state.stage {
            Stage::Withdrawn => Vec::new(),
            Stage::Prepared
            | Stage::Requested
            | Stage::Active
            | Stage::Effective
            | Stage::Ineffective
            | Stage::Expiring => self.config.relays.iter().filter(ours).map(offer).collect(),
        };
        Some(Mitigation {
            id: state.id,
            service: name.to_owned(),
            stage: state.stage,
            relays,
            expires: state.expires.seconds(),
            is_last: true,
        })
    }

    fn tell_clients_of(&mut self, service: &str, session: SessionId) {
        let clients = self.admitted(service);
        let revision = now().0;
        let mut parts: Vec<&[Client]> = clients.chunks(CLIENTS_AT_ONCE).collect();
        if parts.is_empty() {
            parts.push(&[]);
        }
        let last = parts.len() - 1;
        let messages: Vec<Message> = parts
            .into_iter()
            .enumerate()
            .map(|(place, part)| Message::Clients {
                service: service.to_owned(),
                revision,
                clients: part.to_vec(),
                is_last: place == last,
            })
            .collect();
        for message in messages {
            self.sessions.send(session, message);
        }
    }

    /// The clients that a service lets in.
    fn admitted(&self, service: &str) -> Vec<Client> {
        let Some(service) = self.service(service) else { return Vec::new() };
        let is_in = |client: &&crate::config::Client| {
            !self.blocked.contains(&client.name)
                && service.groups.iter().any(|group| group.name == client.group)
        };
        let client = |client: &crate::config::Client| Client {
            name: client.name.clone(),
            public_key: client.public_key.to_string(),
            allowed_ips: client.allowed_ips.iter().map(ToString::to_string).collect(),
        };
        self.config.clients.iter().filter(is_in).map(client).collect()
    }
}
