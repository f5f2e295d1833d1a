//! What clients are told, and when.

use std::collections::BTreeSet;
use std::time::Duration;

use psmc_signal::Stage;

use super::{Action, Life, RelaySet};
use crate::mitigation::Moment;

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
        self.patience = Some(now + PATIENCE);
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
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// How many times routes are renewed while they count: two renewals may fail.
pub(super) const RENEWALS: u32 = 3;
