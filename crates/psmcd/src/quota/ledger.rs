//! What was used of a quota.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};

use super::{Quota, period};

/// From this share of a quota on people are warned.
const WARNED_AT: f64 = 0.8;

/// How much of a quota is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Less than four fifths.
    Left,
    /// Four fifths, and not all.
    Low,
    /// All of it.
    UsedUp,
}

/// What was used of a quota since a day. It is kept through restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The day on which the period began.
    pub since: Date,
    /// Bytes used since then.
    pub used: u64,
}

impl Ledger {
    /// Nothing is used of a quota now.
    #[must_use]
    pub fn new(quota: &Quota, now: &Zoned) -> Self {
        Self { since: began(quota, now), used: 0 }
    }

    /// So many bytes more were used. A period that has begun since the last call begins with them. A clock that is behind begins
    /// none: many small routers have no battery, and are told the time later.
    pub fn charge(&mut self, quota: &Quota, bytes: u64, now: &Zoned) {
        let since = began(quota, now);
        if since > self.since {
            *self = Self { since, used: 0 };
        }
        self.used = self.used.saturating_add(bytes);
    }

    /// So much was used in this period, whatever was counted.
    pub fn correct(&mut self, quota: &Quota, used: u64, now: &Zoned) {
        self.charge(quota, 0, now);
        self.used = used;
    }

    /// How much is used.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share is no exact number")]
    pub fn stage(&self, quota: &Quota) -> Stage {
        if self.used >= quota.bytes {
            Stage::UsedUp
        } else if self.used as f64 >= WARNED_AT * quota.bytes as f64 {
            Stage::Low
        } else {
            Stage::Left
        }
    }

    /// When the next period begins, if a calendar has it.
    #[must_use]
    pub fn ends(&self, quota: &Quota, zone: &TimeZone) -> Option<Timestamp> {
        period::end(quota, self.since, zone).ok()
    }
}

/// The day on which the period began in which `now` is; that day where a calendar ends.
fn began(quota: &Quota, now: &Zoned) -> Date {
    period::beginning(quota, now.date()).unwrap_or(now.date())
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;
    use crate::quota::{Every, Then};

    const MONTHLY: Quota = Quota { bytes: 1000, every: Every::Month, day: 1, then: Then::Backup };

    fn at(text: &str) -> Zoned {
        text.parse::<Timestamp>().unwrap().to_zoned(TimeZone::UTC)
    }

    #[test]
    fn a_month_ends_and_what_was_used_with_it() {
        let mut ledger = Ledger::new(&MONTHLY, &at("2028-02-01T00:00:00Z"));
        for (bytes, now, used, stage) in [
            (500, "2028-02-01T00:00:01Z", 500, Stage::Left),
            (300, "2028-02-29T12:00:00Z", 800, Stage::Low),
            (200, "2028-02-29T23:59:59Z", 1000, Stage::UsedUp),
            (1, "2028-03-01T00:00:00Z", 1, Stage::Left),
        ] {
            ledger.charge(&MONTHLY, bytes, &at(now));
            assert_eq!((ledger.used, ledger.stage(&MONTHLY)), (used, stage), "{now}");
        }
        let ends = ledger.ends(&MONTHLY, &TimeZone::UTC).unwrap();
        assert_eq!(ends.to_string(), "2028-04-01T00:00:00Z");
    }

    #[test]
    fn the_month_ends_at_local_midnight() {
        let berlin = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let local = |text: &str| text.parse::<Timestamp>().unwrap().to_zoned(berlin.clone());
        let mut ledger = Ledger::new(&MONTHLY, &local("2027-03-31T00:00:00Z"));
        ledger.charge(&MONTHLY, 10, &local("2027-03-31T21:59:59Z"));
        assert_eq!(ledger.used, 10);
        ledger.charge(&MONTHLY, 1, &local("2027-03-31T22:00:00Z"));
        assert_eq!(ledger.used, 1);
    }

    #[test]
    fn a_correction_holds_until_the_period_ends() {
        let mut ledger = Ledger::new(&MONTHLY, &at("2026-12-01T00:00:00Z"));
        ledger.charge(&MONTHLY, 1000, &at("2026-12-06T00:00:00Z"));
        ledger.correct(&MONTHLY, 900, &at("2026-12-06T00:00:00Z"));
        assert_eq!((ledger.used, ledger.stage(&MONTHLY)), (900, Stage::Low));
        // Of a period that nobody has counted in.
        ledger.correct(&MONTHLY, 5, &at("2027-01-02T00:00:00Z"));
        ledger.charge(&MONTHLY, 1, &at("2027-01-02T00:00:01Z"));
        assert_eq!((ledger.since, ledger.used), (date(2027, 1, 1), 6));
        ledger.charge(&MONTHLY, 1, &at("2027-02-01T00:00:00Z"));
        assert_eq!(ledger.used, 1);
    }

    #[test]
    fn clocks_that_are_wrong_forgive_nothing() {
        let mut ledger = Ledger::new(&MONTHLY, &at("2026-12-05T00:00:00Z"));
        ledger.charge(&MONTHLY, 700, &at("2026-12-06T00:00:00Z"));
        // It was started without a battery, and is set later.
        ledger.charge(&MONTHLY, 1, &at("1970-01-01T00:01:00Z"));
        ledger.charge(&MONTHLY, 1, &at("2026-12-06T00:02:00Z"));
        assert_eq!(ledger.used, 702);
        // Somebody puts it back by a month, and to what it was.
        ledger.charge(&MONTHLY, 1, &at("2026-11-06T00:00:00Z"));
        ledger.charge(&MONTHLY, 1, &at("2026-12-06T00:03:00Z"));
        assert_eq!((ledger.since, ledger.used), (date(2026, 12, 1), 704));
    }
}
