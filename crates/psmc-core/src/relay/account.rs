//! What a site may have at a relay, over all its sessions and all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use psmc_wire::ids::KeyBytes;

use super::limiter::Limiter;

/// What a site may have, and what it has.
#[derive(Debug)]
pub struct Account {
    key: KeyBytes,
    max_sessions: AtomicU32,
    sessions: AtomicU32,
    /// What all its sessions may carry, towards their far ends and towards their near ends.
    pub limits: [Limiter; 2],
}

/// The right to one session, given back on drop.
#[derive(Debug)]
pub struct Ticket {
    account: Arc<Account>,
}

impl Account {
    /// An account of the site with this key.
    #[must_use]
    pub fn new(key: KeyBytes, max_sessions: u32, rate: Option<u64>) -> Self {
        let limits = [Limiter::new(rate), Limiter::new(rate)];
        Self { key, max_sessions: AtomicU32::new(max_sessions), sessions: AtomicU32::new(0), limits }
    }

    /// Whose it is.
    #[must_use]
    pub fn key(&self) -> KeyBytes {
        self.key
    }

    /// How many sessions it has.
    #[must_use]
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::Relaxed)
    }

    /// How many sessions it may have.
    #[must_use]
    pub fn max_sessions(&self) -> u32 {
        self.max_sessions.load(Ordering::Relaxed)
    }

    /// Changes how many sessions it may have. Those it has stay.
    pub fn set_max_sessions(&self, sessions: u32) {
        self.max_sessions.store(sessions, Ordering::Relaxed);
    }

    /// Changes what all its sessions may carry in each direction.
    pub fn set_rate(&self, rate: Option<u64>) {
        for limit in &self.limits {
            limit.set_rate(rate);
        }
    }

    /// Takes the right to a session, unless it has as many as it may.
    #[must_use]
    pub fn take_session(self: &Arc<Self>) -> Option<Ticket> {
        let max = self.max_sessions();
        let taken = self.sessions.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sessions| {
            (sessions < max).then_some(sessions + 1)
        });
        taken.is_ok().then(|| Ticket { account: self.clone() })
    }
}

impl Ticket {
    /// Whose session it is.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.account.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_until_they_are_dropped() {
        let account = Arc::new(Account::new(KeyBytes([1; 32]), 2, None));
        let first = account.take_session().unwrap();
        let _second = account.take_session().unwrap();
        assert!(account.take_session().is_none());
        drop(first);
        assert_eq!(account.sessions(), 1);
        assert!(account.take_session().is_some());
    }
}
