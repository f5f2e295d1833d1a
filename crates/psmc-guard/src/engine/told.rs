//! What is told: attacks to a coordinator, until it has noted them, and how everything stands.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use psmc_signal::RelayOffer;

use super::{Engine, LinkState, Watched};
use crate::status::{Attack, Engine as Status, MitigationStatus, RelayStatus, Service};

/// Ends of attacks that wait to be noted at most; the oldest are forgotten, for a coordinator ends what it hears no more of.
const MAX_ENDED: usize = 256;

/// Names attacks, and says each of their beginnings and ends until it is noted.
#[derive(Debug)]
pub(super) struct Alerts {
    prefix: String,
    number: u64,
    standing: BTreeMap<String, Said>,
    ended: VecDeque<(String, Said)>,
}

#[derive(Clone, Debug)]
struct Said {
    id: String,
    is_said: bool,
    is_noted: bool,
    /// How often it was said on this connection without an answer: each gets one, unless it could not be kept.
    unanswered: u32,
    /// How many of the next answers are about the beginning, though the attack has ended.
    outdated: u32,
    /// Of an attack from before a restart, how long it may stay unseen.
    patience: Option<Duration>,
}

impl Alerts {
    pub(super) fn new(prefix: String) -> Self {
        Self { prefix, number: 0, standing: BTreeMap::new(), ended: VecDeque::new() }
    }

    /// An attack from before a restart. Unless it is seen again in that time, it is over.
    pub(super) fn restore(&mut self, service: &str, id: String, patience: Duration) {
        let said = Said { is_said: true, patience: Some(patience), ..Said::new(id) };
        self.standing.insert(service.to_owned(), said);
    }

    /// An attack on a service has begun, or is seen again. Returns its name.
    pub(super) fn begin(&mut self, service: &str) -> &str {
        self.number += 1;
        let id = format!("{}-{}", self.prefix, self.number);
        let said = self.standing.entry(service.to_owned()).or_insert_with(|| Said::new(id));
        (said.patience, said.is_said) = (None, false);
        &said.id
    }

    /// The attack on a service is over.
    pub(super) fn end(&mut self, service: &str) {
        if let Some(said) = self.standing.remove(service) {
            if self.ended.len() >= MAX_ENDED {
                self.ended.pop_front();
            }
            let outdated = said.unanswered;
            self.ended
                .push_back((service.to_owned(), Said { is_said: false, is_noted: false, outdated, ..said }));
        }
    }

    /// Time has passed.
    pub(super) fn age(&mut self, elapsed: Duration) {
        let mut over = Vec::new();
        for (service, said) in &mut self.standing {
            if let Some(patience) = &mut said.patience {
                *patience = patience.saturating_sub(elapsed);
                if patience.is_zero() {
                    over.push(service.clone());
                }
            }
        }
        over.iter().for_each(|service| self.end(service));
    }

    /// The coordinator has noted what was said under this name.
    pub(super) fn handle_noted(&mut self, id: &str) {
        let ended = self.ended.iter_mut().map(|(_, said)| said);
        for said in ended.chain(self.standing.values_mut()).filter(|said| said.id == id) {
            said.unanswered = said.unanswered.saturating_sub(1);
            if said.outdated > 0 {
                // Fewer may follow, where something could not be kept. Then the end is said once more for each of them.
                said.outdated -= 1;
            } else {
                said.is_noted = true;
            }
        }
        self.ended.retain(|(_, said)| !said.is_noted);
    }

    /// Nothing of what was said is known to have arrived.
    pub(super) fn forget_said(&mut self) {
        for said in self.standing.values_mut() {
            said.is_said = said.patience.is_some();
            (said.is_noted, said.unanswered) = (false, 0);
        }
        for (_, said) in &mut self.ended {
            (said.is_said, said.unanswered, said.outdated) = (false, 0, 0);
        }
    }

    /// What was not noted is said again.
    pub(super) fn say_again(&mut self) {
        for said in self.standing.values_mut().filter(|said| !said.is_noted && said.patience.is_none()) {
            said.is_said = false;
        }
        self.ended.iter_mut().for_each(|(_, said)| said.is_said = false);
    }

    /// What is to be said: name, service, and whether the attack has ended.
    pub(super) fn poll(&mut self) -> Option<(String, String, bool)> {
        let ended = self.ended.iter_mut().map(|(service, said)| (&*service, said, true));
        let standing = self.standing.iter_mut().map(|(service, said)| (service, said, false));
        let (service, said, is_over) = ended.chain(standing).find(|(_, said, _)| !said.is_said)?;
        said.is_said = true;
        said.unanswered += 1;
        Some((said.id.clone(), service.clone(), is_over))
    }

    /// The name of the attack on a service.
    pub(super) fn of_service(&self, service: &str) -> Option<&str> {
        self.standing.get(service).map(|said| said.id.as_str())
    }

    /// Whether the coordinator knows of it.
    pub(super) fn is_noted(&self, service: &str) -> bool {
        self.standing.get(service).is_some_and(|said| said.is_noted)
    }
}

impl Said {
    fn new(id: String) -> Self {
        Self { id, is_said: false, is_noted: false, unanswered: 0, outdated: 0, patience: None }
    }
}

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
