//! The targets of `[[sla.target]]`: what was promised to this site, whether it is kept, and if not, by whom.
//!
//! | module | what it has |
//! |---|---|
//! | `watch` | one target, without clock and I/O |
//! | `way` | one direction of a path: counts and times of witnesses in, who is at fault out |
//! | `probes` | the way to a STAMP reflector |
//! | `alarm` | the coordinators that are told of attacks |
//! | `crossing` | what fills the segments at fault |
//! | `hook` | the program that is told |

mod alarm;
mod crossing;
mod hook;
mod probes;
mod watch;
mod way;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_api::{SlaAggregate, SlaFault, SlaStatus};
use psmc_core::police::Candidate;
use psmc_core::{PeerId, Samples};
use psmc_stamp::{Sender, Target};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::DaemonError;
use super::control::Control;
use super::plane::Plane;
use crate::config::{Measured, Promise};
use alarm::Alarm;
use crossing::{Crossings, Passing, Segment, Suspects};
use hook::{Hook, Told};
use probes::Tally;
use watch::{Carried, Event, Watch};
pub(super) use way::{Estimated, Located};

/// Targets are judged this often: twice for each block of counted datagrams, so that none is told of late.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long an answer of a reflector is waited for. Later ones are of no use to whoever has a limit of delay.
const PATIENCE: Duration = Duration::from_secs(2);

/// A sender that cannot be opened is tried again after this time: its uplink may come.
const RETRY: Duration = Duration::from_secs(5);

/// Paths carry datagrams of their own for so long after it was last said that they shall: longer than until it is said again.
const FILLED_FOR: Duration = Duration::from_secs(1);

/// Tallies that wait to be noted: what sixteen senders at their fastest have in a second. What is more waits at the sender.
const MAX_TALLIES: usize = 1600;

/// All targets.
#[derive(Debug)]
pub(super) struct Slas {
    started: Instant,
    watched: Vec<Watched>,
    next: Option<Instant>,
    crossings: Crossings,
    alarm: Alarm,
    /// Whether the plane keeps samples.
    is_sampling: bool,
    /// Peers of which the plane was told whom to suspect.
    suspected: BTreeSet<PeerId>,
    tallies: mpsc::Receiver<Probed>,
    teller: mpsc::Sender<Probed>,
}

/// What became of a probe of a target.
#[derive(Debug)]
pub(super) struct Probed {
    target: String,
    tally: Tally,
}

/// A target, with what belongs to it.
#[derive(Debug)]
struct Watched {
    watch: Watch,
    hook: Option<Hook>,
    sender: Option<JoinHandle<()>>,
    /// Whether it was told what fills the segments at fault, since the target is broken.
    is_cause_told: bool,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(sender) = &self.sender {
            sender.abort();
        }
    }
}

impl Default for Slas {
    fn default() -> Self {
        let (teller, tallies) = mpsc::channel(MAX_TALLIES);
        let crossings = Crossings::default();
        let (started, watched, alarm) = (Instant::now(), Vec::new(), Alarm::default());
        let suspected = BTreeSet::new();
        Self {
            started,
            watched,
            next: None,
            crossings,
            alarm,
            is_sampling: false,
            suspected,
            tallies,
            teller,
        }
    }
}

impl Slas {
    /// Watches these from now on. What was known of those that have not changed stays.
    pub(super) fn watch(&mut self, promises: &[Promise], site: &str) {
        let mut before = std::mem::take(&mut self.watched);
        for promise in promises {
            let known = before.iter().position(|watched| watched.watch.promise() == promise);
            let watched = match known {
                Some(known) => before.swap_remove(known),
                None => self.begin(promise, site),
            };
            self.watched.push(watched);
        }
        // Once more without targets: what was begun for those before is to be ended.
        self.next = (!self.watched.is_empty() || self.is_sampling).then(Instant::now);
    }

    fn begin(&self, promise: &Promise, site: &str) -> Watched {
        let sender = match &promise.measured {
            Measured::Peer(_) => None,
            Measured::Stamp { reflector, key, uplink, interval } => {
                let target = Target {
                    remote: *reflector,
                    key: key.clone(),
                    interval: *interval,
                    patience: PATIENCE,
                    count: None,
                    interface: uplink.as_ref().map(ToString::to_string),
                    local: None,
                };
                Some(tokio::spawn(send(target, promise.name.to_string(), self.teller.clone())))
            }
        };
        Watched {
            watch: Watch::new(promise.clone(), site),
            hook: promise.on_breach.clone().map(Hook::new),
            sender,
            is_cause_told: false,
        }
    }

    /// When they are to be judged next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// The next probe of which it is known what became of it. May be dropped and called again.
    pub(super) async fn next_tally(&mut self) -> Option<Probed> {
        // This has a sender as long as it lives.
        self.tallies.recv().await
    }

