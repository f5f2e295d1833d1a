//! Everything that happens, in one order: what comes in changes the state, the state is kept, who waits is answered, and what
//! follows is done.

mod gateways;
mod input;
mod perform;
mod reload;
mod sessions;
mod void;
mod watchers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_net::tls::{Counters as HandshakeCounters, Identity};
use psmc_signal::{Role, Stage};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

pub(crate) use gateways::SOURCE as GATEWAY;
pub use input::{Input, MAX_ID, Order, OrderError, not_leading};
pub(crate) use watchers::SOURCE as WATCHER;

use crate::config::{self, Config, Service};
use crate::mitigation::{Action, Life, Moment, Policy, RelayInfo, RelayPool, State};
use crate::now;
use crate::publish::{GroupRoutes, Published, Publisher};
use crate::relay::{self, Limit, Orders, Void};
use crate::status::{Counts, Handshakes, RelayStatus, ServerStatus, ServiceStatus, Status};
use crate::store::{Batch, Contents, Event, Granted, Store, StoreError};
use crate::suricata::Eve;
use sessions::Sessions;

/// What waits to be looked at, at most. Who has more to say waits.
pub const MAX_WAITING: usize = 1024;

/// What is looked at before it is kept, at most: a flood of alerts costs one look at the disk for this many.
const MAX_AT_ONCE: usize = 256;

/// How long to rest when there is nothing to wait for.
const IDLE: Duration = Duration::from_secs(60);

/// Another coordinator decides.
struct Deposed;

/// Who waits until something is kept, and what he is told.
struct Ack {
    done: oneshot::Sender<Result<(), OrderError>>,
    result: Result<(), OrderError>,
}

/// Why an engine has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nobody is left who could say anything.
    Unheard,
    /// Another coordinator decides from here on.
    Deposed,
}

/// The engine.
pub struct Engine {
    config: Arc<Config>,
    store: Arc<dyn Store>,
    lives: BTreeMap<String, Life>,
    relays: RelayPool,
    limits: BTreeMap<String, watch::Sender<Limit>>,
    /// Whose grants the relays are to take back.
    void: watch::Sender<Void>,
    /// What was last to be kept of that.
    granted: Granted,
    /// What was wrong with a relay last.
    relay_errors: BTreeMap<String, String>,
    publishers: BTreeMap<String, Publisher>,
    /// How it went on each server of a service.
    published: BTreeMap<(String, String), Published>,
    /// What clients of each group of a service are told.
    routes: BTreeMap<String, Vec<GroupRoutes>>,
    sessions: Sessions,
    blocked: BTreeSet<String>,
    /// Clients that complain about a relay, by both names.
    suspicions: BTreeMap<(String, String), Moment>,
    /// What is kept of each service, to see what has changed.
    kept: BTreeMap<String, State>,
    /// What is to be kept together with what comes next.
    batch: Batch,
    acks: Vec<Ack>,
    /// Why what was to be kept last could not be.
    not_kept: Option<String>,
    counts: Counts,
    handshakes: Arc<HandshakeCounters>,
    eve: Eve,
    started: Instant,
    /// Connections to relays and name servers: they end with the engine.
    tasks: JoinSet<()>,
    /// The configuration that is to be gone by next.
    next: Option<Arc<Config>>,
    /// What the engine tells itself.
    itself: mpsc::Sender<Input>,
}

