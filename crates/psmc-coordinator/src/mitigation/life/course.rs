//! When a mitigation begins and when it ends, what clients are told, and when.

use std::collections::BTreeSet;
use std::time::Duration;

use psmc_signal::{Alert, Stage};

use super::{Action, Life, RelaySet};
use crate::mitigation::{Moment, OpenAlert, RelayPool};

impl Life {
    /// Somebody has found an attack, or has news of it, which counts for so long unless it is renewed.
    pub fn handle_alert(
        &mut self,
        source: &str,
        alert: Alert,
        lasts: Duration,
        relays: &mut RelayPool,
        now: Moment,
    ) {
        self.state.cleared = None;
        let same = |open: &&mut OpenAlert| open.source == source && open.alert.id == alert.id;
        let (until, lasts_s) = (now + lasts, lasts.as_secs());
        if let Some(open) = self.state.alerts.iter_mut().find(same) {
            let since = open.since;
            *open = OpenAlert { source: source.to_owned(), alert, since, until, lasts_s, unconfirmed: false };
        } else {
            self.note(format!("alert {} raised by {source}: {:?}", alert.id, alert.kind));
            if self.state.alerts.len() >= MAX_ALERTS {
                self.state.alerts.remove(0);
            }
            let source = source.to_owned();
            let open = OpenAlert { source, alert, since: now, until, lasts_s, unconfirmed: false };
            self.state.alerts.push(open);
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

    /// An alert goes on to count, for so long from now. Says whether there is one.
    pub fn handle_renewal(&mut self, source: &str, id: &str, lasts: Duration, now: Moment) -> bool {
        let is_it = |open: &&mut OpenAlert| open.source == source && open.alert.id == id;
        let Some(open) = self.state.alerts.iter_mut().find(is_it) else { return false };
        (open.until, open.lasts_s, open.unconfirmed) = (now + lasts, lasts.as_secs(), false);
        true
    }

    /// A source is there, which would say so if its alerts were over.
    pub fn handle_presence(&mut self, source: &str, now: Moment) {
        for open in self.state.alerts.iter_mut().filter(|open| open.source == source && !open.unconfirmed) {
            let lasts = Duration::from_secs(open.lasts_s);
            if now.until(open.until) < lasts / 2 {
                open.until = now + lasts;
            }
        }
    }

    /// A source has nothing to complain about any more.
    pub fn handle_clear(&mut self, source: &str, id: &str, now: Moment) {
        let before = self.state.alerts.len();
        self.state.alerts.retain(|open| open.source != source || open.alert.id != id);
        if self.state.alerts.len() < before {
            self.note(format!("alert {id} cleared by {source}"));
            self.look_whether_all_is_clear(now);
        }
    }

    /// A source that was gone is back: what it does not say again until `until` counts no more.
    pub fn handle_return(&mut self, source: &str, until: Moment) {
        for open in self.state.alerts.iter_mut().filter(|open| open.source == source) {
            (open.until, open.unconfirmed) = (until, true);
        }
    }

    /// A person wants relays to be kept ready.
    pub fn handle_prepare(&mut self, relays: &mut RelayPool, now: Moment) {
        self.state.prepared_by_hand = true;
        if self.state.stage == Stage::Withdrawn {
            self.rest(relays, now);
        }
    }

    /// A person wants it to end, at once and whatever the alerts say.
    pub fn handle_withdraw(&mut self, relays: &mut RelayPool, now: Moment) {
        self.note("withdrawn by hand".to_owned());
        self.state.alerts.clear();
        self.state.prepared_by_hand = false;
        self.finish(relays, now);
    }

    /// The service is not served here any more.
    pub fn handle_removal(&mut self, relays: &mut RelayPool, now: Moment) {
        self.policy.prepare = false;
        if self.state.stage != Stage::Withdrawn {
            self.note("service removed from the configuration".to_owned());
            self.handle_withdraw(relays, now);
        }
    }

    /// Nothing, or relays that are kept ready.
    pub(super) fn rest(&mut self, relays: &mut RelayPool, now: Moment) {
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
    pub(super) fn finish(&mut self, relays: &mut RelayPool, now: Moment) {
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
const MAX_ALERTS: usize = 64;

impl Life {
    /// The gateway is registered at these relays, and at no others.
    pub fn handle_ready(&mut self, ready: BTreeSet<String>, now: Moment) {
        let ready: BTreeSet<String> =
            ready.into_iter().filter(|relay| self.state.all_relays().any(|ours| ours == relay)).collect();
        if ready == self.state.ready {
            return;
        }
        self.state.ready = ready;
        self.publish_what_is_ready(now);
    }

    /// A name server has the routes of this serial number, or there is none that should.
    pub fn handle_published(&mut self, serial: u64, now: Moment) {
        if serial != self.state.serial {
            return;
        }
        if self.state.published.is_none() {
            self.state.published = Some(now);
        }
        if self.state.stage == Stage::Requested {
            self.enter(Stage::Active);
            (self.reached, self.missed) = (0, 0);
        }
    }

    pub(super) fn wait_for_gateways(&mut self, now: Moment) {
        if !self.state.is_under_way() {
            return;
        }
        self.patience = Some(now + READY_WITHIN);
        if !self.is_waiting_for_new() {
            self.publish_what_is_ready(now);
        }
    }

    /// Whether a gateway is still to register at a relay.
    pub(super) fn is_waiting_for_new(&self) -> bool {
        self.patience.is_some()
            && self.policy.has_gateway
            && self.state.all_relays().any(|relay| !self.state.ready.contains(relay))
    }

    /// Tells clients of the relays that work, unless they know, or more will soon.
    pub(super) fn publish_what_is_ready(&mut self, now: Moment) {
        if !self.state.is_under_way() || self.is_waiting_for_new() {
            return;
        }
        self.patience = None;
        let works = |relay: &&String| !self.policy.has_gateway || self.state.ready.contains(*relay);
        let routes: RelaySet = self
            .state
            .relays
            .iter()
            .map(|(group, relays)| (group.clone(), relays.iter().filter(works).cloned().collect()))
            .filter(|(_, relays): &(String, Vec<String>)| !relays.is_empty())
            .collect();
        // Routes that may be dead are better than none at all.
        if routes.is_empty() || (routes == self.state.routes && !self.is_new) {
            return;
        }
        self.state.routes = routes;
        self.publish(now);
    }

    pub(super) fn publish(&mut self, now: Moment) {
        self.is_new = false;
        self.state.expires = now + self.policy.lifetime;
        self.renewal = Some(now + self.policy.lifetime / RENEWALS);
        self.publish_until_expiry(now);
    }

    /// Publishes the routes under a new serial number, for as long as they count anyway.
    fn publish_until_expiry(&mut self, now: Moment) {
        self.state.serial = now.0.max(self.state.serial + 1);
        self.actions.extend([Action::Publish, Action::TellClients]);
    }

    pub(super) fn renew(&mut self, now: Moment) {
        self.renewal = None;
        match self.state.stage {
            Stage::Requested | Stage::Active | Stage::Effective | Stage::Ineffective => {
                if self.state.is_published() {
                    self.publish(now);
                } else {
                    self.state.expires = now + self.policy.lifetime;
                    self.renewal = Some(now + self.policy.lifetime / RENEWALS);
                }
                self.actions.push_back(Action::TellGateway);
            }
            Stage::Prepared => {
                self.state.expires = now + self.policy.lifetime;
                self.renewal = Some(now + self.policy.lifetime / RENEWALS);
                self.actions.push_back(Action::TellGateway);
            }
            // Not that they should last: what they say, or whose key has signed it, may have changed.
            Stage::Expiring => {
                if self.state.is_published() {
                    self.publish_until_expiry(now);
                }
                self.actions.push_back(Action::TellGateway);
            }
            Stage::Withdrawn => {}
        }
    }
}

/// How long gateways may take to register at relays before clients are told of those that are done: a handshake over a bad
/// line takes that long.
const READY_WITHIN: Duration = Duration::from_millis(500);

/// How many times routes are renewed while they count: two renewals may fail.
const RENEWALS: u32 = 3;
