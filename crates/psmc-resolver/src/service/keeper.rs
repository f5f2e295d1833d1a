//! The task of a service: it looks for routes, believes or refuses them, hands them to psmcd, and keeps them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hickory_proto::rr::Name;
use psmc_net::keys::PublicKey;
use psmc_signal::Routes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep_until;

use super::beliefs::{Beliefs, Verdict, is_sealed};
use super::check::{Found, look};
use super::kept::{Kept, KeptFile};
use super::schedule::{Schedule, Situation};
use super::{Call, Reach, RoutesStatus, Shared};
use crate::tunnels::{Policy, Tunnel, TunnelRoutes};
use psmc_routes::{GroupKey, Relay, RouteSet};
use psmc_service::clock::unix_seconds;

/// Questions that wait for the same look.
const MAX_WAITING: usize = 1024;

/// The time until routes that psmcd has refused, or has lost, are given to it again.
const HAND_AGAIN: Duration = Duration::from_secs(1);

/// The longest time without a look at the clock: routes expire by the time of day, which may be set.
const LONGEST: Duration = Duration::from_secs(5);

/// Who the service is: its name, its key, and the group that this client is in.
type Identity = (Name, PublicKey, Option<GroupKey>);

pub(super) struct Keeper {
    shared: Arc<Shared>,
    service: Name,
    tunnel: Tunnel,
    policy: Option<Policy>,
    beliefs: Beliefs,
    grants: Vec<String>,
    addresses: Vec<IpAddr>,
    schedule: Schedule,
    file: KeptFile,
    handed: Option<Handed>,
    /// Until then psmcd may not have told of what it was given.
    settles: Option<Instant>,
    /// Until then nothing is handed over: it has just failed.
    pauses: Option<Instant>,
    problem: Option<String>,
    waiting: Vec<oneshot::Sender<()>>,
}

/// What psmcd has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Handed {
    relays: Vec<Relay>,
    expires_s: u64,
    grants: Vec<String>,
    serial: u64,
}

impl Keeper {
    pub(super) fn new(
        shared: Arc<Shared>,
        (service, key, group): Identity,
        (tunnel, policy): (Tunnel, Option<Policy>),
    ) -> Self {
        let file = KeptFile::new(&shared.directory, &service);
        let mut beliefs = Beliefs::new(service.clone(), key, group);
        let kept = file.read().unwrap_or_else(|error| {
            let error = crate::error_chain(&error);
            tracing::warn!(%service, error, "stored routes unusable; continuing without them");
            Kept::default()
        });
        beliefs.restore(kept.least, &kept.records, unix_seconds());
        let mut schedule = Schedule::default();
        if let Some(set) = beliefs.best(unix_seconds()) {
            // It was used, and may be by connections that do not ask for the name again.
            schedule.asked(Instant::now());
            tracing::info!(%service, serial = set.validity().serial, "using the service's stored routes");
        }
        Self {
            shared,
            service,
            tunnel,
            policy,
            beliefs,
            grants: kept.grants,
            addresses: kept.addresses,
            schedule,
            file,
            handed: None,
            settles: None,
            pauses: None,
            problem: None,
            waiting: Vec::new(),
        }
    }

