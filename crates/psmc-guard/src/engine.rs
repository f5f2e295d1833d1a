//! What a guard does, without clock and I/O: it finds attacks, tells the coordinator, and remembers what that asks for.

#[cfg(test)]
mod tests;
mod told;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use psmc_signal::{AlertKind, Message};

use crate::config::{Config, Service};
use crate::detect::{Change, ServiceDetector, Signal};
use crate::duty::{Duty, Wanted};
use crate::gateway::Seen;
use crate::observe::Observed;
use crate::status::Counts;
use crate::store::{ServiceState, State};
use told::Alerts;

/// Messages that wait to be sent at most: more than are due at any one time.
const MAX_MESSAGES: usize = 1024;

/// A guard.
///
/// After each call take what is to be sent with [`Engine::poll_message`] and have [`Engine::wanted`] done.
#[derive(Debug)]
pub struct Engine {
    services: Vec<Watched>,
    alerts: Alerts,
    duty: Duty,
    gateway: Seen,
    link: LinkState,
    outbox: VecDeque<Message>,
    counts: Counts,
}

#[derive(Debug)]
struct Watched {
    service: Service,
    detector: ServiceDetector,
    /// The place of the target that most has come for of late.
    busiest: Option<usize>,
}

#[derive(Debug)]
enum LinkState {
    Down { reason: String },
    Up { coordinator: SocketAddr },
}

impl Engine {
    /// Begins with what was kept. `run` tells this run of the guard from all others.
    #[must_use]
    pub fn new(config: &Config, state: State, run: u64) -> Self {
        let State { services: mut kept, duty, .. } = state;
        let mut alerts = Alerts::new(format!("{}-{run:x}", config.name));
        let mut services = Vec::new();
        for service in &config.services {
            let ServiceState { usual, alert } = kept.remove(&service.name).unwrap_or_default();
            let learned = |signal: Signal| usual.get(signal.name()).copied();
            let detector = ServiceDetector::new(service.policy.clone(), learned);
            services.push(Watched { service: service.clone(), detector, busiest: None });
            if let Some(id) = alert {
                alerts.restore(&service.name, id, service.policy.calm);
            }
        }
        Self {
            services,
            alerts,
            duty: Duty::new(duty, config.lines.len()),
            gateway: Seen::default(),
            link: LinkState::Down {
                reason: match &config.coordinators[..] {
                    [] => "none is configured".to_owned(),
                    _ => "none was reached yet".to_owned(),
                },
            },
            outbox: VecDeque::new(),
            counts: Counts::default(),
        }
    }

    /// Takes what has arrived in the last `elapsed`, for each service in the order of the configuration.
    pub fn handle_samples(&mut self, samples: &[Observed], elapsed: Duration) {
        self.counts.samples += 1;
        let mut changes = Vec::new();
        for (watched, observed) in self.services.iter_mut().zip(samples) {
            let may_learn = !self.duty.is_active(&watched.service.name);
            watched.busiest = observed.busiest.or(watched.busiest);
            let change = watched.detector.handle_sample(&observed.sample, elapsed, may_learn);
            changes.extend(change.map(|change| (watched.service.name.clone(), change)));
        }
        for (service, change) in changes {
            self.handle_change(&service, change);
        }
        self.alerts.age(elapsed);
        self.flush_alerts();
    }

    /// Takes what psmcd says.
    pub fn handle_gateway(&mut self, seen: Seen) {
        for watched in &mut self.services {
            watched.detector.handle_loss(seen.direct_loss);
        }
        let messages = self.duty.handle_standing(&seen.standing);
        for message in &messages {
            if let Message::RelayFailed { relay, reason, .. } = message {
                tracing::warn!(%relay, %reason, "relay failed");
                self.counts.relay_failures += 1;
            }
        }
        self.gateway = seen;
        messages.into_iter().for_each(|message| self.say(message));
    }

    /// A coordinator says welcome.
    pub fn handle_up(&mut self, coordinator: SocketAddr) {
        tracing::info!(%coordinator, "connected to the coordinator");
        self.link = LinkState::Up { coordinator };
        self.counts.connections += 1;
        self.outbox.clear();
        self.duty.handle_connected();
        self.alerts.forget_said();
        self.flush_alerts();
    }

    /// There is no connection. What is asked for stays.
    pub fn handle_down(&mut self, coordinator: SocketAddr, reason: String) {
        match &self.link {
            LinkState::Up { .. } => tracing::warn!(%coordinator, %reason, "coordinator connection lost"),
            LinkState::Down { reason: last } if *last != reason => {
                tracing::info!(%coordinator, %reason, "cannot connect to the coordinator");
            }
            LinkState::Down { .. } => {}
        }
        self.link = LinkState::Down { reason };
        self.outbox.clear();
    }

