//! When it begins and when it ends.

use psmc_signal::{Alert, Stage};

use super::publish::RENEWALS;
use super::{Action, Life};
use crate::mitigation::{Moment, OpenAlert, Relays};

impl Life {
    /// Somebody has found an attack, or has news of it. `until` is when it counts no more unless it comes again.
    pub fn handle_alert(
        &mut self,
        source: &str,
        alert: Alert,
        until: Option<Moment>,
        relays: &mut Relays,
        now: Moment,
    ) {
        self.state.cleared = None;
        let same = |open: &&mut OpenAlert| open.source == source && open.alert.id == alert.id;
        if let Some(open) = self.state.alerts.iter_mut().find(same) {
            (open.alert, open.until) = (alert, until);
        } else {
            self.note(format!("{source} raises the alert {}: {:?}", alert.id, alert.kind));
            if self.state.alerts.len() >= MAX_ALERTS {
                self.state.alerts.remove(0);
            }
            self.state.alerts.push(OpenAlert { source: source.to_owned(), alert, since: now, until });
        }
        match self.state.stage {
            Stage::Withdrawn => {
                self.begin(now);
                self.enter(Stage::Requested);
                self.state.requested = Some(now);
                self.request(relays, now);
            }
            Stage::Prepared | Stage::Expiring => {
                self.enter(Stage::Requested);
                (self.state.requested, self.state.published) = (Some(now), None);
                self.request(relays, now);
            }
            Stage::Requested | Stage::Active | Stage::Effective | Stage::Ineffective => {}
        }
    }

    /// A source has nothing to complain about any more.
    pub fn handle_clear(&mut self, source: &str, id: &str, now: Moment) {
        let before = self.state.alerts.len();
        self.state.alerts.retain(|open| open.source != source || open.alert.id != id);
        if self.state.alerts.len() < before {
            self.note(format!("{source} clears the alert {id}"));
            self.look_whether_all_is_clear(now);
        }
    }

    /// A source that was gone is back: what it does not say again until `until` counts no more.
    pub fn handle_return(&mut self, source: &str, until: Moment) {
        for open in self.state.alerts.iter_mut().filter(|open| open.source == source) {
            open.until = Some(until);
        }
    }

    /// A person wants relays to be kept ready.
    pub fn handle_prepare(&mut self, relays: &mut Relays, now: Moment) {
        self.state.prepared_by_hand = true;
        if self.state.stage == Stage::Withdrawn {
            self.rest(relays, now);
        }
    }

    /// A person wants it to end, at once and whatever the alerts say.
    pub fn handle_withdraw(&mut self, relays: &mut Relays, now: Moment) {
        self.note("withdrawn by hand".to_owned());
        self.state.alerts.clear();
        self.state.prepared_by_hand = false;
        self.finish(relays, now);
    }

    /// The service is not served here any more.
    pub fn handle_removal(&mut self, relays: &mut Relays, now: Moment) {
        self.policy.prepare = false;
        if self.state.stage != Stage::Withdrawn {
            self.note("the configuration has this service no more".to_owned());
            self.handle_withdraw(relays, now);
        }
    }

    /// Nothing, or relays that are kept ready.
    pub(super) fn rest(&mut self, relays: &mut Relays, now: Moment) {
        if !(self.policy.prepare || self.state.prepared_by_hand) {
            return;
        }
        self.begin(now);
        self.enter(Stage::Prepared);
        self.request(relays, now);
    }

    pub(super) fn begin(&mut self, now: Moment) {
        self.state.id = now.0.max(self.state.id + 1);
        self.state.published = None;
        self.state.expires = now + self.policy.lifetime;
        self.renewal = Some(now + self.policy.lifetime / RENEWALS);
    }

    /// Ends it: at rest there are no routes, and no relays unless some are kept ready.
    pub(super) fn finish(&mut self, relays: &mut Relays, now: Moment) {
        (self.patience, self.renewal, self.refill) = (None, None, None);
        self.state.cleared = None;
        self.state.routes.clear();
        self.state.serial = now.0.max(self.state.serial + 1);
        self.actions.extend([Action::Withdraw, Action::TellClients]);
        if self.policy.prepare || self.state.prepared_by_hand {
            self.enter(Stage::Prepared);
            self.begin(now);
            self.request(relays, now);
            return;
        }
        for relay in self.state.all_relays().cloned().collect::<Vec<_>>() {
            self.give_back(&relay, relays);
        }
        self.state.relays.clear();
        self.enter(Stage::Withdrawn);
        self.actions.push_back(Action::TellGateway);
    }

    pub(super) fn look_whether_all_is_clear(&mut self, now: Moment) {
        if self.state.alerts.is_empty() && self.state.is_under_way() {
            self.state.cleared = Some(now);
        }
    }

    /// When an attack that has ended is believed to have.
    pub(super) fn hold_end(&self) -> Option<Moment> {
        self.state.cleared.filter(|_| self.state.is_under_way()).map(|cleared| cleared + self.policy.hold)
    }
}

/// Alerts of a service that are kept at most: more say nothing more.
pub(super) const MAX_ALERTS: usize = 64;
