//! A token bucket that several workers share without a lock.
//!
//! What a site may have at a relay, over all its sessions and all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use psmc_wire::ids::KeyBytes;

/// How much may go at once, as time at the limited rate: a batch of offloaded datagrams does not wait for tokens.
const BURST_NS: u64 = 10_000_000;

/// How much may go at once at the least, in bits: ten full-size datagrams, so that slow sessions get on by batches too.
const BURST_BITS: u64 = 16 * 1024 * 8;

/// The lowest rate, in bits per second. Below it a full-size datagram takes most of a second, so that no path would be
/// found alive, and whoever lifts a limit would wait for what was sent under it.
const MIN_RATE: u64 = 16_000;

const NS_PER_S: u64 = 1_000_000_000;

/// A rate that is not exceeded in the long run, and by a burst at most in the short.
///
/// It is the generic cell rate algorithm (ITU-T I.371 annex A): the only state is the time at which all that was sent
/// would have been sent at the limited rate. Two workers that take at the same moment may exceed the burst by a
/// datagram each; the rate holds.
#[derive(Debug, Default)]
pub struct Limiter {
    /// Bits per second; 0 is no limit.
    rate: AtomicU64,
    /// In nanoseconds since the relay's origin.
    sent_until: AtomicU64,
}

impl Limiter {
    /// A bucket of `rate` bits per second, or without a limit.
    #[must_use]
    pub fn new(rate: Option<u64>) -> Self {
        let limiter = Self::default();
        limiter.set_rate(rate);
        limiter
    }

    /// Changes the rate; one below 16 kb/s counts as that. What was sent so far counts as it did.
    pub fn set_rate(&self, rate: Option<u64>) {
        self.rate.store(rate.map_or(0, |rate| rate.max(MIN_RATE)), Ordering::Relaxed);
    }

    /// Bits per second, if there is a limit.
    #[must_use]
    pub fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|&rate| rate > 0)
    }

    /// When a datagram may go next: not after `now` if at once.
    #[must_use]
    pub fn ready_at(&self, now: u64) -> u64 {
        match self.rate() {
            None => now,
            Some(rate) => self.sent_until.load(Ordering::Relaxed).saturating_sub(burst(rate)),
        }
    }

    /// Counts a datagram that goes, or the right to one that was told when it may.
    pub fn take(&self, bytes: usize, now: u64) {
        let Some(rate) = self.rate() else { return };
        let cost = time_of(bytes as u64 * 8, rate);
        // Nothing else is published by this number.
        let _ = self.sent_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |until| {
            Some(until.max(now).saturating_add(cost))
        });
    }
}

fn burst(rate: u64) -> u64 {
    time_of(BURST_BITS, rate).max(BURST_NS)
}

/// How long so many bits take, in nanoseconds.
fn time_of(bits: u64, rate: u64) -> u64 {
    // Bits of a datagram or a burst: far below the 2^34 with which this would overflow.
    bits * NS_PER_S / rate
}

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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_rate_holds_over_any_time(
            rate in 16_000u64..10_000_000_000,
            sizes in proptest::collection::vec((52usize..1500, 0u64..5_000_000), 1..300),
        ) {
            let limiter = Limiter::new(Some(rate));
            let (mut now, mut sent) = (0, 0);
            for (bytes, pause) in sizes {
                now += pause;
                if limiter.ready_at(now) <= now {
                    limiter.take(bytes, now);
                    sent += bytes as u64 * 8;
                }
                // The datagram that exceeds the burst still goes.
                let allowed = (u128::from(now + burst(rate)) * u128::from(rate)).div_ceil(u128::from(NS_PER_S));
                prop_assert!(u128::from(sent) <= allowed + 1500 * 8, "{sent} bits in {now} ns at {rate}");
            }
        }

        #[test]
        fn whoever_waits_until_ready_gets_the_whole_rate(rate in 100_000u64..10_000_000_000, bytes in 52usize..1500) {
            let limiter = Limiter::new(Some(rate));
            let mut now = 0;
            for _ in 0..1000 {
                now = limiter.ready_at(now).max(now);
                limiter.take(bytes, now);
            }
            let sent = 1000 * bytes as u64 * 8;
            let at_least = u128::from(now) * u128::from(rate) / u128::from(NS_PER_S);
            prop_assert!(u128::from(sent) >= at_least, "{sent} bits in {now} ns at {rate}");
        }
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let limiter = Limiter::new(None);
        for now in 0..100 {
            assert_eq!(limiter.ready_at(now), now);
            limiter.take(1 << 16, now);
        }
    }

    #[test]
    fn no_limit_is_so_low_that_lifting_it_takes_long() {
        let limiter = Limiter::new(Some(1));
        limiter.take(1500, 0);
        limiter.set_rate(Some(8_000_000));
        assert!(limiter.ready_at(0) < NS_PER_S);
    }

    #[test]
    fn a_changed_rate_counts_at_once() {
        let limiter = Limiter::new(Some(8_000_000));
        for _ in 0..100 {
            limiter.take(1000, 0);
        }
        let waits = limiter.ready_at(0);
        assert!(waits > 0);
        limiter.set_rate(None);
        assert_eq!(limiter.ready_at(0), 0);
    }

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
