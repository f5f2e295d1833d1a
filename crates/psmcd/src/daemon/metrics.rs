//! What Prometheus is told of a site.
//!
//! Each peer has the same number of series, and so has each class and each path of it: nothing that a stranger sends adds one.
//! The state of a path is one number and not a series for each state, because there may be 64 paths of each of a thousand peers; and
//! because the states are in an order, in which alerts compare.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use psmc_api::{
    Calls, ClassStatus, ConditionerStatus, PathState, PathStatus, PeerState, PeerStatus, QuotaStatus,
    SlaAggregate, SlaCause, SlaState, SlaStatus, Status, StreamsStatus,
};
use psmc_service::metrics::{Metric, Set, Values};

/// What makes a path of a site unlike all others: both sites may call one of theirs the same.
const PATH_LABELS: &[&str] = &["peer", "path", "opened_by"];

/// What psmcd tells Prometheus.
pub const METRICS: Set<Scraped> = Set {
    prefix: "psmcd",
    metrics: &[
        Metric::new(
            "site_info",
            &["site", "version", "public_key", "interface"],
            "Which site it is, and of which version.",
            |of, out| {
                out.add(
                    &[
                        &of.status.site.name,
                        &of.status.site.version,
                        &of.status.site.public_key,
                        &of.status.site.interface,
                    ],
                    true,
                )
            },
        ),
        Metric::new("uptime_seconds", &[], "Time since the start.", |of, out| {
            out.add(&[], of.status.site.uptime_s)
        }),
        Metric::new(
            "notices",
            &[],
            "Things that are wrong with the machine: `psmc status` has them in words.",
            |of, out| out.add(&[], of.status.site.notices.len()),
        ),
        Metric::new(
            "paths_untold",
            &[],
            "Paths without series of their own, because there are too many of them: those of the last peers.",
            |of, out| out.add(&[], of.untold_paths),
        ),
        Metric::new(
            "relay_registered",
            &["relay"],
            "Whether a relay at which the site is a gateway leads peers here.",
            |of, out| {
                of.status.site.registered.iter().try_for_each(|at| out.add(&[&at.relay], at.registered))
            },
        ),
        Metric::new(
            "events_total",
            &["event"],
            "What was refused before a peer was known, and other events of the site as a whole.",
            |of, out| of.status.counters.iter().try_for_each(|(event, count)| out.add(&[event], *count)),
        ),
        Metric::new(
            "io_calls_total",
            &["io"],
            "System calls that carried packets, by what they did: `tun_read`, `tun_written`, `udp_received`, `udp_sent`.",
            |of, out| calls(of).into_iter().try_for_each(|(io, calls)| out.add(&[io], calls.calls)),
        ),
        Metric::new("io_packets_total", &["io"], "Packets that these system calls carried.", |of, out| {
            calls(of).into_iter().try_for_each(|(io, calls)| out.add(&[io], calls.packets))
        }),
        Metric::new("ipfix_messages_total", &[], "Messages sent to the collector of flows.", |of, out| {
            out.add_known(&[], of.status.ipfix.as_ref().map(|ipfix| ipfix.messages))
        }),
        Metric::new("ipfix_records_total", &[], "Records in these messages.", |of, out| {
            out.add_known(&[], of.status.ipfix.as_ref().map(|ipfix| ipfix.records))
        }),
        Metric::new(
            "ipfix_unsent_records_total",
            &[],
            "Records that could not be sent to the collector of flows, and were lost.",
            |of, out| out.add_known(&[], of.status.ipfix.as_ref().map(|ipfix| ipfix.unsent_records)),
        ),
        Metric::new(
            "ipfix_trouble",
            &[],
            "Whether something is known to be wrong with the export of flows: `psmc status` says what.",
            |of, out| out.add_known(&[], of.status.ipfix.as_ref().map(|ipfix| ipfix.trouble.is_some())),
        ),
        Metric::new(
            "conditioned_packets_total",
            &["class", "precedence"],
            "Inner packets of a class with a profile, by the drop precedence that they were marked with.",
            |of, out| {
                of_conditioners(of, |status| {
                    status
                        .marked
                        .iter()
                        .try_for_each(|(dp, marked)| out.add(&[&status.class, dp], marked.packets))
                })
            },
        ),
        Metric::new(
            "conditioned_bytes_total",
            &["class", "precedence"],
            "Inner bytes of a class with a profile, by the drop precedence that they were marked with.",
            |of, out| {
                of_conditioners(of, |status| {
                    status
                        .marked
                        .iter()
                        .try_for_each(|(dp, marked)| out.add(&[&status.class, dp], marked.bytes))
                })
            },
        ),
        Metric::new(
            "sla_state",
            &["target"],
            "How what was promised is kept: 0 not known, 1 kept, 2 broken.",
            |of, out| of_targets(of, |target| out.add(&[&target.name], sla_state(target.state))),
        ),
        Metric::new("sla_breaches_total", &["target"], "How often a target was broken.", |of, out| {
            of_targets(of, |target| out.add(&[&target.name], target.breaches))
        }),
        Metric::new(
            "sla_round_trip_seconds",
            &["target"],
            "The percentile of the round trip in the window of a target that has a limit for it.",
            |of, out| {
                of_targets(of, |target| {
                    out.add_known(&[&target.name], target.round_trip_ms.map(|ms| ms / 1e3))
                })
            },
        ),
        Metric::new(
            "sla_loss_ratio",
            &["target", "way"],
            "The share that was lost in the window of a target that has a limit for it, `to` and `from` the peer.",
            |of, out| {
                of_targets(of, |target| {
                    let ratio = |percent: Option<f64>| percent.map(|percent| percent / 100.0);
                    out.add_known(&[&target.name, "to"], ratio(target.loss_to_pct))?;
                    out.add_known(&[&target.name, "from"], ratio(target.loss_from_pct))
                })
            },
        ),
        Metric::new(
            "sla_attacks",
            &["target"],
            "Prefixes that look attacked, and fill what is at fault for a broken target.",
            |of, out| of_targets(of, |target| out.add(&[&target.name], attacks(&target.aggregates))),
        ),
        Metric::new(
            "peer_state",
            &["peer"],
            "Whether packets get through to a peer: 0 down, 1 connecting, 2 connected.",
            |of, out| of_peers(of, |peer| out.add(&[&peer.name], peer_state(peer.state))),
        ),
        Metric::new(
            "peer_control_connected",
            &["peer"],
            "Whether there is a control connection to a peer.",
            |of, out| of_peers(of, |peer| out.add(&[&peer.name], peer.control.connected)),
        ),
        Metric::new(
            "peer_key_age_seconds",
            &["peer"],
            "Age of the keys that data are sealed with; absent before the first handshake.",
            |of, out| of_peers(of, |peer| out.add_known(&[&peer.name], peer.key_age_s)),
        ),
        Metric::new(
            "peer_keys_expired",
            &["peer"],
            "Whether nothing is sent to a peer because the keys have expired and nothing has brought others.",
            |of, out| of_peers(of, |peer| out.add(&[&peer.name], peer.keys_expired_s.is_some())),
        ),
        Metric::new(
            "peer_key_generations_total",
            &["peer"],
            "Fresh secrets that have come into use with a peer.",
            |of, out| of_peers(of, |peer| out.add(&[&peer.name], peer.key_generations)),
        ),
        Metric::new(
            "peer_key_exchanges_total",
            &["peer"],
            "Fresh secrets that were exchanged through the tunnel itself, for want of a control connection.",
            |of, out| of_peers(of, |peer| out.add(&[&peer.name], peer.key_exchanges)),
        ),
        Metric::new(
            "peer_heard_age_seconds",
            &["peer"],
            "Time since something authentic was heard of a peer; absent if nothing ever was.",
            |of, out| of_peers(of, |peer| out.add_known(&[&peer.name], peer.heard_s)),
        ),
        Metric::new("peer_sent_bytes_total", &["peer"], "Inner bytes sent to a peer.", |of, out| {
            of_peers(of, |peer| out.add(&[&peer.name], peer.tx_bytes))
        }),
        Metric::new(
            "peer_received_bytes_total",
            &["peer"],
            "Inner bytes received from a peer.",
            |of, out| of_peers(of, |peer| out.add(&[&peer.name], peer.rx_bytes)),
        ),
        Metric::new("peer_sent_packets_total", &["peer"], "Inner packets sent to a peer.", |of, out| {
            of_peers(of, |peer| out.add(&[&peer.name], peer.tx_packets))
        }),
        Metric::new(
            "peer_received_packets_total",
            &["peer"],
            "Inner packets received from a peer.",
            |of, out| of_peers(of, |peer| out.add(&[&peer.name], peer.rx_packets)),
        ),
        Metric::new(
            "peer_dropped_packets_total",
            &["peer", "reason"],
            "Inner packets of a peer that were dropped.",
            |of, out| of_peers(of, |peer| counts(out, &peer.name, &peer.drops, &[])),
        ),
        Metric::new(
            "peer_parts_total",
            &["peer", "event"],
            "Inner packets larger than a datagram, and segments whose MSS was lowered so that there are none.",
            |of, out| of_peers(of, |peer| counts(out, &peer.name, &peer.parts, &["waiting"])),
        ),
        Metric::new(
            "peer_parts_waiting_packets",
            &["peer"],
            "Inner packets of which parts are missing still.",
            |of, out| of_peers(of, |peer| out.add(&[&peer.name], count(&peer.parts, "waiting"))),
        ),
        Metric::new(
            "peer_reorder_packets_total",
            &["peer", "event"],
            "What reordering did to packets from a peer.",
            |of, out| of_peers(of, |peer| counts(out, &peer.name, &peer.reorder, &["held"])),
        ),
        Metric::new(
            "peer_reorder_held_packets",
            &["peer"],
            "Inner packets that wait for earlier ones.",
            |of, out| of_peers(of, |peer| out.add(&[&peer.name], count(&peer.reorder, "held"))),
        ),
        Metric::new(
            "peer_repair_packets_total",
            &["peer", "event"],
            "What was sent to make good what paths lose, and what was recovered.",
            |of, out| of_peers(of, |peer| counts(out, &peer.name, &peer.repair, &[])),
        ),
        Metric::new(
            "peer_open_streams",
            &["peer"],
            "TCP connections that this site and a peer end.",
            |of, out| of_streams(of, |peer, streams| out.add(&[peer], streams.open)),
        ),
        Metric::new(
            "peer_streams_total",
            &["peer", "event"],
            "TCP connections that this site and a peer end: `opened` for clients here, `accepted` for clients there, `refused` of those, and those `reset`.",
            |of, out| {
                of_streams(of, |peer, streams| {
                    let StreamsStatus { opened, accepted, refused, reset, .. } = *streams;
                    let events =
                        [("opened", opened), ("accepted", accepted), ("refused", refused), ("reset", reset)];
                    events.into_iter().try_for_each(|(event, count)| out.add(&[peer, event], count))
                })
            },
        ),
        Metric::new(
            "peer_stream_sent_bytes_total",
            &["peer"],
            "Bytes of TCP connections that this site and a peer end, sent.",
            |of, out| of_streams(of, |peer, streams| out.add(&[peer], streams.tx_bytes)),
        ),
        Metric::new(
            "peer_stream_resent_bytes_total",
            &["peer"],
            "Of these, bytes that were sent once more, since they seemed to be lost.",
            |of, out| of_streams(of, |peer, streams| out.add(&[peer], streams.resent_bytes)),
        ),
        Metric::new(
            "peer_streams_answered_total",
            &["peer"],
            "TCP connections that are ended, of clients here, of whose server a byte has come.",
            |of, out| of_streams(of, |peer, streams| out.add(&[peer], streams.answered)),
        ),
        Metric::new(
            "peer_stream_answer_seconds_total",
            &["peer"],
            "How long that took them together, from their first segment on.",
            |of, out| of_streams(of, |peer, streams| out.add(&[peer], streams.answer_time_s)),
        ),
        Metric::new(
            "peer_stream_received_bytes_total",
            &["peer"],
            "Bytes of TCP connections that this site and a peer end, received.",
            |of, out| of_streams(of, |peer, streams| out.add(&[peer], streams.rx_bytes)),
        ),
        Metric::new(
            "peer_unresponsive_bytes_total",
            &["peer", "event"],
            "Inner bytes of flows that lose much, while they are watched: `offered`, and of those `delivered`, `dropped`, or `held_back` because of a limit.",
            |of, out| {
                of_judged(of, |peer| {
                    ["offered", "delivered", "dropped", "held_back"].into_iter().try_for_each(|event| {
                        let name = format!("{event}_bytes");
                        out.add(&[&peer.name, event], count(&peer.unresponsive, &name))
                    })
                })
            },
        ),
        Metric::new(
            "peer_unresponsive_limits_total",
            &["peer"],
            "How often flows that heed no loss were found out and held down.",
            |of, out| of_judged(of, |peer| out.add(&[&peer.name], count(&peer.unresponsive, "limits"))),
        ),
        Metric::new(
            "peer_unresponsive_held",
            &["peer"],
            "Flows, or prefixes of them, that are held down.",
            |of, out| of_judged(of, |peer| out.add(&[&peer.name], count(&peer.unresponsive, "held"))),
        ),
        Metric::new(
            "peer_shed_total",
            &["peer", "event"],
            "What a peer wanted dropped here of its own traffic: messages `taken`, `replayed`, `expired` or with `too_many` rules, and rules that were `foreign`, `contradictory` or `illegal`.",
            |of, out| {
                of.status.peers.iter().try_for_each(|peer| {
                    peer.shedding.iter().try_for_each(|(event, count)| out.add(&[&peer.name, event], *count))
                })
            },
        ),
        Metric::new(
            "peer_paths_waiting",
            &["peer"],
            "Paths that a peer should have and that cannot be opened yet.",
            |of, out| of_peers(of, |peer| out.add(&[&peer.name], peer.waiting.len())),
        ),
        Metric::new(
            "class_queued_packets",
            &["peer", "class"],
            "Inner packets of a class that wait for a path.",
            |of, out| of_classes(of, |peer, class| out.add(&[peer, &class.name], class.queued_packets)),
        ),
        Metric::new(
            "class_queued_bytes",
            &["peer", "class"],
            "Inner bytes of a class that wait for a path.",
            |of, out| of_classes(of, |peer, class| out.add(&[peer, &class.name], class.queued_bytes)),
        ),
        Metric::new(
            "class_sent_packets_total",
            &["peer", "class"],
            "Inner packets of a class that have gone to a path.",
            |of, out| of_classes(of, |peer, class| out.add(&[peer, &class.name], class.tx_packets)),
        ),
        Metric::new(
            "class_marked_packets_total",
            &["peer", "class"],
            "Inner packets of a class that were marked as having experienced congestion.",
            |of, out| of_classes(of, |peer, class| out.add(&[peer, &class.name], class.marked_packets)),
        ),
        Metric::new(
            "class_put_out_packets_total",
            &["peer", "class"],
            "Inner packets of flows that built a queue in a protected class, which were put into the last one.",
            |of, out| of_classes(of, |peer, class| out.add(&[peer, &class.name], class.put_out_packets)),
        ),
        Metric::new(
            "class_superseded_packets_total",
            &["peer", "class"],
            "Acknowledgements of TCP inside that did not leave, as a later one said the same and more.",
            |of, out| of_classes(of, |peer, class| out.add(&[peer, &class.name], class.superseded_packets)),
        ),
        Metric::new(
            "class_dropped_packets_total",
            &["peer", "class", "reason"],
            "Inner packets of a class that its queue dropped.",
            |of, out| {
                of_classes(of, |peer, class| {
                    class
                        .drops
                        .iter()
                        .try_for_each(|(reason, count)| out.add(&[peer, &class.name, reason], *count))
                })
            },
        ),
        Metric::new(
            "path_state",
            PATH_LABELS,
            "What a path is doing: 0 dead, 1 probing, 2 suspect, 3 standby, 4 active. From 3 on it works.",
            |of, out| of_paths(of, |labels, path| out.add(labels, path_state(path.state))),
        ),
        Metric::new(
            "path_rtt_seconds",
            PATH_LABELS,
            "Smoothed round-trip time; absent before the first measurement.",
            |of, out| of_paths(of, |labels, path| out.add_known(labels, path.rtt_ms.map(|rtt| rtt / 1e3))),
        ),
        Metric::new(
            "path_loss_ratio",
            PATH_LABELS,
            "Share of the last hundred datagrams that was lost.",
            |of, out| of_paths(of, |labels, path| out.add(labels, path.loss_pct / 100.0)),
        ),
        Metric::new(
            "path_rate_bytes_per_second",
            PATH_LABELS,
            "Estimated delivery rate; absent before the first measurement.",
            |of, out| {
                of_paths(of, |labels, path| {
                    out.add_known(labels, path.rate_mbps.map(|rate| rate * 1e6 / 8.0))
                })
            },
        ),
        Metric::new(
            "path_mtu_bytes",
            PATH_LABELS,
            "The largest IP packet that a path is known to carry.",
            |of, out| of_paths(of, |labels, path| out.add(labels, path.mtu)),
        ),
        Metric::new(
            "path_quota_bytes",
            PATH_LABELS,
            "Bytes that the uplink of a path may carry in a period, where it has a quota.",
            |of, out| of_quotas(of, |labels, quota| out.add(labels, quota.bytes)),
        ),
        Metric::new(
            "path_quota_used_bytes",
            PATH_LABELS,
            "Bytes that the uplink of a path has carried in this period, where it has a quota; paths of one uplink share it.",
            |of, out| of_quotas(of, |labels, quota| out.add(labels, quota.used_bytes)),
        ),
        Metric::new("path_weight", PATH_LABELS, "Share of a path in the wrr scheduler.", |of, out| {
            of_paths(of, |labels, path| out.add(labels, path.weight))
        }),
        Metric::new("path_sent_bytes_total", PATH_LABELS, "Outer bytes sent on a path.", |of, out| {
            of_paths(of, |labels, path| out.add(labels, path.tx_bytes))
        }),
        Metric::new(
            "path_received_bytes_total",
            PATH_LABELS,
            "Outer bytes received on a path.",
            |of, out| of_paths(of, |labels, path| out.add(labels, path.rx_bytes)),
        ),
        Metric::new("path_sent_packets_total", PATH_LABELS, "Datagrams sent on a path.", |of, out| {
            of_paths(of, |labels, path| out.add(labels, path.tx_packets))
        }),
        Metric::new(
            "path_received_packets_total",
            PATH_LABELS,
            "Datagrams received on a path.",
            |of, out| of_paths(of, |labels, path| out.add(labels, path.rx_packets)),
        ),
        Metric::new(
            "path_lost_packets_total",
            PATH_LABELS,
            "Datagrams sent on a path and declared lost.",
            |of, out| of_paths(of, |labels, path| out.add(labels, path.lost_packets)),
        ),
    ],
};

