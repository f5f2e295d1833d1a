//! The targets of `[[sla.target]]`: what was promised to this site, whether it is kept, and if not, by whom.
//!
//! | module | what it has |
//! |---|---|
//! | `watch` | one target, without clock and I/O |
//! | `way` | one direction of a path: counts and times of witnesses in, who is at fault out |
//! | `probes` | the way to a STAMP reflector |
//! | `hook` | the program that is told |

mod hook;
mod probes;
mod watch;
mod way;

use std::time::{Duration, Instant};

use psmc_api::{SlaFault, SlaStatus};
use psmc_core::PeerId;
use psmc_stamp::{Sender, Target};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::DaemonError;
use super::control::Control;
use super::plane::Plane;
use crate::config::{Measured, Promise};
use hook::{Hook, Told};
use probes::Tally;
use watch::{Carried, Event, Watch};

/// Targets are judged this often: twice for each block of counted datagrams, so that none is told of late.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long an answer of a reflector is waited for. Later ones are of no use to whoever has a limit of delay.
const PATIENCE: Duration = Duration::from_secs(2);

/// A sender that cannot be opened is tried again after this time: its uplink may come.
const RETRY: Duration = Duration::from_secs(5);

/// Tallies that wait to be noted: what sixteen senders at their fastest have in a second. What is more waits at the sender.
const MAX_TALLIES: usize = 1600;

/// All targets.
#[derive(Debug)]
pub(super) struct Slas {
    started: Instant,
    watched: Vec<Watched>,
    next: Option<Instant>,
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
        Self { started: Instant::now(), watched: Vec::new(), next: None, tallies, teller }
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
        self.next = (!self.watched.is_empty()).then(Instant::now);
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
        self.watched.iter().map(|watched| watched.watch.status(now)).collect()
    }
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
fn carried(plane: &Plane, peer: PeerId) -> Carried {
    let Some(status) = plane.site.status(peer) else { return Carried::default() };
    let round_trips = status.paths.iter().map(|path| (path.id.0.into(), path.round_trips, path.min_rtt));
    Carried {
        bytes: status.counters.tx_bytes,
        waits: status.queued_packets > 0,
        round_trips: round_trips.collect(),
    }
}

impl Control {
    /// Watches the targets of the configuration.
    pub(super) fn watch_targets(&mut self) {
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
        let asked: Vec<_> = peers.iter().map(|(at, peer)| (*at, self.peers[*peer].id)).collect();
        let ask = move |plane: &mut Plane| {
            asked.into_iter().map(|(at, id)| (at, carried(plane, id))).collect::<Vec<_>>()
        };
        let carried = self.plane.call(ask).await?;
        let now = Instant::now();
        for ((at, peer), (_, carried)) in peers.into_iter().zip(carried) {
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
        for Watched { watch, hook, .. } in &mut self.slas.watched {
            let lasted = watch.lasted(since);
            let Some(event) = watch.judge(since) else { continue };
            let status = watch.status(since);
            let text = tell(event, lasted, &status);
            if let Some(hook) = hook {
                hook.tell(Told { event, site: self.site.name.to_string(), status, text });
            }
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
        Event::Recovered => {
            let for_s = lasted.as_secs_f64().round();
            tracing::info!(sla, for_s, "what was promised is kept again");
            format!("{sla}: kept again after {for_s} s")
        }
    }
}

/// A fault for people.
fn in_words(fault: &SlaFault) -> String {
    let SlaFault { path, from, to, what, value, low, high, .. } = fault;
    let unit = if what == "loss" { "%" } else { "ms" };
    let place = if from == to { format!("in {from}") } else { format!("{from} → {to}") };
    let path = path.as_ref().map(|path| format!(" of {path}")).unwrap_or_default();
    format!("{place}{path}: {what} {value:.1} {unit} ({low:.1} to {high:.1})")
}
