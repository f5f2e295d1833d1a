//! What is wanted of which router: classes that the server accepts so much of, divided by what routers are offered. Without clock
//! and I/O; times are since the agent's start.

use std::collections::BTreeMap;
use std::time::Duration;

use psmc_drain::finder::{Config as Bounds, Finder};
use psmc_drain::shedder::{Config as Division, Report, Shedder};
use psmc_drain::{ClassId, NodeId};
use psmc_toml::Name;

use super::sources::Said as FromSource;
use crate::config::{Accept, Basis, Means, Server, bits};
use crate::message::{Count, Decline, Message, Reason, Refusal, Rules, Wanted};
use crate::status::{ClassStatus, ServerStatus, ShareStatus, UpstreamStatus};

/// Rules are said again after this part of their lifetime, so that one message may be lost with its connection.
const RENEW: u32 = 4;

/// A limit is said anew if it differs by more than this part of what was said: less than arrivals are known to.
const MIN_CHANGE: f64 = 0.03;

/// For how long what has arrived says what arrives: it is counted every half second.
const ARRIVALS_LAST: Duration = Duration::from_secs(2);

/// An upstream, by its place among those of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Upstream(pub usize);

/// What comes of a class, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// What is accepted.
    pub accepted: f64,
    /// What arrives here.
    pub arriving: f64,
    /// What routers have dropped of it on the way.
    pub shed: f64,
}

/// A router, as the server knows it.
#[derive(Debug, Default)]
struct Router {
    /// It has said what it has, and may be told what is wanted.
    is_met: bool,
    is_up: bool,
    error: Option<String>,
    /// When it counted last, by its own clock, and what.
    counted: Option<(u64, BTreeMap<String, Count>)>,
    /// What is offered and dropped of each class, in bytes per second.
    rates: BTreeMap<usize, (f64, f64)>,
    enforced: bool,
    said: Option<Said>,
    /// The last message that was taken.
    taken: u64,
    /// How long its rules last there.
    lasts: Option<Duration>,
    refused: Vec<Refusal>,
}

/// What a router was told last.
#[derive(Debug)]
struct Said {
    serial: u64,
    limits: Vec<Option<u64>>,
    at: Duration,
}

/// What arrives here of a class.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    bytes: u64,
    at: Duration,
    rate: Option<f64>,
}

/// What is accepted of a class at present.
#[derive(Clone, Debug)]
struct Acceptance {
    /// Bytes per second.
    rate: u64,
    /// Finds it, where it is measured.
    finder: Option<Finder>,
    /// Why the source says nothing.
    trouble: Option<String>,
    /// Whether the rate is the source's.
    is_known: bool,
}

impl Acceptance {
    fn new(accept: &Accept) -> Self {
        let finder = match &accept.basis {
            Basis::File | Basis::Nft(_) => None,
            Basis::Measured(measured) => {
                let [start, least, most] = [accept.rate, measured.least, measured.most].map(float);
                Some(Finder::new(Bounds::new(start, least, most)))
            }
        };
        Self { rate: accept.rate, finder, trouble: None, is_known: accept.basis == Basis::File }
    }
}

/// The server's side of all routers.
///
/// What is accepted of a class where the file is not what says it comes by [`handle_source`](Self::handle_source).
///
/// Tell it what happens: [`handle_up`](Self::handle_up), [`handle_message`](Self::handle_message),
/// [`handle_down`](Self::handle_down), [`handle_arrivals`](Self::handle_arrivals); then send what
/// [`poll_rules`](Self::poll_rules) says, and say [`handle_unsent`](Self::handle_unsent) of what could not be sent. To poll too often
/// is harmless; twice a second is enough.
#[derive(Debug)]
pub struct Engine {
    config: Server,
    shedder: Shedder,
    /// By the place of the class.
    accepted: Vec<Acceptance>,
    routers: BTreeMap<Upstream, Router>,
    arrivals: BTreeMap<usize, Arrival>,
    limits: BTreeMap<(Upstream, usize), u64>,
}

