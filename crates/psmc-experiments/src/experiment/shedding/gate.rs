//! An ingress that enforces rules.

use std::collections::BTreeMap;
use std::time::Duration;

use psmc_drain::ClassId;
use psmc_drain::held::{Held, HeldRule};
use psmc_sim::crowd::TokenBucket;

use super::network::BURST;

/// Rules as an ingress holds them, with a token bucket for each.
pub(super) struct Gate {
    held: Held,
    buckets: BTreeMap<ClassId, (f64, TokenBucket)>,
}

/// More rules than any of these networks has classes.
const MOST_RULES: usize = 64;

impl Gate {
    /// Without rules. Those that are not set again end after so long, by steps that take as long each (the seed's δ).
    pub(super) fn new(lifetime: Duration) -> Self {
        Self { held: Held::new(MOST_RULES, lifetime, lifetime), buckets: BTreeMap::new() }
    }

    /// Whether a packet of a class passes.
    pub(super) fn admit(&mut self, class: ClassId, now: Duration) -> bool {
        let Some(rate) = self.held.rate(class, now) else {
            self.buckets.remove(&class);
            return true;
        };
        let (known, bucket) =
            self.buckets.entry(class).or_insert_with(|| (rate, TokenBucket::new(rate, BURST)));
        if *known != rate {
            *known = rate;
            bucket.set_rate(rate, BURST, now);
        }
        bucket.take(now)
    }

    /// A rule has come. One that makes no sense is not taken.
    pub(super) fn set(&mut self, class: ClassId, rule: HeldRule, now: Duration) {
        self.held.set(class, rule, now).ok();
    }

    pub(super) fn withdraw(&mut self, class: ClassId) {
        self.held.withdraw(class);
    }

    /// So much is offered of a class, per second.
    pub(super) fn offered(&mut self, class: ClassId, rate: f64, now: Duration) {
        self.held.offered(class, rate, now);
    }
}
