//! Flow records for a collector, by IPFIX (RFC 7011) over UDP.
//!
//! | module | what it has |
//! |---|---|
//! | `elements` | what a record has, template by template |
//! | `encoder` | records in, messages out, without clock and I/O |
//! | `collector` | the socket, and what is the matter with it |
//! | `paths` | what paths have carried since they were last told |
//! | `targets` | how targets stand, and the segments that they are measured on |

mod collector;
pub mod elements;
mod encoder;
mod paths;
mod targets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use psmc_api::IpfixStatus;
use psmc_core::{FlowRecord, PeerId};
use psmc_net::keys::PublicKey;

use super::DaemonError;
use super::control::Control;
use super::peers::Peers;
use super::plane::Plane;
use crate::config::Ipfix;
use collector::Collector;
use elements::FlowRow;
use encoder::{Encoder, Record};
use paths::Paths;
use targets::Targets;

/// Records are taken this often: what the engine expects of whoever takes them.
const INTERVAL: Duration = Duration::from_millis(100);

/// The exporting process, while there is a collector.
#[derive(Debug, Default)]
pub(super) struct Exporter {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    config: Ipfix,
    collector: Collector,
    encoder: Encoder,
    next: Instant,
    names: Names,
    paths: Paths,
    targets: Targets,
}

impl Exporter {
    /// When records are to be taken next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.running.as_ref().map(|running| running.next)
    }

    /// Something has happened to a target.
    pub(super) fn hurry(&mut self, target: &str) {
        if let Some(running) = &mut self.running {
            running.targets.hurry(target.to_owned());
        }
    }

    /// How it goes; nothing without a collector.
    pub(super) fn status(&self) -> Option<IpfixStatus> {
        let running = self.running.as_ref()?;
        let counts = running.collector.counts();
        Some(IpfixStatus {
            collector: format!("udp://{}", running.config.collector),
            messages: counts.messages,
            records: counts.records,
            unsent_messages: counts.unsent_messages,
            unsent_records: counts.unsent_records,
            trouble: running.collector.trouble().map(str::to_owned),
        })
    }
}

impl Running {
    fn new(config: Ipfix, key: PublicKey, now: Instant) -> Self {
        let domain = config.domain.unwrap_or_else(|| domain_of(key));
        Self {
            collector: Collector::new(config.collector.clone()),
            encoder: Encoder::new(domain, config.enterprise, config.template_interval),
            next: now,
            names: Names::default(),
            paths: Paths::new(config.active_timeout, now),
            targets: Targets::new(config.active_timeout, now),
            config,
        }
    }

    /// Sends records, in as many messages as they take.
    fn send(&mut self, records: &[Record], now: Instant) {
        if self.collector.take_is_new() {
            self.encoder.start_anew();
        }
        for message in self.encoder.messages(records, now, seconds_now()) {
            self.collector.send(&message.bytes, message.records, now);
        }
    }

    fn flow(&self, record: FlowRecord, clock: Clock) -> Record {
        let peer = self.names.of(record.peer);
        let (first_ms, last_ms) = (clock.millis(record.first), clock.millis(record.last));
        Record::Flow(FlowRow { peer, first_ms, last_ms, record })
    }
}

/// What peers are called whose records may still come.
#[derive(Debug, Default)]
struct Names {
    of: BTreeMap<PeerId, Arc<str>>,
    /// The peer that was added last. Each has a larger number than all before.
    newest: Option<PeerId>,
}

impl Names {
    fn learn(&mut self, peers: &Peers) {
        let newest = peers.iter().map(|peer| peer.id).max();
        if newest > self.newest {
            self.newest = newest;
            self.of.extend(peers.iter().map(|peer| (peer.id, Arc::from(peer.config.name.as_str()))));
        }
    }

    /// No record of peers that are gone can come any more.
    fn forget_others(&mut self, peers: &Peers) {
        if self.of.len() > peers.iter().count() {
            self.of.retain(|id, _| peers.iter().any(|peer| peer.id == *id));
        }
    }

    fn of(&self, peer: PeerId) -> Arc<str> {
        self.of.get(&peer).map_or_else(|| Arc::from("?"), Arc::clone)
    }
}

