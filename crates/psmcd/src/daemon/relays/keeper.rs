//! The task that keeps a path's sessions at its relays for as long as the path lives.
//!
//! ```text
//!               connected                reserved, or known still
//!  connecting ─────────────▶ reserving ───────────────────────────▶ kept ──┐ refresh
//!      ▲                         │                                   │  ◀──┘
//!      └── a connection breaks, or no answer ────────────────────────┘
//! ```
//!
//! Sessions outlive connections: only what the relay has forgotten is reserved anew. A path that stays dead, or is bad
//! for long, is moved to a spare relay, if there is one (`moving`).

mod moving;

use std::time::Duration;

use psmc_core::{PathState, PeerId};
use psmc_service::clock::Backoff;
use psmc_wire::PathId;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};

use super::RelayError;
use super::chain::{Chain, Sessions, Wanted};
use super::client::RelayCounts;
use super::judge::{Comparison, Judge};
use super::reach::{Caller, LocalEnd};
use super::spares::{Spares, Timer};
use crate::config::{Name, Relay};
use crate::daemon::plane::Poster;
use crate::error_chain;

/// While a relay cannot be reached a new attempt begins this often, so that one that is back is in use within a
/// second.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(400);

/// Attempts at a time: those of the last seconds, for a path with a long round trip.
const MAX_ATTEMPTS: usize = 8;

/// When a path has died, its relays must answer in this time, or are connected to anew.
const CHECK_TIMEOUT: Duration = Duration::from_secs(1);

/// Sessions are refreshed so often in the time after which they are forgotten.
const REFRESHES_PER_IDLE: u32 = 3;

/// The shortest time between refreshes, whatever a relay says.
const MIN_REFRESH: Duration = Duration::from_secs(1);

/// The wait after a relay has refused, doubled each time.
const REFUSED_WAITS: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(10));

/// The longest wait for a gateway to register.
const GATEWAY_WAIT: Duration = Duration::from_secs(1);

/// What a path needs of its relays.
pub(in crate::daemon) struct KeeperSpec {
    pub(in crate::daemon) caller: Caller,
    pub(in crate::daemon) local_end: LocalEnd,
    /// The nearest first; at least one.
    pub(in crate::daemon) relays: Vec<Relay>,
    /// What may take the place of a relay; a path through several keeps them.
    pub(in crate::daemon) spares: Spares,
    pub(in crate::daemon) wanted: Wanted,
    /// Whether data may follow as soon as the relay says that it leads to the peer.
    pub(in crate::daemon) is_trusted: bool,
    pub(in crate::daemon) peer: PeerId,
    pub(in crate::daemon) path: PathId,
    pub(in crate::daemon) name: Name,
    pub(in crate::daemon) plane: Poster,
}

/// How it stands with a path's relays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::daemon) struct Keeping {
    /// The relays that the path leads through.
    pub(in crate::daemon) relays: Vec<Relay>,
    /// Why there is no session, or no connection to a relay.
    pub(in crate::daemon) error: Option<String>,
}

/// The control side's hold on a keeper. When the last one is dropped the sessions are given back.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct Keeper {
    commands: mpsc::UnboundedSender<Command>,
    keeping: watch::Receiver<Keeping>,
    may_move: bool,
}

/// What a keeper has to know.
#[derive(Clone, Debug)]
enum Command {
    /// The session must be replaced by a new one.
    Renew,
    /// The path has another state.
    Path(PathState),
    /// How good it is.
    Measured(Comparison),
    /// Somebody wants to know what the relays have counted.
    Count(mpsc::Sender<RelayReading>),
}

/// What a relay of a path has counted.
#[derive(Debug)]
pub(in crate::daemon) struct RelayReading {
    pub(in crate::daemon) peer: PeerId,
    pub(in crate::daemon) path: PathId,
    /// Which of its relays, from the nearest.
    pub(in crate::daemon) place: usize,
    /// `None` if it does not count.
    pub(in crate::daemon) counts: Option<RelayCounts>,
}

impl Keeper {
    /// A keeper, and the task that does its work.
    pub(in crate::daemon) fn new(spec: KeeperSpec) -> (Self, impl Future<Output = ()> + Send) {
        let (commands, received) = mpsc::unbounded_channel();
        let (told, keeping) = watch::channel(Keeping { relays: spec.relays.clone(), error: None });
        let timer = Timer::started(Instant::now());
        let may_move = spec.relays.len() == 1 && !spec.spares.are_none();
        let (judge, left) = (Judge::default(), Vec::new());
        let work = Work { spec, commands: received, told, sessions: None, timer, judge, left, answers: None };
        (Self { commands, keeping, may_move }, work.run())
    }

    /// Moves the path to a new session.
    pub(in crate::daemon) fn renew(&self) {
        // It has ended only if the daemon is ending.
        let _ = self.commands.send(Command::Renew);
    }

    /// Says that the path has another state.
    pub(in crate::daemon) fn on_path(&self, state: PathState) {
        let _ = self.commands.send(Command::Path(state));
    }

