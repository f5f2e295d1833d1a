//! One target: what is observed goes in, how it stands and who is at fault comes out. Without clock and I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use psmc_api::{PathSegments, SlaState, SlaStatus};
use psmc_core::RoundTrips;
use psmc_tomography::Unknown;
use psmc_tomography::seed::{Finding as SeedFinding, Poller, Stage, Thresholds};
use psmc_tomography::sla::{Monitor, Part, State, Target};
use psmc_tomography::survey::Usual;

use super::probes::{Probes, Tally};
use super::way::{Crossed, Finding, Located, Lost, Question, Way};
use crate::config::{Measured, Method, Promise};

/// Blocks of datagrams that are counted in a second.
const BLOCKS_PER_SECOND: f64 = 2.0;

/// A breach of delay is seen at this site before those on the way have told when packets passed them: they are asked five times in a
/// second and need a round trip for it. Whoever is told of the breach is told of the segment, too, unless it takes longer.
const TELLING: Duration = Duration::from_millis(1500);

/// How long it is looked closer after something was lost or late: some blocks of counted datagrams.
const SUSPICION: Duration = Duration::from_secs(3);

/// From one datagram to the next while something is suspected: five lost of a hundred show in as many as half a second has.
const SUSPECTED_INTERVAL: Duration = Duration::from_millis(5);

/// Datagrams in a window that are enough, twice as many as it takes: no path is known by fewer.
const ENOUGH: u32 = 40;

/// In a long window probes are no rarer than this: what begins is to be known before it is history.
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// Watches a target. Tell it what was observed, then [`judge`](Self::judge). Times are since psmcd began to watch.
#[derive(Debug)]
pub(super) struct Watch {
    promise: Promise,
    /// What this site sends, and the delay and throughput; to a reflector all that there is.
    to: Monitor,
    /// What it is sent, of which only the loss is watched here.
    from: Monitor,
    seed: Option<Poller>,
    /// This site's name.
    site: String,
    /// When it last looked as if something was not as it should be.
    suspected: Option<Duration>,
    /// What is sent, and what comes, while all is well.
    usual: [Usual; 2],
    /// Each path's directions, by its id.
    ways: BTreeMap<u32, Path>,
    probes: Option<Probes>,
    state: SlaState,
    since: Duration,
    breaches: u64,
    /// Since when there is a breach that nobody was told of.
    untold: Option<Duration>,
    broken: Vec<String>,
    finding: Finding,
    last_bytes: Option<(u64, Duration)>,
}

/// A path to a peer.
#[derive(Debug)]
struct Path {
    /// Its name, once it is counted on it.
    name: String,
    to: Way,
    from: Way,
    /// How often passages of either direction were told of, and since when no more were.
    passages: [(u64, Duration); 2],
    /// Samples of its round trip that were looked at.
    samples: u64,
    least_rtt: Option<Duration>,
}

/// What the data plane says of a peer.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    /// Inner bytes that were sent to it.
    pub(super) sent: u64,
    /// Those of the class of which throughput was promised.
    pub(super) bytes: u64,
    /// Inner bytes that have come from it.
    pub(super) received: u64,
    /// Whether packets of that class wait for a path.
    pub(super) waits: bool,
    /// By path id: the newest samples of the round trip, and the least of the last seconds.
    pub(super) round_trips: Vec<(u32, RoundTrips, Option<Duration>)>,
}

/// How a target has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It is broken.
    Breach,
    /// What fills the segments at fault is known. Once for each breach.
    Cause,
    /// It is met after it was broken.
    Recovered,
}

impl Event {
    /// As programs are told.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Breach => "breach",
            Self::Cause => "cause",
            Self::Recovered => "recovered",
        }
    }
}

