//! Whose turn it is among the buckets that hold something.

use std::collections::BTreeSet;

use psmc_wire::Bucket;

/// The buckets that hold something, by the key at which they next release it: one entry each.
#[derive(Debug)]
pub(super) struct Agenda<K> {
    entries: BTreeSet<(K, Bucket)>,
}

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Self { entries: BTreeSet::new() }
    }
}

impl<K: Copy + Ord> Agenda<K> {
    /// Moves `bucket` from its `old` key to its `new` one.
    pub(super) fn update(&mut self, bucket: Bucket, old: Option<K>, new: Option<K>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.entries.remove(&(old, bucket));
        }
        if let Some(new) = new {
            self.entries.insert((new, bucket));
        }
    }

    /// The smallest key and its bucket.
    pub(super) fn first(&self) -> Option<(K, Bucket)> {
        self.entries.first().copied()
    }
}