    /// Takes what the coordinator says. Returns whether what is to be kept has changed.
    pub fn handle_message(&mut self, message: Message) -> bool {
        let outcome = match message {
            Message::Mitigation(mitigation) if self.is_ours(&mitigation.service) => {
                let (service, stage, relays) =
                    (&mitigation.service, mitigation.stage, mitigation.relays.len());
                tracing::info!(%service, ?stage, relays, "mitigation updated");
                self.duty.handle_mitigation(mitigation)
            }
            Message::Clients { service, revision, clients, is_last } if self.is_ours(&service) => {
                self.duty.handle_clients(&service, revision, clients, is_last)
            }
            Message::Mitigation(_) | Message::Clients { .. } => {
                Err("it is about a service that is not guarded here".to_owned())
            }
            Message::Noted { id } => {
                self.alerts.handle_noted(&id);
                return true;
            }
            Message::Hello { .. }
            | Message::Welcome { .. }
            | Message::Refused { .. }
            | Message::Alert(_)
            | Message::Clear { .. }
            | Message::Ready { .. }
            | Message::Report { .. }
            | Message::RelayFailed { .. }
            | Message::Routes(_)
            | Message::Declined { .. }
            | Message::Ping
            | Message::Unknown => return false,
        };
        if let Err(reason) = outcome {
            tracing::warn!(%reason, "request of the coordinator rejected");
            self.counts.refused_messages += 1;
            return false;
        }
        true
    }

    /// A second has passed; `now` is the time in seconds since 1970.
    pub fn handle_second(&mut self, now: u64) {
        self.duty.handle_time(now, self.is_connected());
        self.alerts.say_again();
        self.flush_alerts();
        let reports: Vec<Message> = self
            .services
            .iter()
            .filter(|watched| self.duty.is_mitigated(&watched.service.name))
            .map(|watched| Message::Report {
                service: watched.service.name.clone(),
                direct: watched.detector.measured().measured(),
                through_relays: self.gateway.through_relays.measured(),
            })
            .collect();
        reports.into_iter().for_each(|report| self.say(report));
    }

    /// The next message to be sent.
    pub fn poll_message(&mut self) -> Option<Message> {
        self.outbox.pop_front()
    }

    /// What is to be so at the gateway.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        self.duty.wanted()
    }

    /// How many attacks have begun or ended: what is kept changes with it.
    #[must_use]
    pub fn attacks(&self) -> u64 {
        self.counts.attacks + self.counts.attacks_over
    }

    /// What is to be kept over a restart.
    #[must_use]
    pub fn state(&self) -> State {
        let mut services = BTreeMap::new();
        for Watched { service, detector, .. } in &self.services {
            let usual = Signal::ALL.map(|signal| (signal.name().to_owned(), detector.learned(signal)));
            let alert = self.alerts.of_service(&service.name).map(str::to_owned);
            services.insert(service.name.clone(), ServiceState { usual: usual.into(), alert });
        }
        State::new(services, self.duty.kept())
    }

    fn handle_change(&mut self, service: &str, change: Change) {
        match change {
            Change::Begun(kind) => {
                let id = self.alerts.begin(service);
                self.counts.attacks += 1;
                tracing::warn!(%service, ?kind, %id, "attack detected");
            }
            Change::Over => {
                self.alerts.end(service);
                self.counts.attacks_over += 1;
                tracing::info!(%service, "attack ended");
            }
        }
    }

    /// Queues what is to be said about attacks.
    fn flush_alerts(&mut self) {
        if !self.is_connected() {
            return;
        }
        while let Some((id, service, is_over)) = self.alerts.poll() {
            let message = if is_over {
                Some(Message::Clear { id, service })
            } else {
                self.services
                    .iter()
                    .find(|watched| watched.service.name == service)
                    .map(|watched| watched.alert(id))
            };
            message.into_iter().for_each(|message| self.say(message));
        }
    }

    fn say(&mut self, message: Message) {
        if self.is_connected() && self.outbox.len() < MAX_MESSAGES {
            self.outbox.push_back(message);
        }
    }

    fn is_connected(&self) -> bool {
        matches!(self.link, LinkState::Up { .. })
    }

    fn is_ours(&self, service: &str) -> bool {
        self.services.iter().any(|watched| watched.service.name == service)
    }
}

impl Watched {
    fn alert(&self, id: String) -> Message {
        let kind = self.detector.attack().map_or(AlertKind::Other, |attack| attack.kind);
        Message::Alert(psmc_signal::Alert {
            id,
            service: self.service.name.clone(),
            target: self.busiest.and_then(|at| self.service.targets.get(at)).map(ToString::to_string),
            kind,
            measured: self.detector.measured().measured(),
            usual: self.detector.usual().measured(),
        })
    }
}
