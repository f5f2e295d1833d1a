//! The server's side: what it accepts is divided among routers as they are offered it, and BGP daemons are told the rest.
//!
//! | module | what it has |
//! |---|---|
//! | [`engine`] | what is wanted of which router, without clock and I/O |
//! | [`flowspec`] | which rules a BGP daemon is worth telling, without clock and I/O |
//! | [`rules`] | rules as relays and sites have them |
//! | [`sources`] | from where it is known what is accepted |
//! | [`bgp`] | GoBGP and ExaBGP |

pub mod bgp;
pub mod engine;
pub mod flowspec;
pub mod rules;
pub mod sources;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use psmc_net::tls::Identity;
use psmc_service::clock::since_1970;
use psmc_toml::Name;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{Agent, Basis, Means, Server as Config};
use crate::connection::{self, Event, Target, Upstream as Link, keep};
use crate::message::Message;
use crate::router::INTERVAL;
use crate::router::register::{Register, ServerId};
use crate::router::table::{Table, TableError};
use crate::status::ServerStatus;
use bgp::{Announcer, Told};
use engine::{Engine, Upstream};
use flowspec::Chooser;
use rules::Translator;
use sources::News;

/// What waits to be done: more, and routers are read more slowly.
const MAX_WAITING: usize = 64;

/// How long counting goes on unless it is renewed, which is done after half of that: nftables takes no more than 49 days, in
/// milliseconds, and whatever is left behind drops nothing.
const COUNTING: Duration = Duration::from_secs(3600);

/// What upstreams tell the server.
#[derive(Debug)]
enum Input {
    Agent(Upstream, Event),
    Bgp(Upstream, Told),
    Sources(News),
}

