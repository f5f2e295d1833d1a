//! Which changes of paths the log tells at once, and which together: a link that comes and goes several times a second is worth a line
//! a second.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use psmc_core::PathState;
use psmc_wire::PathId;

/// The time between two lines about one path.
const APART: Duration = Duration::from_secs(1);

/// What was told of each path of a peer.
#[derive(Debug, Default)]
pub(in crate::daemon) struct PathLines {
    paths: BTreeMap<PathId, Told>,
}

#[derive(Debug)]
struct Told {
    name: Option<String>,
    /// What the last line said, and when.
    state: PathState,
    at: Instant,
    /// How the path stands now, and how often that has changed since.
    now: PathState,
    changes: u32,
}

/// What a line says of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathLine {
    pub(super) path: Option<String>,
    pub(super) state: PathState,
    /// How often it has changed since the last line, if not once.
    pub(super) changes: Option<u32>,
}

impl PathLines {
    /// A path stands so from now on. Returns what is to be said of it at once. A path that is silent for a moment, and then answers
    /// again, is what it was.
    pub(super) fn note(
        &mut self,
        path: PathId,
        name: Option<&str>,
        state: PathState,
        now: Instant,
    ) -> Option<PathLine> {
        if state == PathState::Suspect {
            return None;
        }
        let name = name.map(str::to_owned);
        let Some(told) = self.paths.get_mut(&path) else {
            self.paths.insert(path, Told { name: name.clone(), state, at: now, now: state, changes: 0 });
            return Some(PathLine { path: name, state, changes: None });
        };
        told.name = name;
        if told.now == state {
            return None;
        }
        told.now = state;
        told.changes += 1;
        told.line(now)
    }

    /// What is to be said of paths that have changed since their last lines.
    pub(super) fn due(&mut self, now: Instant) -> impl Iterator<Item = PathLine> {
        self.paths.values_mut().filter_map(move |told| told.line(now))
    }

    /// A path is no more.
    pub(super) fn forget(&mut self, path: PathId) {
        self.paths.remove(&path);
    }
}

impl Told {
    fn line(&mut self, now: Instant) -> Option<PathLine> {
        if self.changes == 0 || now < self.at + APART {
            return None;
        }
        let changes = (self.changes > 1).then_some(self.changes);
        (self.state, self.at, self.changes) = (self.now, now, 0);
        Some(PathLine { path: self.name.clone(), state: self.state, changes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: PathId = PathId(1);

    fn line(state: PathState, changes: Option<u32>) -> PathLine {
        PathLine { path: Some("dsl".to_owned()), state, changes }
    }

    #[test]
    fn a_path_that_comes_and_goes_has_a_line_a_second_which_says_how_often() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut lines = PathLines::default();
        let note = |lines: &mut PathLines, state, ms| lines.note(ID, Some("dsl"), state, at(ms));
        assert_eq!(note(&mut lines, PathState::Active, 0), Some(line(PathState::Active, None)));
        assert_eq!(note(&mut lines, PathState::Suspect, 1200), None);
        assert_eq!(note(&mut lines, PathState::Active, 1210), None);
        assert_eq!(note(&mut lines, PathState::Dead, 1300), Some(line(PathState::Dead, None)));
        for ms in [1400, 1600, 1800] {
            assert_eq!(note(&mut lines, PathState::Active, ms), None);
            assert_eq!(note(&mut lines, PathState::Dead, ms + 100), None);
        }
        assert_eq!(lines.due(at(2299)).next(), None);
        assert_eq!(lines.due(at(2300)).collect::<Vec<_>>(), [line(PathState::Dead, Some(6))]);
        assert_eq!(lines.due(at(9000)).next(), None);
        assert_eq!(note(&mut lines, PathState::Active, 9000), Some(line(PathState::Active, None)));
        lines.forget(ID);
        assert_eq!(note(&mut lines, PathState::Active, 9001), Some(line(PathState::Active, None)));
    }
}
