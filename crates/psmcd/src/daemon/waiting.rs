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
    /// Why there are to be none, although nothing has failed.
    none_wanted: Option<Reason>,
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

    /// Why no path is wanted for now; `None` if some are.
    pub(super) fn explain(&mut self, why: Option<String>) {
        let known = self.none_wanted.as_ref().map(|known| &known.why);
        if known != why.as_ref() {
            self.none_wanted = why.map(|why| Reason { why, since: Instant::now() });
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
        let status = |(name, reason): (Option<&Name>, &Reason)| WaitingPath {
            name: name.map(ToString::to_string),
            why: reason.why.clone(),
            since_s: now.saturating_duration_since(reason.since).as_secs_f64(),
        };
        let paths = self.paths.iter().map(|(name, reason)| (name.as_ref(), reason));
        paths.chain(self.none_wanted.iter().map(|reason| (None, reason))).map(status).collect()
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

    #[test]
    fn that_none_is_wanted_is_said_until_some_are() {
        let mut waiting = Waiting::default();
        waiting.explain(Some("the uplinks have IPv6 only".to_owned()));
        let since = waiting.none_wanted.as_ref().unwrap().since;
        waiting.explain(Some("the uplinks have IPv6 only".to_owned()));
        assert_eq!(waiting.none_wanted.as_ref().unwrap().since, since);
        waiting.retain(|_| false);
        assert_eq!(waiting.status(Instant::now())[0].why, "the uplinks have IPv6 only");
        waiting.explain(None);
        assert_eq!(waiting.status(Instant::now()), []);
    }
}
