//! The router's side: servers connect, say what they want dropped of their own traffic, and are told what has come.
//!
//! | module | what it has |
//! |---|---|
//! | [`register`] | who may have which rules, and for how long |
//! | [`table`] | the rules in nftables |
//! | [`congestion`] | whether the router's lines are congested |

pub mod congestion;
mod meter;
pub mod register;
pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use psmc_net::framing::FramingError;
use psmc_net::keys::PublicKey;
use psmc_net::tls::tcp::{TcpError, listen_tcp};
use psmc_net::tls::{Acceptor, AllowedKeys, Counters, Identity, Listener, Secured};
use psmc_service::clock::since_1970;
use psmc_toml::Name;
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::config::{Owner, Router as Config, When};
use crate::connection::{ConnectionError, QUEUE, carry};
use crate::message::{ALPN, Count, MAX_RULES, Message, Rules, Wanted};
use crate::status::{OwnerStatus, RouterStatus, RuleStatus};
use congestion::{Congestion, QueueError, Queues, read_queues};
use meter::{Meter, Rate};
use register::{Held, Register, ServerId, Taken};
use table::{Bytes, RuleName, Table, TableError};

/// How often servers are told what has come, and lapsed rules are ended. Twice a second, so that a server whose demand shifts
/// knows within one.
pub const INTERVAL: Duration = Duration::from_millis(500);

/// After how long the next message of a server is looked at: each may change nftables, which takes some milliseconds, and a
/// server has something to say twice a second.
const MESSAGE_GAP: Duration = Duration::from_millis(50);

/// Connections whose handshakes are done and that wait to be served.
const MAX_ACCEPTED: usize = 16;

/// What waits to be done: more, and sessions are read more slowly.
const MAX_WAITING: usize = 64;

