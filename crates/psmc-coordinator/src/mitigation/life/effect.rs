//! Whether it helps.

use std::time::Duration;

use psmc_signal::{Measured, Stage};

use super::Life;
use crate::mitigation::{Moment, Relays};

impl Life {
    /// A gateway says how the service fares.
    pub fn handle_report(&mut self, through_relays: &Measured, relays: &mut Relays, now: Moment) {
        let is_watched = matches!(self.state.stage, Stage::Active | Stage::Effective | Stage::Ineffective);
        let carries = |rate: Option<f64>| rate.is_some_and(|rate| rate > 0.0);
        let loses = through_relays.loss.is_some_and(|loss| loss >= BAD_LOSS);
        let is_used =
            carries(through_relays.packets) || carries(through_relays.bits) || through_relays.loss.is_some();
        if !is_watched || !is_used {
            return;
        }
        (self.reached, self.missed) = if loses { (0, self.missed + 1) } else { (self.reached + 1, 0) };
        if self.reached == REPORTS_TO_BELIEVE && self.state.stage != Stage::Effective {
            self.enter(Stage::Effective);
        }
        if self.missed >= REPORTS_TO_DOUBT {
            if self.state.stage != Stage::Ineffective {
                self.enter(Stage::Ineffective);
            }
            if self.exchange_after <= now {
                self.exchange(relays, now);
            }
        }
    }

    /// Other relays in the place of those that do not help, as far as there are any.
    pub(super) fn exchange(&mut self, relays: &mut Relays, now: Moment) {
        self.exchange_after = now + EXCHANGE_EVERY;
        self.missed = 0;
        let old: Vec<String> = self.state.all_relays().cloned().collect();
        let spare = relays.count_free(now);
        for relay in old.iter().take(spare) {
            relays.shun(relay, now);
            self.give_back(relay, relays);
        }
        if spare > 0 {
            self.note("other relays are tried".to_owned());
            self.request(relays, now);
        }
    }
}

/// The share of lost packets through relays at which a service is not reached as it should be.
pub(super) const BAD_LOSS: f64 = 0.2;

/// Reports in a row, one a second, that say the relays help.
pub(super) const REPORTS_TO_BELIEVE: u32 = 3;

/// Reports in a row that say they do not: longer than a path takes to find its rate.
pub(super) const REPORTS_TO_DOUBT: u32 = 5;

/// How often relays are exchanged for others: clients need time to find the new ones.
pub(super) const EXCHANGE_EVERY: Duration = Duration::from_secs(15);
