//! Collecting the status from where it arises.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use psmc_core::relay::{LaneStatus, PlainCounters, PlainStatus, PlainWay, Refusals, SessionStatus};
use psmc_net::keys::PublicKey;
use psmc_net::tls::Counters;
use psmc_wire::ids::KeyBytes;

use super::{Datagrams, Refused, Session, Site, Status, Tunnel, TunnelPackets, TunnelWay, Way};
use crate::control::{Hub, Streams};
use crate::worker::{Moved, Worker, WorkerDied};

/// The version of the status.
const VERSION: u32 = 1;

/// Looks at a relay. Clones look at the same one.
#[derive(Clone)]
pub(crate) struct Observer {
    hub: Arc<Hub>,
    streams: Arc<Streams>,
    handshakes: Arc<Counters>,
    started: Instant,
}

impl Observer {
    pub(crate) fn new(hub: Arc<Hub>, streams: Arc<Streams>, handshakes: Arc<Counters>) -> Self {
        Self { hub, streams, handshakes, started: Instant::now() }
    }

    /// The relay as it stands.
    pub(crate) async fn status(&self) -> Result<Status, WorkerDied> {
        let members = self.hub.all_members();
        let names: BTreeMap<KeyBytes, String> =
            members.iter().map(|member| (member.account.key(), member.name.clone())).collect();
        let name_of = |key: &KeyBytes| names.get(key).cloned().unwrap_or_default();
        let (mut datagrams, mut refused, mut sessions) =
            (Datagrams::default(), Refused::default(), Vec::new());
        let (mut heard_too_big, mut tunnels, mut tunnel_packets) =
            (None, Vec::new(), TunnelPackets::default());
        for seen in self.hub.of_each_worker(look).await? {
            if let Some(heard) = seen.heard_too_big {
                heard_too_big = Some(heard);
            }
            // One worker has all of them.
            if !seen.tunnels.is_empty() {
                tunnels = seen.tunnels.iter().map(|tunnel| Tunnel::new(tunnel, name_of)).collect();
                tunnel_packets = seen.tunnel_packets.into();
            }
            datagrams.add(&seen.moved);
            refused.add(&seen.refusals);
            sessions
                .extend(seen.sessions.iter().map(|session| session_status(session, name_of(&session.site))));
        }
        Ok(Status {
            version: VERSION,
            name: self.hub.name.clone(),
            uptime_s: self.started.elapsed().as_secs(),
            max_rate_bits_per_second: self.hub.total_rate(),
            sites: members
                .iter()
                .map(|member| Site {
                    name: member.name.clone(),
                    public_key: PublicKey::from_bytes(member.account.key().0).to_string(),
                    sessions: member.account.sessions(),
                    max_sessions: member.account.max_sessions(),
                    rate_bits_per_second: member.rate(),
                })
                .collect(),
            sessions,
            gateways: self.hub.gateways.count(),
            streams: self.streams.open.load(Ordering::Relaxed),
            stream_bytes: self.streams.bytes.load(Ordering::Relaxed),
            datagrams,
            refused,
            heard_too_big,
            tunnels,
            tunnel_packets,
            shedding: self.hub.shedding(name_of).await,
            control_accepted: self.handshakes.accepted.load(Ordering::Relaxed),
            control_unknown_key: self.handshakes.refused_unknown_key.load(Ordering::Relaxed),
            control_failed_handshake: self.handshakes.failed_handshake.load(Ordering::Relaxed),
        })
    }
}

/// What one worker knows.
struct Seen {
    moved: Moved,
    refusals: Refusals,
    sessions: Vec<SessionStatus>,
    /// `None` from workers that do not hear it.
    heard_too_big: Option<u64>,
    tunnels: Vec<PlainStatus>,
    tunnel_packets: PlainCounters,
}

fn look(worker: &mut Worker) -> Seen {
    let now = Instant::now();
    let (tunnels, tunnel_packets) = worker.plain_status(now);
    Seen {
        moved: worker.moved,
        refusals: worker.relay.refusals,
        sessions: worker.relay.sessions(now).collect(),
        heard_too_big: worker.hears_errors().then_some(worker.moved.heard_too_big),
        tunnels,
        tunnel_packets,
    }
}

fn session_status(session: &SessionStatus, site: String) -> Session {
    Session {
        id: format!("{:016x}", session.id.0),
        site,
        rate_bits_per_second: session.rate,
        idle_s: session.idle_s,
        to_far: way(&session.to_far),
        to_near: way(&session.to_near),
    }
}

fn way(lane: &LaneStatus) -> Way {
    Way {
        address: lane.address.map(|address| address.remote.to_string()),
        tunnel: lane.address.and_then(|address| Some(address.tunnel?.end.to_string())),
        datagrams: lane.datagrams,
        bytes: lane.bytes,
        waiting: lane.waiting,
        dropped: lane.dropped,
    }
}

impl Datagrams {
    fn add(&mut self, moved: &Moved) {
        // What is heard of it has a place of its own.
        let Moved {
            received,
            received_bytes,
            sent,
            sent_bytes,
            runs,
            send_drops,
            strayed,
            stray_drops,
            heard_too_big: _,
        } = *moved;
        self.received += received;
        self.received_bytes += received_bytes;
        self.sent += sent;
        self.sent_bytes += sent_bytes;
        self.runs += runs;
        self.send_drops += send_drops;
        self.strayed += strayed;
        self.stray_drops += stray_drops;
    }
}

impl Refused {
    fn add(&mut self, refusals: &Refusals) {
        let Refusals {
            malformed,
            unknown_label,
            replayed,
            forged,
            misaddressed,
            too_many_hops,
            no_address,
            too_long,
            queue_full,
            dropped,
            shed,
        } = *refusals;
        self.malformed += malformed;
        self.unknown_label += unknown_label;
        self.replayed += replayed;
        self.forged += forged;
        self.misaddressed += misaddressed;
        self.too_many_hops += too_many_hops;
        self.no_address += no_address;
        self.too_long += too_long;
        self.queue_full += queue_full;
        self.shed += shed;
        for (sum, count) in self.dropped.iter_mut().zip(dropped) {
            *sum += count;
        }
    }
}

impl Tunnel {
    pub(super) fn new(status: &PlainStatus, name_of: impl Fn(&KeyBytes) -> String) -> Self {
        let [to_left, to_right] = status.ways.each_ref().map(|it| tunnel_way(it, &name_of));
        Self { name: status.name.clone(), rate_bits_per_second: status.rate, to_left, to_right }
    }
}

fn tunnel_way(way: &PlainWay, name_of: impl Fn(&KeyBytes) -> String) -> TunnelWay {
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
            shed,
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
            shed,
            cut,
            errors_sent,
            heard_too_big,
            heard_unreachable,
        }
    }
}

impl TunnelPackets {
    /// Why packets went no further, and how many did.
    pub(crate) fn refused(&self) -> [(&'static str, u64); 8] {
        [
            ("malformed", self.malformed),
            ("misaddressed", self.misaddressed),
            ("congested", self.congested),
            ("expired", self.expired),
            ("too_big", self.too_big),
            ("queue_full", self.queue_full),
            ("shed", self.shed),
            ("no_end", self.no_end),
        ]
    }
}
