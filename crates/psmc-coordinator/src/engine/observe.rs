//! What the engine says of itself.

use psmc_signal::{Role, Stage};

use super::Engine;
use crate::config::{self, Service};
use crate::status::{Handshakes, RelayStatus, ServerStatus, ServiceStatus, Status};

impl Engine {
    /// All there is to know.
    pub(super) fn status(&self) -> Status {
        Status {
            name: self.config.name.to_string(),
            uptime_s: self.started.elapsed().as_secs(),
            leads: true,
            leader: Some(self.config.name.to_string()),
            gateways: self.sessions.count(Role::Gateway),
            clients: self.sessions.count(Role::Client),
            blocked: self.blocked.iter().cloned().collect(),
            not_kept: self.not_kept.clone(),
            suricata: self.eve.status(),
            counts: self.counts.clone(),
            handshakes: Handshakes::of(&self.handshakes),
            relays: self.config.relays.iter().map(|relay| self.relay_status(relay)).collect(),
            services: self.config.services.iter().map(|service| self.service_status(service)).collect(),
        }
    }

    fn relay_status(&self, relay: &config::Relay) -> RelayStatus {
        RelayStatus {
            name: relay.name.clone(),
            address: relay.address,
            alive: self.relays.is_alive(&relay.name),
            rtt_ms: self.relays.rtt_ms(&relay.name),
            serves: self.relays.user(&relay.name).map(str::to_owned),
            limit_bits_per_second: self.limits.get(&relay.name).and_then(|limit| *limit.borrow()),
            error: self.relay_errors.get(&relay.name).cloned(),
        }
    }

    fn service_status(&self, service: &Service) -> ServiceStatus {
        let name = service.title();
        let state = self.lives.get(&name).map(|life| life.state().clone()).unwrap_or_default();
        let has_gateway = service.gateway.is_some_and(|key| !self.sessions.of_gateway(key).is_empty());
        let took = state.requested.zip(state.published).filter(|_| state.stage != Stage::Withdrawn);
        let servers = self.published.values().filter(|published| published.service == name);
        ServiceStatus {
            mitigation: state.id,
            stage: state.stage,
            alerts: state.alerts.clone(),
            relays: state.relays.clone(),
            ready: state.ready.clone(),
            routes: state.routes.clone(),
            serial: state.serial,
            expires: state.expires,
            requested: state.requested,
            published: state.published,
            published_after_ms: took.map(|(from, to)| to.0.saturating_sub(from.0)),
            gateway_connected: has_gateway,
            servers: servers
                .map(|published| ServerStatus {
                    server: published.server.clone(),
                    serial: published.serial,
                    current: published.result.is_ok() && published.serial == state.serial,
                    took_ms: published.result.as_ref().ok().map(|took| took.as_secs_f64() * 1000.0),
                    error: published.result.as_ref().err().cloned(),
                })
                .collect(),
            name,
        }
    }
}