    /// Says how good the path is beside the peer's others. To be called every second if the path
    /// [may move](Self::may_move).
    pub(in crate::daemon) fn measured(&self, seen: Comparison) {
        let _ = self.commands.send(Command::Measured(seen));
    }

    /// Has the relays asked what they have counted, and their answers sent there, as far as there is room.
    pub(in crate::daemon) fn count(&self, answers: mpsc::Sender<RelayReading>) {
        let _ = self.commands.send(Command::Count(answers));
    }

    /// Whether there are spare relays, and the path leads through one that may be replaced.
    pub(in crate::daemon) fn may_move(&self) -> bool {
        self.may_move
    }

    /// How it stands.
    pub(in crate::daemon) fn keeping(&self) -> Keeping {
        self.keeping.borrow().clone()
    }
}

/// The path is not wanted any more.
struct Unwanted;

/// Why the sessions are not kept at the moment.
enum Interrupted {
    Unwanted,
    By(RelayError),
}

struct Work {
    spec: KeeperSpec,
    commands: mpsc::UnboundedReceiver<Command>,
    told: watch::Sender<Keeping>,
    sessions: Option<Sessions>,
    /// When the path is to be moved to a spare relay.
    timer: Timer,
    /// Whether it is so bad that it should be.
    judge: Judge,
    /// The relays that it left for that, and when.
    left: Vec<(Name, Instant)>,
    /// Where what relays have counted is sent.
    answers: Option<mpsc::Sender<RelayReading>>,
}

impl Work {
    async fn run(mut self) {
        let mut waits = REFUSED_WAITS;
        loop {
            let Ok(mut chain) = self.connect().await else { return };
            match self.keep(&mut chain).await {
                Interrupted::Unwanted => {
                    if let Some(sessions) = &self.sessions {
                        chain.release(sessions).await;
                    }
                    return;
                }
                Interrupted::By(error @ RelayError::Refused { .. }) => {
                    self.note(&error);
                    if error.is_of_gateway() {
                        // It registers again soon, or is gone for good, which costs a message a second.
                        waits.shorten(GATEWAY_WAIT);
                    }
                    if self.pause(waits.wait()).await.is_err() {
                        return;
                    }
                }
                Interrupted::By(error) => {
                    self.note(&error);
                    waits.reset();
                }
            }
        }
    }

    /// Connects to all relays, however long that takes.
    async fn connect(&mut self) -> Result<Chain, Unwanted> {
        let mut attempts = JoinSet::new();
        let mut beat = interval(ATTEMPT_INTERVAL);
        loop {
            tokio::select! {
                command = self.commands.recv() => {
                    self.heed(command)?;
                }
                Some(Ok(ended)) = attempts.join_next() => match ended {
                    Ok(chain) => return Ok(chain),
                    Err(error) => self.note(&error),
                },
                () = self.timer.due() => {
                    if let Some(chain) = self.move_to_spare().await {
                        // The relay that cannot be reached forgets them in time, or has done so already.
                        self.sessions = None;
                        return Ok(chain);
                    }
                }
                _ = beat.tick(), if attempts.len() < MAX_ATTEMPTS => {
                    // Only one asks for a session that nobody may come to use.
                    let is_first = attempts.is_empty() && self.sessions.is_none();
                    attempts.spawn(self.attempt(is_first));
                }
            }
        }
    }

