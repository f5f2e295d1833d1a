//! What is shown: it follows from the daemon's answers and the user's keys. Time is an argument.

mod history;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::civil::Time;
use psmc_api::watch::{PeerRates, Watch};
use psmc_api::{PathState, PathStatus, PeerStatus, Request, Status, WantedState};

use super::keys::Key;
use history::History;

/// What is known and chosen. Tell it everything that the daemon says, by [`answered`](Self::answered), [`away`](Self::away) and
/// [`refused`](Self::refused), and every key, by [`press`](Self::press); then draw it.
#[derive(Debug)]
pub(super) struct Model {
    watch: Watch<Time>,
    /// By the peer's name, the path's name and its number.
    histories: BTreeMap<(String, String, u32), History>,
    /// How many answers a history has: those of a minute.
    span: usize,
    away: Option<Away>,
    refusal: Option<String>,
    /// Which peer is chosen; the first if it is none of them.
    peer: String,
    /// Which path of it is chosen; the first if it is none of them.
    path: String,
    /// The weight that the chosen path is to have, until the next answer says which it has.
    weight: Option<u16>,
    help: bool,
}

/// Something that has happened, and when it was seen.
pub(super) type Event = psmc_api::watch::Event<Time>;

/// The daemon does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Away {
    /// When that was seen first.
    pub(super) since: Time,
    pub(super) why: String,
}

/// What a key asks for that the model cannot do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Wish {
    Quit,
    Ask(Box<Request>),
}

/// How much of the past a history shows.
const MINUTE: Duration = Duration::from_secs(60);

impl Model {
    /// Of a daemon that will be asked once in `interval`.
    pub(super) fn new(interval: Duration) -> Self {
        let span = MINUTE.as_millis() / interval.as_millis().max(1);
        Self {
            watch: Watch::default(),
            histories: BTreeMap::new(),
            // Of more answers than columns nothing more could be seen.
            span: usize::try_from(span).unwrap_or(usize::MAX).clamp(1, 600),
            away: None,
            refusal: None,
            peer: String::new(),
            path: String::new(),
            weight: None,
            help: false,
        }
    }

    /// The daemon has answered, `at` that moment, when the clock said `clock`.
    pub(super) fn answered(&mut self, status: Status, at: Instant, clock: Time) {
        if self.away.take().is_some() {
            self.watch.happened(clock, "psmcd answers again".to_owned());
        }
        if self.watch.answered(Arc::new(status), at, &clock) {
            self.measure();
        }
        self.weight = None;
    }

    /// Adds the latest rates to the past of each path.
    fn measure(&mut self) {
        let mut histories = BTreeMap::new();
        let Some((status, _)) = self.watch.latest() else { return };
        for peer in &status.peers {
            let Some(rates) = self.watch.rates(peer) else { continue };
            for path in &peer.paths {
                let key = (peer.name.clone(), path.name.clone(), path.id);
                let mut history = self.histories.remove(&key).unwrap_or_default();
                if let Some(rate) = rates.paths.get(&path.id) {
                    history.add(*rate, self.span);
                }
                histories.insert(key, history);
            }
        }
        self.histories = histories;
    }

    /// The daemon has not answered.
    pub(super) fn away(&mut self, why: String, clock: Time) {
        if let Some(away) = &mut self.away {
            away.why = why;
            return;
        }
        self.watch.happened(clock, "psmcd does not answer".to_owned());
        self.away = Some(Away { since: clock, why });
    }

    /// What a key asked for was not done.
    pub(super) fn refused(&mut self, why: String) {
        self.refusal = Some(why);
        self.weight = None;
    }

    /// The user has pressed a key.
    pub(super) fn press(&mut self, key: Key) -> Option<Wish> {
        self.refusal = None;
        let helped = std::mem::take(&mut self.help);
        match key {
            Key::Quit => return Some(Wish::Quit),
            Key::Help => self.help = !helped,
            Key::Up => self.choose_path(|chosen, _| chosen.saturating_sub(1)),
            Key::Down => self.choose_path(|chosen, count| (chosen + 1).min(count - 1)),
            Key::NextPeer => self.choose_next_peer(),
            Key::Standby => return self.toggle(),
            Key::Heavier => return self.weigh(|weight| weight.saturating_add(1)),
            Key::Lighter => return self.weigh(|weight| weight.saturating_sub(1)),
            Key::Other => {}
        }
        None
    }

