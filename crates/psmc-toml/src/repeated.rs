//! What stands in a file twice.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Each of `all` that has the same key as one before it, with the first that has it.
pub fn repeated<T: Copy, K: Ord>(all: impl IntoIterator<Item = T>, key: impl Fn(T) -> K) -> Vec<(T, T)> {
    let mut firsts = BTreeMap::new();
    let mut found = Vec::new();
    for this in all {
        match firsts.entry(key(this)) {
            Entry::Occupied(first) => found.push((this, *first.get())),
            Entry::Vacant(place) => drop(place.insert(this)),
        }
    }
    found
}