/// The domain of a site that does not say one: a number that others have hardly, and that stays.
fn domain_of(key: PublicKey) -> u32 {
    let bytes = key.as_bytes();
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// What the clock on the wall says of moments.
#[derive(Clone, Copy, Debug)]
struct Clock {
    now: Instant,
    wall: Duration,
}

impl Clock {
    fn new(now: Instant) -> Self {
        Self { now, wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() }
    }

    /// Milliseconds since 1970.
    fn millis(self, at: Instant) -> u64 {
        let since = self.wall.saturating_sub(self.now.saturating_duration_since(at));
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Seconds since 1970 as the header of a message has them: modulo 2^32.
fn seconds_now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs() & u64::from(u32::MAX)).unwrap_or_default()
}

impl Control {
    /// Exports flows as the file says from now on, or not. What has been counted for another collector goes there.
    pub(super) async fn allow_export(&mut self) -> Result<(), DaemonError> {
        let wanted = self.site.sla.ipfix.clone();
        if self.exporter.running.as_ref().map(|running| &running.config) == wanted.as_ref() {
            return Ok(());
        }
        self.end_export().await?;
        let flows = wanted.as_ref().map(Ipfix::flows);
        self.plane.call(move |plane| plane.site.set_flows(flows)).await?;
        let (key, now) = (self.identity.public(), Instant::now());
        self.exporter.running = wanted.map(|config| Running::new(config, key, now));
        Ok(())
    }

    /// Ends all flows, and sends what is left of them.
    pub(super) async fn end_export(&mut self) -> Result<(), DaemonError> {
        if self.exporter.running.is_none() {
            return Ok(());
        }
        self.plane.call(|plane| plane.site.end_flows()).await?;
        while self.export_flows(true).await? {}
        self.exporter.running = None;
        Ok(())
    }

    /// Takes records and sends them, with those of some paths and of a target.
    pub(super) async fn export(&mut self) -> Result<(), DaemonError> {
        let Some(running) = &mut self.exporter.running else { return Ok(()) };
        running.next = Instant::now() + INTERVAL;
        self.export_flows(false).await?;
        self.export_paths().await?;
        self.export_target(Instant::now());
        Ok(())
    }

    /// Takes records of flows and sends them. Says whether there were any. Until the collector is known the engine keeps them,
    /// unless these are the last ones.
    async fn export_flows(&mut self, are_last: bool) -> Result<bool, DaemonError> {
        let Some(running) = &mut self.exporter.running else { return Ok(false) };
        // What a peer is called is known as long as there may be records of it.
        running.names.learn(&self.peers);
        if !running.collector.is_ready(Instant::now()) && !are_last {
            return Ok(false);
        }
        let taken = self.plane.call(|plane| plane.site.take_flows(Instant::now())).await?;
        let Some(running) = &mut self.exporter.running else { return Ok(false) };
        let now = Instant::now();
        if taken.is_empty() {
            running.names.forget_others(&self.peers);
        }
        let clock = Clock::new(now);
        let records: Vec<_> = taken.into_iter().map(|record| running.flow(record, clock)).collect();
        running.send(&records, now);
        Ok(!records.is_empty())
    }

    /// Sends what the paths of some peers have carried, if that is due.
    async fn export_paths(&mut self) -> Result<(), DaemonError> {
        let Some(running) = &mut self.exporter.running else { return Ok(()) };
        let asked = running.paths.due(|| self.peers.iter().map(|peer| peer.id).collect(), Instant::now());
        if asked.is_empty() || !running.collector.is_ready(Instant::now()) {
            return Ok(());
        }
        let ask = move |plane: &mut Plane| {
            let status = |id| Some((id, plane.site.status(id)?));
            asked.into_iter().filter_map(status).collect::<Vec<_>>()
        };
        let told = self.plane.call(ask).await?;
        let Some(running) = &mut self.exporter.running else { return Ok(()) };
        let now = Instant::now();
        let at_ms = Clock::new(now).millis(now);
        let records: Vec<_> =
            told.iter().flat_map(|(id, status)| running.paths.records(*id, status, at_ms)).collect();
        running.send(&records, now);
        Ok(())
    }

    /// Sends how a target stands, if that is due.
    fn export_target(&mut self, now: Instant) {
        let Some(running) = &mut self.exporter.running else { return };
        if !running.collector.is_ready(now) {
            return;
        }
        let due = running.targets.due(|| self.slas.names(), now);
        let details = due.and_then(|name| self.slas.details(&name, now));
        if let Some((status, parts)) = details {
            let records = targets::records(&status, &parts, Clock::new(now).millis(now));
            running.send(&records, now);
        }
    }
}
