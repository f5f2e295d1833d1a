//! Which relay is reached by which hidden line.

use std::collections::{BTreeMap, BTreeSet};

/// Spreads relays over lines: each new one gets the line with the fewest, and keeps it.
#[derive(Debug)]
pub(super) struct Placement {
    lines: usize,
    placed: BTreeMap<String, usize>,
}

impl Placement {
    pub(super) fn new(lines: usize) -> Self {
        Self { lines, placed: BTreeMap::new() }
    }

    /// Places these relays, and no others.
    pub(super) fn place(&mut self, keys: &BTreeSet<String>) {
        self.placed.retain(|key, _| keys.contains(key));
        for key in keys {
            if let Some(line) = self.emptiest() {
                self.placed.entry(key.clone()).or_insert(line);
            }
        }
    }

    pub(super) fn line_of(&self, key: &str) -> Option<usize> {
        self.placed.get(key).copied()
    }

    fn emptiest(&self) -> Option<usize> {
        let load = |line: &usize| self.placed.values().filter(|placed| *placed == line).count();
        (0..self.lines).min_by_key(load)
    }
}