    /// The addresses that DNS last had for the service.
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.addresses.clone()
    }

    /// Goes on until the program ends.
    pub(super) async fn run(
        mut self,
        (mut calls, mut told): (mpsc::Receiver<Call>, mpsc::Receiver<Routes>),
        mut addresses: watch::Receiver<Vec<IpAddr>>,
        mut reach: watch::Receiver<Reach>,
        routes: watch::Sender<Option<RoutesStatus>>,
    ) {
        let mut looks = JoinSet::new();
        loop {
            let now = Instant::now();
            let known = *reach.borrow_and_update();
            let is_used = self.hand_over(known, now).await;
            self.publish(&routes);
            if looks.is_empty() {
                let due = self.schedule.due(now, self.situation(known));
                if due.is_some_and(|due| due <= now) {
                    looks.spawn(look(self.shared.lookup.clone(), self.service.clone()));
                } else {
                    // Who has been answered already does not wait any more.
                    self.waiting.drain(..).for_each(|waiting| waiting.send(()).unwrap_or_default());
                }
            }
            let next = self.next_turn(now, known, is_used, looks.is_empty());
            tokio::select! {
                call = calls.recv() => match call {
                    Some(call) => self.called(call),
                    None => return,
                },
                Some(told) = told.recv() => self.told(&told).await,
                Ok(()) = addresses.changed() => {
                    self.addresses = addresses.borrow_and_update().clone();
                    self.keep().await;
                }
                Ok(()) = reach.changed() => {}
                Some(found) = looks.join_next() => self.found(found.ok().flatten()).await,
                () = sleep_until(next.into()) => {}
            }
        }
    }

    fn next_turn(&mut self, now: Instant, reach: Reach, is_used: bool, is_idle: bool) -> Instant {
        let due = self.schedule.due(now, self.situation(reach)).filter(|_| is_idle);
        let again = self.pauses.filter(|again| is_used && *again > now);
        let settled = self.settles.filter(|settled| *settled > now);
        [due, again, settled].into_iter().flatten().fold(now + LONGEST, Instant::min).max(now)
    }

    /// Somebody asks for the name. Where routes are known, or nobody could name any, nobody waits for a look at DNS.
    fn called(&mut self, call: Call) {
        let now = Instant::now();
        self.schedule.asked(now);
        let has_routes = self.beliefs.best(unix_seconds()).is_some();
        let is_in_time = has_routes || self.schedule.is_fresh(now) || self.schedule.is_failing();
        self.waiting.retain(|waiting| !waiting.is_closed());
        if !is_in_time && self.waiting.len() < MAX_WAITING {
            self.waiting.push(call.checked);
        }
    }

    async fn found(&mut self, found: Option<Found>) {
        self.schedule.checked(Instant::now(), found.as_ref().map(|found| found.ttl));
        self.shared.counters.checks();
        let Some(found) = found else {
            self.shared.counters.checks_failed();
            return;
        };
        let now_s = unix_seconds();
        let mut verdicts: Vec<Verdict> =
            found.alt.iter().map(|rdata| self.beliefs.consider(rdata, now_s)).collect();
        if !found.svcb.is_empty() {
            verdicts.extend(self.beliefs.consider_svcb(found.svcb.iter(), now_s));
        }
        self.count(&verdicts);
        if verdicts.contains(&Verdict::Believed) {
            self.keep().await;
        }
    }

    /// A coordinator says which routes there are. Its word is authenticated, so that it can take routes back.
    async fn told(&mut self, told: &Routes) {
        self.shared.counters.routes_told();
        let Some(record) = &told.record else {
            tracing::info!(service = %self.service, "routes withdrawn by the coordinator");
            self.beliefs.withdraw();
            self.keep().await;
            return;
        };
        let verdict = STANDARD
            .decode(record)
            .map_or(Verdict::Malformed, |record| self.beliefs.consider(&record, unix_seconds()));
        self.count(&[verdict]);
        let has_grants = self.grants == told.grants;
        if verdict == Verdict::Believed || (verdict == Verdict::Known && !has_grants) {
            self.grants.clone_from(&told.grants);
            self.keep().await;
        }
    }

    fn count(&self, verdicts: &[Verdict]) {
        let counters = &self.shared.counters;
        for verdict in verdicts {
            match verdict {
                Verdict::Believed => counters.routes_believed(),
                Verdict::Known => {}
                Verdict::Forged => counters.routes_forged(),
                Verdict::Replayed => counters.routes_replayed(),
                Verdict::Expired => counters.routes_expired(),
                Verdict::OtherGroup => counters.routes_of_other_groups(),
                Verdict::Malformed => counters.routes_malformed(),
            }
        }
        if verdicts.contains(&Verdict::Forged) {
            tracing::debug!(service = %self.service, "routes are refused: the service has not signed them");
        }
    }

    async fn keep(&mut self) {
        let (least, records) = self.beliefs.kept();
        let (grants, addresses) = (self.grants.clone(), self.addresses.clone());
        let kept = Kept { least, records, grants, addresses };
        let file = self.file.clone();
        if let Ok(Err(error)) = spawn_blocking(move || file.write(&kept)).await {
            self.shared.counters.routes_not_kept();
            let error = crate::error_chain(&error);
            tracing::warn!(service = %self.service, error, "routes in use, but not stored: they will be lost at a restart");
        }
    }

    /// Gives psmcd what counts, where it has something else. Whether there are routes that it shall have.
    async fn hand_over(&mut self, reach: Reach, now: Instant) -> bool {
        let state = match reach {
            Reach::Known(state) => Some(state),
            Reach::Unknown | Reach::Silent => None,
        };
        let is_settled = self.settles.is_none_or(|settled| now >= settled);
        if is_settled && state.is_some_and(|state| state.expires_s.is_none()) {
            // psmcd was started anew, or somebody has taken the routes from it.
            self.handed = self.handed.take_if(|handed| handed.expires_s <= unix_seconds());
        }
        let Some(set) = self.beliefs.best(unix_seconds()).cloned() else {
            if self.handed.take().is_some() {
                tracing::info!(service = %self.service, "no alternate routes left");
                self.clear().await;
            }
            self.problem = None;
            return false;
        };
        let is_wanted = self.schedule.is_in_use(now) || state.is_some_and(|state| state.usable);
        let is_too_soon = self.pauses.is_some_and(|again| now < again);
        if is_wanted && !is_too_soon && state.is_some() && !self.has(&set) {
            let last = state.and_then(|state| state.serial);
            self.hand(&set, last, now).await;
        }
        is_wanted
    }

    fn has(&self, set: &RouteSet) -> bool {
        self.handed.as_ref().is_some_and(|handed| {
            handed.relays == set.relays()
                && handed.expires_s == set.validity().expires_s
                && handed.grants == self.grants
        })
    }

    async fn hand(&mut self, set: &RouteSet, last: Option<u64>, now: Instant) {
        // psmcd refuses lower serial numbers. Those of a group's sets may be lower than those of everyone's.
        let last = self.handed.as_ref().map_or(last, |handed| last.max(Some(handed.serial)));
        let validity = set.validity();
        let routes = TunnelRoutes {
            relays: set.relays().to_vec(),
            expires_s: validity.expires_s,
            serial: last.map_or(validity.serial, |last| validity.serial.max(last)),
            policy: self.policy,
            grants: self.grants.clone(),
        };
        let handed = Handed {
            relays: routes.relays.clone(),
            expires_s: routes.expires_s,
            grants: routes.grants.clone(),
            serial: routes.serial,
        };
        let (tunnels, tunnel) = (self.shared.tunnels.clone(), self.tunnel.clone());
        (self.settles, self.pauses) = (Some(now + HAND_AGAIN), None);
        match self.shared.turns.call(move || tunnels.set(&tunnel, &routes)).await {
            Some(Ok(())) => {
                self.shared.counters.routes_handed();
                tracing::info!(
                    service = %self.service,
                    serial = validity.serial,
                    relays = handed.relays.len(),
                    "psmcd has the service's alternate routes"
                );
                (self.handed, self.problem) = (Some(handed), None);
            }
            Some(Err(error)) => {
                self.shared.counters.routes_not_handed();
                self.pauses = Some(now + HAND_AGAIN);
                let error = error.to_string();
                if self.problem.as_ref() != Some(&error) {
                    tracing::warn!(service = %self.service, error, "psmcd rejected the service's routes");
                }
                self.problem = Some(error);
            }
            // The program ends.
            None => {}
        }
    }

    async fn clear(&mut self) {
        let (tunnels, tunnel) = (self.shared.tunnels.clone(), self.tunnel.clone());
        if let Some(Err(error)) = self.shared.turns.call(move || tunnels.clear(&tunnel)).await {
            tracing::info!(service = %self.service, %error, "cannot notify psmcd; it drops the routes when they expire");
        }
    }

    fn situation(&self, reach: Reach) -> Situation {
        let Reach::Known(state) = reach else {
            return Situation { is_reached: false, is_in_trouble: false };
        };
        let has_routes = self.beliefs.best(unix_seconds()).is_some();
        Situation {
            is_reached: state.usable,
            is_in_trouble: !state.direct_well && !state.learned_up && !has_routes,
        }
    }

    /// Tells what counts, where that has changed.
    fn publish(&self, routes: &watch::Sender<Option<RoutesStatus>>) {
        let status = self.beliefs.best(unix_seconds()).map(|set| RoutesStatus {
            serial: set.validity().serial,
            expires_s: set.validity().expires_s,
            of_group: is_sealed(set),
            relays: set.relays().iter().map(|relay| relay.address).collect(),
            handed: self.has(set),
            problem: self.problem.clone(),
        });
        routes.send_if_modified(|before| {
            let is_new = *before != status;
            *before = status;
            is_new
        });
    }
}
