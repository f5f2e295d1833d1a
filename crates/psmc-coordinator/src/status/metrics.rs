//! What Prometheus is told.

use psmc_service::metrics::{Metric, Set};
use psmc_signal::Stage;

use super::Status;

/// What a coordinator tells Prometheus.
pub const METRICS: Set<Status> = Set {
    prefix: "psmc_coordinator",
    metrics: &[
        Metric::new("uptime_seconds", &[], "Time since the start.", |of, out| out.add(&[], of.uptime_s)),
        Metric::new("leads", &[], "Whether it decides, and does not stand by.", |of, out| {
            out.add(&[], of.leads)
        }),
        Metric::new("gateways", &[], "Gateways that are connected.", |of, out| out.add(&[], of.gateways)),
        Metric::new("clients", &[], "Clients that are connected.", |of, out| out.add(&[], of.clients)),
        Metric::new("watchers", &[], "Watchers that are connected.", |of, out| out.add(&[], of.watchers)),
        Metric::new("kept", &[], "Whether what happens is kept.", |of, out| {
            out.add(&[], of.not_kept.is_none())
        }),
        Metric::new("alerts_total", &[], "Alerts taken.", |of, out| out.add(&[], of.counts.alerts)),
        Metric::new("told_total", &[], "Routes that connected clients were told.", |of, out| {
            out.add(&[], of.counts.told)
        }),
        Metric::new("not_told_total", &[], "Routes that connected clients were not told.", |of, out| {
            out.add(&[], of.counts.not_told)
        }),
        Metric::new("refused_total", &[], "Messages that were not the sender's to send.", |of, out| {
            out.add(&[], of.counts.refused)
        }),
        Metric::new("relays_reported_total", &[], "Relays that were reported and replaced.", |of, out| {
            out.add(&[], of.counts.relays_reported)
        }),
        Metric::new("publish_failures_total", &[], "Updates that failed.", |of, out| {
            out.add(&[], of.counts.publish_failures)
        }),
        Metric::new("handshakes_total", &[], "Handshakes that succeeded.", |of, out| {
            out.add(&[], of.handshakes.accepted)
        }),
        Metric::new("unknown_keys_total", &[], "Dialers with unknown keys.", |of, out| {
            out.add(&[], of.handshakes.unknown_key)
        }),
        Metric::new(
            "suricata_readable",
            &[],
            "Whether Suricata's events can be read, if they are followed.",
            |of, out| out.add_known(&[], of.suricata.as_ref().map(|eve| eve.error.is_none())),
        ),
        Metric::new("suricata_lines_total", &[], "Lines of events that were read.", |of, out| {
            out.add_known(&[], of.suricata.as_ref().map(|eve| eve.lines))
        }),
        Metric::new("suricata_alerts_total", &[], "Alerts about services in them.", |of, out| {
            out.add_known(&[], of.suricata.as_ref().map(|eve| eve.alerts))
        }),
        Metric::new(
            "suricata_unreadable_lines_total",
            &[],
            "Lines that are no JSON, or too long.",
            |of, out| out.add_known(&[], of.suricata.as_ref().map(|eve| eve.unreadable)),
        ),
        Metric::new("suricata_rotations_total", &[], "How often another file had the name.", |of, out| {
            out.add_known(&[], of.suricata.as_ref().map(|eve| eve.rotations))
        }),
        Metric::new("relay_up", &["relay"], "Whether a relay answers.", |of, out| {
            of.relays.iter().try_for_each(|relay| out.add(&[&relay.name], relay.alive))
        }),
        Metric::new("mitigated", &["service"], "Whether something is done for a service.", |of, out| {
            of.services.iter().try_for_each(|service| {
                let is_active = !matches!(service.stage, Stage::Withdrawn | Stage::Prepared);
                out.add(&[&service.name], is_active)
            })
        }),
    ],
};
