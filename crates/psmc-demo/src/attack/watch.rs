//! When what happened, as the programs themselves say.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, Instant};

use psmc_api::{Carrier, PathState, PathStatus, PeerStatus};
use psmc_signal::Stage;
use tokio::time::sleep;

use super::AFTERWARDS;
use super::network::CLIENTS;
use super::programs::{Programs, Sockets};
use super::report::last;
use crate::DemoError;
use crate::view::View;

/// How often it is looked, and so how exactly times are known.
const LOOK: Duration = Duration::from_millis(10);

/// Times, counted from the start of the downloads.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The guard has found the flood.
    pub(super) detected: Option<Duration>,
    /// The relays are published.
    pub(super) published: Option<Duration>,
    /// Each client's data go through relays.
    pub(super) around: [Option<Duration>; CLIENTS.len()],
    /// The relays that the clients were told of.
    pub(super) relays: usize,
    /// The relays of the mitigation, by their names, from each moment on.
    pub(super) chosen: Vec<(Duration, Vec<String>)>,
    /// Those over which each client has a path that answers, by their addresses.
    pub(super) used: [Vec<(Duration, Vec<String>)>; CLIENTS.len()],
    /// Each client's data go straight again.
    pub(super) back: [Option<Duration>; CLIENTS.len()],
    /// The routes are withdrawn.
    pub(super) withdrawn: Option<Duration>,
}

/// Looks at programs.
pub(super) struct Watch {
    origin: Instant,
    sockets: Sockets,
    seen: Seen,
    progress: Progress,
}

/// How far it has come, for those who wait for something.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Rc<Cell<Stages>>);

#[derive(Clone, Copy, Debug, Default)]
struct Stages {
    is_around: bool,
    flood_ended: Option<Instant>,
    back: Option<Instant>,
}

impl Progress {
    /// The data of all clients go through relays, or have gone.
    pub(super) fn is_around(&self) -> bool {
        self.0.get().is_around
    }

    /// The flood has ended.
    pub(super) fn flood_ended(&self, now: Instant) {
        self.0.set(Stages { flood_ended: Some(now), ..self.0.get() });
    }

    /// Whether nothing more will come: the clients have been back for a while, or have had the time for it.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let Stages { flood_ended, back, .. } = self.0.get();
        let [after_return, at_most] = AFTERWARDS;
        let Some(ended) = flood_ended else { return false };
        ended + at_most <= now || back.is_some_and(|back| back + after_return <= now)
    }
}

impl Watch {
    pub(super) fn new(origin: Instant, programs: &Programs) -> Self {
        let (seen, progress) = (Seen::default(), Progress::default());
        Self { origin, sockets: programs.sockets(), seen, progress }
    }

    /// How far it has come, from here on.
    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Looks until it is dropped, and tells what is new.
    pub(super) async fn run(&mut self, view: &mut View) -> Result<Infallible, DemoError> {
        loop {
            let (guard, coordinator, peers) =
                tokio::join!(self.sockets.guard(), self.sockets.coordinator(), self.sockets.peers());
            let now = self.origin.elapsed();
            if guard.is_some_and(|guard| guard.has_found()) {
                self.note_detected(now, view);
            }
            if let Some(service) = coordinator.as_ref().and_then(|status| status.services.first()) {
                let names = service.routes.values().flatten().cloned().collect();
                note_change(&mut self.seen.chosen, names, now);
                self.note_stage(
                    service.stage,
                    service.routes.values().map(Vec::len).max().unwrap_or(0),
                    now,
                    view,
                );
            }
            for (client, peer) in peers.iter().enumerate() {
                if let Some(peer) = peer {
                    note_change(&mut self.seen.used[client], relays_in_use(peer), now);
                    self.note_carrier(client, peer, now, view);
                }
            }
            let stages = Stages {
                is_around: last(&self.seen.around).is_some(),
                back: last(&self.seen.back).map(|at| self.origin + at),
                ..self.progress.0.get()
            };
            self.progress.0.set(stages);
            sleep(LOOK).await;
        }
    }

    /// What has been seen.
    pub(super) fn seen(&self) -> &Seen {
        &self.seen
    }

    fn note_detected(&mut self, now: Duration, view: &mut View) {
        if self.seen.detected.is_none() {
            self.seen.detected = Some(now);
            note(view, now, "the guard has found a flood");
        }
    }

    fn note_stage(&mut self, stage: Stage, relays: usize, now: Duration, view: &mut View) {
        let is_published = matches!(stage, Stage::Active | Stage::Effective | Stage::Ineffective);
        if is_published && self.seen.published.is_none() {
            (self.seen.published, self.seen.relays) = (Some(now), relays);
            note(view, now, &format!("the gateway is registered with {relays} relays, and DNS has them"));
        }
        let is_over = self.seen.published.is_some() && matches!(stage, Stage::Withdrawn | Stage::Prepared);
        if is_over && self.seen.withdrawn.is_none() {
            self.seen.withdrawn = Some(now);
            note(view, now, "attack ended; the relays are withdrawn");
        }
    }

    fn note_carrier(&mut self, client: usize, peer: &PeerStatus, now: Duration, view: &mut View) {
        let Some(routes) = &peer.routes else { return };
        let name = CLIENTS[client];
        match (routes.carrier, self.seen.around[client], self.seen.back[client]) {
            (Carrier::Learned, None, _) => {
                self.seen.around[client] = Some(now);
                note(view, now, &format!("{name} goes through relays"));
            }
            (Carrier::Direct, Some(_), None) => {
                self.seen.back[client] = Some(now);
                note(view, now, &format!("{name} goes straight again"));
            }
            // It was not over yet.
            (Carrier::Learned, Some(_), Some(_)) => self.seen.back[client] = None,
            (Carrier::Learned, Some(_), None) | (Carrier::Direct, ..) => {}
        }
    }
}

/// The relays over which a path answers.
fn relays_in_use(peer: &PeerStatus) -> Vec<String> {
    let answers = |path: &&PathStatus| matches!(path.state, PathState::Active | PathState::Standby);
    let mut relays: Vec<String> =
        peer.paths.iter().filter(answers).flat_map(|path| path.relays.clone()).collect();
    relays.sort_unstable();
    relays.dedup();
    relays
}

fn note_change(history: &mut Vec<(Duration, Vec<String>)>, relays: Vec<String>, now: Duration) {
    if history.last().is_none_or(|(_, before)| *before != relays) {
        history.push((now, relays));
    }
}

fn note(view: &mut View, at: Duration, what: &str) {
    view.note(&format!("{:>6.2} s  {what}", at.as_secs_f64()));
}