impl Watch {
    /// One of a target of a site that has observed nothing.
    pub(super) fn new(promise: Promise, site: &str) -> Self {
        let share = promise.delay.map(|delay| f64::from(delay.percentile) / 100.0);
        let limit = promise.delay.map(|delay| micros(delay.most));
        let throughput = promise.throughput.map(|rate| rate.bits_per_second() as f64);
        let loss = promise.may_be_lost();
        let target = Target { delay: share.zip(limit), loss, throughput, window: promise.window };
        let seed = (promise.method == Method::Seed).then(|| {
            Poller::new(Thresholds {
                delay: f64::from(limit.unwrap_or(u32::MAX)),
                loss: loss.unwrap_or(1.0),
                bandwidth: throughput.unwrap_or(f64::INFINITY),
            })
        });
        let probes = match &promise.measured {
            Measured::Peer(_) => None,
            Measured::Stamp { reflector, interval, .. } => {
                Some(Probes::new(blocks_of(&promise), *interval, site, &reflector.to_string()))
            }
        };
        Self {
            to: Monitor::new(target),
            from: Monitor::new(Target { loss, ..Target::of_window(promise.window) }),
            promise,
            seed,
            site: site.to_owned(),
            suspected: None,
            usual: Default::default(),
            ways: BTreeMap::new(),
            probes,
            state: SlaState::Unknown,
            since: Duration::ZERO,
            breaches: 0,
            untold: None,
            broken: Vec::new(),
            finding: Finding::default(),
            last_bytes: None,
        }
    }

    /// What it watches.
    pub(super) fn promise(&self) -> &Promise {
        &self.promise
    }

    /// Whether relays and peer are to be asked what they count.
    pub(super) fn wants_witnesses(&self) -> bool {
        self.seed.as_ref().is_none_or(|seed| seed.stage() != Stage::Delay)
    }

    /// In which time each path is to carry a datagram at least, to tell how it is: thin traffic tells it too late, or never.
    pub(super) fn filling(&self, now: Duration) -> Option<Duration> {
        // What is broken is known: it takes only as much as to learn that it is not any more.
        let is_open = self.state != SlaState::Broken;
        let is_suspected = self.suspected.is_some_and(|at| now.saturating_sub(at) < SUSPICION);
        if self.probes.is_some() || self.promise.loss_ppm.is_none() && self.promise.delay.is_none() {
            return None;
        }
        match (is_suspected && is_open, self.promise.probe) {
            (true, _) => Some(SUSPECTED_INTERVAL),
            (false, true) => Some((self.promise.window / ENOUGH).min(LONGEST_INTERVAL)),
            (false, false) => None,
        }
    }

    /// The data plane has told.
    pub(super) fn carried(&mut self, now: Duration, carried: &Carried) {
        let blocks = blocks_of(&self.promise);
        self.ways.retain(|id, _| carried.round_trips.iter().any(|(path, ..)| path == id));
        for (id, recent, least) in &carried.round_trips {
            let path = self.ways.entry(*id).or_insert_with(|| Path::new(blocks));
            path.least_rtt = least.or(path.least_rtt);
            let mut latest = None;
            // A path that begins anew counts from the beginning.
            let known = if recent.taken() < path.samples { 0 } else { path.samples };
            for sample in recent.since(known) {
                self.to.delay(now, sample);
                if self.promise.delay.is_some_and(|limit| sample > micros(limit.most)) {
                    self.suspected = Some(now);
                }
                latest = Some(sample);
            }
            path.samples = recent.taken();
            if let Some((seed, sample)) = self.seed.as_mut().zip(latest) {
                seed.delay(f64::from(sample));
            }
        }
        for (usual, bytes) in self.usual.iter_mut().zip([carried.sent, carried.received]) {
            if self.state == SlaState::Broken { usual.pause() } else { usual.note(now, bytes) }
        }
        let Some((before, then)) = self.last_bytes.replace((carried.bytes, now)) else { return };
        // A peer that was removed and added again counts from the beginning.
        let sent = carried.bytes.saturating_sub(before);
        let limit = self.promise.throughput.map_or(0, |rate| rate.bits_per_second() / 8);
        let asked = limit as f64 * now.saturating_sub(then).as_secs_f64();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of a moment")]
        let offered = if carried.waits { sent.max(asked.ceil() as u64) } else { sent };
        self.to.bytes(now, offered, sent);
    }