/// The server. [`run`](Self::run) is all that it does.
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    chooser: Chooser,
    /// Counts what arrives here, where a BGP daemon is to be told, for nobody else counts it, or what is borne is to be found.
    arrivals: Option<Table>,
    /// When counting was last renewed.
    renewed: Instant,
    links: BTreeMap<Upstream, mpsc::Sender<Message>>,
    announcers: BTreeMap<Upstream, Announcer>,
    announcing: Vec<JoinHandle<()>>,
    received: mpsc::Receiver<Input>,
    started: Instant,
    last_serial: u64,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Begins to dial, to ask sources, and to count what arrives if that is needed.
    ///
    /// # Errors
    /// [`TableError`], if it cannot count.
    pub fn start(name: &Name, identity: &Identity, config: Config) -> Result<Self, TableError> {
        let (inputs, received) = mpsc::channel(MAX_WAITING);
        let mut tasks = JoinSet::new();
        let (mut announcers, mut announcing) = (BTreeMap::new(), Vec::new());
        for (number, upstream) in config.upstreams.iter().enumerate() {
            let id = Upstream(number);
            let event = move |event| Input::Agent(id, event);
            let mut keep = |link| tasks.spawn(keep(identity.clone(), link, inputs.clone(), event));
            match &upstream.by {
                Means::Agent(agent) => {
                    keep(Link::Router(target(agent)));
                }
                Means::Relay(relay) => {
                    let translator = Translator::new(&config.accepts, &relay.datagrams);
                    keep(Link::Relay(target(&relay.agent), name.to_string(), translator));
                }
                Means::Site(site) => {
                    let link = connection::Site { socket: site.socket.clone(), peer: site.peer.to_string() };
                    keep(Link::Site(link, Translator::new(&config.accepts, &[])));
                }
                Means::Bgp(bgp) => {
                    let state = bgp::state_file(&config.state_file, &upstream.name);
                    let inputs = inputs.clone();
                    let told = move |told| drop(inputs.try_send(Input::Bgp(id, told)));
                    let (announcer, work) = Announcer::new(bgp.daemon.clone(), state, told);
                    announcing.push(tokio::spawn(work));
                    announcers.insert(id, announcer);
                }
            }
        }
        tasks.spawn(sources::watch(config.accepts.clone(), async move |news| {
            // Nobody takes it at the end.
            let _ = inputs.send(Input::Sources(news)).await;
        }));
        let is_measured = config.accepts.iter().any(|accept| matches!(accept.basis, Basis::Measured(_)));
        let is_counted = is_measured || !announcers.is_empty();
        let arrivals = if is_counted { Some(counting(name, &config)?) } else { None };
        Ok(Self {
            chooser: Chooser::new(&config),
            engine: Engine::new(config),
            arrivals,
            renewed: Instant::now(),
            links: BTreeMap::new(),
            announcers,
            announcing,
            received,
            started: Instant::now(),
            last_serial: 0,
            _tasks: tasks,
        })
    }

    /// Works until `stop` comes or is dropped, and tells how it is. Then BGP daemons have withdrawn what they were told; routers
    /// keep their rules until these end.
    pub async fn run(mut self, told: watch::Sender<Option<ServerStatus>>, mut stop: oneshot::Receiver<()>) {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = &mut stop => break,
                Some(input) = self.received.recv() => self.handle(input),
                _ = ticks.tick() => {
                    self.count().await;
                    self.announce();
                }
            }
            self.flush();
            told.send_replace(Some(self.status()));
        }
        self.announcers.clear();
        for work in self.announcing {
            bgp::farewell(work).await;
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn handle(&mut self, input: Input) {
        let now = self.now();
        match input {
            Input::Agent(upstream, Event::Up(link)) => {
                self.links.insert(upstream, link);
                self.engine.handle_up(upstream);
            }
            Input::Agent(upstream, Event::Message(message)) => {
                self.engine.handle_message(upstream, &message, now)
            }
            Input::Agent(upstream, Event::Down(reason)) => {
                self.links.remove(&upstream);
                self.engine.handle_down(upstream, reason);
            }
            Input::Bgp(upstream, told) => self.chooser.handle_told(upstream, told),
            Input::Sources(news) => self.handle_sources(news),
        }
    }

    fn handle_sources(&mut self, news: News) {
        let now = self.now();
        for (number, said) in news {
            let said = said.map_err(|error| crate::error_chain(&error));
            let Some(change) = self.engine.handle_source(number, said, now) else { continue };
            let class = self.engine.config().accepts.get(number).map(|accept| accept.name.to_string());
            match change {
                Some(error) => tracing::warn!(class, error, "what is accepted is not known from its source"),
                None => tracing::info!(class, "what is accepted is known from its source again"),
            }
        }
    }

    /// Sends what is wanted anew, or has to be said again.
    fn flush(&mut self) {
        let now = self.now();
        let unix_ms = u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX);
        let serial = unix_ms.max(self.last_serial + 1);
        for (upstream, rules) in self.engine.poll_rules(serial, unix_ms, now) {
            self.last_serial = serial;
            let Some(link) = self.links.get(&upstream) else { continue };
            if link.try_send(Message::Rules(rules)).is_err() {
                // It is said again once the router reads.
                self.engine.handle_unsent(upstream);
            }
        }
    }

    /// Learns what arrives here.
    async fn count(&mut self) {
        let Some(mut table) = self.arrivals.take() else { return };
        let (config, is_due) = (self.engine.config().clone(), self.renewed.elapsed() >= COUNTING / 2);
        let work = spawn_blocking(move || {
            let mut counts = table.counts();
            // Somebody may have removed it.
            if is_due || matches!(counts, Err(TableError::Gone)) {
                let renewed = count_classes(&mut table, &config);
                let renewed =
                    renewed.or_else(|_| table.restore().and_then(|()| count_classes(&mut table, &config)));
                counts = renewed.and_then(|()| table.counts());
            }
            (table, counts)
        });
        // A panic was reported where it happened.
        let Ok((table, counts)) = work.await else { return };
        if is_due {
            self.renewed = Instant::now();
        }
        match counts {
            Ok(counts) => {
                let offered = counts.into_iter().map(|((_, name), bytes)| (name, bytes.offered)).collect();
                self.engine.handle_arrivals(&offered, self.started.elapsed());
            }
            Err(error) => tracing::warn!(error = crate::error_chain(&error), "cannot count what arrives"),
        }
        self.arrivals = Some(table);
    }

    /// Has BGP daemons announce what is worth it.
    fn announce(&mut self) {
        let now = self.now();
        self.chooser.handle_arrivals(&self.engine.demand(), now);
        for (upstream, announcer) in &self.announcers {
            announcer.announce(self.chooser.rules(*upstream, now));
        }
    }

    fn status(&self) -> ServerStatus {
        let mut status = self.engine.status(self.now());
        self.chooser.add_to(&mut status);
        status
    }
}

fn target(agent: &Agent) -> Target {
    Target { address: agent.address, public_key: agent.public_key, local: agent.local }
}

/// A table that counts what arrives of each class.
fn counting(name: &Name, config: &Config) -> Result<Table, TableError> {
    let mut table = Table::set_up_to_count(name)?;
    count_classes(&mut table, config)?;
    Ok(table)
}

fn count_classes(table: &mut Table, config: &Config) -> Result<(), TableError> {
    let now = Instant::now();
    let classes = config.accepts.iter().map(|accept| (accept.name.clone(), accept.class));
    let register = Register::counting(ServerId(0), classes.collect(), now + COUNTING);
    table.apply(&register, false, now)
}