    fn choose_path(&mut self, choose: impl FnOnce(usize, usize) -> usize) {
        let Some((peer, chosen)) = self.peer().zip(self.chosen_path()) else { return };
        self.path = peer.paths[choose(chosen, peer.paths.len())].name.clone();
        self.weight = None;
    }

    fn choose_next_peer(&mut self) {
        let (peers, chosen) = (self.peers(), self.chosen_peer());
        let Some(next) = chosen.map(|chosen| (chosen + 1) % peers.len()) else { return };
        self.peer = peers[next].name.clone();
        self.path = String::new();
        self.weight = None;
    }

    fn toggle(&self) -> Option<Wish> {
        let standby = self.path()?.state == PathState::Standby;
        let state = if standby { WantedState::Active } else { WantedState::Standby };
        self.change(None, Some(state))
    }

    fn weigh(&mut self, weigh: impl FnOnce(u16) -> u16) -> Option<Wish> {
        let weight = weigh(self.weight.unwrap_or(self.path()?.weight));
        self.weight = Some(weight);
        self.change(Some(weight), None)
    }

    /// Asks for a change of the chosen path.
    fn change(&self, weight: Option<u16>, state: Option<WantedState>) -> Option<Wish> {
        let (peer, path) = (self.peer()?.name.clone(), self.path()?.name.clone());
        let change = Request::PathSet {
            peer,
            path,
            weight,
            max_rate: None,
            tier: None,
            direction: None,
            state,
            congestion: None,
        };
        Some(Wish::Ask(Box::new(change)))
    }
}

/// What is drawn.
impl Model {
    pub(super) fn status(&self) -> Option<&Status> {
        self.watch.latest().map(|(status, _)| status.as_ref())
    }

    pub(super) fn peers(&self) -> &[PeerStatus] {
        self.status().map_or(&[], |status| &status.peers)
    }

    /// Which of the peers is chosen; `None` if there are none.
    pub(super) fn chosen_peer(&self) -> Option<usize> {
        let peers = self.peers();
        let chosen = peers.iter().position(|peer| peer.name == self.peer).unwrap_or(0);
        (!peers.is_empty()).then_some(chosen)
    }

    /// The chosen peer.
    pub(super) fn peer(&self) -> Option<&PeerStatus> {
        self.peers().get(self.chosen_peer()?)
    }

    /// Which of its paths is chosen; `None` if there are none.
    pub(super) fn chosen_path(&self) -> Option<usize> {
        let paths = &self.peer()?.paths;
        let chosen = paths.iter().position(|path| path.name == self.path).unwrap_or(0);
        (!paths.is_empty()).then_some(chosen)
    }

    /// The chosen path.
    pub(super) fn path(&self) -> Option<&PathStatus> {
        self.peer()?.paths.get(self.chosen_path()?)
    }

    /// The weight that the chosen path will have if it has another than the daemon said last.
    pub(super) fn wanted_weight(&self) -> Option<u16> {
        self.weight
    }

    /// The rates of a peer, once they are known.
    pub(super) fn rates(&self, peer: &PeerStatus) -> Option<&PeerRates> {
        self.watch.rates(peer)
    }

    /// The rates of the last minute of each path of a peer, in Mbit/s, in so many columns at most, the latest last.
    pub(super) fn histories(&self, peer: &PeerStatus, columns: usize) -> Vec<Vec<f64>> {
        let history = |path: &PathStatus| {
            let key = (peer.name.clone(), path.name.clone(), path.id);
            self.histories.get(&key).map(|history| history.columns(self.span, columns)).unwrap_or_default()
        };
        peer.paths.iter().map(history).collect()
    }

    /// The latest events, the last one last.
    pub(super) fn events(&self, count: usize) -> impl Iterator<Item = &Event> {
        self.watch.events(count)
    }

    pub(super) fn silence(&self) -> Option<&Away> {
        self.away.as_ref()
    }

    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    pub(super) fn wants_help(&self) -> bool {
        self.help
    }
}

#[cfg(test)]
mod tests;