    /// Relays and peer have told, or have not yet, of these paths.
    pub(super) fn counted(&mut self, now: Duration, paths: &[PathSegments]) {
        let (mut to, mut from) = (Lost::default(), Lost::default());
        let blocks = blocks_of(&self.promise);
        for status in paths {
            let path = self.ways.entry(status.id).or_insert_with(|| Path::new(blocks));
            path.name.clone_from(&status.path);
            to = to.and(path.to.update(&status.to_peer));
            from = from.and(path.from.update(&status.from_peer));
            for (way, (passages, since)) in [&path.to, &path.from].into_iter().zip(&mut path.passages) {
                if way.passages() != *passages {
                    (*passages, *since) = (way.passages(), now);
                }
            }
        }
        self.to.packets(now, to.sent, to.lost);
        self.from.packets(now, from.sent, from.lost);
        if to.and(from).lost > 0 {
            self.suspected = Some(now);
        }
        if let Some(seed) = self.seed.as_mut().filter(|_| to.sent > 0) {
            seed.loss(to.lost as f64 / to.sent as f64);
        }
    }

    /// What became of probes.
    pub(super) fn probed(&mut self, now: Duration, tally: Tally) {
        let Some(probes) = &mut self.probes else { return };
        match tally.round_trip {
            Some(round_trip) => {
                self.to.delay(now, micros(round_trip));
                self.to.packets(now, 1, 0);
            }
            None if tally.error.is_none() => self.to.packets(now, 1, 1),
            None => {}
        }
        probes.note(tally);
    }

    /// Looks how it stands; says what is worth telling. Some four times in a second.
    pub(super) fn judge(&mut self, now: Duration) -> Option<Event> {
        if let Some(probes) = &mut self.probes {
            probes.close_block();
        }
        self.to.judge(now);
        self.from.judge(now);
        let broken = self.broken_parts();
        let next = self.next_state(&broken);
        if next == SlaState::Broken {
            let finding = self.find(now);
            // What has been found stays while it gets better.
            if self.state != SlaState::Broken || !finding.faults.is_empty() {
                self.finding = finding;
            }
            self.broken = broken;
        }
        let event = match (self.state, next) {
            (SlaState::Unknown | SlaState::Met, SlaState::Broken) => {
                self.breaches += 1;
                self.untold = Some(now);
                None
            }
            (SlaState::Broken, SlaState::Met) => Some(Event::Recovered),
            (SlaState::Broken, SlaState::Broken | SlaState::Unknown)
            | (SlaState::Unknown | SlaState::Met, SlaState::Unknown | SlaState::Met) => None,
        };
        if next != self.state {
            (self.state, self.since) = (next, now);
        }
        if next != SlaState::Broken {
            (self.finding, self.broken) = (Finding::default(), Vec::new());
        }
        if self.is_to_be_told(now) {
            self.untold = None;
            return Some(Event::Breach);
        }
        event
    }

    /// Whether somebody is to be told of a breach now. It is over only after a whole window, when it was told long ago.
    fn is_to_be_told(&self, now: Duration) -> bool {
        let Some(since) = self.untold else { return false };
        let waits = self.broken == ["delay"] && self.finding.faults.is_empty();
        !waits || now.saturating_sub(since) >= TELLING.min(self.promise.window / 2)
    }

    fn next_state(&self, broken: &[String]) -> SlaState {
        if let Some(seed) = &self.seed {
            let limit =
                if self.promise.loss_ppm.is_some() { SeedFinding::Violation } else { SeedFinding::Abnormal };
            return if seed.finding() >= limit { SlaState::Broken } else { SlaState::Met };
        }
        let is_met = [self.to.state(), self.from.state()].contains(&State::Met);
        match (broken.is_empty(), is_met) {
            (false, _) => SlaState::Broken,
            (true, true) => SlaState::Met,
            (true, false) => SlaState::Unknown,
        }
    }

    fn broken_parts(&self) -> Vec<String> {
        if let Some(seed) = &self.seed {
            let parts = [(SeedFinding::Abnormal, "delay"), (SeedFinding::Violation, "loss")];
            let parts = parts.into_iter().filter(|(finding, _)| seed.finding() >= *finding);
            return parts.map(|(_, part)| part.to_owned()).collect();
        }
        let other = match &self.promise.measured {
            Measured::Peer(name) => name.as_str(),
            Measured::Stamp { .. } => "the reflector and back",
        };
        let part = |state, way| match state {
            State::Broken(Part::Delay) => Some("delay".to_owned()),
            State::Broken(Part::Loss) => Some(format!("loss {way} {other}")),
            State::Broken(Part::Throughput) => Some("throughput".to_owned()),
            State::Unknown(_) | State::Met => None,
        };
        part(self.to.state(), "to").into_iter().chain(part(self.from.state(), "from")).collect()
    }

