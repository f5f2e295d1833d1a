//! What the coordinator is told of relays, and how often.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A relay is complained about once in this time: the coordinator remembers a complaint for longer.
const AGAIN: Duration = Duration::from_secs(10);

/// Complaints of the last [`AGAIN`]: as many as a set of routes has relays.
const MAX_COMPLAINTS: usize = 16;

/// What was said of late.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    said: BTreeMap<(String, String), Instant>,
}

impl Complaints {
    /// Whether to complain about a relay of a service now.
    pub(super) fn is_due(&mut self, service: &str, relay: &str, now: Instant) -> bool {
        self.said.retain(|_, at| now < *at + AGAIN);
        let about = (service.to_owned(), relay.to_owned());
        let is_due = self.said.len() < MAX_COMPLAINTS && !self.said.contains_key(&about);
        if is_due {
            self.said.insert(about, now);
        }
        is_due
    }

    /// Another coordinator, or the same once more, knows of none.
    pub(super) fn forget(&mut self) {
        self.said.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_repeated_after_a_while_and_there_are_only_so_many() {
        let (mut complaints, now) = (Complaints::default(), Instant::now());
        assert!(complaints.is_due("www", "a", now));
        assert!(!complaints.is_due("www", "a", now + AGAIN / 2));
        assert!(complaints.is_due("ftp", "a", now + AGAIN / 2));
        assert!(complaints.is_due("www", "a", now + AGAIN));
        for relay in 0..100 {
            complaints.is_due("www", &relay.to_string(), now + AGAIN);
        }
        assert_eq!(complaints.said.len(), MAX_COMPLAINTS);
        complaints.forget();
        assert!(complaints.is_due("www", "a", now + AGAIN));
    }
}
