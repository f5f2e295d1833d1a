//! What Prometheus is told.

use psmc_service::metrics::{Kind, Metrics};
use psmc_signal::Stage;

use crate::status::{EveStatus, Status};

/// The status, as Prometheus reads it.
pub(crate) fn metrics(status: &Status) -> Metrics {
    let mut out = Metrics::new("psmc_coordinator");
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let (counts, handshakes) = (&status.counts, &status.handshakes);
    for (name, help, value) in [
        ("uptime_seconds", "Time since the start.", status.uptime_s),
        ("leads", "Whether it decides, and does not stand by.", u64::from(status.leads)),
        ("gateways", "Gateways that are connected.", count(status.gateways)),
        ("clients", "Clients that are connected.", count(status.clients)),
        ("kept", "Whether what happens is kept.", u64::from(status.not_kept.is_none())),
    ] {
        out.one(name, Kind::Gauge, help, number(value));
    }
    for (name, help, value) in [
        ("alerts_total", "Alerts taken.", counts.alerts),
        ("told_total", "Routes that connected clients were told.", counts.told),
        ("not_told_total", "Routes that connected clients were not told.", counts.not_told),
        ("refused_total", "Messages that were not the sender's to send.", counts.refused),
        ("relays_reported_total", "Relays that were reported and replaced.", counts.relays_reported),
        ("publish_failures_total", "Updates that failed.", counts.publish_failures),
        ("handshakes_total", "Handshakes that succeeded.", handshakes.accepted),
        ("unknown_keys_total", "Dialers with unknown keys.", handshakes.unknown_key),
    ] {
        out.one(name, Kind::Counter, help, number(value));
    }
    if let Some(eve) = &status.suricata {
        add_suricata(eve, &mut out);
    }
    let relays = status.relays.iter();
    let up = relays.map(|relay| (vec![("relay", relay.name.as_str())], flag(relay.alive)));
    out.many("relay_up", Kind::Gauge, "Whether a relay answers.", up);
    let mitigated = status.services.iter().map(|service| {
        let active = !matches!(service.stage, Stage::Withdrawn | Stage::Prepared);
        (vec![("service", service.name.as_str())], flag(active))
    });
    out.many("mitigated", Kind::Gauge, "Whether something is done for a service.", mitigated);
    out
}

fn add_suricata(eve: &EveStatus, out: &mut Metrics) {
    let help = "Whether Suricata's events can be read.";
    out.one("suricata_readable", Kind::Gauge, help, flag(eve.error.is_none()));
    for (name, help, value) in [
        ("suricata_lines_total", "Lines of events that were read.", eve.lines),
        ("suricata_alerts_total", "Alerts about services in them.", eve.alerts),
        ("suricata_unreadable_lines_total", "Lines that are no JSON, or too long.", eve.unreadable),
        ("suricata_rotations_total", "How often another file had the name.", eve.rotations),
    ] {
        out.one(name, Kind::Counter, help, number(value));
    }
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

/// A count as Prometheus has it.
#[expect(clippy::cast_precision_loss, reason = "exact up to nine million billion")]
fn number(value: u64) -> f64 {
    value as f64
}
