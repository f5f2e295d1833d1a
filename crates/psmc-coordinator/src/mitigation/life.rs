//! The state machine of one service: which relays it has, and whether that helps.
//!
//! `course` has when it begins and when it ends, and what clients are told.

mod course;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use psmc_signal::{Measured, Stage};

use super::{Moment, OpenAlert, RelayPool, State};

/// How long sources have to renew their alerts after a start.
const RENEW_WITHIN: Duration = Duration::from_mins(1);

/// What is done for a service, whatever happens.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The service's name.
    pub service: String,
    /// The groups that it admits.
    pub groups: Vec<String>,
    /// How many relays each gets.
    pub relays_per_group: usize,
    /// What each of them is to carry, in Mbit/s.
    pub relay_mbps: Option<f64>,
    /// Whether a gateway has to say that it is registered, before clients are told.
    pub has_gateway: bool,
    /// How long routes count.
    pub lifetime: Duration,
    /// How long an attack must be over before anything is undone.
    pub hold: Duration,
    /// Whether relays are kept ready all the time.
    pub prepare: bool,
}

/// The relays that each group is told of.
pub type RelaySet = BTreeMap<String, Vec<String>>;

/// What is to be done. Everything that it takes is in the [`State`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Cap what a relay carries, or lift the cap.
    Cap {
        /// Its name.
        relay: String,
        /// Whether it serves the service.
        serves: bool,
    },
    /// Tell gateways where the mitigation stands.
    TellGateway,
    /// Put the routes on name servers, and tell [`Life::handle_published`].
    Publish,
    /// Take all routes from name servers.
    Withdraw,
    /// Tell clients the routes, or that there are none.
    TellClients,
    /// Note what happened, for people.
    Note(String),
}

/// The mitigation of one service, from its first alert until its routes are withdrawn, and the next.
///
/// After each call of a `handle_*` method, and before the next, the state is to be stored, and then
/// [`poll_action`](Self::poll_action) to be called until there is none. At [`poll_timeout`](Self::poll_timeout),
/// [`handle_timeout`](Self::handle_timeout) is due; earlier it does nothing.
#[derive(Debug)]
pub struct Life {
    policy: Policy,
    state: State,
    actions: VecDeque<Action>,
    /// Until when gateways are waited for.
    patience: Option<Moment>,
    renewal: Option<Moment>,
    /// Whether routes are to be published even if they are those that were published before.
    is_new: bool,
    /// When it is looked for relays that are missing.
    refill: Option<Moment>,
    /// Reports in a row that say the service is, or is not, reached.
    reached: u32,
    missed: u32,
    /// Not earlier are relays exchanged for others again.
    exchange_after: Moment,
}

impl Life {
    /// Goes on from what was stored.
    #[must_use]
    pub fn resume(policy: Policy, state: State, relays: &mut RelayPool, now: Moment) -> Self {
        let mut life = Self {
            policy,
            state,
            actions: VecDeque::new(),
            patience: None,
            renewal: None,
            is_new: false,
            refill: None,
            reached: 0,
            missed: 0,
            exchange_after: Moment::default(),
        };
        // Nobody could renew anything while there was no coordinator, and not every renewal was kept.
        for open in &mut life.state.alerts {
            open.until = open.until.max(now + RENEW_WITHIN);
        }
        life.forget_what_is_gone(relays);
        if life.state.serial > 0 && !life.state.is_published() && !life.state.is_under_way() {
            // It may have ended while nobody was left to say so.
            life.actions.push_back(Action::Withdraw);
        }
        if life.state.stage == Stage::Withdrawn {
            life.rest(relays, now);
            return life;
        }
        for relay in life.state.all_relays().cloned().collect::<Vec<_>>() {
            relays.keep(&relay, &life.policy.service);
            life.actions.push_back(Action::Cap { relay, serves: true });
        }
        life.renewal = Some(now);
        life.refill = Some(now + REFILL_EVERY);
        if life.state.is_under_way() {
            life.note("continued after a restart".to_owned());
            life.wait_for_gateways(now);
        }
        life
    }

