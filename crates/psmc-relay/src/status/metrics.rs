//! What Prometheus is told.

use psmc_service::metrics::{Kind, Metrics, number};

use super::{Status, TunnelWay};

/// The status, as Prometheus reads it.
pub(crate) fn metrics(status: &Status) -> Metrics {
    let mut out = Metrics::new("psmc_relay");
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let datagrams = &status.datagrams;
    out.gauges([
        ("uptime_seconds", "Time since the start.", status.uptime_s),
        ("sessions", "Sessions that stand.", count(status.sessions.len())),
        ("gateways", "Gateways that are connected.", count(status.gateways)),
        ("streams", "Control streams that stand.", count(status.streams)),
    ]);
    out.counters([
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
    ]);
    if let Some(heard) = status.heard_too_big {
        let help = "ICMP errors about datagrams too long for a link.";
        out.counters([("heard_too_big_total", help, heard)]);
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

/// Appends what Prometheus is told of plain tunnels, if there are any.
fn add_tunnels(status: &Status, out: &mut Metrics) {
    if status.tunnels.is_empty() {
        return;
    }
    let mut of_ways = |name: &str, kind: Kind, help: &str, value: fn(&TunnelWay) -> u64| {
        let ways = status.tunnels.iter().flat_map(|tunnel| {
            [("left", &tunnel.to_left), ("right", &tunnel.to_right)]
                .map(|(to, way)| (vec![("tunnel", tunnel.name.as_str()), ("to", to)], number(value(way))))
        });
        out.many(name, kind, help, ways);
    };
    let help = "Packets passed on between ends of tunnels.";
    of_ways("tunnel_packets_total", Kind::Counter, help, |way| way.packets);
    of_ways("tunnel_bytes_total", Kind::Counter, "Their bytes, without outer headers.", |way| way.bytes);
    let help = "Packets dropped to keep queues short.";
    of_ways("tunnel_queue_drops_total", Kind::Counter, help, |way| way.dropped.iter().sum());
    let help = "What the way to an end takes.";
    of_ways("tunnel_path_mtu_bytes", Kind::Gauge, help, |way| way.path_mtu.into());
    let mut of_kinds = |name: &str, help: &str, kinds: &[(&str, u64)]| {
        let values = kinds.iter().map(|(kind, value)| (vec![("kind", *kind)], number(*value)));
        out.many(name, Kind::Counter, help, values);
    };
    let packets = &status.tunnel_packets;
    of_kinds("tunnel_refused_packets_total", "Packets that went no further.", &packets.refused());
    let errors = [
        ("sent", packets.errors_sent),
        ("heard_too_big", packets.heard_too_big),
        ("heard_unreachable", packets.heard_unreachable),
    ];
    of_kinds("tunnel_icmp_errors_total", "ICMP errors about packets in tunnels.", &errors);
}