impl Engine {
    /// An engine that goes on from what is kept; the program has run since `started`. `inputs` is the sender of what
    /// [`run`](Self::run) takes.
    ///
    /// # Errors
    /// [`StoreError`], if what is kept cannot be read.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn start(
        config: Arc<Config>,
        store: Arc<dyn Store>,
        (handshakes, eve): (Arc<HandshakeCounters>, Eve),
        started: Instant,
        inputs: &mpsc::Sender<Input>,
    ) -> Result<Self, StoreError> {
        let contents = store.load().await?;
        let mut tasks = JoinSet::new();
        let void = watch::Sender::default();
        let limits = config.relays.iter();
        let limits = limits
            .map(|relay| (relay.name.clone(), watch_relay(&config, relay, &void, inputs, &mut tasks)))
            .collect();
        let publishers = config
            .services
            .iter()
            .map(|service| (service.title(), Publisher::start(service, inputs, &mut tasks)))
            .collect();
        let mut relays = RelayPool::new(config.relays.iter().map(relay_info));
        let lives = lives(&config, &contents, &mut relays);
        let mut engine = Self {
            lives,
            relays,
            limits,
            void,
            granted: contents.granted.clone(),
            relay_errors: BTreeMap::new(),
            publishers,
            published: BTreeMap::new(),
            routes: BTreeMap::new(),
            sessions: Sessions::default(),
            blocked: contents.blocked.into_iter().collect(),
            suspicions: BTreeMap::new(),
            kept: contents.mitigations,
            batch: Batch::default(),
            acks: Vec::new(),
            not_kept: None,
            counts: Counts::default(),
            handshakes,
            eve,
            started,
            tasks,
            next: None,
            itself: inputs.clone(),
            config,
            store,
        };
        engine.recall_routes();
        engine.take_back_from_before(contents.granted);
        Ok(engine)
    }

    /// Runs until nobody is left who could say anything, or another coordinator decides.
    pub async fn run(mut self, inputs: &mut mpsc::Receiver<Input>) -> End {
        while self.settle().await.is_ok() {
            if let Some(config) = self.next.take() {
                self.adopt(config);
                continue;
            }
            let next = timeout(self.until_due(), inputs.recv()).await;
            if let Ok(input) = next {
                let Some(input) = input else { return End::Unheard };
                self.handle(input);
                for _ in 1..MAX_AT_ONCE {
                    if self.next.is_some() {
                        break;
                    }
                    let Ok(input) = inputs.try_recv() else { break };
                    self.handle(input);
                }
            }
            self.renew_by_presence();
            let now = now();
            for life in self.lives.values_mut() {
                life.handle_timeout(&mut self.relays, now);
            }
        }
        End::Deposed
    }

    fn until_due(&self) -> Duration {
        let due = self.lives.values().filter_map(Life::poll_timeout).min();
        due.map_or(IDLE, |due| now().until(due)).min(IDLE)
    }

    fn handle(&mut self, input: Input) {
        match input {
            Input::Order { order, done } => {
                let result = self.handle_order(order);
                self.acks.push(Ack { done, result });
            }
            // Fails only for somebody who does not wait any more.
            Input::Status(asker) => drop(asker.send(self.status())),
            Input::Joined(joined) => self.handle_joined(joined),
            Input::Said { session, message } => self.handle_said(session, message),
            Input::Left(session) => self.sessions.remove(session),
            Input::Relay(news) => self.handle_relay(news),
            Input::Published(published) => self.handle_published(published),
            Input::Configured(config) => self.prepare_for(&config),
        }
    }

    /// Keeps what has changed, answers who waits for that, and does what follows; nothing of it, if another coordinator
    /// decides.
    async fn settle(&mut self) -> Result<(), Deposed> {
        let actions = self.collect_actions();
        self.collect_states();
        self.keep().await?;
        for Ack { done, result } in self.acks.drain(..) {
            let kept = self.not_kept.clone().map_or(Ok(()), |why| Err(OrderError::NotKept(why)));
            // Who does not wait any more has only itself to blame.
            let _ = done.send(result.and(kept));
        }
        self.sessions.send_notes(self.not_kept.is_none());
        for (service, action) in actions {
            self.perform(&service, action);
        }
        Ok(())
    }

    /// Keeps what has changed, and notes whether it could.
    async fn keep(&mut self) -> Result<(), Deposed> {
        let mut batch = std::mem::take(&mut self.batch);
        let committed = if batch.is_empty() { Ok(()) } else { self.store.commit(batch.clone()).await };
        let not_kept = match committed {
            Ok(()) => {
                self.kept.extend(batch.mitigations);
                None
            }
            Err(StoreError::Deposed) => return Err(Deposed),
            Err(error) => {
                // Helping matters more than remembering. What was to be kept is tried again with what comes next.
                batch.events.truncate(MAX_AT_ONCE);
                self.batch = batch;
                Some(crate::error_chain(&error))
            }
        };
        match (&self.not_kept, &not_kept) {
            (before, Some(error)) if before.as_ref() != Some(error) => {
                tracing::error!(error, "cannot store the state; retrying");
            }
            (Some(_), None) => tracing::info!("state stored again"),
            (None | Some(_), _) => {}
        }
        self.not_kept = not_kept;
        Ok(())
    }

    /// What is to be done; what happened becomes events.
    fn collect_actions(&mut self) -> Vec<(String, Action)> {
        let mut actions = Vec::new();
        let time = now();
        for (service, life) in &mut self.lives {
            while let Some(action) = life.poll_action() {
                let Action::Note(text) = action else {
                    actions.push((service.clone(), action));
                    continue;
                };
                let mitigation = life.state().id;
                tracing::info!(%service, mitigation, "{text}");
                self.batch.events.push(Event { time, service: service.clone(), mitigation, text });
            }
        }
        actions
    }

    fn collect_states(&mut self) {
        // What could not be kept last time is older than what there is.
        self.batch.mitigations.clear();
        for (service, life) in &self.lives {
            if !self.kept.get(service).is_some_and(|kept| life.state().is_as_good_as(kept)) {
                self.batch.mitigations.push((service.clone(), life.state().clone()));
            }
        }
    }

    fn service(&self, name: &str) -> Option<&Service> {
        self.config.services.iter().find(|service| service.title() == name)
    }
}

