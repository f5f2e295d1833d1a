//! The spare relays of a peer: which are free, and when a path should have one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use psmc_core::PathState;
use psmc_service::clock::Backoff;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::chain::Chain;
use super::reach::{Caller, LocalEnd};
use crate::config::{Name, Relay};

/// A path that has been dead for so long is moved: three of the longest intervals between its probes, so that a relay
/// that was only restarted has its path back.
const MOVED_AFTER: Duration = Duration::from_millis(1500);

/// The time between two moves of a path that they do not help, doubled by each.
const MORE_MOVES: Backoff = Backoff::new(MOVED_AFTER.saturating_mul(2), Duration::from_secs(60));

/// The relays of a peer that its paths share. Clones are of the same ones.
#[derive(Clone)]
pub(in crate::daemon) struct Spares {
    known: Arc<[Relay]>,
    has_none: bool,
    /// The names of those that no path leads through.
    free: Arc<Mutex<BTreeSet<Name>>>,
}

impl Spares {
    /// These spare relays, of which a path has none yet; `used` are those that paths lead through.
    pub(in crate::daemon) fn new(spares: &[Relay], used: &[Relay]) -> Self {
        let free = spares.iter().filter(|spare| used.iter().all(|used| used.name != spare.name));
        let free = free.map(|spare| spare.name.clone()).collect();
        let known = spares.iter().chain(used).cloned().collect();
        Self { known, has_none: spares.is_empty(), free: Arc::new(Mutex::new(free)) }
    }

    /// No spare relays.
    pub(in crate::daemon) fn none() -> Self {
        Self::new(&[], &[])
    }

    /// Whether there are any relays but those that paths lead through by the configuration.
    pub(super) fn are_none(&self) -> bool {
        self.has_none
    }

    /// Takes the free relay that answers first, none of `except`, and frees `failed` in its place.
    pub(super) async fn swap(
        &self,
        caller: &Caller,
        local_end: &LocalEnd,
        failed: &Relay,
        except: &[Name],
    ) -> Option<(Relay, Chain)> {
        let mut race = JoinSet::new();
        for relay in self.free().into_iter().filter(|relay| !except.contains(&relay.name)) {
            let (caller, local_end) = (caller.clone(), local_end.clone());
            race.spawn(async move {
                let chain = Chain::open(&caller, &local_end, std::slice::from_ref(&relay)).await;
                chain.ok().map(|chain| (relay, chain))
            });
        }
        while let Some(ended) = race.join_next().await {
            // Another path may have been faster to take it.
            if let Ok(Some((relay, chain))) = ended
                && self.take(&relay.name, &failed.name)
            {
                return Some((relay, chain));
            }
        }
        None
    }

    fn free(&self) -> Vec<Relay> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut relays: Vec<_> =
            self.known.iter().filter(|relay| free.contains(&relay.name)).cloned().collect();
        relays.sort_by(|one, other| one.name.cmp(&other.name));
        relays.dedup_by(|one, other| one.name == other.name);
        relays
    }

    fn take(&self, wanted: &Name, freed: &Name) -> bool {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let is_taken = free.remove(wanted);
        if is_taken {
            free.insert(freed.clone());
        }
        is_taken
    }
}

/// When a path should have another relay.
#[derive(Debug)]
pub(super) struct Timer {
    at: Option<Instant>,
    waits: Backoff,
}

impl Timer {
    /// The timer of a path that is not alive yet.
    pub(super) fn started(now: Instant) -> Self {
        Self { at: Some(now + 2 * MOVED_AFTER), waits: MORE_MOVES }
    }

    /// The path has another state.
    pub(super) fn on_path(&mut self, state: PathState, now: Instant) {
        match state {
            PathState::Active => (self.at, self.waits) = (None, MORE_MOVES),
            PathState::Dead => {
                self.at.get_or_insert(now + MOVED_AFTER);
            }
            PathState::Suspect | PathState::Probing => {}
        }
    }

    /// Waits for the time to come, and sets the next one. May be dropped and called again.
    pub(super) async fn due(&mut self) {
        match self.at {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
        self.at = Some(Instant::now() + self.waits.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(name: &str) -> Relay {
        Relay {
            name: name.parse().expect("a name"),
            address: "127.0.0.1:1".parse().expect("an endpoint"),
            public_key: psmc_net::keys::PrivateKey::generate().public(),
        }
    }

    fn names(spares: &Spares) -> Vec<String> {
        spares.free().iter().map(|relay| relay.name.to_string()).collect()
    }

    #[test]
    fn a_relay_serves_one_path_and_the_one_it_replaces_is_spare() {
        let spares = Spares::new(&[relay("x"), relay("y"), relay("a")], &[relay("a"), relay("b")]);
        assert_eq!(names(&spares), ["x", "y"]);
        let [a, x, y] = ["a", "x", "y"].map(|name| name.parse::<Name>().expect("a name"));
        assert!(spares.take(&x, &a));
        assert!(!spares.take(&x, &y), "another path has it");
        assert_eq!(names(&spares), ["a", "y"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_path_is_moved_ever_more_seldom_until_it_lives() {
        let start = Instant::now();
        let mut timer = Timer::started(start);
        timer.on_path(PathState::Active, start);
        timer.on_path(PathState::Dead, start);
        let mut moves = Vec::new();
        for _ in 0..4 {
            timer.due().await;
            moves.push(start.elapsed().as_millis());
        }
        assert_eq!(moves, [1500, 4500, 10_500, 22_500]);
        timer.on_path(PathState::Active, Instant::now());
        let never = tokio::time::timeout(Duration::from_secs(600), timer.due()).await;
        assert!(never.is_err());
    }
}