impl Engine {
    /// Of the server that accepts what its configuration says.
    #[must_use]
    pub fn new(config: Server) -> Self {
        let mut shedder = Shedder::new(Division { lifetime: config.lifetime, ..Division::default() });
        for (number, accept) in config.accepts.iter().enumerate() {
            // A configuration has fewer classes than a shedder, and rates that are some.
            let _ = shedder.accept(class_id(number), float(accept.rate));
        }
        let is_agent = |by: &Means| match by {
            Means::Agent(_) | Means::Relay(_) | Means::Site(_) => true,
            Means::Bgp(_) => false,
        };
        let upstreams = config.upstreams.iter().enumerate().filter(|(_, upstream)| is_agent(&upstream.by));
        let routers = upstreams.map(|(number, _)| (Upstream(number), Router::default())).collect();
        let accepted = config.accepts.iter().map(Acceptance::new).collect();
        Self { shedder, accepted, routers, arrivals: BTreeMap::new(), limits: BTreeMap::new(), config }
    }

    /// What it goes by.
    #[must_use]
    pub fn config(&self) -> &Server {
        &self.config
    }

    /// There is a connection to a router, which says next what it has.
    pub fn handle_up(&mut self, upstream: Upstream) {
        self.routers.insert(upstream, Router { is_up: true, ..Router::default() });
    }

    /// There is none, and why.
    pub fn handle_down(&mut self, upstream: Upstream, reason: String) {
        self.routers.insert(upstream, Router { error: Some(reason), ..Router::default() });
    }

    /// A router says something.
    pub fn handle_message(&mut self, upstream: Upstream, message: &Message, now: Duration) {
        match message {
            Message::Held { rules } => self.handle_held(upstream, rules, now),
            Message::Report { at_ms, enforced, counts } => {
                self.handle_report(upstream, *at_ms, counts, now);
                if let Some(router) = self.routers.get_mut(&upstream) {
                    router.enforced = *enforced;
                }
            }
            Message::Taken { serial, lasts_ms, refused } => {
                let Some(router) = self.routers.get_mut(&upstream) else { return };
                (router.taken, router.error) = (*serial, None);
                router.lasts = Some(Duration::from_millis(*lasts_ms));
                router.refused.clone_from(refused);
            }
            Message::Declined { reason, max_rules, .. } => {
                let Some(router) = self.routers.get_mut(&upstream) else { return };
                router.error = Some(declined(*reason, *max_rules));
            }
            // What only servers say changes nothing.
            Message::Rules(_) | Message::Unknown => {}
        }
    }

    /// The source of a class says this, or why it says nothing. Returns the trouble that is new, or `None` in it if one is over.
    pub fn handle_source(
        &mut self,
        number: usize,
        said: Result<FromSource, String>,
        now: Duration,
    ) -> Option<Option<String>> {
        let (accept, acceptance) = (self.config.accepts.get(number)?, self.accepted.get_mut(number)?);
        let arrival =
            self.arrivals.get(&number).filter(|arrival| now.saturating_sub(arrival.at) <= ARRIVALS_LAST);
        let mut trouble = None;
        match (said, &mut acceptance.finder, arrival.and_then(|arrival| arrival.rate)) {
            (Ok(FromSource::Rate(rate)), _, _) => (acceptance.rate, acceptance.is_known) = (rate, true),
            (Ok(FromSource::Overloaded(is)), Some(finder), Some(arriving)) => {
                finder.handle_sign(is, arriving, now)
            }
            (Ok(FromSource::Overloaded(_)), Some(finder), None) => {
                trouble = Some("it is not known what arrives".to_owned());
                finder.handle_silence(now);
            }
            (Err(error), Some(finder), _) => {
                trouble = Some(error);
                finder.handle_silence(now);
            }
            (Err(error), None, _) => {
                trouble = Some(error);
                (acceptance.rate, acceptance.is_known) = (accept.rate, false);
            }
            // No source of the kind says that.
            (Ok(FromSource::Overloaded(_)), None, _) => {}
        }
        if let Some(finder) = &acceptance.finder {
            (acceptance.rate, acceptance.is_known) = (whole(finder.rate()), finder.is_found());
        }
        // A source says rates that are some.
        let _ = self.shedder.accept(class_id(number), float(acceptance.rate));
        let is_news = acceptance.trouble != trouble;
        acceptance.trouble.clone_from(&trouble);
        is_news.then_some(trouble)
    }