/// Begins to watch a relay, and to limit what it carries.
fn watch_relay(
    config: &Config,
    relay: &crate::config::Relay,
    void: &watch::Sender<Void>,
    inputs: &mpsc::Sender<Input>,
    tasks: &mut JoinSet<()>,
) -> watch::Sender<Limit> {
    let (sender, limit) = watch::channel(None);
    let (identity, name) = (Identity::new(&config.private_key), config.name.to_string());
    let orders = Orders { limit, void: void.subscribe() };
    tasks.spawn(relay::keep(relay.clone(), identity, name, orders, inputs.clone()));
    sender
}

fn relay_info(relay: &crate::config::Relay) -> RelayInfo {
    RelayInfo {
        name: relay.name.clone(),
        capacity_mbps: mbps(relay.capacity.bits_per_second()),
        latency_ms: relay.latency_ms.map(f64::from),
    }
}

fn lives(config: &Config, contents: &Contents, relays: &mut RelayPool) -> BTreeMap<String, Life> {
    let now = now();
    let mut lives = BTreeMap::new();
    for service in &config.services {
        let state = contents.mitigations.get(&service.title()).cloned().unwrap_or_default();
        lives.insert(service.title(), Life::resume(policy(service), state, relays, now));
    }
    lives
}

fn policy(service: &Service) -> Policy {
    Policy {
        service: service.title(),
        groups: service.groups.iter().map(|group| group.name.clone()).collect(),
        relays_per_group: service.relays_per_group,
        relay_mbps: service.relay_rate.map(|rate| mbps(rate.bits_per_second())),
        has_gateway: service.gateway.is_some(),
        lifetime: service.lifetime,
        hold: service.hold,
        prepare: service.prepare,
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates are far below 2^53 bit/s")]
fn mbps(bits: u64) -> f64 {
    bits as f64 / 1e6
}

impl Engine {
    /// All there is to know.
    fn status(&self) -> Status {
        Status {
            name: self.config.name.to_string(),
            uptime_s: self.started.elapsed().as_secs(),
            leads: true,
            leader: Some(self.config.name.to_string()),
            gateways: self.sessions.count(Role::Gateway),
            clients: self.sessions.count(Role::Client),
            watchers: self.sessions.count(Role::Watcher),
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
