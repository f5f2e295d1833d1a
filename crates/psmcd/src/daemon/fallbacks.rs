//! Paths that go by UDP, and have a stream of TLS beside them while nothing comes by UDP, or little of what is sent.
//!
//! The path by UDP stays, and is probed as ever, so that it is in use again as soon as the network lets it through. The stream ends
//! once UDP has worked for a while.

mod throttle;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use psmc_core::{PathState, PathStatus, PeerId, PeerStatus};
use psmc_wire::PathId;
use psmc_wire::frame::PathStats;

use super::DaemonError;
use super::control::Control;
use super::paths::OpenPath;
use super::plane::Plane;
use crate::config::{PathSettings, STREAM_SUFFIX, Transport};
use throttle::{Carried, Look, Throttle};

/// How long UDP is silent before a stream is dialled. A path is silent only after several round trips without an answer.
const SILENCE: Duration = Duration::from_millis(300);

/// How long to wait after a stream could not even be tried.
const RETRY: Duration = Duration::from_secs(5);

/// How long UDP has to work before the stream is ended, the first time.
const HOLD: Duration = Duration::from_secs(10);

/// The longest: a network that lets UDP through now and then should not end a stream every few seconds.
const LONGEST_HOLD: Duration = Duration::from_secs(160);

/// A stream that is needed again so soon was ended too soon.
const RELAPSE: Duration = Duration::from_secs(120);

/// The paths that may have streams beside them.
#[derive(Debug, Default)]
pub(super) struct Fallbacks {
    of: BTreeMap<(PeerId, PathId), Fallback>,
}

/// What is to be done about a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    End(PathId),
}

/// One path by UDP.
#[derive(Debug)]
struct Fallback {
    is_silent: bool,
    throttle: Throttle,
    /// Whether it stands by, so that the stream carries everything.
    stands_by: bool,
    /// Whether it answers, and is not throttled, and since when that is so.
    works: bool,
    since: Instant,
    /// The path that goes by a stream meanwhile.
    stream: Option<PathId>,
    /// When it was last ended.
    ended: Option<Instant>,
    hold: Duration,
}

impl Fallback {
    /// Of a path that may answer at any moment.
    fn new(now: Instant) -> Self {
        Self {
            is_silent: false,
            throttle: Throttle::new(),
            stands_by: false,
            works: true,
            since: now,
            stream: None,
            ended: None,
            hold: HOLD,
        }
    }

    fn note_silence(&mut self, is_silent: bool, now: Instant) {
        self.is_silent = is_silent;
        self.settle(now);
    }

    /// So much has been carried by it and its stream. Says whether that shows it throttled which did not seem so before.
    fn look(&mut self, look: Look, now: Instant) -> bool {
        let was_found = self.throttle.is_found();
        self.throttle.look(look, now);
        self.settle(now);
        self.throttle.is_found() && !was_found
    }

    fn settle(&mut self, now: Instant) {
        let works = !self.is_silent && !self.throttle.wants_stream();
        if self.works != works {
            (self.works, self.since) = (works, now);
        }
    }

    /// Whether it has to stand by from now on, or not any more: what a network drops of it, again and again, holds up the flows inside.
    fn take_standby(&mut self) -> Option<bool> {
        let before = self.stands_by;
        self.stands_by = self.stream.is_some() && self.throttle.is_to_be_spared();
        (self.stands_by != before).then_some(self.stands_by)
    }

    /// When something is to be done, or looked at, if nothing happens before.
    fn next(&self) -> Option<Instant> {
        [self.step_at(), self.throttle.next()].into_iter().flatten().min()
    }

    fn step_at(&self) -> Option<Instant> {
        match (self.works, self.stream) {
            (false, None) => Some(self.since + SILENCE),
            (true, Some(_)) => Some(self.since + self.hold),
            (true, None) | (false, Some(_)) => None,
        }
    }

    fn step(&self, now: Instant) -> Option<Step> {
        let is_due = self.step_at().is_some_and(|at| at <= now);
        is_due.then(|| self.stream.map_or(Step::Begin, Step::End))
    }

    /// A stream has begun.
    fn begin(&mut self, stream: PathId, now: Instant) {
        let is_relapse = self.ended.is_some_and(|ended| now.duration_since(ended) < RELAPSE);
        self.hold = if is_relapse { (self.hold * 2).min(LONGEST_HOLD) } else { HOLD };
        self.stream = Some(stream);
    }

    /// None could be begun.
    fn put_off(&mut self, now: Instant) {
        self.since = now + RETRY;
    }

    fn end(&mut self, now: Instant) {
        self.stream = None;
        self.ended = Some(now);
        self.throttle.on_stream_end();
    }
}

impl Fallbacks {
    /// When something is to be done, if nothing happens before.
    pub(super) fn next(&self) -> Option<Instant> {
        self.of.values().filter_map(Fallback::next).min()
    }

