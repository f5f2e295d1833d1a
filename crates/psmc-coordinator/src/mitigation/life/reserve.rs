//! Which relays it has.

use std::time::Duration;

use psmc_signal::Stage;

use super::{Action, Life};
use crate::mitigation::{Moment, Relays};

impl Life {
    /// A relay does not do its work: another takes its place at once.
    pub fn handle_relay_failed(&mut self, relay: &str, why: &str, relays: &mut Relays, now: Moment) {
        if !self.state.all_relays().any(|ours| ours == relay) {
            return;
        }
        self.note(format!("the relay {relay} has failed: {why}"));
        relays.shun(relay, now);
        self.give_back(relay, relays);
        self.request(relays, now);
    }

    /// A relay that did not answer does, or another service has given one back: there may be one for this service.
    pub fn handle_relay_found(&mut self, now: Moment) {
        if self.lacks_relays() {
            self.refill = Some(now);
        }
    }

    /// Takes relays where any are missing, and tells the gateway.
    pub(super) fn request(&mut self, relays: &mut Relays, now: Moment) {
        let groups = self.policy.groups.clone();
        for (place, group) in groups.iter().enumerate() {
            let have = self.state.relays.get(group).map_or(0, Vec::len);
            let wanted = self.policy.relays_per_group.saturating_sub(have);
            // The groups that are still to be served get as many.
            let share = relays.count_free(now).div_ceil(groups.len() - place);
            self.take(group, wanted.min(share), relays, now);
        }
        self.refill = self.lacks_relays().then_some(now + REFILL_EVERY);
        self.actions.push_back(Action::TellGateway);
        self.wait_for_gateways(now);
    }

    pub(super) fn take(&mut self, group: &str, count: usize, relays: &mut Relays, now: Moment) {
        let taken = relays.take(&self.policy.service, count, self.policy.relay_mbps, now);
        if taken.is_empty() {
            return;
        }
        self.note(format!("{group} gets {}", taken.join(", ")));
        let caps = taken.iter().map(|relay| Action::Cap { relay: relay.clone(), serves: true });
        self.actions.extend(caps);
        self.state.relays.entry(group.to_owned()).or_default().extend(taken);
    }

    pub(super) fn give_back(&mut self, relay: &str, relays: &mut Relays) {
        relays.release(relay);
        self.state.ready.remove(relay);
        self.state.relays.values_mut().for_each(|group| group.retain(|ours| ours != relay));
        self.actions.push_back(Action::Cap { relay: relay.to_owned(), serves: false });
    }

    pub(super) fn lacks_relays(&self) -> bool {
        let full = |group: &String| {
            self.state.relays.get(group).is_some_and(|relays| relays.len() >= self.policy.relays_per_group)
        };
        let is_wanted = match self.state.stage {
            Stage::Prepared | Stage::Requested | Stage::Active | Stage::Effective | Stage::Ineffective => {
                true
            }
            Stage::Expiring | Stage::Withdrawn => false,
        };
        is_wanted && !self.policy.groups.iter().all(full)
    }

    /// Groups and relays may have left the configuration.
    pub(super) fn forget_what_is_gone(&mut self, relays: &Relays) {
        let groups = &self.policy.groups;
        for map in [&mut self.state.relays, &mut self.state.routes] {
            map.retain(|group, _| groups.contains(group));
            map.values_mut().for_each(|of_group| of_group.retain(|relay| relays.has(relay)));
        }
        self.state.ready.retain(|relay| relays.has(relay));
    }
}

/// How often it is looked for relays that are missing.
pub(super) const REFILL_EVERY: Duration = Duration::from_secs(1);