    /// How long it has stood as it does.
    pub(super) fn lasted(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }

    /// The paths that lead over what is at fault, while the target is broken.
    pub(super) fn crossed(&self) -> &[Crossed] {
        &self.finding.crossed
    }

    /// What a path is called; `None` before anything was counted on it.
    pub(super) fn path_name(&self, id: u32) -> Option<&str> {
        self.ways.get(&id).map(|path| path.name.as_str()).filter(|name| !name.is_empty())
    }

    /// What was sent while all was well, or what came, in bit/s.
    pub(super) fn usual(&self, is_sent: bool) -> Option<f64> {
        self.usual[usize::from(!is_sent)].get()
    }

    /// Looks for who is at fault.
    fn find(&self, now: Duration) -> Finding {
        let mut finding = Finding::default();
        let is_seed = self.seed.is_some();
        for (state, is_to) in [(self.to.state(), true), (self.from.state(), false)] {
            match state {
                _ if is_seed && is_to => {
                    self.find_delay(now, &mut finding);
                    self.find_loss(is_to, &mut finding);
                }
                State::Broken(Part::Loss) => self.find_loss(is_to, &mut finding),
                State::Broken(Part::Delay) => self.find_delay(now, &mut finding),
                State::Broken(Part::Throughput) => finding
                    .untold
                    .push("throughput is that of all paths together: no segment of one is named".to_owned()),
                State::Unknown(_) | State::Met => {}
            }
        }
        if finding.faults.is_empty() && finding.untold.is_empty() {
            finding.untold.push("cannot be told: no segment alone breaks what was promised".to_owned());
        }
        finding.faults.sort_by(|a, b| b.sure_pct.total_cmp(&a.sure_pct));
        if finding.crossed.is_empty() {
            finding.crossed = self.whole_way();
        }
        finding
    }

    /// All paths, from end to end, in the directions that are broken: where no segment is named.
    fn whole_way(&self) -> Vec<Crossed> {
        let Measured::Peer(peer) = &self.promise.measured else { return Vec::new() };
        let is_broken = |monitor: &Monitor| matches!(monitor.state(), State::Broken(_));
        let is_from = is_broken(&self.from) && !is_broken(&self.to);
        let ends = [self.site.clone(), peer.to_string()];
        let [from, to] = if is_from { [ends[1].clone(), ends[0].clone()] } else { ends };
        let crossed = |&path: &u32| Crossed { from: from.clone(), to: to.clone(), path, is_sent: !is_from };
        self.ways.keys().map(crossed).collect()
    }

    /// Looks at a direction of a path, and notes what it crosses.
    fn look(&self, id: u32, is_sent: bool, question: Question, finding: &mut Finding) {
        let Some(path) = self.ways.get(&id) else { return };
        let before = finding.faults.len();
        let way = if is_sent { &path.to } else { &path.from };
        way.find(Some(&path.name), question, finding);
        let faults = finding.faults[before..].iter();
        let crossed = faults.map(|fault| (fault.from.clone(), fault.to.clone()));
        let crossed = crossed.map(|(from, to)| Crossed { from, to, path: id, is_sent });
        finding.crossed.extend(crossed);
    }

    fn find_loss(&self, is_to: bool, finding: &mut Finding) {
        let Some(share) = self.promise.may_be_lost() else { return };
        if let Some(probes) = &self.probes {
            probes.find(Question::Loss(share), finding);
        }
        for &id in self.ways.keys() {
            self.look(id, is_to, Question::Loss(share), finding);
        }
    }

    /// Which segments take more than half of what the limit leaves above the least round trip: two of them may be at fault at once.
    fn find_delay(&self, now: Duration, finding: &mut Finding) {
        let Some((limit, share)) = self.promise.delay.zip(self.promise.may_be_late()) else { return };
        let within = self.promise.window;
        let question = |least: Duration| Question::Delay {
            share,
            limit_us: micros(limit.most.saturating_sub(least) / 2).max(1),
            within,
        };
        let too_far = "cannot be told: the way was never faster than the limit since it is watched";
        if let Some(probes) = &self.probes {
            match probes.least_round_trip().filter(|least| *least < limit.most) {
                Some(least) => probes.find(question(least), finding),
                None => finding.untold.push(too_far.to_owned()),
            }
        }
        for (&id, path) in &self.ways {
            let Some(least) = path.least_rtt else { continue };
            if least >= limit.most {
                finding.untold.push(format!("path {}: {too_far}", path.name));
                continue;
            }
            for (is_sent, (_, since)) in [true, false].into_iter().zip(&path.passages) {
                // What was seen before a path fell silent says nothing of now.
                if now.saturating_sub(*since) <= within {
                    self.look(id, is_sent, question(least), finding);
                }
            }
        }
    }