    /// What became of a probe.
    pub(super) fn on_tally(&mut self, Probed { target, tally }: Probed) {
        let now = self.started.elapsed();
        let mut watches = self.watched.iter_mut().map(|watched| &mut watched.watch);
        if let Some(watch) = watches.find(|watch| watch.promise().name.as_str() == target) {
            watch.probed(now, tally);
        }
    }

    /// How all stand.
    pub(super) fn statuses(&self, now: Instant) -> Vec<SlaStatus> {
        let now = now.saturating_duration_since(self.started);
        self.watched.iter().map(|watched| self.status(watched, now)).collect()
    }

    /// What targets are called.
    pub(super) fn names(&self) -> Vec<String> {
        self.watched.iter().map(|watched| watched.watch.promise().name.to_string()).collect()
    }

    /// How a target stands, and all parts of the ways that it is measured on.
    pub(super) fn details(&self, name: &str, now: Instant) -> Option<(SlaStatus, Vec<Located>)> {
        let now = now.saturating_duration_since(self.started);
        let watched = self.watched.iter().find(|watched| watched.watch.promise().name.as_str() == name)?;
        Some((self.status(watched, now), watched.watch.parts(now)))
    }

    fn status(&self, Watched { watch, .. }: &Watched, now: Duration) -> SlaStatus {
        SlaStatus { aggregates: self.crossings.found(&segments_of(watch)), ..watch.status(now) }
    }

    /// Looks at what has crossed the segments that are at fault; `peers` has those of targets, by their places, and their names.
    fn look_at_crossings(&mut self, peers: &[(usize, PeerId, String)], samples: &Samples, now: Duration) {
        let (mut suspects, mut names) = (Suspects::default(), BTreeMap::new());
        for (at, peer, name) in peers {
            let watch = &self.watched[*at].watch;
            for crossed in watch.crossed() {
                let passing = Passing { peer: *peer, path: crossed.path, is_sent: crossed.is_sent };
                let segment = (crossed.from.clone(), crossed.to.clone());
                suspects.add(segment, passing, watch.usual(crossed.is_sent));
                let path = watch.path_name(crossed.path).unwrap_or_default();
                names.insert((*peer, crossed.path), format!("path {path} of {name}"));
            }
        }
        let name = |peer, path| names.get(&(peer, path)).cloned().unwrap_or_default();
        self.crossings.suspect(suspects, now);
        self.crossings.advance(samples, name, now);
    }

    /// What looks like an attack on the segments at fault, by the peers that it is sent to. Each is suspected on behalf of one target.
    fn candidates(&self) -> BTreeMap<PeerId, Vec<Candidate>> {
        let mut candidates: BTreeMap<_, Vec<Candidate>> = BTreeMap::new();
        for Watched { watch, .. } in &self.watched {
            for (peer, sources, destinations) in self.crossings.attacks(&segments_of(watch)) {
                let of_peer = candidates.entry(peer).or_default();
                let is_same =
                    |other: &Candidate| (other.sources, other.destinations) == (sources, destinations);
                if !of_peer.iter().any(is_same) {
                    let told_by = Arc::from(watch.promise().name.as_str());
                    of_peer.push(Candidate { sources, destinations, told_by });
                }
            }
        }
        candidates
    }

    /// The targets of which it has become known what fills the segments at fault.
    fn take_causes(&mut self) -> Vec<usize> {
        let mut known = Vec::new();
        for (at, Watched { watch, is_cause_told, .. }) in self.watched.iter_mut().enumerate() {
            let segments = segments_of(watch);
            *is_cause_told &= !segments.is_empty();
            if !*is_cause_told && self.crossings.is_settled(&segments) {
                *is_cause_told = true;
                known.push(at);
            }
        }
        known
    }
}

/// The segments at fault.
fn segments_of(watch: &Watch) -> BTreeSet<Segment> {
    watch.crossed().iter().map(|crossed| (crossed.from.clone(), crossed.to.clone())).collect()
}

