//! What Prometheus is told.

use std::fmt;

use psmc_service::metrics::{Metric, Set, Values};
use psmc_signal::Measured;

use super::{Service, Status};

/// What a guard tells Prometheus.
pub const METRICS: Set<Status> = Set {
    prefix: "psmc_guard",
    metrics: &[
        Metric::new("uptime_seconds", &[], "Time since the start.", |of, out| out.add(&[], of.uptime_s)),
        Metric::new("connected", &[], "Whether a coordinator listens.", |of, out| {
            out.add(&[], of.engine.coordinator.is_some())
        }),
        Metric::new("gateway_trouble", &[], "Whether psmcd cannot be configured.", |of, out| {
            out.add(&[], of.engine.gateway_error.is_some())
        }),
        Metric::new("clients", &[], "Clients that are let in.", |of, out| {
            out.add(&[], of.engine.clients.len())
        }),
        Metric::new("blind_interfaces", &[], "Interfaces that cannot be watched.", |of, out| {
            out.add(&[], of.watch.blind.len())
        }),
        Metric::new("packets_total", &[], "Packets that were looked at.", |of, out| {
            out.add(&[], of.watch.packets)
        }),
        Metric::new("packets_estimated_total", &[], "Packets that were counted only.", |of, out| {
            out.add(&[], of.watch.packets_estimated)
        }),
        Metric::new("samples_total", &[], "Samples that were judged.", |of, out| {
            out.add(&[], of.engine.counts.samples)
        }),
        Metric::new("samples_lost_total", &[], "Samples that nobody took.", |of, out| {
            out.add(&[], of.watch.samples_lost)
        }),
        Metric::new("attacks_total", &[], "Attacks that have begun.", |of, out| {
            out.add(&[], of.engine.counts.attacks)
        }),
        Metric::new("attacks_over_total", &[], "Attacks that are over.", |of, out| {
            out.add(&[], of.engine.counts.attacks_over)
        }),
        Metric::new("relay_failures_total", &[], "Relays that did not do their work.", |of, out| {
            out.add(&[], of.engine.counts.relay_failures)
        }),
        Metric::new("connections_total", &[], "Connections to coordinators.", |of, out| {
            out.add(&[], of.engine.counts.connections)
        }),
        Metric::new("refused_messages_total", &[], "Orders that were not carried out.", |of, out| {
            out.add(&[], of.engine.counts.refused_messages)
        }),
        Metric::new("attacked", &["service"], "Whether a service is under attack.", |of, out| {
            let mut services = of.engine.services.iter();
            services.try_for_each(|service| out.add(&[&service.name], service.attack.is_some()))
        }),
        Metric::new(
            "arriving",
            &["service", "signal"],
            "What arrives straight: per second, loss as a share.",
            |of, out| of_signals(of, out, |service| &service.measured),
        ),
        Metric::new("limit", &["service", "signal"], "From where on it is an attack.", |of, out| {
            of_signals(of, out, |service| &service.limits)
        }),
        Metric::new(
            "registered",
            &["service", "relay"],
            "Whether psmcd is registered at a relay of a mitigation.",
            |of, out| {
                of.engine.mitigations.iter().try_for_each(|mitigation| {
                    let mut relays = mitigation.relays.iter();
                    relays
                        .try_for_each(|relay| out.add(&[&mitigation.service, &relay.name], relay.registered))
                })
            },
        ),
        Metric::new(
            "hidden_line_packets_total",
            &["rule"],
            "Packets on the hidden lines, where these are defended.",
            |of, out| {
                let mut rules = of.defence.iter().flatten();
                rules.try_for_each(|(rule, packets)| out.add(&[rule], *packets))
            },
        ),
    ],
};

fn of_signals(status: &Status, out: &mut Values<'_>, measured: fn(&Service) -> &Measured) -> fmt::Result {
    status.engine.services.iter().try_for_each(|service| {
        let mut signals = signals(measured(service)).into_iter();
        signals.try_for_each(|(signal, value)| out.add_known(&[&service.name, signal], value))
    })
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
