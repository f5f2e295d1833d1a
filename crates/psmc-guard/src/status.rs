//! What a guard tells about itself: as JSON has it, with plain numbers, and texts with their units in their names, and to
//! Prometheus.

use std::collections::BTreeMap;
use std::path::Path;

use psmc_service::metrics::{Kind, Metrics, flag, number};
use psmc_service::socket::{Client, ClientError, Report, StatusOf};
use psmc_signal::{AlertKind, Measured, Stage};
use serde::{Deserialize, Serialize};

impl Report for Status {
    const PROGRAM: &'static str = "psmc-guard";
    const DIRECTORY: &'static str = crate::config::RUN_DIR;
}

/// Asks the guard whose socket is at `path`.
///
/// # Errors
/// [`ClientError`].
pub fn ask(path: &Path) -> Result<Status, ClientError> {
    Client::<StatusOf<Status>>::connect(path)?.status()
}

/// Everything there is to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of this format.
    pub version: u32,
    /// What the guard is called.
    pub name: String,
    /// Its key, under which coordinators know it.
    pub public_key: String,
    /// For how long it has run.
    pub uptime_s: u64,
    /// The watching of interfaces.
    pub watch: Watch,
    /// What it knows and does.
    #[serde(flatten)]
    pub engine: Engine,
    /// Packets on the hidden lines: `from_relays`, `replies`, `dropped`. Absent where they are not defended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defence: Option<BTreeMap<String, u64>>,
}

/// The watching of interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Packets that were looked at.
    pub packets: u64,
    /// Packets that came too fast to be looked at, and were counted.
    pub packets_estimated: u64,
    /// Interfaces that cannot be watched at present.
    pub blind: Vec<String>,
    /// Samples that nobody took, because the guard had too much to do.
    pub samples_lost: u64,
}

/// What a guard knows and does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// The coordinator that listens, if one does.
    pub coordinator: Option<String>,
    /// Why none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator_error: Option<String>,
    /// The services.
    pub services: Vec<Service>,
    /// What the coordinator has asked for.
    pub mitigations: Vec<MitigationStatus>,
    /// Who is let in.
    pub clients: Vec<String>,
    /// Why psmcd cannot be configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_error: Option<String>,
    /// What arrives through relays.
    pub through_relays: Measured,
    /// What has happened.
    pub counts: Counts,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// What goes on.
    pub attack: Option<Attack>,
    /// What arrives straight, averaged over a second.
    pub measured: Measured,
    /// What is usual, where that is known.
    pub usual: Measured,
    /// From where on it is an attack, where that is known.
    pub limits: Measured,
}

/// An attack that goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attack {
    /// Its name.
    pub id: String,
    /// The kind of attack.
    pub kind: AlertKind,
    /// How long it has been known.
    pub age_s: f64,
    /// Whether the coordinator has noted it.
    pub noted: bool,
}

/// What a coordinator has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MitigationStatus {
    /// Its number.
    pub id: u64,
    /// The service's name.
    pub service: String,
    /// Where it stands.
    pub stage: Stage,
    /// When it ends.
    pub expires_in_s: u64,
    /// Its relays.
    pub relays: Vec<RelayStatus>,
}

/// A relay of a mitigation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayStatus {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// Whether it leads clients here.
    pub registered: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What has happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Samples that were judged.
    pub samples: u64,
    /// Attacks that have begun.
    pub attacks: u64,
    /// Attacks that are over.
    pub attacks_over: u64,
    /// Relays that did not do their work.
    pub relay_failures: u64,
    /// Connections to coordinators.
    pub connections: u64,
    /// Things that a coordinator asked for and did not get.
    pub refused_messages: u64,
}

/// All that can be watched over time.
#[must_use]
pub fn metrics(status: &Status) -> Metrics {
    let mut out = Metrics::new("psmc_guard");
    of_guard(status, &mut out);
    of_services(&status.engine.services, &mut out);
    let mitigations = status.engine.mitigations.iter();
    let relays = mitigations.flat_map(|mitigation| {
        mitigation.relays.iter().map(|relay| {
            let labels = vec![("service", mitigation.service.as_str()), ("relay", relay.name.as_str())];
            (labels, flag(relay.registered))
        })
    });
    out.many("registered", Kind::Gauge, "Whether psmcd is registered at a relay of a mitigation.", relays);
    if let Some(defence) = &status.defence {
        let packets = defence.iter().map(|(rule, packets)| (vec![("rule", rule.as_str())], number(*packets)));
        out.many("hidden_line_packets_total", Kind::Counter, "Packets on the hidden lines.", packets);
    }
    out
}

fn of_guard(status: &Status, out: &mut Metrics) {
    let (watch, engine, counts) = (&status.watch, &status.engine, &status.engine.counts);
    let length = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    let (is_connected, is_in_trouble) = (engine.coordinator.is_some(), engine.gateway_error.is_some());
    out.gauges([
        ("uptime_seconds", "Time since the start.", status.uptime_s),
        ("connected", "Whether a coordinator listens.", u64::from(is_connected)),
        ("gateway_trouble", "Whether psmcd cannot be configured.", u64::from(is_in_trouble)),
        ("clients", "Clients that are let in.", length(engine.clients.len())),
        ("blind_interfaces", "Interfaces that cannot be watched.", length(watch.blind.len())),
    ]);
    out.counters([
        ("packets_total", "Packets that were looked at.", watch.packets),
        ("packets_estimated_total", "Packets that were counted only.", watch.packets_estimated),
        ("samples_total", "Samples that were judged.", counts.samples),
        ("samples_lost_total", "Samples that nobody took.", watch.samples_lost),
        ("attacks_total", "Attacks that have begun.", counts.attacks),
        ("attacks_over_total", "Attacks that are over.", counts.attacks_over),
        ("relay_failures_total", "Relays that did not do their work.", counts.relay_failures),
        ("connections_total", "Connections to coordinators.", counts.connections),
        ("refused_messages_total", "Orders that were not carried out.", counts.refused_messages),
    ]);
}

fn of_services(services: &[Service], out: &mut Metrics) {
    let attacked = services
        .iter()
        .map(|service| (vec![("service", service.name.as_str())], flag(service.attack.is_some())));
    out.many("attacked", Kind::Gauge, "Whether a service is under attack.", attacked);
    let of_each = |measured: fn(&Service) -> &Measured| {
        services.iter().flat_map(move |service| {
            let known = |(signal, value): (&'static str, Option<f64>)| {
                Some((vec![("service", service.name.as_str()), ("signal", signal)], value?))
            };
            signals(measured(service)).into_iter().filter_map(known)
        })
    };
    let arriving = of_each(|service| &service.measured);
    out.many("arriving", Kind::Gauge, "What arrives straight: per second, loss as a share.", arriving);
    let limits = of_each(|service| &service.limits);
    out.many("limit", Kind::Gauge, "From where on it is an attack.", limits);
}

fn signals(measured: &Measured) -> [(&'static str, Option<f64>); 5] {
    [
        ("packets", measured.packets),
        ("bits", measured.bits),
        ("syns", measured.syns),
        ("new_sources", measured.new_sources),
        ("loss", measured.loss),
    ]
}