    /// Goes on by another policy, and with the relays that there are, of which it has those that it had. Routes that are
    /// published are published anew, for what they say may have changed.
    pub fn handle_policy(&mut self, policy: Policy, relays: &mut RelayPool, now: Moment) {
        self.policy = policy;
        let groups = &self.policy.groups;
        let not_admitted = self.state.relays.iter().filter(|(group, _)| !groups.contains(group));
        for relay in not_admitted.flat_map(|(_, relays)| relays.clone()).collect::<Vec<_>>() {
            self.give_back(&relay, relays);
        }
        self.forget_what_is_gone(relays);
        let is_wanted = self.policy.prepare || self.state.prepared_by_hand;
        match self.state.stage {
            Stage::Withdrawn => return self.rest(relays, now),
            Stage::Prepared if !is_wanted => return self.finish(relays, now),
            Stage::Prepared
            | Stage::Requested
            | Stage::Active
            | Stage::Effective
            | Stage::Ineffective
            | Stage::Expiring => self.renewal = Some(now),
        }
        for relay in self.state.all_relays().cloned().collect::<Vec<_>>() {
            self.actions.push_back(Action::Cap { relay, serves: true });
        }
        self.refill = self.lacks_relays().then_some(now);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, relays: &mut RelayPool, now: Moment) {
        let is_due = |time: Option<Moment>| time.is_some_and(|time| time <= now);
        let lapsed: Vec<_> = self.state.alerts.extract_if(.., |open| open.until <= now).collect();
        for OpenAlert { source, alert, .. } in &lapsed {
            self.note(format!("alert {} from {source} expired: not renewed", alert.id));
        }
        if !lapsed.is_empty() {
            self.look_whether_all_is_clear(now);
        }
        if is_due(self.patience) {
            self.patience = None;
            self.publish_what_is_ready(now);
        }
        if is_due(self.refill) {
            self.refill = self.lacks_relays().then_some(now + REFILL_EVERY);
            if self.refill.is_some() && relays.count_free(now) > 0 {
                self.request(relays, now);
            }
        }
        if is_due(self.hold_end()) {
            self.state.cleared = None;
            self.enter(Stage::Expiring);
            self.actions.push_back(Action::TellGateway);
            self.renewal = None;
        }
        if self.state.stage == Stage::Expiring && self.state.expires <= now {
            self.finish(relays, now);
        }
        if is_due(self.renewal) {
            self.renew(now);
        }
    }

    /// When something is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Moment> {
        let expiry = (self.state.stage == Stage::Expiring).then_some(self.state.expires);
        let alerts = self.state.alerts.iter().map(|open| open.until);
        let others = [self.patience, self.refill, self.renewal, self.hold_end(), expiry];
        others.into_iter().flatten().chain(alerts).min()
    }

    /// What is to be done next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What it goes by.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    fn enter(&mut self, stage: Stage) {
        self.note(format!("{:?} -> {stage:?}", self.state.stage));
        self.is_new |= stage == Stage::Requested;
        self.state.stage = stage;
    }

    fn note(&mut self, text: String) {
        self.actions.push_back(Action::Note(text));
    }
}

impl Life {
    /// A relay does not do its work: another takes its place at once.
    pub fn handle_relay_failed(&mut self, relay: &str, why: &str, relays: &mut RelayPool, now: Moment) {
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
    fn request(&mut self, relays: &mut RelayPool, now: Moment) {
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

    fn take(&mut self, group: &str, count: usize, relays: &mut RelayPool, now: Moment) {
        let taken = relays.take(&self.policy.service, count, self.policy.relay_mbps, now);
        if taken.is_empty() {
            return;
        }
        self.note(format!("{group} gets {}", taken.join(", ")));
        let caps = taken.iter().map(|relay| Action::Cap { relay: relay.clone(), serves: true });
        self.actions.extend(caps);
        self.state.relays.entry(group.to_owned()).or_default().extend(taken);
    }

    fn give_back(&mut self, relay: &str, relays: &mut RelayPool) {
        relays.release(relay);
        self.state.ready.remove(relay);
        self.state.relays.values_mut().for_each(|group| group.retain(|ours| ours != relay));
        self.actions.push_back(Action::Cap { relay: relay.to_owned(), serves: false });
    }

    fn lacks_relays(&self) -> bool {
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
    fn forget_what_is_gone(&mut self, relays: &RelayPool) {
        let groups = &self.policy.groups;
        for map in [&mut self.state.relays, &mut self.state.routes] {
            map.retain(|group, _| groups.contains(group));
            map.values_mut().for_each(|of_group| of_group.retain(|relay| relays.has(relay)));
        }
        self.state.ready.retain(|relay| relays.has(relay));
    }
}

/// How often it is looked for relays that are missing.
const REFILL_EVERY: Duration = Duration::from_secs(1);

impl Life {
    /// A gateway says how the service fares.
    pub fn handle_report(&mut self, through_relays: &Measured, relays: &mut RelayPool, now: Moment) {
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
    fn exchange(&mut self, relays: &mut RelayPool, now: Moment) {
        self.exchange_after = now + EXCHANGE_EVERY;
        self.missed = 0;
        let old: Vec<String> = self.state.all_relays().cloned().collect();
        let spare = relays.count_free(now);
        for relay in old.iter().take(spare) {
            relays.shun(relay, now);
            self.give_back(relay, relays);
        }
        if spare > 0 {
            self.note("trying other relays".to_owned());
            self.request(relays, now);
        }
    }
}

/// The share of lost packets through relays at which a service is not reached as it should be.
const BAD_LOSS: f64 = 0.2;

/// Reports in a row, one a second, that say the relays help.
const REPORTS_TO_BELIEVE: u32 = 3;

/// Reports in a row that say they do not: longer than a path takes to find its rate.
const REPORTS_TO_DOUBT: u32 = 5;

/// How often relays are exchanged for others: clients need time to find the new ones.
const EXCHANGE_EVERY: Duration = Duration::from_secs(15);
