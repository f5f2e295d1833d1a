//! The file is read anew while everything goes on.

use std::sync::Arc;

use super::void::longest_grant;
use super::{Engine, policy, relay_info, watch_relay};
use crate::config::{Config, Service};
use crate::mitigation::Life;
use crate::now;
use crate::publish::Publisher;
use crate::signal::refusal;

impl Engine {
    /// Gives up relays and services that the next configuration does not have, while this one still says how. That is
    /// kept and done before [`adopt`](Self::adopt) is called.
    pub(super) fn prepare_for(&mut self, next: &Arc<Config>) {
        let now = now();
        let gone: Vec<String> = self
            .config
            .relays
            .iter()
            .filter(|relay| !is_same(&self.config, next, &relay.name))
            .map(|relay| relay.name.clone())
            .collect();
        // None of them takes another's place.
        gone.iter().for_each(|relay| self.relays.is_silent(relay));
        for relay in &gone {
            let user = self.relays.user(relay).map(str::to_owned);
            if let Some(life) = user.and_then(|user| self.lives.get_mut(&user)) {
                life.handle_relay_failed(relay, "the configuration has it no more", &mut self.relays, now);
            }
        }
        for (name, life) in &mut self.lives {
            if service(next, name).is_none() {
                life.handle_removal(&mut self.relays, now);
            }
        }
        self.next = Some(next.clone());
    }

    /// Goes by another configuration. Connections of gateways and clients stay, and so do those to relays and tasks for
    /// name servers that are what they were.
    pub(super) fn adopt(&mut self, next: Arc<Config>) {
        let had = self.holders();
        let before = std::mem::replace(&mut self.config, next.clone());
        self.take_back_from_all_but_holders(&had, longest_grant(&before));
        self.adopt_relays(&before);
        self.adopt_services(&before);
        self.sessions.keep_only(|joined| refusal(&next, joined.key, joined.role).is_none());
        self.recall_routes();
        self.tell_gateways_of_clients();
        // All are told of the routes as they are renewed, which is due at once.
    }

    fn adopt_relays(&mut self, before: &Config) {
        let next = self.config.clone();
        // A task whose sender is gone says what was to be said last, and ends.
        self.limits.retain(|name, _| is_same(before, &next, name));
        self.relay_errors.retain(|name, _| is_same(before, &next, name));
        for relay in &next.relays {
            if !self.limits.contains_key(&relay.name) {
                let limit = watch_relay(&next, relay, &self.void, &self.itself, &mut self.tasks);
                self.limits.insert(relay.name.clone(), limit);
            }
        }
        self.relays.replace(next.relays.iter().map(relay_info), |name| is_same(before, &next, name));
        for (service, life) in &self.lives {
            life.state().all_relays().for_each(|relay| self.relays.keep(relay, service));
        }
    }

    fn adopt_services(&mut self, before: &Config) {
        let (next, now) = (self.config.clone(), now());
        let is_there = |name: &str| service(&next, name).is_some();
        self.lives.retain(|name, _| is_there(name));
        self.routes.retain(|name, _| is_there(name));
        self.publishers.retain(|name, _| is_there(name));
        self.published.retain(|(name, _), _| is_there(name));
        for this in &next.services {
            let name = this.title();
            let has_same_servers = service(before, &name).is_some_and(|before| {
                (&before.zone, &before.servers, &before.tsig_key)
                    == (&this.zone, &this.servers, &this.tsig_key)
            });
            if !has_same_servers {
                self.published.retain(|(of, _), _| *of != name);
                self.publishers.insert(name.clone(), Publisher::start(this, &self.itself, &mut self.tasks));
            }
            match self.lives.get_mut(&name) {
                Some(life) => life.handle_policy(policy(this), &mut self.relays, now),
                None => {
                    let state = self.kept.get(&name).cloned().unwrap_or_default();
                    let life = Life::resume(policy(this), state, &mut self.relays, now);
                    self.lives.insert(name, life);
                }
            }
        }
    }
}

/// Whether a relay is in both, and the same one.
fn is_same(before: &Config, next: &Config, name: &str) -> bool {
    let of = |config: &Config| {
        let relay = config.relays.iter().find(|relay| relay.name == name)?;
        Some((relay.address, relay.public_key))
    };
    of(before).is_some_and(|relay| of(next) == Some(relay))
}

fn service<'a>(config: &'a Config, name: &str) -> Option<&'a Service> {
    config.services.iter().find(|service| service.title() == name)
}
