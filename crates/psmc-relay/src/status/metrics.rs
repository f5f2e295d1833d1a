//! What Prometheus is told.

use std::fmt;

use psmc_service::metrics::{Metric, Set, Values};

use super::{ShedCounts, Status, TunnelWay};

/// What a relay tells Prometheus.
pub const METRICS: Set<Status> = Set {
    prefix: "psmc_relay",
    metrics: &[
        Metric::new("uptime_seconds", &[], "Time since the start.", |of, out| out.add(&[], of.uptime_s)),
        Metric::new("sessions", &[], "Sessions that stand.", |of, out| out.add(&[], of.sessions.len())),
        Metric::new("gateways", &[], "Gateways that are connected.", |of, out| out.add(&[], of.gateways)),
        Metric::new("streams", &[], "Control streams that stand.", |of, out| out.add(&[], of.streams)),
        Metric::new("stream_bytes_total", &[], "Bytes of control streams.", |of, out| {
            out.add(&[], of.stream_bytes)
        }),
        Metric::new("received_datagrams_total", &[], "Datagrams received.", |of, out| {
            out.add(&[], of.datagrams.received)
        }),
        Metric::new("received_bytes_total", &[], "Bytes received.", |of, out| {
            out.add(&[], of.datagrams.received_bytes)
        }),
        Metric::new("sent_datagrams_total", &[], "Datagrams sent.", |of, out| {
            out.add(&[], of.datagrams.sent)
        }),
        Metric::new("sent_bytes_total", &[], "Bytes sent.", |of, out| out.add(&[], of.datagrams.sent_bytes)),
        Metric::new(
            "sent_runs_total",
            &[],
            "Runs of datagrams to one address that left at once.",
            |of, out| out.add(&[], of.datagrams.runs),
        ),
        Metric::new("send_drops_total", &[], "Datagrams that the network did not take.", |of, out| {
            out.add(&[], of.datagrams.send_drops)
        }),
        Metric::new("strayed_total", &[], "Datagrams handed over between workers.", |of, out| {
            out.add(&[], of.datagrams.strayed)
        }),
        Metric::new("stray_drops_total", &[], "Datagrams dropped between workers.", |of, out| {
            out.add(&[], of.datagrams.stray_drops)
        }),
        Metric::new("control_accepted_total", &[], "Handshakes that succeeded.", |of, out| {
            out.add(&[], of.control_accepted)
        }),
        Metric::new("control_unknown_key_total", &[], "Dialers with unknown keys.", |of, out| {
            out.add(&[], of.control_unknown_key)
        }),
        Metric::new("control_failed_total", &[], "Handshakes that failed.", |of, out| {
            out.add(&[], of.control_failed_handshake)
        }),
        Metric::new(
            "heard_too_big_total",
            &[],
            "ICMP errors about datagrams too long for a link; absent if the relay may not hear them.",
            |of, out| out.add_known(&[], of.heard_too_big),
        ),
        Metric::new("refused_datagrams_total", &["reason"], "Datagrams that went no further.", refused),
        Metric::new(
            "queue_drops_total",
            &["precedence"],
            "Datagrams dropped to keep queues short.",
            |of, out| {
                let mut drops = ["0", "1", "2"].into_iter().zip(of.refused.dropped);
                drops.try_for_each(|(precedence, count)| out.add(&[precedence], count))
            },
        ),
        Metric::new(
            "shed_messages_total",
            &["outcome"],
            "What sites wanted dropped, by what became of it.",
            |of, out| {
                let ShedCounts { taken, replayed, expired, too_many, .. } = of.shedding.counts;
                let all =
                    [("taken", taken), ("replayed", replayed), ("expired", expired), ("too_many", too_many)];
                all.into_iter().try_for_each(|(outcome, count)| out.add(&[outcome], count))
            },
        ),
        Metric::new(
            "shed_refused_rules_total",
            &["reason"],
            "Rules of sites that were not taken.",
            |of, out| {
                let ShedCounts { foreign, contradictory, illegal, .. } = of.shedding.counts;
                let all = [("foreign", foreign), ("contradictory", contradictory), ("illegal", illegal)];
                all.into_iter().try_for_each(|(reason, count)| out.add(&[reason], count))
            },
        ),
        Metric::new("shed_rules", &["site"], "Rules in force for a site.", |of, out| {
            of.shedding.sites.iter().try_for_each(|shed| out.add(&[&shed.site], shed.rules.len()))
        }),
        Metric::new("site_sessions", &["site", "key"], "Sessions of a site.", |of, out| {
            of.sites.iter().try_for_each(|site| out.add(&[&site.name, &site.public_key], site.sessions))
        }),
        Metric::new(
            "tunnel_packets_total",
            &["tunnel", "to"],
            "Packets passed on between ends of tunnels.",
            |of, out| of_ways(of, out, |way| way.packets),
        ),
        Metric::new(
            "tunnel_bytes_total",
            &["tunnel", "to"],
            "Bytes of packets passed on between ends of tunnels, without outer headers.",
            |of, out| of_ways(of, out, |way| way.bytes),
        ),
        Metric::new(
            "tunnel_queue_drops_total",
            &["tunnel", "to"],
            "Packets dropped to keep queues short.",
            |of, out| of_ways(of, out, |way| way.dropped.iter().sum()),
        ),
        Metric::new(
            "tunnel_path_mtu_bytes",
            &["tunnel", "to"],
            "What the way to an end takes.",
            |of, out| of_ways(of, out, |way| way.path_mtu.into()),
        ),
        Metric::new(
            "tunnel_refused_packets_total",
            &["kind"],
            "Packets in tunnels that went no further.",
            |of, out| of_kinds(of, out, &of.tunnel_packets.refused()),
        ),
        Metric::new(
            "tunnel_icmp_errors_total",
            &["kind"],
            "ICMP errors about packets in tunnels.",
            |of, out| {
                let packets = &of.tunnel_packets;
                let errors = [
                    ("sent", packets.errors_sent),
                    ("heard_too_big", packets.heard_too_big),
                    ("heard_unreachable", packets.heard_unreachable),
                ];
                of_kinds(of, out, &errors)
            },
        ),
    ],
};

fn refused(status: &Status, out: &mut Values<'_>) -> fmt::Result {
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
        ("shed", refused.shed),
    ];
    reasons.into_iter().try_for_each(|(reason, count)| out.add(&[reason], count))
}

fn of_ways(status: &Status, out: &mut Values<'_>, value: fn(&TunnelWay) -> u64) -> fmt::Result {
    status.tunnels.iter().try_for_each(|tunnel| {
        out.add(&[&tunnel.name, "left"], value(&tunnel.to_left))?;
        out.add(&[&tunnel.name, "right"], value(&tunnel.to_right))
    })
}

/// Adds counts about packets in plain tunnels, if there are any.
fn of_kinds(status: &Status, out: &mut Values<'_>, kinds: &[(&str, u64)]) -> fmt::Result {
    let kinds = if status.tunnels.is_empty() { &[] } else { kinds };
    kinds.iter().try_for_each(|(kind, count)| out.add(&[kind], *count))
}
