//! What plain tunnels have done, for status and metrics.

use std::fmt::Write;

use psmc_core::relay::{PlainCounters, PlainStatus, PlainWay};

use super::{Status, Tunnel, TunnelPackets, TunnelWay};

impl Tunnel {
    pub(super) fn new(name: &str, status: &PlainStatus) -> Self {
        let [to_left, to_right] = status.ways.each_ref().map(way);
        Self { name: name.to_owned(), rate_bits_per_second: status.rate, to_left, to_right }
    }
}

fn way(way: &PlainWay) -> TunnelWay {
    TunnelWay {
        address: way.address.to_string(),
        path_mtu: way.path_mtu,
        packets: way.packets,
        bytes: way.bytes,
        waiting: way.waiting,
        dropped: way.dropped,
    }
}

impl From<PlainCounters> for TunnelPackets {
    fn from(counters: PlainCounters) -> Self {
        let PlainCounters {
            malformed,
            misaddressed,
            congested,
            expired,
            too_big,
            queue_full,
            cut,
            errors_sent,
            heard_too_big,
            heard_unreachable,
        } = counters;
        Self {
            malformed,
            misaddressed,
            congested,
            expired,
            too_big,
            queue_full,
            cut,
            errors_sent,
            heard_too_big,
            heard_unreachable,
        }
    }
}

impl TunnelPackets {
    /// Why packets went no further, and how many did.
    pub(crate) fn refused(&self) -> [(&'static str, u64); 6] {
        [
            ("malformed", self.malformed),
            ("misaddressed", self.misaddressed),
            ("congested", self.congested),
            ("expired", self.expired),
            ("too_big", self.too_big),
            ("queue_full", self.queue_full),
        ]
    }
}

/// Appends what Prometheus is told of plain tunnels, if there are any.
pub(super) fn write_metrics(status: &Status, out: &mut String) {
    if status.tunnels.is_empty() {
        return;
    }
    let mut family = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "# HELP psmc_relay_{name} {help}\n# TYPE psmc_relay_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(out, "psmc_relay_{name}{{{labels}}} {value}");
        }
    };
    let ways = |value: fn(&TunnelWay) -> u64| -> Vec<(String, u64)> {
        let sides = status
            .tunnels
            .iter()
            .flat_map(|tunnel| [(tunnel, "left", &tunnel.to_left), (tunnel, "right", &tunnel.to_right)]);
        sides
            .map(|(tunnel, to, way)| (format!("tunnel=\"{}\",to=\"{to}\"", tunnel.name), value(way)))
            .collect()
    };
    let kinds = |kinds: &[(&str, u64)]| -> Vec<(String, u64)> {
        kinds.iter().map(|(kind, value)| (format!("kind=\"{kind}\""), *value)).collect()
    };
    let packets = &status.tunnel_packets;
    family(
        "tunnel_packets_total",
        "counter",
        "Packets passed on between ends of tunnels.",
        &ways(|way| way.packets),
    );
    family("tunnel_bytes_total", "counter", "Their bytes, without outer headers.", &ways(|way| way.bytes));
    let dropped = ways(|way| way.dropped.iter().sum());
    family("tunnel_queue_drops_total", "counter", "Packets dropped to keep queues short.", &dropped);
    family(
        "tunnel_path_mtu_bytes",
        "gauge",
        "What the way to an end takes.",
        &ways(|way| way.path_mtu.into()),
    );
    family(
        "tunnel_refused_packets_total",
        "counter",
        "Packets that went no further.",
        &kinds(&packets.refused()),
    );
    let errors = [
        ("sent", packets.errors_sent),
        ("heard_too_big", packets.heard_too_big),
        ("heard_unreachable", packets.heard_unreachable),
    ];
    family("tunnel_icmp_errors_total", "counter", "ICMP errors about packets in tunnels.", &kinds(&errors));
}
