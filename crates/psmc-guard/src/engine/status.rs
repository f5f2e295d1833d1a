//! How everything stands.

use psmc_signal::RelayOffer;

use super::{Engine, LinkState, Watched};
use crate::status::{Attack, Engine as Status, MitigationStatus, RelayStatus, Service};

impl Engine {
    /// How everything stands; `now` is the time in seconds since 1970.
    #[must_use]
    pub fn status(&self, now: u64) -> Status {
        Status {
            coordinator: match &self.link {
                LinkState::Up { coordinator } => Some(coordinator.to_string()),
                LinkState::Down { .. } => None,
            },
            coordinator_error: match &self.link {
                LinkState::Up { .. } => None,
                LinkState::Down { reason } => Some(reason.clone()),
            },
            services: self.services.iter().map(|watched| self.service_status(watched)).collect(),
            mitigations: self.mitigations_status(now),
            clients: self.duty.wanted().clients.into_keys().collect(),
            gateway_error: self.gateway.trouble.clone(),
            through_relays: self.gateway.through_relays.measured(),
            counts: self.counts,
        }
    }

    fn service_status(&self, watched: &Watched) -> Service {
        let name = &watched.service.name;
        Service {
            name: name.clone(),
            attack: watched.detector.attack().map(|attack| Attack {
                id: self.alerts.of_service(name).unwrap_or_default().to_owned(),
                kind: attack.kind,
                age_s: attack.age.as_secs_f64(),
                noted: self.alerts.is_noted(name),
            }),
            measured: watched.detector.measured().measured(),
            usual: watched.detector.usual().measured(),
            limits: watched.detector.limits().measured(),
        }
    }

    fn mitigations_status(&self, now: u64) -> Vec<MitigationStatus> {
        let relay = |relay: &RelayOffer| RelayStatus {
            name: relay.name.clone(),
            address: relay.address.to_string(),
            registered: self.duty.is_registered(&relay.public_key),
            error: self.gateway.standing.get(&relay.public_key).and_then(|standing| standing.error.clone()),
        };
        let mitigations = self.duty.mitigations().map(|mitigation| MitigationStatus {
            id: mitigation.id,
            service: mitigation.service.clone(),
            stage: mitigation.stage,
            expires_in_s: mitigation.expires.saturating_sub(now),
            relays: mitigation.relays.iter().map(relay).collect(),
        });
        mitigations.collect()
    }
}