    /// An attempt to connect, which asks for a session in passing if it may and the path has one relay.
    fn attempt(&self, may_ask: bool) -> impl Future<Output = Result<Chain, RelayError>> + Send + 'static {
        let KeeperSpec { caller, local_end, relays, wanted, .. } = &self.spec;
        let (caller, local_end, relays) = (caller.clone(), local_end.clone(), relays.clone());
        let wanted = wanted.clone();
        async move {
            match relays.as_slice() {
                [relay] if may_ask => Chain::open_asking(&caller, &local_end, relay, &wanted).await,
                relays => Chain::open(&caller, &local_end, relays).await,
            }
        }
    }

    /// Sees to it that there are sessions until a connection breaks.
    async fn keep(&mut self, chain: &mut Chain) -> Interrupted {
        match self.settle(chain).await {
            Ok(()) => {}
            Err(error) => return Interrupted::By(error),
        }
        let mut refresh_at = self.refresh_at();
        loop {
            self.pass_on_counts(chain);
            let command = tokio::select! {
                news = chain.news() => match news {
                    Ok(()) => continue,
                    Err(error) => return Interrupted::By(error),
                },
                command = self.commands.recv() => command,
                () = self.timer.due() => {
                    let Some(spare) = self.move_to_spare().await else { continue };
                    if let Err(error) = self.leave(chain, spare).await {
                        return Interrupted::By(error);
                    }
                    continue;
                }
                () = sleep_until(refresh_at) => {
                    refresh_at = self.refresh_at();
                    if let Err(error) = self.settle(chain).await {
                        return Interrupted::By(error);
                    }
                    continue;
                }
            };
            let checked = match command {
                None => return Interrupted::Unwanted,
                Some(Command::Renew) => self.renew(chain).await,
                Some(Command::Path(state)) => {
                    self.on_path(state);
                    if state == PathState::Dead { self.check(chain).await } else { Ok(()) }
                }
                Some(Command::Measured(seen)) => self.weigh(chain, seen).await,
                Some(Command::Count(answers)) => self.count(chain, answers).await,
            };
            if let Err(error) = checked {
                return Interrupted::By(error);
            }
        }
    }

    /// Refreshes the sessions, or makes them if there are none, or not any more.
    async fn settle(&mut self, chain: &mut Chain) -> Result<(), RelayError> {
        if let Some(sessions) = &self.sessions
            && chain.refresh(sessions).await?
        {
            self.told.send_modify(|keeping| keeping.error = None);
            return Ok(());
        }
        self.sessions = None;
        let KeeperSpec { wanted, is_trusted, peer, path, name, plane, .. } = &self.spec;
        let (sessions, via) = chain.reserve(wanted).await?;
        tracing::info!(path = %name, relay = %via.remote, "session reserved");
        self.sessions = Some(sessions);
        self.told.send_modify(|keeping| keeping.error = None);
        let (peer, path, is_trusted) = (*peer, *path, *is_trusted);
        plane
            .post(move |plane| {
                let now = std::time::Instant::now();
                // A path that has just been removed needs no session; the keeper is told so.
                let Some(mut path) = plane.path(peer, path) else { return };
                let _ = path.lead(via, now);
                if is_trusted {
                    path.trust(now);
                }
            })
            .await;
        // A path whose session has to be replaced has shown that something is wrong.
        self.spec.is_trusted = false;
        Ok(())
    }

    /// Replaces the sessions by new ones.
    async fn renew(&mut self, chain: &mut Chain) -> Result<(), RelayError> {
        if let Some(spent) = self.sessions.take() {
            chain.release(&spent).await;
        }
        self.settle(chain).await
    }

    /// The path is dead: perhaps a relay has forgotten it, and what its connection would say of that takes its time.
    async fn check(&mut self, chain: &mut Chain) -> Result<(), RelayError> {
        let silent = RelayError::Silent { relay: self.spec.relays[0].name.clone() };
        timeout(CHECK_TIMEOUT, self.settle(chain)).await.unwrap_or(Err(silent))
    }

    /// Asks the relays what they have counted; nobody waits for the answers.
    async fn count(
        &mut self,
        chain: &mut Chain,
        answers: mpsc::Sender<RelayReading>,
    ) -> Result<(), RelayError> {
        let Some(sessions) = &self.sessions else { return Ok(()) };
        self.answers = Some(answers);
        for place in chain.without_counts() {
            self.tell(place, None);
        }
        chain.ask_for_counts(sessions).await
    }

    /// Sends on what relays have told meanwhile.
    fn pass_on_counts(&self, chain: &mut Chain) {
        for (place, counts) in chain.take_counts() {
            self.tell(place, Some(counts));
        }
    }

    fn tell(&self, place: usize, counts: Option<RelayCounts>) {
        let Some(answers) = &self.answers else { return };
        let KeeperSpec { peer, path, .. } = self.spec;
        // What is too much is left out: the next answer says all of it once more.
        let _ = answers.try_send(RelayReading { peer, path, place, counts });
    }

    fn refresh_at(&self) -> Instant {
        let idle = self.sessions.as_ref().map_or(Duration::ZERO, |sessions| sessions.idle);
        Instant::now() + (idle / REFRESHES_PER_IDLE).max(MIN_REFRESH)
    }

    /// Waits, unless the path is not wanted any more.
    async fn pause(&mut self, time: Duration) -> Result<(), Unwanted> {
        let end = sleep(time);
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return Ok(()),
                command = self.commands.recv() => self.heed(command)?,
            }
        }
    }

    /// What a command means while there is no connection.
    fn heed(&mut self, command: Option<Command>) -> Result<(), Unwanted> {
        match command {
            None => Err(Unwanted),
            // Forgotten in time: nobody uses its labels any more.
            Some(Command::Renew) => {
                self.sessions = None;
                Ok(())
            }
            Some(Command::Path(state)) => {
                self.on_path(state);
                Ok(())
            }
            Some(Command::Measured(_) | Command::Count(_)) => Ok(()),
        }
    }

    fn on_path(&mut self, state: PathState) {
        self.timer.on_path(state, Instant::now());
        // One that loses much is a suspect ever again, and that is no other time.
        if matches!(state, PathState::Dead | PathState::Probing) {
            self.judge.interrupt();
        }
    }

    /// Remembers why a relay cannot be used; says it aloud only when it is news.
    fn note(&self, error: &RelayError) {
        let error = error_chain(error);
        let is_news = self.told.borrow().error.as_ref() != Some(&error);
        if is_news {
            tracing::warn!(path = %self.spec.name, error, "cannot reserve a session at the relay");
            self.told.send_modify(|keeping| keeping.error = Some(error));
        }
    }
}