/// What is scraped at a time.
#[derive(Debug)]
pub struct Scraped {
    status: Status,
    /// Paths that are left out of it.
    untold_paths: usize,
}

/// So many paths have series of their own, as many as are written in some ten milliseconds: those of further ones would cost whoever
/// keeps them more than they are worth. `psmc status` tells of all.
const MAX_PATHS: usize = 2048;

impl Scraped {
    /// Of a site that has this status, whose peers' paths [can be told apart](tell_paths_apart).
    #[must_use]
    pub fn new(mut status: Status) -> Self {
        let (mut room, mut untold_paths) = (MAX_PATHS, 0);
        for peer in &mut status.peers {
            untold_paths += peer.paths.len().saturating_sub(room);
            peer.paths.truncate(room);
            room -= peer.paths.len();
        }
        Self { status, untold_paths }
    }
}

/// Leaves out paths that are closing, whose names may have others by now, and those of a name that the peer has given twice.
pub fn tell_paths_apart(peer: &mut PeerStatus) {
    let mut known = BTreeSet::new();
    peer.paths.retain(|path| {
        path.state != PathState::Closing && known.insert((opened_by(path), path.name.clone()))
    });
}

/// Who has opened a path: only one of ours has an uplink.
fn opened_by(path: &PathStatus) -> &'static str {
    if path.uplink.is_some() { "site" } else { "peer" }
}

