//! The program: threads that watch and that move psmcd, and the engine between them.

use std::path::Path;
use std::time::{Duration, Instant};

use psmc_net::local;
use psmc_net::tls::Identity;
use psmc_service::clock::unix_seconds;
use psmc_service::daemon::{self, Daemon, Order, SystemError};
use psmc_service::http::HttpError;
use psmc_service::socket::Server;
use psmc_signal::connection::{self, Event, Link, Options};
use psmc_signal::{Message, Role};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::Config;
use crate::defence::{self, Defence, DefenceError};
use crate::duty::Wanted;
use crate::engine::Engine;
use crate::gateway::Hand;
use crate::status::{METRICS, Status};
use crate::store::{Keeper, State, Store};
use crate::watch::{WatchError, Watcher};

/// The version of the status.
const STATUS_VERSION: u32 = 1;

/// How often what is learned is kept.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// Questions that wait for their answer: one client is served at a time.
const MAX_QUESTIONS: usize = 1;

/// Why the guard could not start.
#[derive(Debug, Error)]
pub enum GuardError {
    /// Nothing can be watched.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// The hidden lines cannot be defended.
    #[error(transparent)]
    Defence(#[from] DefenceError),
    /// The local control socket can't be had.
    #[error("cannot create the control socket")]
    ControlSocket(#[from] local::BindError),
    /// Metrics can't be had.
    #[error("cannot serve metrics")]
    Metrics(#[from] HttpError),
    /// The operating system refused something basic.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// Runs a guard until SIGTERM or SIGINT. At SIGHUP it reads its `file` anew.
///
/// # Errors
/// [`GuardError`] if something that the guard can't do without is missing.
pub fn run(config: Config, file: &Path) -> Result<(), GuardError> {
    daemon::run(serve(config, file))
}

/// What whoever answers `questions` says; nothing if nobody does.
async fn ask(questions: mpsc::Sender<oneshot::Sender<Status>>) -> Option<Status> {
    let (question, answer) = oneshot::channel();
    questions.send(question).await.ok()?;
    answer.await.ok()
}

async fn serve(mut config: Config, file: &Path) -> Result<(), GuardError> {
    let mut daemon = Daemon::new(file, Config::load)?;
    let mut guard = Guard::start(&config)?;
    let (asked, mut questions) = mpsc::channel(MAX_QUESTIONS);
    let _tellers = tell(&config, &asked).await?;
    daemon.is_up();
    tracing::info!(name = %config.name, "guard started");
    let mut seconds = interval(Duration::from_secs(1));
    seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            Some(arrivals) = guard.watcher.next() => {
                guard.engine.handle_samples(&arrivals.samples, arrivals.elapsed);
            }
            event = next_event(&mut guard.link) => guard.handle_event(event),
            Some(seen) = guard.hand.next() => guard.engine.handle_gateway(seen),
            _ = seconds.tick() => guard.handle_second(),
            Some(question) = questions.recv() => guard.answer(&config, question),
            order = daemon.next() => match order {
                Order::Stop => break,
                Order::Reload(new) if may_follow(&new, &config) => {
                    guard = guard.reload(&new)?;
                    config = new;
                }
                Order::Reload(_) => {}
            },
        }
        guard.flush();
    }
    tracing::info!("guard stopping; psmcd keeps its configuration until the guard returns");
    guard.keeper.keep(guard.engine.state());
    Ok(())
}

/// Begins to tell how the guard is; it ends with what is returned.
async fn tell(
    config: &Config,
    asked: &mpsc::Sender<oneshot::Sender<Status>>,
) -> Result<JoinSet<()>, GuardError> {
    let mut tellers = JoinSet::new();
    let socket = Server::bind(config.control_socket.as_path())?;
    let questions = asked.clone();
    tellers.spawn(socket.tell(move || ask(questions.clone())));
    if let Some(address) = config.metrics {
        let questions = asked.clone();
        let ask = move || ask(questions.clone());
        tellers.spawn(psmc_service::metrics::serve(address, METRICS, ask).await?);
    }
    Ok(tellers)
}

/// Whether a guard that runs can go by another file.
fn may_follow(config: &Config, present: &Config) -> bool {
    let lasting = |config: &Config| {
        (config.name.clone(), config.private_key.public(), config.control_socket.clone(), config.metrics)
    };
    let may_follow = lasting(config) == lasting(present) && config.state_file == present.state_file;
    if !may_follow {
        tracing::error!(
            "configuration not reloaded; the current one stays in force: for another name, private_key_file, state_file, control_socket or metrics \
             the guard has to be started anew"
        );
    }
    may_follow
}

/// The engine, and all that it moves.
struct Guard {
    engine: Engine,
    watcher: Watcher,
    hand: Hand,
    link: Option<Link>,
    keeper: Keeper,
    wanted: Wanted,
    attacks: u64,
    kept: Instant,
    started: Instant,
}

impl Guard {
    fn start(config: &Config) -> Result<Self, GuardError> {
        let store = Store::new(&config.state_file);
        let state = store.load().unwrap_or_else(|error| {
            tracing::error!(error = crate::error_chain(&error), "starting without learned limits");
            State::default()
        });
        let engine = Engine::new(config, state, unix_seconds());
        let wanted = engine.wanted();
        Ok(Self {
            watcher: Watcher::start(&config.interfaces, &config.services)?,
            hand: hand(config, None, wanted.clone())?,
            link: link(config),
            keeper: Keeper::start(store).map_err(SystemError::of("the thread that keeps the state"))?,
            engine,
            wanted,
            attacks: 0,
            kept: Instant::now(),
            started: Instant::now(),
        })
    }

    /// The same guard with another file: what it has learned and what it was asked for go on, as over a restart, but the
    /// hidden lines are at no moment undefended, and the uptime goes on.
    fn reload(self, config: &Config) -> Result<Self, GuardError> {
        let watcher = match Watcher::start(&config.interfaces, &config.services) {
            Ok(watcher) => watcher,
            Err(error) => {
                tracing::error!(
                    error = crate::error_chain(&error),
                    "configuration not reloaded; the current one stays in force"
                );
                return Ok(self);
            }
        };
        let engine = Engine::new(config, self.engine.state(), unix_seconds());
        let wanted = engine.wanted();
        let hand = hand(config, self.hand.hand_over(), wanted.clone())?;
        tracing::info!(services = config.services.len(), "configuration reloaded");
        Ok(Self { engine, watcher, hand, link: link(config), wanted, attacks: 0, ..self })
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Up { coordinator } => self.engine.handle_up(coordinator),
            Event::Down { coordinator, reason } => self.engine.handle_down(coordinator, reason),
            Event::Message(message) => {
                if self.engine.handle_message(message) {
                    self.keep();
                }
            }
        }
    }

    fn handle_second(&mut self) {
        self.engine.handle_second(unix_seconds());
        let attacks = self.engine.attacks();
        if attacks != self.attacks || self.kept.elapsed() >= KEEP_EVERY {
            self.attacks = attacks;
            self.keep();
        }
    }

    /// Carries out what the engine wants.
    fn flush(&mut self) {
        while let Some(message) = self.engine.poll_message() {
            self.send(message);
        }
        let wanted = self.engine.wanted();
        if wanted != self.wanted {
            self.hand.order(wanted.clone());
            self.wanted = wanted;
        }
    }

    fn send(&self, message: Message) {
        let outcome = self.link.as_ref().map_or(Ok(()), |link| link.send(message));
        if let Err(error) = outcome {
            tracing::warn!(%error, "cannot notify the coordinator");
        }
    }

    fn keep(&mut self) {
        self.keeper.keep(self.engine.state());
        self.kept = Instant::now();
    }

    /// Counters of the filter come from a program, which may take its time: in the background.
    fn answer(&self, config: &Config, question: oneshot::Sender<Status>) {
        let mut status = Status {
            version: STATUS_VERSION,
            name: config.name.to_string(),
            public_key: config.private_key.public().to_string(),
            uptime_s: self.started.elapsed().as_secs(),
            watch: self.watcher.status(),
            engine: self.engine.status(unix_seconds()),
            defence: None,
        };
        let defended = config.defence.nftables.then(|| config.name.clone());
        tokio::task::spawn_blocking(move || {
            status.defence = defended.and_then(|name| defence::counters(&name).ok());
            // Who does not wait for the answer does not need it.
            let _ = question.send(status);
        });
    }
}

/// Moves psmcd and the filter, of which there may be one already.
fn hand(config: &Config, defence: Option<Defence>, wanted: Wanted) -> Result<Hand, GuardError> {
    let defence = self::defence(config, defence)?;
    let socket = config.gateway.as_ref().map(|socket| socket.as_path().to_owned());
    let hand = Hand::start(socket, config.lines.clone(), defence, wanted);
    Ok(hand.map_err(SystemError::of("the thread that moves psmcd"))?)
}

fn defence(config: &Config, present: Option<Defence>) -> Result<Option<Defence>, DefenceError> {
    if !config.defence.nftables {
        return Ok(None);
    }
    let interfaces: Vec<_> = config.lines.iter().map(|line| line.interface.clone()).collect();
    let always = config.defence.relays.clone();
    match present {
        Some(defence) => defence.renew(&interfaces, always),
        None => Defence::set_up(&config.name, &interfaces, always),
    }
    .map(Some)
}

fn link(config: &Config) -> Option<Link> {
    let coordinators = config.coordinators.iter();
    let coordinators: Vec<_> = coordinators
        .map(|coordinator| connection::Coordinator {
            address: coordinator.address,
            public_key: coordinator.public_key,
        })
        .collect();
    if coordinators.is_empty() {
        tracing::warn!("no [[coordinator]] configured: attacks are detected but not reported");
        return None;
    }
    Some(Link::open(Options {
        identity: Identity::new(&config.private_key),
        role: Role::Gateway,
        services: config.services.iter().map(|service| service.name.clone()).collect(),
        coordinators,
        interface: config.signal_interface.as_ref().map(ToString::to_string),
        local: config.signal_address,
    }))
}

async fn next_event(link: &mut Option<Link>) -> Event {
    match link {
        Some(link) => link.next().await,
        None => std::future::pending().await,
    }
}
