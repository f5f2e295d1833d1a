//! Paths that there should be, and that cannot be opened yet.

use std::collections::BTreeMap;
use std::time::Instant;

use super::paths::OpenError;
use crate::config::Name;
use psmc_api::WaitingPath;

/// Those of one peer, by name. What has no name are all of them: how many there will be is not known yet.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    paths: BTreeMap<Option<Name>, Reason>,
}

#[derive(Debug)]
struct Reason {
    why: String,
    since: Instant,
}

impl Waiting {
    /// A path cannot be opened. Says whether that has not been said.
    pub(super) fn note(&mut self, path: Option<&Name>, error: &OpenError) -> bool {
        let why = crate::error_chain(error);
        let is_resolving = matches!(error, OpenError::Resolving(_));
        match self.paths.get_mut(&path.cloned()) {
            // It is asked for again and again, and was said before that it has no answer.
            Some(known) if known.why == why || is_resolving => false,
            Some(known) => {
                known.why = why;
                true
            }
            None => {
                self.paths.insert(path.cloned(), Reason { why, since: Instant::now() });
                !is_resolving
            }
        }
    }

    /// A path waits no longer.
    pub(super) fn forget(&mut self, path: Option<&Name>) {
        self.paths.remove(&path.cloned());
    }

    /// None but these are wanted.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&Name) -> bool) {
        self.paths.retain(|path, _| path.as_ref().is_some_and(&is_wanted));
    }

    /// All of them, as people see them.
    pub(super) fn status(&self, now: Instant) -> Vec<WaitingPath> {
        let status = |(name, reason): (&Option<Name>, &Reason)| WaitingPath {
            name: name.as_ref().map(ToString::to_string),
            why: reason.why.clone(),
            since_s: now.saturating_duration_since(reason.since).as_secs_f64(),
        };
        self.paths.iter().map(status).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_reason_is_said_once() {
        let (mut waiting, path) = (Waiting::default(), "lte".parse::<Name>().unwrap());
        let endpoint = || "hq.example:5115".parse().unwrap();
        assert!(!waiting.note(Some(&path), &OpenError::Resolving(endpoint())), "it may be known in a moment");
        assert!(waiting.note(Some(&path), &OpenError::Unresolved(endpoint())));
        assert!(!waiting.note(Some(&path), &OpenError::Resolving(endpoint())));
        assert!(!waiting.note(Some(&path), &OpenError::Unresolved(endpoint())));
        assert!(waiting.note(Some(&path), &OpenError::Nowhere));
        assert!(waiting.note(None, &OpenError::Nowhere));
        assert_eq!(waiting.status(Instant::now()).len(), 2);
        waiting.retain(|name| *name == path);
        assert_eq!(waiting.status(Instant::now()).len(), 1);
        waiting.forget(Some(&path));
        assert_eq!(waiting.status(Instant::now()), []);
    }
}
