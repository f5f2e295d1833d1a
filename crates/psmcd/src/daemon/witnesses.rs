//! Loss and delay by segment, for whoever wants to know: relays and peers are asked what they have counted of each path, and
//! beside it stands what this site has (section 16 of the protocol).
//!
//! | module | what it has |
//! |---|---|
//! | `way` | one direction of a path: readings in, blocks out |
//! | `row` | the witnesses of a path in both directions, and whose clock is which |

mod row;
mod way;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use psmc_api::{PathSegments, Response};
use psmc_core::PeerId;
use psmc_wire::PathId;
use psmc_wire::counts::{Counts, PathCounts};
use tokio::sync::mpsc;

use super::DaemonError;
use super::control::Control;
use super::plane::Plane;
use super::relays::{RelayCounts, RelayReading};
use row::{PeerClock, Row, of_path};

/// All are asked this often. It goes into a block neither once nor twice, so that whoever answers late, and is asked every other
/// time, still tells of each part of a block; and is less than the time for which counts rest.
const INTERVAL: Duration = Duration::from_millis(200);

/// For how long somebody wants to know who has asked once.
const WANTED: Duration = Duration::from_secs(10);

/// A peer that has not answered in this time does not, and is asked again.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Peers that are watched at a time: those of a site with many would be asked for as long as others wait.
const MAX_WATCHED: usize = 64;

/// Answers of relays that wait to be noted: those of all paths of a peer, through two relays each. What is more is left out.
const MAX_READINGS: usize = 128;

/// The peers whose paths somebody wants to know about.
#[derive(Debug)]
pub(super) struct Witnesses {
    watched: BTreeMap<PeerId, Watched>,
    next_poll: Option<Instant>,
    answers: mpsc::Sender<RelayReading>,
    readings: mpsc::Receiver<RelayReading>,
}

/// A peer whose paths are watched.
#[derive(Debug)]
struct Watched {
    until: Instant,
    /// When the clock of this site's session began, once it is known.
    origin: Option<Instant>,
    asked: Option<Asked>,
    /// Whether it has ever told, and how its clock stands.
    clock: Option<PeerClock>,
    rows: BTreeMap<PathId, Row>,
}

/// A question to a peer.
#[derive(Clone, Copy, Debug)]
struct Asked {
    at: Instant,
    is_open: bool,
}

/// What the plane tells of a peer.
struct Observed {
    peer: PeerId,
    at: Instant,
    counts: Counts,
    /// Names and shortest round trips of the paths.
    paths: Vec<(PathId, String, Option<Duration>)>,
    was_asked: bool,
}

impl Default for Witnesses {
    fn default() -> Self {
        let (answers, readings) = mpsc::channel(MAX_READINGS);
        Self { watched: BTreeMap::new(), next_poll: None, answers, readings }
    }
}

impl Witnesses {
    /// Somebody wants to know about the paths to a peer, for a while. Says whether there is room for one more.
    pub(super) fn want(&mut self, peer: PeerId, now: Instant) -> bool {
        if !self.watched.contains_key(&peer) && self.watched.len() >= MAX_WATCHED {
            return false;
        }
        let watched = self.watched.entry(peer).or_insert_with(|| Watched::new(now));
        watched.until = now + WANTED;
        self.next_poll.get_or_insert(now);
        true
    }

    /// When all are to be asked next.
    pub(super) fn next_poll(&self) -> Option<Instant> {
        self.next_poll
    }

    /// The next answer of a relay. May be dropped and called again.
    pub(super) async fn next_reading(&mut self) -> Option<RelayReading> {
        // This has a sender as long as it lives.
        self.readings.recv().await
    }

    /// A relay has told.
    pub(super) fn on_reading(&mut self, RelayReading { peer, path, place, counts }: RelayReading) {
        let Some(watched) = self.watched.get_mut(&peer) else { return };
        let asked_us = match &counts {
            Some(RelayCounts { asked_at, .. }) => watched.clock_at(*asked_at),
            None => Some(0),
        };
        // What was asked in a session before says nothing of this one.
        let Some(asked_us) = asked_us else { return };
        if let Some(row) = watched.rows.get_mut(&path) {
            row.note_relay(place, counts.as_ref(), asked_us, watched.clock);
        }
    }

    /// A peer has told.
    pub(super) fn on_counts(&mut self, peer: PeerId, counts: &Counts, now: Instant) {
        let Some(watched) = self.watched.get_mut(&peer) else { return };
        let Some(asked) = watched.asked.as_mut().filter(|asked| asked.is_open) else { return };
        asked.is_open = false;
        let asked_at = asked.at;
        let (Some(asked_us), Some(own_us)) = (watched.clock_at(asked_at), watched.clock_at(now)) else {
            return;
        };
        let clock = PeerClock::of(counts.clock_us, asked_us, (asked_at, now));
        watched.clock = Some(clock.better(watched.clock));
        for (&id, row) in &mut watched.rows {
            if let Some(of_path) = of_path(counts, id) {
                row.note_peer(of_path, counts.clock_us, asked_us, own_us);
            }
        }
    }

    /// What is known of the paths to a peer.
    pub(super) fn status(&self, peer: PeerId, site: &str, name: &str) -> Vec<PathSegments> {
        let rows = self.watched.get(&peer).into_iter().flat_map(|watched| &watched.rows);
        rows.map(|(id, row)| row.status(id.0.into(), site, name)).collect()
    }

