//! What Prometheus is told.

use psmc_service::metrics::{Kind, Metrics};

use super::Status;
use super::tunnels::add_tunnels;

/// The status, as Prometheus reads it.
pub(crate) fn metrics(status: &Status) -> Metrics {
    let mut out = Metrics::new("psmc_relay");
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let datagrams = &status.datagrams;
    for (name, help, value) in [
        ("uptime_seconds", "Time since the start.", status.uptime_s),
        ("sessions", "Sessions that stand.", count(status.sessions.len())),
        ("gateways", "Gateways that are connected.", count(status.gateways)),
        ("streams", "Control streams that stand.", count(status.streams)),
    ] {
        out.one(name, Kind::Gauge, help, number(value));
    }
    for (name, help, value) in [
        ("stream_bytes_total", "Bytes of control streams.", status.stream_bytes),
        ("received_datagrams_total", "Datagrams received.", datagrams.received),
        ("received_bytes_total", "Bytes received.", datagrams.received_bytes),
        ("sent_datagrams_total", "Datagrams sent.", datagrams.sent),
        ("sent_bytes_total", "Bytes sent.", datagrams.sent_bytes),
        ("sent_runs_total", "Runs of datagrams to one address that left at once.", datagrams.runs),
        ("send_drops_total", "Datagrams that the network did not take.", datagrams.send_drops),
        ("strayed_total", "Datagrams handed over between workers.", datagrams.strayed),
        ("stray_drops_total", "Datagrams dropped between workers.", datagrams.stray_drops),
        ("control_accepted_total", "Handshakes that succeeded.", status.control_accepted),
        ("control_unknown_key_total", "Dialers with unknown keys.", status.control_unknown_key),
        ("control_failed_total", "Handshakes that failed.", status.control_failed_handshake),
    ] {
        out.one(name, Kind::Counter, help, number(value));
    }
    if let Some(heard) = status.heard_too_big {
        let help = "ICMP errors about datagrams too long for a link.";
        out.one("heard_too_big_total", Kind::Counter, help, number(heard));
    }
    add_refused(status, &mut out);
    add_sites(status, &mut out);
    add_tunnels(status, &mut out);
    out
}

fn add_refused(status: &Status, out: &mut Metrics) {
    let refused = &status.refused;
    let reasons = [
        ("malformed", refused.malformed),
        ("unknown_label", refused.unknown_label),
        ("replayed", refused.replayed),
        ("forged", refused.forged),
        ("misaddressed", refused.misaddressed),
        ("too_many_hops", refused.too_many_hops),
        ("no_address", refused.no_address),
        ("too_long", refused.too_long),
        ("queue_full", refused.queue_full),
    ];
    let values = reasons.map(|(reason, value)| (vec![("reason", reason)], number(value)));
    out.many("refused_datagrams_total", Kind::Counter, "Datagrams that went no further.", values);
    let precedences = ["0", "1", "2"].into_iter().zip(refused.dropped);
    let values = precedences.map(|(precedence, value)| (vec![("precedence", precedence)], number(value)));
    out.many("queue_drops_total", Kind::Counter, "Datagrams dropped to keep queues short.", values);
}

fn add_sites(status: &Status, out: &mut Metrics) {
    let values = status.sites.iter().map(|site| {
        (vec![("site", site.name.as_str()), ("key", site.public_key.as_str())], f64::from(site.sessions))
    });
    out.many("site_sessions", Kind::Gauge, "Sessions of a site.", values);
}

/// A count as Prometheus has it.
#[expect(clippy::cast_precision_loss, reason = "exact up to nine million billion")]
pub(super) fn number(value: u64) -> f64 {
    value as f64
}