    /// A path has another state.
    pub(super) fn on_state(&mut self, path: (PeerId, PathId), state: PathState, now: Instant) {
        if let Some(fallback) = self.of.get_mut(&path) {
            match state {
                PathState::Active => fallback.note_silence(false, now),
                PathState::Dead => fallback.note_silence(true, now),
                PathState::Suspect | PathState::Probing => {}
            }
        }
    }
}

impl Control {
    /// Looks at the paths that may have streams beside them, and does what is due.
    pub(super) async fn fall_back(&mut self) -> Result<(), DaemonError> {
        let may = |path: &&OpenPath| path.settings.transport == Transport::Auto;
        let asked = self.peers.iter().filter(|peer| peer.paths.iter().any(|path| may(&path)));
        let asked: Vec<_> = asked.map(|peer| peer.id).collect();
        if asked.is_empty() && self.fallbacks.of.is_empty() {
            return Ok(());
        }
        let ask = move |plane: &mut Plane| {
            let statuses = asked.into_iter().filter_map(|peer| Some((peer, plane.site.status(peer)?)));
            (plane.site.silent_paths(), statuses.collect::<BTreeMap<_, _>>())
        };
        let (silent, statuses) = self.plane.call(ask).await?;
        let now = Instant::now();
        let mut found = BTreeMap::new();
        for peer in self.peers.iter() {
            for path in peer.paths.iter().filter(may) {
                let id = (peer.id, path.id);
                let known = self.fallbacks.of.remove(&id);
                let mut fallback = known.unwrap_or_else(|| Fallback::new(now));
                let is_silent = silent.iter().any(|silent| (silent.peer, silent.path) == id);
                fallback.note_silence(is_silent, now);
                // It may have been removed by hand.
                fallback.stream =
                    fallback.stream.filter(|stream| peer.paths.iter().any(|path| path.id == *stream));
                let look =
                    statuses.get(&peer.id).and_then(|status| look_at(status, path.id, fallback.stream));
                if look.is_some_and(|look| fallback.look(look, now)) {
                    let name = path.settings.name.as_str();
                    tracing::info!(path = name, "UDP is throttled: a stream of TLS carries more");
                }
                found.insert(id, fallback);
            }
        }
        let gone = std::mem::replace(&mut self.fallbacks.of, found);
        self.spare_throttled().await?;
        for ((peer, _), fallback) in gone {
            if let Some(stream) = fallback.stream {
                self.end_fallback(peer, stream).await?;
            }
        }
        let due = |(id, fallback): (&(PeerId, PathId), &Fallback)| Some((*id, fallback.step(now)?));
        for ((peer, path), step) in self.fallbacks.of.iter().filter_map(due).collect::<Vec<_>>() {
            match step {
                Step::Begin => self.begin_fallback(peer, path, now).await,
                Step::End(stream) => {
                    tracing::info!(
                        path = self.path_name(peer, path),
                        "UDP works again: ending the stream of TLS beside it"
                    );
                    self.end_fallback(peer, stream).await?;
                    self.fallbacks.of.entry((peer, path)).and_modify(|fallback| fallback.end(now));
                }
            }
        }
        Ok(())
    }

    /// Has paths stand by that are throttled, unless a person has said what they are to do.
    async fn spare_throttled(&mut self) -> Result<(), DaemonError> {
        let mut wishes = Vec::new();
        for (&(peer, path), fallback) in &mut self.fallbacks.of {
            let Some(standby) = fallback.take_standby() else { continue };
            let index = self.peers.index_of(peer);
            if index.is_some_and(|index| !self.peers[index].on_standby.contains(&path)) {
                wishes.push((peer, path, standby));
            }
        }
        if wishes.is_empty() {
            return Ok(());
        }
        let ask = move |plane: &mut Plane| {
            for (peer, path, standby) in wishes {
                // One that is being removed, or spared already, has no use for it.
                let _ = plane.path(peer, path).map(|mut path| path.set_standby(standby, Instant::now()));
            }
        };
        self.plane.post(ask).await
    }

    async fn begin_fallback(&mut self, peer: PeerId, path: PathId, now: Instant) {
        let Some(index) = self.peers.index_of(peer) else { return };
        let Some(open) = self.peers[index].paths.iter().find(|open| open.id == path) else { return };
        let name = open.settings.name.clone();
        let Ok(stream_name) = format!("{name}{STREAM_SUFFIX}").parse() else { return };
        let settings = PathSettings { name: stream_name, transport: Transport::Tls, ..open.settings.clone() };
        tracing::info!(path = %name, "nothing comes by UDP, or little: trying a stream of TLS");
        let opened = self.open_path_beside(index, path, settings).await;
        let Some(fallback) = self.fallbacks.of.get_mut(&(peer, path)) else { return };
        match opened {
            Ok(stream) => fallback.begin(stream, now),
            Err(error) => {
                tracing::info!(path = %name, error = crate::error_chain(&error), "no stream of TLS");
                fallback.put_off(now);
            }
        }
    }