    /// What has arrived here of each class since counting began, in bytes.
    pub fn handle_arrivals(&mut self, counts: &BTreeMap<Name, u64>, now: Duration) {
        for (number, accept) in self.config.accepts.iter().enumerate() {
            let Some(bytes) = counts.get(&accept.name).copied() else { continue };
            let last = self.arrivals.get(&number).copied();
            let mut rate = None;
            if let Some(last) = last
                && bytes >= last.bytes
                && now > last.at
            {
                let (amount, interval) = (float(bytes - last.bytes), now - last.at);
                rate = Some(amount / interval.as_secs_f64());
                // What is refused is counted there.
                let _ = self.shedder.arrived(class_id(number), amount, interval, now);
            }
            self.arrivals.insert(number, Arrival { bytes, at: now, rate });
        }
    }

    /// The rules that routers are to be told: all that is wanted of one, where that has changed or has to be said again.
    pub fn poll_rules(&mut self, serial: u64, unix_ms: u64, now: Duration) -> Vec<(Upstream, Rules)> {
        self.divide(now);
        let lifetime = self.config.lifetime;
        let expires_ms = unix_ms.saturating_add(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX));
        let mut due = Vec::new();
        for (upstream, router) in self.routers.iter_mut().filter(|(_, router)| router.is_met) {
            let limit = |number| self.limits.get(&(*upstream, number)).copied();
            let limits: Vec<_> = (0..self.config.accepts.len()).map(limit).collect();
            let lasts = router.lasts.map_or(lifetime, |lasts| lasts.min(lifetime));
            let is_due = router.said.as_ref().is_none_or(|said| {
                now.saturating_sub(said.at) >= lasts / RENEW || differ(&said.limits, &limits)
            });
            if !is_due {
                continue;
            }
            let accepts = self.config.accepts.iter().zip(&limits);
            let rules = accepts.map(|(accept, limit)| wanted(accept, *limit)).collect();
            router.said = Some(Said { serial, limits, at: now });
            due.push((*upstream, Rules { serial, expires_ms, rules }));
        }
        due
    }

    /// What was polled for a router could not be sent.
    pub fn handle_unsent(&mut self, upstream: Upstream) {
        if let Some(router) = self.routers.get_mut(&upstream) {
            router.said = None;
        }
    }

    /// What comes of each class, for those who announce rules to the whole network.
    #[must_use]
    pub fn demand(&self) -> Vec<Demand> {
        let demand = |(number, accept): (usize, &Accept)| {
            let arrival = self.arrivals.get(&number).and_then(|arrival| arrival.rate);
            let shed = self.routers.values().filter_map(|router| router.rates.get(&number));
            Demand {
                accepted: float(self.accepted_of(number, accept)),
                arriving: arrival.unwrap_or(0.0),
                shed: shed.map(|(_, dropped)| dropped).sum(),
            }
        };
        self.config.accepts.iter().enumerate().map(demand).collect()
    }

    /// How it is.
    #[must_use]
    pub fn status(&self, now: Duration) -> ServerStatus {
        let classes = self.config.accepts.iter().enumerate();
        let upstreams = self.config.upstreams.iter().enumerate();
        ServerStatus {
            classes: classes.map(|(number, accept)| self.class_status(number, accept, now)).collect(),
            upstreams: upstreams.map(|(number, _)| self.upstream_status(Upstream(number))).collect(),
            refused_reports: self.shedder.refused().values().sum(),
        }
    }

    /// A router has rules of an agent that was there before: it goes on from there, so that a restart lets no flood pass.
    fn handle_held(&mut self, upstream: Upstream, rules: &[Wanted], now: Duration) {
        let Some(router) = self.routers.get_mut(&upstream) else { return };
        router.is_met = true;
        for held in rules {
            let same = |accept: &Accept| is_same(held, &wanted(accept, None));
            let number = self.config.accepts.iter().position(same);
            if let (Some(number), Some(rate)) = (number, held.rate) {
                // What is refused is counted there.
                let _ = self.shedder.adopt(node_id(upstream), class_id(number), float(rate), now);
            }
        }
    }

    fn handle_report(&mut self, upstream: Upstream, at_ms: u64, counts: &[Count], now: Duration) {
        let Some(router) = self.routers.get_mut(&upstream) else { return };
        let new: BTreeMap<String, Count> =
            counts.iter().map(|count| (count.name.clone(), count.clone())).collect();
        let Some((last_ms, last)) = router.counted.replace((at_ms, new)) else { return };
        let Some(elapsed) = at_ms.checked_sub(last_ms).filter(|elapsed| *elapsed > 0) else { return };
        let interval = Duration::from_millis(elapsed);
        router.rates.clear();
        for (number, accept) in self.config.accepts.iter().enumerate() {
            let of = |counts: &&Count| counts.name == accept.name.as_str();
            let Some(count) = counts.iter().find(of) else { continue };
            // A rule that the router has made anew counts from zero.
            let old = last.get(&count.name).filter(|old| old.offered <= count.offered);
            let offered = count.offered - old.map_or(0, |old| old.offered);
            let dropped = count.dropped.saturating_sub(old.map_or(0, |old| old.dropped)).min(offered);
            let report =
                Report { until: now, interval, offered: float(offered), passed: float(offered - dropped) };
            let per_second = |bytes| float(bytes) / interval.as_secs_f64();
            router.rates.insert(number, (per_second(offered), per_second(dropped)));
            // What is refused is counted there.
            let _ = self.shedder.report(node_id(upstream), class_id(number), report, now);
        }
    }

    fn divide(&mut self, now: Duration) {
        let rules = self.shedder.rules(now);
        self.limits.clear();
        for rule in rules {
            let (Ok(upstream), Ok(class)) = (usize::try_from(rule.node.0), usize::try_from(rule.class.0))
            else {
                continue;
            };
            self.limits.insert((Upstream(upstream), class), whole(rule.rate));
        }
    }

    fn accepted_of(&self, number: usize, accept: &Accept) -> u64 {
        self.accepted.get(number).map_or(accept.rate, |acceptance| acceptance.rate)
    }

    fn class_status(&self, number: usize, accept: &Accept, now: Duration) -> ClassStatus {
        let offered = self.shedder.offered(class_id(number), now).unwrap_or(0.0);
        let rates = self.routers.values().filter_map(|router| router.rates.get(&number));
        let (all, dropped) =
            rates.fold((0.0, 0.0), |(all, shed), (offered, dropped)| (all + offered, shed + dropped));
        ClassStatus {
            name: accept.name.to_string(),
            class: accept.class.to_string(),
            accepted_bytes_per_s: float(self.accepted_of(number, accept)),
            accepted_by: self.accepted_by(number, accept),
            trouble: self.accepted.get(number).and_then(|acceptance| acceptance.trouble.clone()),
            offered_bytes_per_s: offered,
            passed_bytes_per_s: all - dropped,
            arriving_bytes_per_s: self.arrivals.get(&number).and_then(|arrival| arrival.rate),
            upstreams: self
                .routers
                .iter()
                .map(|(upstream, router)| self.share(number, *upstream, router, accept))
                .collect(),
        }
    }

    fn accepted_by(&self, number: usize, accept: &Accept) -> String {
        let is_known = self.accepted.get(number).is_none_or(|acceptance| acceptance.is_known);
        if is_known { accept.basis.to_string() } else { format!("the file, for want of {}", accept.basis) }
    }

    fn share(&self, number: usize, upstream: Upstream, router: &Router, accept: &Accept) -> ShareStatus {
        let limit = self.limits.get(&(upstream, number)).copied();
        let offered = router.rates.get(&number).map(|(offered, _)| *offered);
        let refusal = router.refused.iter().find(|refusal| refusal.name == accept.name.as_str());
        let reason = if let Some(refusal) = refusal {
            format!("the router refuses the rule: {}", refused(refusal.reason))
        } else if let Some(error) = &router.error {
            format!("the router has no rule: {error}")
        } else if let Some(limit) = limit {
            let offered = whole(offered.unwrap_or(0.0));
            format!(
                "more is offered than the {} that are accepted; of the {} offered here, {} may pass, the max-min fair share",
                bits(self.accepted_of(number, accept)),
                bits(offered),
                bits(limit)
            )
        } else {
            "no limit: no more is offered than is accepted; arrivals are counted".to_owned()
        };
        ShareStatus {
            upstream: self.name(upstream),
            limit_bytes_per_s: limit,
            offered_bytes_per_s: offered,
            reason,
        }
    }

    fn upstream_status(&self, upstream: Upstream) -> UpstreamStatus {
        let by = self.config.upstreams.get(upstream.0).map(|upstream| upstream.by.to_string());
        let mut status = UpstreamStatus {
            name: self.name(upstream),
            by: by.unwrap_or_default(),
            current: false,
            enforced: false,
            rules: 0,
            refused: Vec::new(),
            found: None,
            error: None,
        };
        let Some(router) = self.routers.get(&upstream) else { return status };
        status.rules = self.config.accepts.len();
        status.current = router.said.as_ref().is_some_and(|said| said.serial == router.taken);
        status.enforced = router.enforced;
        let refusals = router.refused.iter();
        status.refused =
            refusals.map(|refusal| format!("{}: {}", refusal.name, refused(refusal.reason))).collect();
        status.error =
            router.error.clone().or_else(|| (!router.is_up).then(|| "not connected yet".to_owned()));
        status
    }

    fn name(&self, upstream: Upstream) -> String {
        self.config.upstreams.get(upstream.0).map_or_else(String::new, |upstream| upstream.name.to_string())
    }
}