/// Measures the way to a reflector, for ever.
async fn send(target: Target, name: String, teller: mpsc::Sender<Probed>) {
    loop {
        match Sender::open(target.clone()) {
            Ok(mut sender) => {
                while let Some(outcome) = sender.next().await {
                    let tally = Tally::of(&outcome, &sender);
                    if teller.send(Probed { target: name.clone(), tally }).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                let (sla, reflector) = (&name, target.remote);
                tracing::warn!(sla, %reflector, %error, "cannot measure the way to a reflector: is its uplink there?");
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// What the data plane says of a peer.
fn carried(plane: &Plane, peer: PeerId, class: Option<&str>) -> Carried {
    let Some(status) = plane.site.status(peer) else { return Carried::default() };
    let class = class.and_then(|name| status.classes.iter().find(|class| class.name == name));
    let (bytes, waits) = match class {
        Some(class) => (class.counters.passed_bytes, class.queued_packets > 0),
        None => (status.counters.tx_bytes, status.queued_packets > 0),
    };
    let round_trips = status.paths.iter().map(|path| (path.id.0.into(), path.round_trips, path.min_rtt));
    Carried {
        sent: status.counters.tx_bytes,
        bytes,
        received: status.counters.rx_bytes,
        waits,
        round_trips: round_trips.collect(),
    }
}

impl Control {
    /// Watches the targets of the configuration, and tells its coordinators.
    pub(super) fn watch_targets(&mut self) {
        self.slas.alarm.tell(&self.site.sla.coordinators, &self.identity);
        self.slas.watch(&self.site.sla.promises, self.site.name.as_str());
    }

    /// Judges all targets, and tells what is worth telling.
    pub(super) async fn judge_targets(&mut self) -> Result<(), DaemonError> {
        self.slas.next = Some(Instant::now() + INTERVAL);
        let of_peer = |(at, watched): (usize, &Watched)| match &watched.watch.promise().measured {
            Measured::Peer(name) => Some((at, self.peers.find(name.as_str()).ok()?)),
            Measured::Stamp { .. } => None,
        };
        let peers: Vec<_> = self.slas.watched.iter().enumerate().filter_map(of_peer).collect();
        let class = |at: usize| self.slas.watched[at].watch.promise().class.as_ref().map(ToString::to_string);
        let asked: Vec<_> = peers.iter().map(|(at, peer)| (*at, self.peers[*peer].id, class(*at))).collect();
        let ask = move |plane: &mut Plane| {
            let carried = asked.into_iter().map(|(at, id, class)| (at, carried(plane, id, class.as_deref())));
            (carried.collect::<Vec<_>>(), plane.site.take_samples())
        };
        let (carried, samples) = self.plane.call(ask).await?;
        let now = Instant::now();
        for (&(at, peer), (_, carried)) in peers.iter().zip(carried) {
            let peer = &self.peers[peer];
            let watch = &mut self.slas.watched[at].watch;
            let since = now.saturating_duration_since(self.slas.started);
            if watch.wants_witnesses() {
                // Beyond the peers that can be watched at a time nothing is counted, and the target is not known.
                self.witnesses.want(peer.id, now);
            }
            let (site, name) = (self.site.name.as_str(), peer.config.name.as_str());
            watch.carried(since, &carried);
            watch.counted(since, &self.witnesses.status(peer.id, site, name));
        }
        let since = now.saturating_duration_since(self.slas.started);
        for at in 0..self.slas.watched.len() {
            let watch = &mut self.slas.watched[at].watch;
            let lasted = watch.lasted(since);
            if let Some(event) = watch.judge(since) {
                self.tell_of_target(at, event, lasted, since);
            }
        }
        let peers = peers.into_iter().map(|(at, peer)| (at, &self.peers[peer]));
        let peers: Vec<_> = peers.map(|(at, peer)| (at, peer.id, peer.config.name.to_string())).collect();
        self.slas.look_at_crossings(&peers, &samples, since);
        let Slas { alarm, crossings, .. } = &mut self.slas;
        alarm.note(crossings.all(), self.site.name.as_str(), since);
        for at in self.slas.take_causes() {
            self.tell_of_target(at, Event::Cause, Duration::ZERO, since);
        }
        self.fill_paths(&peers, since).await?;
        self.hand_over_candidates().await?;
        self.sample_as_wanted().await
    }

    /// Logs what has happened to a target, and has its program told.
    fn tell_of_target(&mut self, at: usize, event: Event, lasted: Duration, now: Duration) {
        let watched = &self.slas.watched[at];
        self.exporter.hurry(watched.watch.promise().name.as_str());
        let status = self.slas.status(watched, now);
        let text = tell(event, lasted, &status);
        if let Some(hook) = &watched.hook {
            hook.tell(Told { event, site: self.site.name.to_string(), status, text });
        }
    }

    /// Has paths carry datagrams of their own where traffic is too thin to tell how they are.
    async fn fill_paths(&self, peers: &[(usize, PeerId, String)], now: Duration) -> Result<(), DaemonError> {
        let wanted = peers
            .iter()
            .filter_map(|(at, peer, _)| Some((*peer, self.slas.watched[*at].watch.filling(now)?)));
        let mut wanted: Vec<_> = wanted.collect();
        // Of two targets of a peer the one that wants more has the last word.
        wanted.sort_by_key(|(_, interval)| std::cmp::Reverse(*interval));
        if wanted.is_empty() {
            return Ok(());
        }
        let fill = move |plane: &mut Plane| {
            let until = Instant::now() + FILLED_FOR;
            for (peer, interval) in wanted {
                let paths = plane.site.status(peer).map(|status| status.paths).unwrap_or_default();
                for path in paths {
                    if let Some(mut path) = plane.path(peer, path.id) {
                        path.fill_gaps(interval, until);
                    }
                }
            }
        };
        self.plane.post(fill).await
    }

    /// Tells whoever holds flows down which of them are suspected, as long as any are: again and again, for that is forgotten where the
    /// configuration changes.
    async fn hand_over_candidates(&mut self) -> Result<(), DaemonError> {
        let candidates = self.slas.candidates();
        let before = std::mem::replace(&mut self.slas.suspected, candidates.keys().copied().collect());
        if self.site.unresponsive.is_none() || candidates.is_empty() && before.is_empty() {
            return Ok(());
        }
        let over = before.into_iter().filter(|peer| !candidates.contains_key(peer));
        let over: Vec<_> = over.map(|peer| (peer, Vec::new())).collect();
        let suspect = move |plane: &mut Plane| {
            for (peer, candidates) in over.into_iter().chain(candidates) {
                plane.site.suspect(peer, &candidates);
            }
        };
        self.plane.post(suspect).await
    }

    /// Has the plane keep samples while they are wanted.
    async fn sample_as_wanted(&mut self) -> Result<(), DaemonError> {
        let is_wanted = self.slas.crossings.is_counting();
        if is_wanted != self.slas.is_sampling {
            self.slas.is_sampling = is_wanted;
            self.plane.post(move |plane| plane.site.set_sampling(is_wanted)).await?;
        }
        if self.slas.watched.is_empty() {
            self.slas.next = None;
        }
        Ok(())
    }
}

/// Logs an event, and puts it into words.
fn tell(event: Event, lasted: Duration, status: &SlaStatus) -> String {
    let sla = &status.name;
    match event {
        Event::Breach => {
            let broken = status.broken.join(", ");
            let faults: Vec<_> = status.faults.iter().map(in_words).collect();
            let at_fault = faults.iter().chain(&status.untold).cloned().collect::<Vec<_>>().join("; ");
            tracing::warn!(sla, broken, at_fault, "what was promised is not kept");
            format!("{sla}: {broken}; {at_fault}")
        }
        Event::Cause => {
            status.aggregates.iter().for_each(|aggregate| log_aggregate(sla, aggregate));
            let aggregates: Vec<_> = status.aggregates.iter().map(aggregate_in_words).collect();
            let none = || format!("no prefix carries a fifth of what crosses {}", status.measured);
            let aggregates = if aggregates.is_empty() { none() } else { aggregates.join("; ") };
            format!("{sla}: {aggregates}")
        }
        Event::Recovered => {
            let for_s = lasted.as_secs_f64().round();
            tracing::info!(sla, for_s, "what was promised is kept again");
            format!("{sla}: kept again after {for_s} s")
        }
    }
}

fn log_aggregate(sla: &str, aggregate: &SlaAggregate) {
    let SlaAggregate { from, to, prefix, share_pct, rate_mbps, cause, .. } = aggregate;
    let (segment, cause) = (format!("{from} → {to}"), cause.in_words());
    let entries: Vec<_> = aggregate.ingresses.iter().map(|ingress| ingress.name.as_str()).collect();
    let entries = entries.join(", ");
    tracing::warn!(
        sla,
        segment,
        prefix,
        share_pct,
        rate_mbps,
        entries,
        cause,
        "what crosses a segment at fault"
    );
}

/// An aggregate for people.
fn aggregate_in_words(aggregate: &SlaAggregate) -> String {
    let SlaAggregate { from, to, prefix, share_pct, rate_mbps, cause, .. } = aggregate;
    let (cause, entries) = (cause.in_words(), &aggregate.ingresses);
    let entries: Vec<_> =
        entries.iter().map(|ingress| format!("{} ({:.0} %)", ingress.name, ingress.share_pct)).collect();
    let entries = entries.join(", ");
    format!(
        "{prefix} has {share_pct:.0} % of {from} → {to}, {rate_mbps:.1} Mbit/s, enters by {entries}: {cause}"
    )
}

/// A fault for people.
fn in_words(fault: &SlaFault) -> String {
    let SlaFault { path, from, to, what, value, low, high, .. } = fault;
    let unit = if what == "loss" { "%" } else { "ms" };
    let place = if from == to { format!("in {from}") } else { format!("{from} → {to}") };
    let path = path.as_ref().map(|path| format!(" of {path}")).unwrap_or_default();
    format!("{place}{path}: {what} {value:.1} {unit} ({low:.1} to {high:.1})")
}
