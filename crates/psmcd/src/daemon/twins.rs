//! Two hosts with the same key: each of them takes the connection from the other one, for ever.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Sessions that begin anew in this time, one after the other, are not those of one host that was restarted.
const PERIOD: Duration = Duration::from_secs(60);

/// So many in [`PERIOD`] are.
const MANY: usize = 6;

/// The last callers with the key of one peer.
#[derive(Debug, Default)]
pub(super) struct Callers {
    /// Where the last connections came from.
    from: VecDeque<String>,
    /// When sessions began from nothing.
    fresh: VecDeque<Instant>,
    said_at: Option<Instant>,
    /// When the peer ended a connection of this site because of another one with its key.
    superseded: VecDeque<Instant>,
}

impl Callers {
    /// Somebody with that key has called from there: an address without its port, or a relay.
    pub(super) fn note_call(&mut self, from: &str) {
        let from = without_port(from);
        self.from.retain(|other| other != from);
        self.from.push_back(from.to_owned());
        if self.from.len() > 2 {
            self.from.pop_front();
        }
    }

    /// A session has begun from nothing. Returns the places from which two hosts call in turn, if that is what it looks like and it
    /// has not just been said.
    pub(super) fn note_fresh(&mut self, now: Instant) -> Option<String> {
        self.fresh.push_back(now);
        while self.fresh.len() > MANY {
            self.fresh.pop_front();
        }
        let are_many =
            self.fresh.len() == MANY && self.fresh.front().is_some_and(|&first| now < first + PERIOD);
        let was_said = self.said_at.is_some_and(|at| now < at + 10 * PERIOD);
        if !are_many || was_said {
            return None;
        }
        self.said_at = Some(now);
        Some(self.from.iter().map(String::as_str).collect::<Vec<_>>().join(" and at "))
    }
}

impl Callers {
    /// The peer has ended a connection because of another one with this site's key. Says whether that has happened so often that
    /// somebody else must have it, and has not just been said.
    pub(super) fn note_superseded(&mut self, now: Instant) -> bool {
        self.superseded.push_back(now);
        while self.superseded.len() > MANY {
            self.superseded.pop_front();
        }
        let are_many = self.superseded.len() == MANY
            && self.superseded.front().is_some_and(|&first| now < first + PERIOD);
        let is_news = are_many && self.said_at.is_none_or(|at| at + 10 * PERIOD <= now);
        if is_news {
            self.said_at = Some(now);
        }
        is_news
    }
}

fn without_port(from: &str) -> &str {
    from.parse::<std::net::SocketAddr>()
        .ok()
        .and_then(|_| from.rsplit_once(':'))
        .map_or(from, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_whose_key_somebody_else_has_finds_that_out() {
        let start = Instant::now();
        let mut callers = Callers::default();
        let said =
            (0..30).filter(|&second| callers.note_superseded(start + Duration::from_secs(second))).count();
        assert_eq!(said, 1);
        let mut callers = Callers::default();
        assert!(!(0..30).any(|minute| callers.note_superseded(start + minute * PERIOD)));
    }

    #[test]
    fn hosts_that_take_turns_are_told_from_one_that_is_restarted() {
        let start = Instant::now();
        for (interval, expected) in [
            (Duration::from_secs(1), Some("[2001:db8::1] and at 10.0.0.1".to_owned())),
            (Duration::from_secs(30), None),
        ] {
            let mut callers = Callers::default();
            let mut said = Vec::new();
            for turn in 0..20 {
                let from = ["[2001:db8::1]:41", "10.0.0.1:9"][turn % 2];
                callers.note_call(from);
                said.extend(callers.note_fresh(start + interval * u32::try_from(turn).unwrap()));
            }
            assert_eq!(said.first().cloned(), expected);
            assert!(said.len() <= 1, "{said:?}");
        }
    }
}
