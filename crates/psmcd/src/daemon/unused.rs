//! Says in the log why paths are not used: once when that is so, and once more when the reason is another one.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};
use std::time::{Duration, Instant};

use psmc_core::{PathState, PeerId};
use psmc_wire::PathId;

use super::DaemonError;
use super::peers::Peers;
use super::plane::PlaneHandle;
use super::why::{Known, Why};

/// A path that comes up does so in less time.
const QUIET_TIME: Duration = Duration::from_secs(5);

/// Peers that are looked at in a second, so that thousands that are away cost little.
const MAX_LOOKS: usize = 16;

/// The paths that are not used.
#[derive(Debug, Default)]
pub(super) struct Unused {
    active: BTreeSet<(PeerId, PathId)>,
    paths: BTreeMap<(PeerId, PathId), Said>,
}

/// Since when a path is not used, and what was said of it.
#[derive(Debug)]
struct Said {
    since: Instant,
    why: Option<Discriminant<Why>>,
    looked_at: Option<Instant>,
}

impl Unused {
    /// A path has another state.
    pub(super) fn note(&mut self, path: (PeerId, PathId), state: PathState) {
        if state == PathState::Active {
            self.active.insert(path);
            self.paths.remove(&path);
        } else {
            self.active.remove(&path);
        }
    }

    /// Says why paths are not used that this site has opened. To be called every second.
    pub(super) async fn explain(&mut self, peers: &Peers, plane: &PlaneHandle) -> Result<(), DaemonError> {
        let now = Instant::now();
        let all = peers.iter().flat_map(|peer| peer.paths.iter().map(|path| (peer.id, path.id)));
        let due = self.due(all, now);
        if due.is_empty() {
            return Ok(());
        }
        let asked: BTreeSet<_> = due.iter().map(|(peer, _)| *peer).collect();
        let asked: Vec<_> = asked.into_iter().collect();
        let statuses = plane.call(move |plane| {
            asked.into_iter().filter_map(|id| Some((id, plane.site.status(id)?))).collect::<BTreeMap<_, _>>()
        });
        let statuses = statuses.await?;
        for (id, path) in due {
            let (Some(status), Some(peer)) = (statuses.get(&id), peers.get(id)) else { continue };
            let Some(seen) = status.paths.iter().find(|seen| seen.id == path) else { continue };
            let open = peer.paths.iter().find(|open| open.id == path);
            let Some(why) = Why::of(seen, open, Known::of(status, now)) else { continue };
            if matches!(why, Why::NoKeys | Why::Removed) || !self.is_news((id, path), &why) {
                continue;
            }
            let (peer, path) = (peer.config.name.as_str(), seen.name.as_str());
            if why.needs_help() {
                tracing::warn!(peer, path, %why, "path not in use");
            } else {
                tracing::info!(peer, path, %why, "path not in use");
            }
        }
        Ok(())
    }

    /// These are the paths that there are. Returns those that have not been used for long and were not looked at of late.
    fn due(&mut self, all: impl Iterator<Item = (PeerId, PathId)>, now: Instant) -> Vec<(PeerId, PathId)> {
        let all: BTreeSet<_> = all.collect();
        self.active.retain(|path| all.contains(path));
        self.paths.retain(|path, _| all.contains(path));
        let mut due = Vec::new();
        for path in all.difference(&self.active) {
            let said = self.paths.entry(*path).or_insert(Said { since: now, why: None, looked_at: None });
            let was_looked_at = said.looked_at.is_some_and(|at| now < at + QUIET_TIME);
            if said.since + QUIET_TIME <= now && !was_looked_at && due.len() < MAX_LOOKS {
                said.looked_at = Some(now);
                due.push(*path);
            }
        }
        due
    }

    /// Whether this is another reason than the last one.
    fn is_news(&mut self, path: (PeerId, PathId), why: &Why) -> bool {
        let kind = Some(discriminant(why));
        self.paths.get_mut(&path).is_some_and(|said| std::mem::replace(&mut said.why, kind) != kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_spoken_of_when_it_is_long_unused_and_the_reason_is_another_one() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let (mut unused, path) = (Unused::default(), (PeerId(1), PathId(2)));
        assert_eq!(unused.due([path].into_iter(), at(0)), []);
        assert_eq!(unused.due([path].into_iter(), at(4)), []);
        assert_eq!(unused.due([path].into_iter(), at(5)), [path]);
        assert_eq!(unused.due([path].into_iter(), at(6)), [], "it was looked at a moment ago");
        assert!(unused.is_news(path, &Why::NoKeys));
        assert!(!unused.is_news(path, &Why::NoKeys));
        assert!(unused.is_news(path, &Why::Removed));
        unused.note(path, PathState::Active);
        assert_eq!(unused.due([path].into_iter(), at(60)), []);
        unused.note(path, PathState::Dead);
        assert_eq!(unused.due([path].into_iter(), at(60)), []);
        assert_eq!(unused.due([path].into_iter(), at(65)), [path]);
        assert!(unused.is_news(path, &Why::Removed), "it was used in between");
        assert_eq!(unused.due([].into_iter(), at(66)), []);
        assert!(unused.paths.is_empty() && unused.active.is_empty());
    }
}
