//! What sites say that watch what was promised to them: which prefix is flooded, where that breaks a promise.

use ipnet::IpNet;
use psmc_net::keys::PublicKey;
use psmc_signal::{Alert, Message};

use super::{Engine, Order};
use crate::config::Service;
use crate::signal::SessionId;

/// What alerts of watchers are called, with the watcher's name behind it: those of two of them are different, and neither ends what
/// the other has begun.
pub(crate) const SOURCE: &str = "watcher";

impl Engine {
    /// Takes an alert for a service that has this watcher, if what is flooded is within its addresses.
    pub(super) fn handle_watcher_alert(&mut self, session: SessionId, key: PublicKey, alert: Alert) {
        let id = alert.id.clone();
        let Some(service) = self.watched_by(key, alert.target.as_deref()) else {
            let target = alert.target.unwrap_or_default();
            return self.decline(
                session,
                id,
                format!(
                    "{target} is in the `addresses` of no [[service]] that has this site among its `watchers`"
                ),
            );
        };
        let alert = Box::new(Alert { service, ..alert });
        let order = Order::Alert { source: self.source_of(key), alert, lasts: None };
        match self.handle_order(order) {
            Ok(()) => self.sessions.note(session, id),
            Err(error) => self.decline(session, id, error.to_string()),
        }
    }

    /// Ends an alert of this watcher, whatever service it is about: the watcher does not know.
    pub(super) fn handle_watcher_clear(&mut self, session: SessionId, key: PublicKey, id: String) {
        let services = self.config.services.iter().filter(|service| service.watchers.contains(&key));
        for service in services.map(Service::title).collect::<Vec<_>>() {
            let order = Order::Clear { source: self.source_of(key), id: id.clone(), service };
            if let Err(error) = self.handle_order(order) {
                return self.decline(session, id, error.to_string());
            }
        }
        self.sessions.note(session, id);
    }

    fn decline(&mut self, session: SessionId, id: String, reason: String) {
        self.counts.refused += 1;
        self.sessions.send(session, Message::Declined { id, reason });
    }

    /// The service that is flooded, if this watcher may speak of it.
    fn watched_by(&self, key: PublicKey, target: Option<&str>) -> Option<String> {
        let target: IpNet = target?.parse().ok()?;
        let services = self.config.services.iter().filter(|service| service.watchers.contains(&key));
        let has_target = |service: &&Service| service.addresses.iter().any(|net| net.contains(&target));
        services.filter(has_target).map(Service::title).next()
    }

    fn source_of(&self, key: PublicKey) -> String {
        let client = self.config.clients.iter().find(|client| client.public_key == key);
        let name = client.map_or_else(|| key.to_string(), |client| client.name.clone());
        format!("{SOURCE} {name}")
    }
}
