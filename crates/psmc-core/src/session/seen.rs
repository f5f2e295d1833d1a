//! What either site tells the other about itself and about the other's addresses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psmc_wire::PathId;
use psmc_wire::control::{About, Message, Seen};

use super::Session;
use crate::path::{FirstHop, Path};
use crate::shared::Shared;

/// Between two messages, so that paths that move all the time cost a message a second, whose rate the peer limits to 100.
const INTERVAL: Duration = Duration::from_secs(1);

/// Characters that are kept of what the peer calls its software: a program and a version are shorter.
const MAX_SOFTWARE: usize = 64;

/// What the peer was told of its addresses, and when it is told more.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    /// On the present connection.
    told: BTreeMap<PathId, SocketAddr>,
    due_at: Option<Instant>,
    not_before: Option<Instant>,
}

impl Sightings {
    /// The peer was heard from an address that may be news to it.
    pub(super) fn note(&mut self, now: Instant) {
        let earliest = self.not_before.map_or(now, |at| at.max(now));
        self.due_at.get_or_insert(earliest);
    }

    /// Whoever is at the other end of a new connection may know nothing.
    pub(super) fn start_anew(&mut self, now: Instant) {
        self.told.clear();
        self.note(now);
    }

    /// When there is something to tell.
    pub(super) fn due_at(&self) -> Option<Instant> {
        self.due_at
    }
}

impl Session {
    /// Tells the peer what this site is.
    pub(super) fn say_about(&self, shared: &mut Shared) {
        let Some((connection, ..)) = self.control.current() else { return };
        let about = About { software: shared.software.clone() };
        shared.messages.push_back((connection, Message::About(about)));
    }

    /// The peer tells what it is.
    pub(super) fn on_about(&mut self, about: &About) {
        let shown = about.software.chars().filter(|char| !char.is_control()).take(MAX_SOFTWARE);
        self.peer_software = Some(shown.collect());
    }

    /// What the peer says that it is.
    pub(crate) fn peer_software(&self) -> Option<&str> {
        self.peer_software.as_deref()
    }

    /// Tells the peer what is new about its addresses, if that is due. A hidden site says nothing.
    pub(super) fn tell_seen(&mut self, shared: &mut Shared, now: Instant) {
        if self.sightings.due_at.take_if(|at| *at <= now).is_none() || shared.hidden {
            return;
        }
        // A new connection makes it due again.
        let Some((connection, ..)) = self.control.current() else { return };
        let told = &mut self.sightings.told;
        let known: BTreeMap<_, _> = self.paths.iter().filter_map(Path::source).collect();
        told.retain(|path, _| known.contains_key(path));
        let news: Vec<_> = known.into_iter().filter(|(path, from)| told.get(path) != Some(from)).collect();
        if news.is_empty() {
            return;
        }
        told.extend(news.iter().copied());
        self.sightings.not_before = Some(now + INTERVAL);
        shared.messages.push_back((connection, Message::Seen(Seen { paths: news })));
    }

    /// The peer tells from which addresses this site's datagrams come.
    pub(super) fn on_seen(&mut self, seen: Seen) {
        for (id, address) in seen.paths {
            if let Some(path) = self.path_mut(id) {
                path.note_seen(address);
            }
        }
    }
}

impl Path {
    /// The source of the newest datagram, unless that is a relay's, or nothing that could be told.
    fn source(&self) -> Option<(PathId, SocketAddr)> {
        let from = self.heard_from?;
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let is_direct = matches!(self.first_hop, FirstHop::Peer);
        (is_direct && from.port() > 0).then_some((self.id, from))
    }

    /// The peer says where this site's datagrams come from: behind a relay that is the relay's address.
    fn note_seen(&mut self, address: SocketAddr) {
        if matches!(self.first_hop, FirstHop::Peer) {
            self.seen_as = Some(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_waits_for_its_turn_and_no_longer() {
        let now = Instant::now();
        let mut sightings = Sightings::default();
        assert_eq!(sightings.due_at(), None);
        sightings.note(now);
        assert_eq!(sightings.due_at(), Some(now));
        sightings.not_before = Some(now + INTERVAL);
        sightings.note(now + INTERVAL / 2);
        assert_eq!(sightings.due_at(), Some(now), "what is due already stays so");
        sightings.due_at = None;
        sightings.note(now + INTERVAL / 2);
        assert_eq!(sightings.due_at(), Some(now + INTERVAL));
    }
}