/// The rule for a class.
pub(super) fn wanted(accept: &Accept, rate: Option<u64>) -> Wanted {
    Wanted {
        name: accept.name.to_string(),
        destination: accept.class.destination().to_string(),
        source: accept.class.source().map(|source| source.to_string()),
        protocol: accept.class.protocol().map(|protocol| protocol.0),
        ports: accept.class.ports().map(|ports| (ports.first(), ports.last())),
        rate,
    }
}

/// Whether two rules are about the same packets.
fn is_same(a: &Wanted, b: &Wanted) -> bool {
    (&a.destination, &a.source, a.protocol, a.ports) == (&b.destination, &b.source, b.protocol, b.ports)
}

/// Whether what is wanted is worth saying.
fn differ(said: &[Option<u64>], wanted: &[Option<u64>]) -> bool {
    let differs = |(said, wanted): (&Option<u64>, &Option<u64>)| match (said, wanted) {
        (None, None) => false,
        (Some(said), Some(wanted)) => float(said.abs_diff(*wanted)) > MIN_CHANGE * float(*said),
        (Some(_), None) | (None, Some(_)) => true,
    };
    said.len() != wanted.len() || said.iter().zip(wanted).any(differs)
}

fn refused(reason: Reason) -> &'static str {
    match reason {
        Reason::Foreign => "the destination is not among this server's `prefixes` there",
        Reason::Contradictory => "it contradicts another one",
        Reason::Illegal => "it is no rule there",
        Reason::Other => "for a reason that this version does not know",
    }
}

fn declined(reason: Decline, max_rules: usize) -> String {
    match reason {
        Decline::Replayed => {
            "it has later rules: does another agent run with the same key, or has the clock gone back?"
                .to_owned()
        }
        Decline::Expired => {
            "the rules had ended when they came: do the clocks of both machines agree?".to_owned()
        }
        Decline::TooMany => {
            format!("it takes {max_rules} rules of this server: raise `max_rules` there, or join classes")
        }
        Decline::Other => "it declines, for a reason that this version does not know".to_owned(),
    }
}

fn class_id(number: usize) -> ClassId {
    ClassId(u32::try_from(number).unwrap_or(u32::MAX))
}

fn node_id(Upstream(number): Upstream) -> NodeId {
    NodeId(u32::try_from(number).unwrap_or(u32::MAX))
}

#[expect(clippy::cast_precision_loss, reason = "rates are not told to sixteen digits")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

/// Whole bytes per second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of this kind saturates")]
pub(crate) fn whole(rate: f64) -> u64 {
    rate as u64
}