    async fn end_fallback(&mut self, peer: PeerId, stream: PathId) -> Result<(), DaemonError> {
        match self.peers.index_of(peer) {
            Some(index) if self.peers.path_mut(peer, stream).is_some() => self.end_path(index, stream).await,
            Some(_) | None => Ok(()),
        }
    }

    fn path_name(&mut self, peer: PeerId, path: PathId) -> String {
        self.peers.path_mut(peer, path).map(|path| path.settings.name.to_string()).unwrap_or_default()
    }
}

/// What a path and its stream have carried so far.
fn look_at(peer: &PeerStatus, path: PathId, stream: Option<PathId>) -> Option<Look> {
    let carried = |id: PathId| peer.paths.iter().find(|path| path.id == id).map(carried_by);
    Some(Look { path: carried(path)?, stream: stream.and_then(carried) })
}

/// To the peer, and from it.
fn carried_by(path: &PathStatus) -> [Carried; 2] {
    let sent = path.counters;
    let mean = sent.tx_bytes / sent.tx_packets.max(1);
    let bytes = sent.tx_bytes.saturating_sub(sent.lost_packets * mean + path.inflight_bytes);
    let to_peer = Carried { bytes, arrived: sent.acked_packets, lost: sent.lost_packets };
    let PathStats { packets, bytes, .. } = path.received;
    [to_peer, Carried { bytes, arrived: packets, lost: path.received_numbers.saturating_sub(packets) }]
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: PathId = PathId(7);

    fn seconds(start: Instant, seconds: f64) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_stream_begins_when_udp_is_silent_and_ends_once_it_has_worked_for_a_while() {
        let start = Instant::now();
        let mut path = Fallback::new(start);
        assert_eq!((path.step_at(), path.step(seconds(start, 100.0))), (None, None), "UDP works");
        path.note_silence(true, seconds(start, 1.0));
        assert_eq!(path.step(seconds(start, 1.1)), None, "for a moment");
        path.note_silence(false, seconds(start, 1.2));
        path.note_silence(true, seconds(start, 2.0));
        assert_eq!(path.step(seconds(start, 2.2)), None, "it has answered in between");
        assert_eq!(path.step(seconds(start, 2.3)), Some(Step::Begin));
        path.begin(STREAM, seconds(start, 2.3));
        assert_eq!(path.step_at(), None, "there is one");
        path.note_silence(false, seconds(start, 30.0));
        assert_eq!(path.step(seconds(start, 39.9)), None);
        path.note_silence(true, seconds(start, 39.9));
        path.note_silence(false, seconds(start, 40.0));
        assert_eq!(path.step(seconds(start, 49.9)), None, "it was silent in between");
        assert_eq!(path.step(seconds(start, 50.0)), Some(Step::End(STREAM)));
        path.end(seconds(start, 50.0));
        assert_eq!(path.step_at(), None);
    }

    #[test]
    fn a_network_that_cannot_decide_ends_streams_ever_less_often() {
        let start = Instant::now();
        let mut path = Fallback::new(start);
        let (mut now, mut holds) = (start, Vec::new());
        for _ in 0..6 {
            path.note_silence(true, now);
            path.begin(STREAM, now);
            path.note_silence(false, now);
            holds.push(path.step_at().map(|at| at.duration_since(now).as_secs()));
            now += path.hold;
            path.end(now);
            now += Duration::from_secs(1);
        }
        assert_eq!(holds, [10, 20, 40, 80, 160, 160].map(Some));
        now += RELAPSE;
        path.note_silence(true, now);
        path.begin(STREAM, now);
        assert_eq!(path.hold, HOLD, "that was long ago");
    }

    #[test]
    fn a_path_stands_by_only_beside_its_stream() {
        let start = Instant::now();
        let mut path = Fallback::new(start);
        assert_eq!(path.take_standby(), None);
        path.throttle = Throttle::found(start);
        assert_eq!(path.take_standby(), None, "there is no stream");
        path.begin(STREAM, start);
        assert_eq!((path.take_standby(), path.take_standby()), (Some(true), None));
        path.end(start);
        assert_eq!((path.take_standby(), path.take_standby()), (Some(false), None));
    }

    #[test]
    fn what_could_not_begin_is_tried_again_later() {
        let start = Instant::now();
        let mut path = Fallback::new(start);
        path.note_silence(true, start);
        path.put_off(start);
        assert_eq!(path.step(seconds(start, 5.2)), None);
        assert_eq!(path.step(seconds(start, 5.3)), Some(Step::Begin));
    }
}
