//! The command line of `psmc-guard`: its arguments, and what `psmc-guard status` says.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use psmc_service::cli::{self, DaemonArgs};
use psmc_service::socket::Report;
use psmc_signal::Measured;

use crate::config::Config;
use crate::guard;
use crate::status::{MitigationStatus, Service, Status};

/// The guard of a gateway: detects floods, alerts the coordinator, and configures psmcd accordingly.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// What stands on the command line of `psmc-guard`, for its manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs `psmc-guard` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let summary = |config: &Config| config.summary().to_string();
    cli::finish(Status::PROGRAM, Args::parse().daemon.run(Config::load, summary, guard::run, describe))
}

fn describe(status: &Status) -> String {
    let (engine, watch) = (&status.engine, &status.watch);
    let mut text = format!("guard {}, up {} s: ", status.name, status.uptime_s);
    match (&engine.coordinator, &engine.coordinator_error) {
        (Some(coordinator), _) => line(&mut text, &format!("coordinator {coordinator}")),
        (None, error) => {
            let why = error.as_deref().unwrap_or("for no known reason");
            line(&mut text, &format!("no coordinator: {why}"));
        }
    }
    let (seen, estimated) = (watch.packets, watch.packets_estimated);
    line(&mut text, &format!("looked at {seen} packets, and estimated {estimated} more"));
    for interface in &watch.blind {
        line(&mut text, &format!("cannot watch {interface}: it is down or gone"));
    }
    if let Some(error) = &engine.gateway_error {
        line(&mut text, &format!("cannot configure psmcd: {error}"));
    }
    engine.services.iter().for_each(|service| text.push_str(&service_text(service)));
    engine.mitigations.iter().for_each(|mitigation| text.push_str(&mitigation_text(mitigation)));
    if !engine.mitigations.is_empty() {
        line(&mut text, &format!("through relays: {}", measured_text(&engine.through_relays)));
    }
    if !engine.clients.is_empty() {
        line(&mut text, &format!("lets in {}", engine.clients.join(", ")));
    }
    if let Some(counters) = &status.defence {
        let counters: Vec<String> = counters.iter().map(|(name, count)| format!("{name} {count}")).collect();
        line(&mut text, &format!("hidden lines, packets: {}", counters.join(", ")));
    }
    text
}

fn service_text(service: &Service) -> String {
    let attack = service.attack.as_ref().map_or_else(
        || "calm".to_owned(),
        |attack| {
            let noted = if attack.noted { "" } else { ", which no coordinator has noted" };
            format!("under attack ({:?}) for {:.1} s{noted}", attack.kind, attack.age_s)
        },
    );
    let mut text = format!("service {}: {attack}\n", service.name);
    for (what, measured) in
        [("now", &service.measured), ("usual", &service.usual), ("limits", &service.limits)]
    {
        line(&mut text, &format!("  {what:<7}{}", measured_text(measured)));
    }
    text
}

fn mitigation_text(mitigation: &MitigationStatus) -> String {
    let MitigationStatus { id, service, stage, expires_in_s, relays } = mitigation;
    let mut text = format!("mitigation {id} of {service}: {stage:?}, ends in {expires_in_s} s\n");
    for relay in relays {
        let state = match (&relay.error, relay.registered) {
            (_, true) => "registered".to_owned(),
            (Some(error), false) => format!("not registered: {error}"),
            (None, false) => "not registered yet".to_owned(),
        };
        line(&mut text, &format!("  {} at {}: {state}", relay.name, relay.address));
    }
    text
}

fn measured_text(measured: &Measured) -> String {
    let values = [
        (measured.packets, "packets/s", 1.0),
        (measured.bits, "Mb/s", 1e-6),
        (measured.syns, "SYNs/s", 1.0),
        (measured.new_sources, "new sources/s", 1.0),
        (measured.loss, "% lost", 100.0),
    ];
    let known =
        values.into_iter().filter_map(|(value, unit, scale)| Some(format!("{:.1} {unit}", value? * scale)));
    let known: Vec<String> = known.collect();
    if known.is_empty() { "not known yet".to_owned() } else { known.join(", ") }
}

fn line(text: &mut String, words: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{words}");
}
