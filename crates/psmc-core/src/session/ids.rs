//! Ids of paths that have ended, and when they may be used again.

use std::collections::BTreeMap;
use std::time::Instant;

use psmc_wire::PathId;

use crate::keys::OVERLAP;

/// Ids that no path may have as long as there are keys under which something may have been sealed for the path that had them:
/// under those a number would be sealed twice, and what was recorded would bring the path back to life.
#[derive(Debug, Default)]
pub(super) struct SpentIds {
    ended: BTreeMap<PathId, Instant>,
    /// The birth of the oldest keys when ids were last given free.
    looked_at: Option<Instant>,
}

impl SpentIds {
    /// Whether no path may have this id for now.
    pub(super) fn contains(&self, id: PathId) -> bool {
        self.ended.contains_key(&id)
    }

    /// The path has ended, or will never begin.
    pub(super) fn spend(&mut self, id: PathId, now: Instant) {
        self.ended.insert(id, now);
        self.looked_at = None;
    }

    /// Gives those free that had ended before the oldest keys that there are came to be, by so much that the peer cannot have had
    /// these earlier.
    pub(super) fn give_free(&mut self, oldest_keys: Instant) {
        if !self.ended.is_empty() && self.looked_at != Some(oldest_keys) {
            self.looked_at = Some(oldest_keys);
            self.ended.retain(|_, ended| *ended + OVERLAP >= oldest_keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_id_is_free_when_all_keys_are_younger_than_the_end_of_its_path() {
        let (id, ended) = (PathId(7), Instant::now());
        let mut spent = SpentIds::default();
        spent.spend(id, ended);
        spent.give_free(ended + OVERLAP);
        assert!(spent.contains(id), "the peer may have had such keys before");
        spent.give_free(ended + OVERLAP + Duration::from_nanos(1));
        assert!(!spent.contains(id));
    }

    #[test]
    fn an_id_that_is_spent_again_waits_again() {
        let (id, start) = (PathId(0), Instant::now());
        let keys = start + 2 * OVERLAP;
        let mut spent = SpentIds::default();
        spent.give_free(keys);
        spent.spend(id, start);
        spent.give_free(keys);
        assert!(!spent.contains(id));
        spent.spend(id, keys);
        spent.give_free(keys);
        assert!(spent.contains(id));
    }
}
