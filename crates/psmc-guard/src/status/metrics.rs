//! The status as Prometheus has it.

use psmc_service::metrics::{Kind, Metrics};
use psmc_signal::Measured;

use super::{Service, Status};

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
    for (name, help, value) in [
        ("uptime_seconds", "Time since the start.", status.uptime_s),
        ("connected", "Whether a coordinator listens.", u64::from(is_connected)),
        ("gateway_trouble", "Whether psmcd does not do what it should.", u64::from(is_in_trouble)),
        ("clients", "Clients that are let in.", length(engine.clients.len())),
        ("blind_interfaces", "Interfaces that cannot be watched.", length(watch.blind.len())),
    ] {
        out.one(name, Kind::Gauge, help, number(value));
    }
    for (name, help, value) in [
        ("packets_total", "Packets that were looked at.", watch.packets),
        ("packets_estimated_total", "Packets that were counted only.", watch.packets_estimated),
        ("samples_total", "Samples that were judged.", counts.samples),
        ("samples_lost_total", "Samples that nobody took.", watch.samples_lost),
        ("attacks_total", "Attacks that have begun.", counts.attacks),
        ("attacks_over_total", "Attacks that are over.", counts.attacks_over),
        ("relay_failures_total", "Relays that did not do their work.", counts.relay_failures),
        ("connections_total", "Connections to coordinators.", counts.connections),
        ("refused_messages_total", "Orders that were not carried out.", counts.refused_messages),
    ] {
        out.one(name, Kind::Counter, help, number(value));
    }
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

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has nothing but floating point")]
fn number(value: u64) -> f64 {
    value as f64
}