/// Why there is no router.
#[derive(Debug, Error)]
pub enum RouterError {
    /// The port cannot be had.
    #[error("cannot accept servers")]
    Tcp(#[from] TcpError),
    /// There can be no rules.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// A connection of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SessionId(u64);

/// What connections tell the router.
#[derive(Debug)]
enum Input {
    Said { session: SessionId, message: Message },
    Left { session: SessionId, is_malformed: bool },
}

/// A server that is connected. When this is dropped, the connection ends.
#[derive(Debug)]
struct Session {
    id: SessionId,
    outgoing: mpsc::Sender<Message>,
}

/// The router. [`run`](Self::run) is all that it does.
#[derive(Debug)]
pub struct Router {
    config: Config,
    register: Register,
    congestion: Congestion,
    /// In the hands of another thread while nftables works.
    table: Option<Table>,
    meter: Meter,
    sessions: BTreeMap<PublicKey, Session>,
    last_session: u64,
    inputs: mpsc::Sender<Input>,
    received: mpsc::Receiver<Input>,
    accepted: mpsc::Receiver<(Secured, SocketAddr)>,
    connections: JoinSet<()>,
    allowed: AllowedKeys,
    handshakes: Arc<Counters>,
    malformed: u64,
    trouble: Option<String>,
    started: Instant,
}

impl Router {
    /// Makes the table, and listens.
    ///
    /// # Errors
    /// [`RouterError`].
    pub fn start(name: &Name, identity: &Identity, config: Config) -> Result<Self, RouterError> {
        let table = Table::set_up(name, &config.interfaces)?;
        let allowed = AllowedKeys::default();
        allowed.replace(keys(&config.servers));
        let acceptor = Acceptor::for_protocol(identity, allowed.clone(), ALPN);
        let (ready, accepted) = mpsc::channel(MAX_ACCEPTED);
        let handshakes = Arc::new(Counters::default());
        let mut connections = JoinSet::new();
        let listener = listen_tcp(config.listen.socket_addr())?;
        connections.spawn(Listener::run(listener, acceptor, ready, handshakes.clone()));
        let (inputs, received) = mpsc::channel(MAX_WAITING);
        Ok(Self {
            register: Register::new(config.servers.clone()),
            congestion: Congestion::default(),
            table: Some(table),
            meter: Meter::default(),
            sessions: BTreeMap::new(),
            last_session: 0,
            inputs,
            received,
            accepted,
            connections,
            allowed,
            handshakes,
            malformed: 0,
            trouble: None,
            started: Instant::now(),
            config,
        })
    }

    /// Serves until `configs` has no sender any more, goes by what that sends, and tells how it is.
    pub async fn run(
        mut self,
        mut configs: watch::Receiver<Config>,
        told: watch::Sender<Option<RouterStatus>>,
    ) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(_) = self.connections.join_next() => {}
                Some((secured, from)) = self.accepted.recv() => self.join(secured, from),
                Some(input) = self.received.recv() => self.handle(input).await,
                _ = ticks.tick() => self.tick().await,
                changed = configs.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let config = configs.borrow_and_update().clone();
                    self.reconfigure(config);
                    self.enforce().await;
                }
            }
            told.send_replace(Some(self.status()));
        }
    }

    /// A server has one connection: the latest.
    fn join(&mut self, secured: Secured, from: SocketAddr) {
        let key = secured.peer;
        let Some(server) = self.server(key) else { return };
        self.last_session += 1;
        let session = SessionId(self.last_session);
        let (outgoing, mut to_send) = mpsc::channel(QUEUE);
        let held = self.register.held().get(&server).map(held_rules).unwrap_or_default();
        // The queue is empty.
        let _ = outgoing.try_send(Message::Held { rules: held });
        self.sessions.insert(key, Session { id: session, outgoing });
        let inputs = self.inputs.clone();
        self.connections.spawn(async move {
            let (incoming, mut said) = mpsc::channel(1);
            let pass_on = async {
                while let Some(message) = said.recv().await {
                    if inputs.send(Input::Said { session, message }).await.is_err() {
                        return;
                    }
                    sleep(MESSAGE_GAP).await;
                }
            };
            let error = tokio::select! {
                error = carry(secured.stream, &mut to_send, &incoming) => error,
                () = pass_on => ConnectionError::Closed,
            };
            let end = crate::error_chain(&error);
            tracing::debug!(%from, %key, end, "a server's connection has ended");
            let is_malformed = matches!(error, ConnectionError::Framing(FramingError::Malformed(_)));
            // Fails only when the router has ended.
            let _ = inputs.send(Input::Left { session, is_malformed }).await;
        });
    }

    async fn handle(&mut self, input: Input) {
        match input {
            Input::Said { session, message: Message::Rules(rules) } => {
                self.handle_rules(session, &rules).await
            }
            // What only routers say changes nothing.
            Input::Said { .. } => {}
            Input::Left { session, is_malformed } => {
                self.malformed += u64::from(is_malformed);
                self.sessions.retain(|_, known| known.id != session);
            }
        }
    }

    async fn handle_rules(&mut self, session: SessionId, rules: &Rules) {
        let found = self.sessions.iter().find(|(_, known)| known.id == session);
        let Some((key, session)) = found else { return };
        let (key, outgoing) = (*key, session.outgoing.clone());
        let Some(server) = self.server(key) else { return };
        let unix_ms = millis(since_1970());
        let serial = rules.serial;
        let answer = match self.register.handle_rules(server, rules, unix_ms, Instant::now()) {
            Ok(Taken { lifetime, refused }) => {
                if !self.enforce().await {
                    // The server is told nothing that is not so, and says it again.
                    return;
                }
                Message::Taken { serial, lasts_ms: millis(lifetime), refused }
            }
            Err(reason) => {
                let max_rules = self.register.servers().get(server.0).map_or(0, |owner| owner.max_rules);
                Message::Declined { serial, reason, max_rules: max_rules.min(MAX_RULES) }
            }
        };
        // A server that does not read its answers is told by the next one.
        let _ = outgoing.try_send(answer);
    }

    async fn tick(&mut self) {
        let now = Instant::now();
        self.register.handle_timeout(now);
        if let Some(counts) = self.count().await {
            self.meter.handle_counts(counts, Instant::now());
        }
        if self.config.when == When::Congested {
            self.look_at_queues().await;
        }
        self.enforce().await;
        self.report();
    }

    async fn look_at_queues(&mut self) {
        let interfaces = self.config.interfaces.clone();
        let looked: Result<Queues, QueueError> =
            spawn_blocking(move || read_queues(&interfaces)).await.unwrap_or(Ok(Queues::default()));
        match looked {
            Ok(queues) => self.congestion.handle_sample(queues, self.meter.dropped(), Instant::now()),
            Err(error) => self.complain(&error),
        }
    }

    fn is_enforced(&self) -> bool {
        match self.config.when {
            When::Always => true,
            When::Congested => self.congestion.is_enforced(),
        }
    }

    /// Brings nftables to what holds, and says whether it is so. A table that somebody has removed is made anew.
    async fn enforce(&mut self) -> bool {
        let (register, enforced) = (self.register.clone(), self.is_enforced());
        let outcome = self
            .with_table(move |table| {
                let first = table.apply(&register, enforced, Instant::now());
                first.or_else(|_| {
                    table.restore()?;
                    table.apply(&register, enforced, Instant::now())
                })
            })
            .await;
        match outcome {
            Some(Ok(())) => {
                self.trouble = None;
                true
            }
            Some(Err(error)) => {
                self.complain(&error);
                false
            }
            None => false,
        }
    }

    async fn count(&mut self) -> Option<BTreeMap<RuleName, Bytes>> {
        let counted = self.with_table(|table| table.counts()).await?;
        // `enforce` follows, and says what is wrong.
        counted.ok()
    }

    /// Does something with the table in a thread that may wait for nftables.
    async fn with_table<T: Send + 'static>(
        &mut self,
        what: impl FnOnce(&mut Table) -> T + Send + 'static,
    ) -> Option<T> {
        let mut table = self.table.take()?;
        let work = spawn_blocking(move || {
            let outcome = what(&mut table);
            (table, outcome)
        });
        // A panic was reported where it happened.
        let (table, outcome) = work.await.ok()?;
        self.table = Some(table);
        Some(outcome)
    }

    /// Trouble is logged once, however long it lasts.
    fn complain(&mut self, error: &(dyn std::error::Error + 'static)) {
        let error = crate::error_chain(error);
        if self.trouble.as_ref() != Some(&error) {
            tracing::warn!(%error, "rules are not in force");
        }
        self.trouble = Some(error);
    }

    /// Tells each server what has come for it.
    fn report(&self) {
        let enforced = self.is_enforced();
        let at_ms = millis(self.meter.at(self.started));
        for (key, session) in &self.sessions {
            let Some(server) = self.server(*key) else { continue };
            let counts = self.meter.of(server).map(|(name, bytes)| {
                let Bytes { offered, dropped } = bytes;
                Count { name: name.to_string(), offered, dropped }
            });
            // A server that does not read is told by the next one: counts only rise.
            let _ = session.outgoing.try_send(Message::Report { at_ms, enforced, counts: counts.collect() });
        }
    }

    fn reconfigure(&mut self, config: Config) {
        self.allowed.replace(keys(&config.servers));
        self.register.reconfigure(config.servers.clone());
        let servers = self.register.servers();
        self.sessions.retain(|key, _| servers.iter().any(|owner| owner.public_key == *key));
        self.meter = Meter::default();
        self.config =
            Config { listen: self.config.listen, interfaces: self.config.interfaces.clone(), ..config };
    }

    fn server(&self, key: PublicKey) -> Option<ServerId> {
        self.register.servers().iter().position(|owner| owner.public_key == key).map(ServerId)
    }

    fn status(&self) -> RouterStatus {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let now = Instant::now();
        let servers = self.register.servers().iter().enumerate();
        RouterStatus {
            enforced: self.is_enforced(),
            trouble: self.trouble.clone(),
            counts: self.register.counts(),
            connections: count(&self.handshakes.accepted),
            unknown_keys: count(&self.handshakes.refused_unknown_key),
            failed_handshakes: count(&self.handshakes.failed_handshake),
            malformed: self.malformed,
            servers: servers.map(|(number, owner)| self.owner_status(ServerId(number), owner, now)).collect(),
        }
    }

    fn owner_status(&self, server: ServerId, owner: &Owner, now: Instant) -> OwnerStatus {
        let held = self.register.held().get(&server);
        let rules = held.into_iter().flat_map(|held| &held.rules).map(|rule| {
            let Rate { offered, dropped } = self.meter.rate(server, &rule.name);
            let bytes = self.meter.bytes(server, &rule.name);
            RuleStatus {
                name: rule.name.to_string(),
                class: rule.class.to_string(),
                limit_bytes_per_s: rule.rate,
                offered_bytes_per_s: offered,
                dropped_bytes_per_s: dropped,
                offered_bytes: bytes.offered,
                dropped_bytes: bytes.dropped,
            }
        });
        OwnerStatus {
            name: owner.name.to_string(),
            connected: self.sessions.contains_key(&owner.public_key),
            expires_in_s: held.map(|held| held.until.saturating_duration_since(now).as_secs_f64()),
            rules: rules.collect(),
        }
    }
}

fn keys(servers: &[Owner]) -> BTreeSet<PublicKey> {
    servers.iter().map(|server| server.public_key).collect()
}

/// Whole milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What a server has, as it would say it.
fn held_rules(held: &Held) -> Vec<Wanted> {
    let wanted = |rule: &register::Rule| Wanted {
        name: rule.name.to_string(),
        destination: rule.class.destination().to_string(),
        source: rule.class.source().map(|source| source.to_string()),
        protocol: rule.class.protocol().map(|protocol| protocol.0),
        ports: rule.class.ports().map(|ports| (ports.first(), ports.last())),
        rate: rule.rate,
    };
    held.rules.iter().map(wanted).collect()
}
