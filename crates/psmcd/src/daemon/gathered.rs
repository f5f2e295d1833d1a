//! Lines of the log that are worth one a second: what comes meanwhile is said together.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time between two lines.
const APART: Duration = Duration::from_secs(1);

/// What is to be said of things of one kind: the last of each.
#[derive(Debug)]
pub(super) struct Gathered<K, V> {
    said: Option<Instant>,
    waiting: BTreeMap<K, V>,
}

impl<K, V> Default for Gathered<K, V> {
    fn default() -> Self {
        Self { said: None, waiting: BTreeMap::new() }
    }
}

impl<K: Ord, V> Gathered<K, V> {
    /// This is to be said, at once or later.
    pub(super) fn note(&mut self, key: K, value: V) {
        self.waiting.insert(key, value);
    }

    /// What is to be said now; nothing is empty.
    pub(super) fn due(&mut self, now: Instant) -> BTreeMap<K, V> {
        if self.waiting.is_empty() || self.said.is_some_and(|said| now < said + APART) {
            return BTreeMap::new();
        }
        self.said = Some(now);
        std::mem::take(&mut self.waiting)
    }
}

/// Names or addresses in one line, if there are any.
pub(super) fn listed<T: ToString>(of: impl Iterator<Item = T>) -> Option<String> {
    let all: Vec<_> = of.map(|one| one.to_string()).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_at_once_and_the_others_together_a_second_later() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut paths = Gathered::default();
        assert!(paths.due(at(0)).is_empty());
        paths.note("dsl", 1);
        assert_eq!(paths.due(at(0)), BTreeMap::from([("dsl", 1)]));
        for (ms, path) in [(10, "dsl"), (400, "lte"), (900, "dsl")] {
            paths.note(path, ms);
            assert!(paths.due(at(ms)).is_empty());
        }
        assert_eq!(paths.due(at(1000)), BTreeMap::from([("dsl", 900), ("lte", 400)]));
        assert!(paths.due(at(1500)).is_empty());
    }
}
