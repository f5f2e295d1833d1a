//! Paths that go by UDP, and have a stream of TLS beside them while nothing comes by UDP.
//!
//! The path by UDP stays, and is probed as ever, so that it is in use again as soon as the network lets it through. The stream ends
//! once UDP has worked for a while.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use psmc_core::{PathState, PeerId};
use psmc_wire::PathId;

use super::DaemonError;
use super::control::Control;
use super::paths::OpenPath;
use crate::config::{PathSettings, Transport};

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
    /// Whether it answers, and since when that is so.
    answers: bool,
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
        Self { answers: true, since: now, stream: None, ended: None, hold: HOLD }
    }

    fn note(&mut self, answers: bool, now: Instant) {
        if self.answers != answers {
            (self.answers, self.since) = (answers, now);
        }
    }

    /// When something is to be done, if nothing happens before.
    fn next(&self) -> Option<Instant> {
        match (self.answers, self.stream) {
            (false, None) => Some(self.since + SILENCE),
            (true, Some(_)) => Some(self.since + self.hold),
            (true, None) | (false, Some(_)) => None,
        }
    }

    fn step(&self, now: Instant) -> Option<Step> {
        let is_due = self.next().is_some_and(|at| at <= now);
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
                PathState::Active => fallback.note(true, now),
                PathState::Dead => fallback.note(false, now),
                PathState::Suspect | PathState::Probing => {}
            }
        }
    }
}

impl Control {
    /// Looks at the paths that may have streams beside them, and does what is due.
    pub(super) async fn fall_back(&mut self) -> Result<(), DaemonError> {
        let silent = self.plane.call(|plane| plane.site.silent_paths()).await?;
        let now = Instant::now();
        let mut found = BTreeMap::new();
        for peer in self.peers.iter() {
            let may = |path: &&OpenPath| path.settings.transport == Transport::Auto;
            for path in peer.paths.iter().filter(may) {
                let id = (peer.id, path.id);
                let known = self.fallbacks.of.remove(&id);
                let mut fallback = known.unwrap_or_else(|| Fallback::new(now));
                let is_silent = silent.iter().any(|silent| (silent.peer, silent.path) == id);
                fallback.note(!is_silent, now);
                // It may have been removed by hand.
                fallback.stream =
                    fallback.stream.filter(|stream| peer.paths.iter().any(|path| path.id == *stream));
                found.insert(id, fallback);
            }
        }
        let gone = std::mem::replace(&mut self.fallbacks.of, found);
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

    async fn begin_fallback(&mut self, peer: PeerId, path: PathId, now: Instant) {
        let Some(index) = self.peers.index_of(peer) else { return };
        let Some(open) = self.peers[index].paths.iter().find(|open| open.id == path) else { return };
        let name = open.settings.name.clone();
        let Ok(stream_name) = format!("{name}-tls").parse() else { return };
        let settings = PathSettings { name: stream_name, transport: Transport::Tls, ..open.settings.clone() };
        tracing::info!(path = %name, "nothing comes by UDP: trying a stream of TLS");
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
        assert_eq!((path.next(), path.step(seconds(start, 100.0))), (None, None), "UDP works");
        path.note(false, seconds(start, 1.0));
        assert_eq!(path.step(seconds(start, 1.1)), None, "for a moment");
        path.note(true, seconds(start, 1.2));
        path.note(false, seconds(start, 2.0));
        assert_eq!(path.step(seconds(start, 2.2)), None, "it has answered in between");
        assert_eq!(path.step(seconds(start, 2.3)), Some(Step::Begin));
        path.begin(STREAM, seconds(start, 2.3));
        assert_eq!(path.next(), None, "there is one");
        path.note(true, seconds(start, 30.0));
        assert_eq!(path.step(seconds(start, 39.9)), None);
        path.note(false, seconds(start, 39.9));
        path.note(true, seconds(start, 40.0));
        assert_eq!(path.step(seconds(start, 49.9)), None, "it was silent in between");
        assert_eq!(path.step(seconds(start, 50.0)), Some(Step::End(STREAM)));
        path.end(seconds(start, 50.0));
        assert_eq!(path.next(), None);
    }

    #[test]
    fn a_network_that_cannot_decide_ends_streams_ever_less_often() {
        let start = Instant::now();
        let mut path = Fallback::new(start);
        let (mut now, mut holds) = (start, Vec::new());
        for _ in 0..6 {
            path.note(false, now);
            path.begin(STREAM, now);
            path.note(true, now);
            holds.push(path.next().map(|at| at.duration_since(now).as_secs()));
            now += path.hold;
            path.end(now);
            now += Duration::from_secs(1);
        }
        assert_eq!(holds, [10, 20, 40, 80, 160, 160].map(Some));
        now += RELAPSE;
        path.note(false, now);
        path.begin(STREAM, now);
        assert_eq!(path.hold, HOLD, "that was long ago");
    }

    #[test]
    fn what_could_not_begin_is_tried_again_later() {
        let start = Instant::now();
        let mut path = Fallback::new(start);
        path.note(false, start);
        path.put_off(start);
        assert_eq!(path.step(seconds(start, 5.2)), None);
        assert_eq!(path.step(seconds(start, 5.3)), Some(Step::Begin));
    }
}