    /// All parts of all paths, or of the way to the reflector, as they were in the window.
    pub(super) fn parts(&self, now: Duration) -> Vec<Located> {
        let within = self.promise.window;
        let mut parts = Vec::new();
        for path in self.ways.values() {
            for (way, is_sent, (_, since)) in
                [(&path.to, true, path.passages[0]), (&path.from, false, path.passages[1])]
            {
                // What was seen before a path fell silent says nothing of now.
                let is_old = now.saturating_sub(since) > within;
                parts.extend(way.parts(within).into_iter().map(|mut part| {
                    part.delay_us = part.delay_us.filter(|_| !is_old);
                    Located { path: path.name.clone(), is_sent, part }
                }));
            }
        }
        let probed = self.probes.iter().flat_map(|probes| probes.parts(within));
        parts.extend(probed.map(|part| Located { path: String::new(), is_sent: true, part }));
        parts
    }

    /// For people and programs.
    pub(super) fn status(&self, now: Duration) -> SlaStatus {
        let measured = self.to.clone().measured(now);
        let back = self.from.clone().measured(now);
        let percent = |share: Option<f64>| share.map(|share| share * 100.0);
        SlaStatus {
            name: self.promise.name.to_string(),
            measured: self.promise.measured.to_string(),
            limits: self.promise.limits().to_string(),
            state: self.state,
            since_s: self.lasted(now).as_secs_f64(),
            breaches: self.breaches,
            why: (self.state == SlaState::Unknown).then(|| self.why()),
            broken: self.broken.clone(),
            round_trip_ms: measured.delay.map(|us| f64::from(us) / 1e3),
            loss_to_pct: percent(measured.loss),
            loss_from_pct: percent(back.loss),
            throughput_mbps: measured.throughput.map(|bits| bits / 1e6),
            faults: self.finding.faults.clone(),
            untold: self.finding.untold.clone(),
            usual_to_mbps: self.usual(true).map(|bits| bits / 1e6),
            usual_from_mbps: self.usual(false).map(|bits| bits / 1e6),
            aggregates: Vec::new(),
            clocks: self.clocks(),
        }
    }

    /// Why nothing is known.
    fn why(&self) -> String {
        if let Some(error) = self.probes.as_ref().and_then(Probes::error) {
            return format!("probes cannot be sent: {error}");
        }
        if self.probes.is_none() && !self.ways.values().any(|path| path.to.is_known()) {
            return "no path to the peer counts: it is not connected, or its version does not count"
                .to_owned();
        }
        match self.to.state() {
            State::Unknown(Unknown::TooFew { have, .. }) => {
                format!(
                    "too little traffic: {have} packets of the window were counted or timed, and it takes 20"
                )
            }
            State::Unknown(unknown) => unknown.to_string(),
            State::Met | State::Broken(_) => "too little traffic".to_owned(),
        }
    }

    fn clocks(&self) -> String {
        if let Some(probes) = &self.probes {
            return probes.clocks();
        }
        let set: u64 = self.ways.values().map(|path| path.to.clocks_set() + path.from.clocks_set()).sum();
        let set = if set > 0 { format!("; a clock was set {set} times") } else { String::new() };
        format!("not compared: delay is the round trip, and what segments add to their least delay{set}")
    }
}

impl Path {
    fn new(blocks: usize) -> Self {
        Self {
            name: String::new(),
            to: Way::new(blocks),
            from: Way::new(blocks),
            passages: Default::default(),
            samples: 0,
            least_rtt: None,
        }
    }
}

/// Blocks in a target's window.
fn blocks_of(promise: &Promise) -> usize {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a window has some hundred blocks"
    )]
    let blocks = (promise.window.as_secs_f64() * BLOCKS_PER_SECOND).ceil() as usize;
    blocks.max(1)
}

pub(super) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
