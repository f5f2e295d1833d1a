//! What comes for each rule, from counters that rise and begin anew.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use psmc_toml::Name;

use super::register::ServerId;
use super::table::{Bytes, RuleName};

/// Bytes per second of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rate {
    /// What comes.
    pub(crate) offered: f64,
    /// What of it is dropped.
    pub(crate) dropped: f64,
}

/// The counters as they were last seen, and the rates between then and the time before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    counts: BTreeMap<RuleName, Bytes>,
    rates: BTreeMap<RuleName, Rate>,
    at: Option<Instant>,
    /// What all rules have dropped, those that are gone included.
    dropped: u64,
}

impl Meter {
    /// Takes what counters say.
    pub(crate) fn handle_counts(&mut self, counts: BTreeMap<RuleName, Bytes>, now: Instant) {
        let elapsed = self.at.map(|at| now.saturating_duration_since(at).as_secs_f64());
        self.rates.clear();
        for (name, new) in &counts {
            // A rule that was made anew counts from zero.
            let old =
                self.counts.get(name).filter(|old| old.offered <= new.offered).copied().unwrap_or_default();
            let risen = Bytes {
                offered: new.offered.saturating_sub(old.offered),
                dropped: new.dropped.saturating_sub(old.dropped),
            };
            self.dropped += risen.dropped;
            if let Some(seconds) = elapsed.filter(|seconds| *seconds > 0.0) {
                #[expect(clippy::cast_precision_loss, reason = "rates are not told to sixteen digits")]
                let per_second = |bytes: u64| bytes as f64 / seconds;
                let rate = Rate { offered: per_second(risen.offered), dropped: per_second(risen.dropped) };
                self.rates.insert(name.clone(), rate);
            }
        }
        (self.counts, self.at) = (counts, Some(now));
    }

    /// When counters were last seen, after `start`.
    pub(crate) fn at(&self, start: Instant) -> Duration {
        self.at.map_or(Duration::ZERO, |at| at.saturating_duration_since(start))
    }

    /// What has come for each rule of a server since it was installed.
    pub(crate) fn of(&self, server: ServerId) -> impl Iterator<Item = (&Name, Bytes)> {
        let counts = self.counts.iter().filter(move |((of, _), _)| *of == server);
        counts.map(|((_, name), bytes)| (name, *bytes))
    }

    /// The rate of a rule.
    pub(crate) fn rate(&self, server: ServerId, rule: &Name) -> Rate {
        self.rates.get(&(server, rule.clone())).copied().unwrap_or_default()
    }

    /// What has come for a rule.
    pub(crate) fn bytes(&self, server: ServerId, rule: &Name) -> Bytes {
        self.counts.get(&(server, rule.clone())).copied().unwrap_or_default()
    }

    /// What all rules have dropped since the start, in bytes.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_begin_anew_are_no_negative_rate() {
        let (mut meter, start) = (Meter::default(), Instant::now());
        let name: Name = "web".parse().unwrap();
        let rule = (ServerId(0), name.clone());
        let mut see = |offered, dropped, second| {
            let counts = BTreeMap::from([(rule.clone(), Bytes { offered, dropped })]);
            meter.handle_counts(counts, start + Duration::from_secs(second));
            (meter.rate(ServerId(0), &name), meter.dropped())
        };
        assert_eq!(see(500, 100, 1), (Rate::default(), 100));
        assert_eq!(see(2500, 300, 3), (Rate { offered: 1000.0, dropped: 100.0 }, 300));
        assert_eq!(see(50, 10, 4), (Rate { offered: 50.0, dropped: 10.0 }, 310));
    }
}
