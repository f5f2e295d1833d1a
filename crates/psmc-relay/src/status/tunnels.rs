//! What plain tunnels have done, for status and metrics.

use psmc_core::relay::{PlainCounters, PlainStatus, PlainWay};
use psmc_service::metrics::{Kind, Metrics};
use psmc_wire::ids::KeyBytes;

use super::metrics::number;
use super::{Status, Tunnel, TunnelPackets, TunnelWay};

impl Tunnel {
    pub(super) fn new(status: &PlainStatus, name_of: impl Fn(&KeyBytes) -> String) -> Self {
        let [to_left, to_right] = status.ways.each_ref().map(|it| way(it, &name_of));
        Self { name: status.name.clone(), rate_bits_per_second: status.rate, to_left, to_right }
    }
}

fn way(way: &PlainWay, name_of: impl Fn(&KeyBytes) -> String) -> TunnelWay {
    TunnelWay {
        address: way.address.map(|address| address.to_string()),
        site: way.site.as_ref().map(name_of),
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
            no_end,
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
            no_end,
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
    pub(crate) fn refused(&self) -> [(&'static str, u64); 7] {
        [
            ("malformed", self.malformed),
            ("misaddressed", self.misaddressed),
            ("congested", self.congested),
            ("expired", self.expired),
            ("too_big", self.too_big),
            ("queue_full", self.queue_full),
            ("no_end", self.no_end),
        ]
    }
}

/// Appends what Prometheus is told of plain tunnels, if there are any.
pub(super) fn add_tunnels(status: &Status, out: &mut Metrics) {
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