fn calls(scraped: &Scraped) -> [(&'static str, Calls); 4] {
    let batches = &scraped.status.batches;
    [
        ("tun_read", batches.tun_read),
        ("tun_written", batches.tun_written),
        ("udp_received", batches.udp_received),
        ("udp_sent", batches.udp_sent),
    ]
}

fn of_conditioners(scraped: &Scraped, add: impl FnMut(&ConditionerStatus) -> fmt::Result) -> fmt::Result {
    scraped.status.conditioners.iter().try_for_each(add)
}

fn of_targets(scraped: &Scraped, add: impl FnMut(&SlaStatus) -> fmt::Result) -> fmt::Result {
    scraped.status.sla.iter().try_for_each(add)
}

fn of_peers(scraped: &Scraped, add: impl FnMut(&PeerStatus) -> fmt::Result) -> fmt::Result {
    scraped.status.peers.iter().try_for_each(add)
}

/// Those with whom TCP connections are ended.
fn of_streams(scraped: &Scraped, mut add: impl FnMut(&str, &StreamsStatus) -> fmt::Result) -> fmt::Result {
    of_peers(scraped, |peer| peer.streams.iter().try_for_each(|streams| add(&peer.name, streams)))
}

/// Those whose flows are judged by what they do after losses.
fn of_judged(scraped: &Scraped, add: impl FnMut(&PeerStatus) -> fmt::Result) -> fmt::Result {
    scraped.status.peers.iter().filter(|peer| !peer.unresponsive.is_empty()).try_for_each(add)
}

fn of_classes(scraped: &Scraped, mut add: impl FnMut(&str, &ClassStatus) -> fmt::Result) -> fmt::Result {
    of_peers(scraped, |peer| peer.classes.iter().try_for_each(|class| add(&peer.name, class)))
}

fn of_paths(scraped: &Scraped, mut add: impl FnMut(&[&str], &PathStatus) -> fmt::Result) -> fmt::Result {
    of_peers(scraped, |peer| {
        let mut paths = peer.paths.iter();
        paths.try_for_each(|path| add(&[&peer.name, &path.name, opened_by(path)], path))
    })
}

fn of_quotas(scraped: &Scraped, mut add: impl FnMut(&[&str], &QuotaStatus) -> fmt::Result) -> fmt::Result {
    of_paths(scraped, |labels, path| path.quota.as_ref().map_or(Ok(()), |quota| add(labels, quota)))
}

/// Adds what a peer has counted, but for `others`, which are no counters.
fn counts(out: &mut Values<'_>, peer: &str, counts: &BTreeMap<String, u64>, others: &[&str]) -> fmt::Result {
    let mut counts = counts.iter().filter(|(name, _)| !others.contains(&name.as_str()));
    counts.try_for_each(|(name, count)| out.add(&[peer, name], *count))
}

fn count(counts: &BTreeMap<String, u64>, name: &str) -> u64 {
    counts.get(name).copied().unwrap_or_default()
}

fn attacks(aggregates: &[SlaAggregate]) -> usize {
    aggregates.iter().filter(|aggregate| aggregate.cause == SlaCause::Attack).count()
}

fn sla_state(state: SlaState) -> u64 {
    match state {
        SlaState::Unknown => 0,
        SlaState::Met => 1,
        SlaState::Broken => 2,
    }
}

fn peer_state(state: PeerState) -> u64 {
    match state {
        PeerState::Down => 0,
        PeerState::Connecting => 1,
        PeerState::Connected => 2,
    }
}

fn path_state(state: PathState) -> u64 {
    match state {
        PathState::Dead | PathState::Closing => 0,
        PathState::Probing => 1,
        PathState::Suspect => 2,
        PathState::Standby => 3,
        PathState::Active => 4,
    }
}

#[cfg(test)]
mod tests;