    /// Whose paths are to be looked at now, and whether the peer is to be asked.
    fn due(&mut self, now: Instant) -> Vec<(PeerId, bool)> {
        self.watched.retain(|_, watched| now < watched.until);
        self.next_poll = (!self.watched.is_empty()).then(|| now + INTERVAL);
        self.watched.iter().map(|(&peer, watched)| (peer, watched.may_ask(now))).collect()
    }
}

impl Watched {
    fn new(now: Instant) -> Self {
        Self { until: now, origin: None, asked: None, clock: None, rows: BTreeMap::new() }
    }

    fn may_ask(&self, now: Instant) -> bool {
        self.asked.is_none_or(|asked| !asked.is_open || asked.at + ANSWER_TIME <= now)
    }

    /// This site's clock then, in microseconds.
    fn clock_at(&self, at: Instant) -> Option<i64> {
        let since = at.checked_duration_since(self.origin?)?;
        i64::try_from(since.as_micros()).ok()
    }

    /// This site's own counts have come. Another clock is another session, in which all begin anew.
    fn note_own(&mut self, observed: &Observed, relays: impl Fn(PathId) -> Vec<String>) {
        let Observed { at, counts, paths, was_asked, .. } = observed;
        let origin = at.checked_sub(Duration::from_micros(counts.clock_us));
        let is_same = |before: Instant, now: Instant| before.max(now) - before.min(now) < INTERVAL;
        if !self.origin.zip(origin).is_some_and(|(before, now)| is_same(before, now)) {
            (self.origin, self.clock, self.rows) = (origin, None, BTreeMap::new());
        }
        // Who has not answered the question before this one does not count.
        let is_silent = self.asked.is_some_and(|asked| asked.is_open && *was_asked);
        if *was_asked {
            self.asked = Some(Asked { at: *at, is_open: true });
        }
        let Some(own_us) = self.clock_at(*at) else { return };
        self.rows.retain(|id, _| paths.iter().any(|(path, ..)| path == id));
        for (id, name, round_trip) in paths {
            let relays = relays(*id);
            let row = self.rows.entry(*id).or_insert_with(|| Row::new(name.clone(), relays.clone()));
            if !row.leads_through(&relays) {
                *row = Row::new(name.clone(), relays);
            }
            row.round_trip = round_trip.unwrap_or_default();
            if is_silent {
                row.note_silent_peer();
            }
            if let Some(counts) = of_path(counts, *id) {
                row.note_own(counts, own_us, self.clock);
            }
        }
    }
}

/// What the engine has counted of the paths to a peer.
fn observe(plane: &mut Plane, peer: PeerId, asks: bool, at: Instant) -> Option<Observed> {
    let status = plane.site.status(peer)?;
    let mut handle = plane.site.peer(peer).ok()?;
    let counts = handle.counts(at);
    let was_asked = asks && handle.ask_for_counts();
    let is_counted = |id: PathId| counts.paths.iter().any(|&PathCounts { path, .. }| path == id);
    let paths = status.paths.iter().filter(|path| is_counted(path.id));
    let paths = paths.map(|path| (path.id, path.name.clone(), path.min_rtt)).collect();
    Some(Observed { peer, at, counts, paths, was_asked })
}

impl Control {
    /// Asks all who have counted what somebody wants to know.
    pub(super) async fn poll_witnesses(&mut self) -> Result<(), DaemonError> {
        let due = self.witnesses.due(Instant::now());
        let observed = self.plane.call(move |plane| {
            let at = Instant::now();
            due.into_iter().filter_map(|(peer, asks)| observe(plane, peer, asks, at)).collect::<Vec<_>>()
        });
        for observed in observed.await? {
            let Some(peer) = self.peers.get(observed.peer) else { continue };
            let keeper = |id| peer.paths.iter().find(|path| path.id == id)?.keeper.as_ref();
            let relays = |id| {
                let relays = keeper(id).map(|keeper| keeper.keeping().relays).unwrap_or_default();
                relays.iter().map(|relay| relay.name.to_string()).collect()
            };
            let Some(watched) = self.witnesses.watched.get_mut(&observed.peer) else { continue };
            watched.note_own(&observed, relays);
            for (id, ..) in &observed.paths {
                if let Some(keeper) = keeper(*id) {
                    keeper.count(self.witnesses.answers.clone());
                }
            }
        }
        Ok(())
    }

    /// What is known of the paths to a peer, or to all, by segment; and watches them from here on, for a while.
    pub(super) fn segments(&mut self, peer: Option<&str>) -> Result<Response, Response> {
        let wanted = match peer {
            Some(name) => vec![self.peers.find(name)?],
            None => (0..self.peers.len()).collect(),
        };
        let (mut segments, now) = (Vec::new(), Instant::now());
        for index in wanted {
            let peer = &self.peers[index];
            if !self.witnesses.want(peer.id, now) {
                return Err(Response::error(format!(
                    "{MAX_WATCHED} peers are watched at a time: name one of them, or wait {} s and name another",
                    WANTED.as_secs()
                )));
            }
            segments.extend(self.witnesses.status(
                peer.id,
                self.site.name.as_str(),
                peer.config.name.as_str(),
            ));
        }
        Ok(Response::Segments(segments))
    }
}
