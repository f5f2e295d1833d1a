//! Doing what mitigations want done.

use std::time::Duration;

use psmc_routes::update::{Change, Scope};
use psmc_routes::{Relay, RouteError, Validity};

use super::{Engine, Input};
use crate::config::Group;
use crate::mitigation::Action;
use crate::publish::{GroupRoutes, Published, Wanted, group_routes};

impl Engine {
    pub(super) fn perform(&mut self, service: &str, action: Action) {
        match action {
            Action::Cap { relay, serves } => self.cap(service, &relay, serves),
            Action::TellGateway => self.tell_gateways(service),
            Action::Publish => self.publish(service),
            Action::Withdraw => self.withdraw(service),
            Action::TellClients => self.tell_clients(service),
            // These have become events.
            Action::Note(_) => {}
        }
    }

    fn cap(&self, service: &str, relay: &str, serves: bool) {
        let rate = self.service(service).and_then(|service| service.relay_rate).filter(|_| serves);
        // One that was given away in the same breath belongs to another by now.
        let is_anothers = !serves && self.relays.user(relay).is_some();
        if let Some(limit) = self.limits.get(relay).filter(|_| !is_anothers) {
            limit.send_replace(rate.map(psmc_toml::Rate::bits_per_second));
        }
    }

    fn publish(&mut self, name: &str) {
        let Some(life) = self.lives.get(name) else { return };
        let serial = life.state().serial;
        match self.signed_routes(name) {
            Ok(routes) => {
                let changes = routes.iter().map(|routes| routes.change.clone()).collect();
                self.routes.insert(name.to_owned(), routes);
                self.want(name, Wanted { serial, changes });
            }
            Err(error) => {
                tracing::error!(
                    service = name,
                    error = crate::error_chain(&error),
                    "bug: routes cannot be published"
                );
            }
        }
    }

    /// What clients are to know of routes that were published before this program began, or the file was read anew.
    pub(super) fn recall_routes(&mut self) {
        let names: Vec<String> = self.lives.keys().cloned().collect();
        for name in names {
            let is_known = self.lives.get(&name).is_some_and(|life| life.state().serial > 0);
            match self.signed_routes(&name) {
                Ok(routes) if is_known => drop(self.routes.insert(name, routes)),
                Ok(_) => {}
                Err(error) => {
                    tracing::error!(
                        service = name,
                        error = crate::error_chain(&error),
                        "bug: no routes to tell"
                    );
                }
            }
        }
    }

    /// The routes of each group of a service, also of those that have none.
    fn signed_routes(&self, name: &str) -> Result<Vec<GroupRoutes>, RouteError> {
        let (Some(service), Some(life)) = (self.service(name), self.lives.get(name)) else {
            return Ok(Vec::new());
        };
        let state = life.state();
        let validity = Validity { serial: state.serial, expires_s: state.expires.seconds() };
        let relay = |name: &String| {
            self.relay(name).map(|relay| Relay {
                address: relay.address,
                key: relay.public_key,
                gateway: service.site,
            })
        };
        let of_group = |group: &Group| {
            let relays = state.routes.get(&group.name).into_iter().flatten().filter_map(relay).collect();
            group_routes(service, group, relays, validity)
        };
        service.groups.iter().map(of_group).collect()
    }

    fn withdraw(&mut self, name: &str) {
        let (Some(service), Some(life)) = (self.service(name), self.lives.get(name)) else { return };
        let serial = life.state().serial;
        let Ok(change) = Change::withdraw(&service.name, Scope::All) else { return };
        for routes in self.routes.get_mut(name).into_iter().flatten() {
            routes.record = None;
        }
        self.want(name, Wanted { serial, changes: vec![change] });
    }

    /// Updates name servers. Where there are none, clients are told by the signal channel alone.
    fn want(&mut self, name: &str, wanted: Wanted) {
        let Some(publisher) = self.publishers.get(name) else { return };
        if !publisher.is_empty() {
            return publisher.want(&wanted);
        }
        let none = Published {
            service: name.to_owned(),
            server: "no name server".to_owned(),
            serial: wanted.serial,
            result: Ok(Duration::ZERO),
        };
        // When the queue is full the next renewal says so again.
        let _ = self.itself.try_send(Input::Published(none));
    }
}
