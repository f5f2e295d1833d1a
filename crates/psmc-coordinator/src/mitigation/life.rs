//! The state machine of one service.
//!
//! | module | what it has |
//! |---|---|
//! | `course` | when it begins and when it ends |
//! | `reserve` | which relays it has |
//! | `publish` | what clients are told, and when |
//! | `effect` | whether it helps |

mod course;
mod effect;
mod publish;
mod reserve;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use psmc_signal::Stage;

use self::reserve::REFILL_EVERY;
use super::{Moment, OpenAlert, Relays, State};

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
    pub fn resume(policy: Policy, state: State, relays: &mut Relays, now: Moment) -> Self {
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
            life.note("goes on after a restart".to_owned());
            life.wait_for_gateways(now);
        }
        life
    }

    /// Goes on by another policy, and with the relays that there are, of which it has those that it had. Routes that are
    /// published are published anew, for what they say may have changed.
    pub fn handle_policy(&mut self, policy: Policy, relays: &mut Relays, now: Moment) {
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
    pub fn handle_timeout(&mut self, relays: &mut Relays, now: Moment) {
        let is_due = |time: Option<Moment>| time.is_some_and(|time| time <= now);
        let lapsed: Vec<_> = self.state.alerts.extract_if(.., |open| open.until <= now).collect();
        for OpenAlert { source, alert, .. } in &lapsed {
            self.note(format!("the alert {} of {source} lapses: it was not renewed", alert.id));
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
