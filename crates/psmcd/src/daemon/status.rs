//! The state of the site, as people see it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use psmc_core::condition::{Conditioning, Precedence};
use psmc_core::police::{Counts, PoliceCounters};
use psmc_core::shed::ShedCounts;
use psmc_core::{self as core, PeerId, RefusalCounters, Tier};
use psmc_net::keys::PublicKey;
use psmc_wire::frame::PathUse;
use tokio::task::yield_now;

use super::DaemonError;
use super::control::Control;
use super::paths::OpenPath;
use super::peers::Peer;
use super::plane::{Plane, PlaneCounters};
use super::relays::{Keeper, Keeping};
use super::why::{Known, Why};
use psmc_api::{
    ClassStatus, ConditionerStatus, ControlStatus, Marked, PathEcn, PathSlot, PathState, PathStatus,
    PeerState, PeerStatus, SiteStatus, Status,
};

/// Peers of which the data plane tells at once: packets wait for no more than that.
pub(super) const PEERS_AT_A_TIME: usize = 64;

impl Control {
    /// Collects the state of everything.
    pub(super) async fn status(&self) -> Result<Status, DaemonError> {
        let mut peers = Vec::with_capacity(self.peers.len());
        let ids: Vec<_> = self.peers.iter().map(|peer| peer.id).collect();
        for some in ids.chunks(PEERS_AT_A_TIME) {
            peers.extend(self.peer_statuses(some.to_vec()).await?);
            // What else there is to do does not wait for all of them.
            yield_now().await;
        }
        self.status_with(peers).await
    }

    /// The state of some peers, in their order, of those that there still are.
    pub(super) async fn peer_statuses(&self, ids: Vec<PeerId>) -> Result<Vec<PeerStatus>, DaemonError> {
        let collect = move |plane: &mut Plane| {
            let of_peer = |id| (id, plane.site.status(id).map(|session| Session::of(id, session, plane)));
            ids.into_iter().map(of_peer).collect::<Vec<_>>()
        };
        let collected = self.plane.call(collect);
        let (sessions, now) = (collected.await?, Instant::now());
        // They are in the order of the peers.
        let mut index = 0;
        let known = sessions.into_iter().filter_map(|(id, session)| {
            index += self.peers.iter().skip(index).position(|peer| peer.id == id)?;
            Some(self.peer_status(index, &session?, now))
        });
        Ok(known.collect())
    }

    /// The state of everything, with these peers.
    pub(super) async fn status_with(&self, peers: Vec<PeerStatus>) -> Result<Status, DaemonError> {
        let collected =
            self.plane.call(|plane| (*plane.site.refusals(), plane.counters(), plane.site.conditioners()));
        let (refusals, plane, conditioners) = collected.await?;
        let now = Instant::now();
        Ok(Status {
            site: self.site_status(now),
            peers,
            counters: self.counters(&refusals, plane),
            batches: plane.batches,
            conditioners: conditioners.iter().map(conditioner_status).collect(),
            sla: self.slas.statuses(now),
            ipfix: self.exporter.status(),
        })
    }

    fn site_status(&self, now: Instant) -> SiteStatus {
        SiteStatus {
            name: self.site.name.to_string(),
            public_key: self.identity.public().to_string(),
            interface: self.network.interface_name().to_owned(),
            addresses: self.site.addresses.iter().map(ToString::to_string).collect(),
            listen: self.listening(),
            registered: self.relays.registration_statuses(),
            invitations: self.invitations.statuses(),
            notices: self.network.forwarding().cloned().into_iter().collect(),
            uptime_s: seconds(now.duration_since(self.started)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    fn counters(&self, refusals: &RefusalCounters, plane: PlaneCounters) -> BTreeMap<String, u64> {
        let tls = self.connections.counters();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let control = [
            ("control_accepted", read(&tls.accepted)),
            ("control_unknown_key", read(&tls.refused_unknown_key)),
            ("control_failed_handshake", read(&tls.failed_handshake)),
            ("control_put_off", read(&tls.put_off)),
            ("control_evicted", read(&tls.evicted)),
            ("control_timed_out", read(&tls.timed_out)),
            ("control_overflowed", read(&tls.overflowed)),
            ("control_accept_errors", read(&tls.accept_errors)),
            ("control_malformed", self.connections.malformed()),
            ("log_lines_lost", psmc_service::logging::dropped()),
            ("tun_drops", plane.tun_drops),
            ("send_drops", plane.send_drops),
        ];
        let refused = refusals.iter().map(|(refusal, count)| (refusal.name(), count));
        control.into_iter().chain(refused).map(|(name, count)| (name.to_owned(), count)).collect()
    }

    fn peer_status(&self, index: usize, session: &Session, now: Instant) -> PeerStatus {
        let peer = &self.peers[index];
        let Session { status: session, ports, stands_by_for } = session;
        let routes = peer.routes.were_learned().then(|| self.routes_status(index));
        let known = Known::of(session, now);
        let paths = session.paths.iter().zip(ports);
        let path_status = |(path, port): (_, &Option<u16>)| PathStatus {
            local_port: *port,
            ..self.path_status(path, peer, known)
        };
        let paths: Vec<_> = paths.map(path_status).collect();
        let heard_at = session.paths.iter().filter_map(|path| path.heard_at).max();
        let carries = session.keys_ended.is_none()
            && paths.iter().any(|path| matches!(path.state, PathState::Active | PathState::Standby));
        let counters = &session.counters;
        PeerStatus {
            name: peer.config.name.to_string(),
            public_key: peer.config.public_key.to_string(),
            software: session.software.clone(),
            state: match (carries, session.connected_since) {
                (true, _) => PeerState::Connected,
                // It was there, and no path works any more.
                (false, Some(_)) if heard_at.is_some() => PeerState::Down,
                (false, Some(_)) => PeerState::Connecting,
                (false, None) if peer.is_dialed() => PeerState::Connecting,
                (false, None) => PeerState::Down,
            },
            control: ControlStatus {
                connected: session.connected_since.is_some(),
                since_s: seconds(now.duration_since(session.connected_since.unwrap_or(self.started))),
                last_error: peer.last_error.clone(),
            },
            allowed_ips: peer.config.allowed_ips.iter().map(|allowed| allowed.net().to_string()).collect(),
            stands_by_for: stands_by_for.iter().map(ToString::to_string).collect(),
            added: peer.is_added,
            routes,
            scheduler: session.scheduler.name().to_owned(),
            key_generations: session.key_generations,
            key_exchanges: session.key_exchanges,
            keys_expired_s: session.keys_ended.map(|at| seconds(now.saturating_duration_since(at))),
            key_age_s: session.key.map(|(since, _)| seconds(now.duration_since(since))),
            epoch: session.key.map(|(_, epoch)| u64::from(epoch)),
            tx_bytes: counters.tx_bytes,
            rx_bytes: counters.rx_bytes,
            tx_packets: counters.tx_packets,
            rx_packets: counters.rx_packets,
            udp_rate_limit_mbps: session.udp_rate_limit.map(megabits),
            drops: drops(session),
            parts: parts(session),
            reorder: reorder(session),
            repair: repair(session),
            unresponsive: session.police.as_ref().map(unresponsive).unwrap_or_default(),
            shedding: shedding(session.shed),
            streams: session.streams.map(|counters| stream_status(counters, session.open_streams)),
            classes: session.classes.iter().map(class_status).collect(),
            heard_s: heard_at.map(|at| seconds(now.saturating_duration_since(at))),
            paths,
            waiting: peer.waiting.status(now),
        }
    }

    fn path_status(&self, path: &core::PathStatus, peer: &Peer, known: Known) -> PathStatus {
        let open = peer.path_named(&path.name).filter(|open| path.opened_here && open.id == path.id);
        let mut status = path_status(path, open);
        status.slot = path.slot.map(|slot| PathSlot {
            period_s: seconds(slot.period),
            length_ms: milliseconds(slot.length),
            next_s: seconds(slot.next(known.now).saturating_duration_since(known.now)),
        });
        status.since_s = seconds(known.now.saturating_duration_since(path.since));
        status.why = Why::of(path, open, known).map(|why| why.to_string());
        status.quota = open.and_then(|open| self.quotas.status(&open.settings));
        status.added = open.is_some_and(|open| peer.by_hand.added.contains(&open.settings.name));
        if let Some(relay) = path.relay.filter(|_| !path.opened_here) {
            let known = self.relays.known().iter().find(|known| *known.public_key.as_bytes() == relay.0);
            let key = || PublicKey::from_bytes(relay.0).to_string();
            status.relays = vec![known.map_or_else(key, |known| known.name.to_string())];
        }
        status
    }
}

/// A session, the local ports of its paths, and networks that others have at present.
struct Session {
    status: core::PeerStatus,
    ports: Vec<Option<u16>>,
    stands_by_for: Vec<IpNet>,
}

impl Session {
    fn of(peer: PeerId, status: core::PeerStatus, plane: &Plane) -> Self {
        let ports = status.paths.iter().map(|path| plane.local_port(path.address.socket)).collect();
        Self { status, ports, stands_by_for: plane.site.waits_for(peer) }
    }
}

/// What has become of what a peer wanted dropped here; nothing if it has wanted nothing.
fn shedding(counts: ShedCounts) -> BTreeMap<String, u64> {
    if counts == ShedCounts::default() {
        return BTreeMap::new();
    }
    let ShedCounts { taken, replayed, expired, too_many, foreign, contradictory, illegal } = counts;
    let counts = [
        ("taken", taken),
        ("replayed", replayed),
        ("expired", expired),
        ("too_many", too_many),
        ("foreign", foreign),
        ("contradictory", contradictory),
        ("illegal", illegal),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Flows that lose much, and those among them that are held down.
fn unresponsive(counters: &PoliceCounters) -> BTreeMap<String, u64> {
    let Counts { offered, held_back, delivered, dropped } = counters.watched;
    let counts = [
        ("offered_bytes", offered),
        ("held_back_bytes", held_back),
        ("delivered_bytes", delivered),
        ("dropped_bytes", dropped),
        ("limits", counters.limits),
        ("held", counters.held),
        ("held_bits_per_second", counters.held_rate),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Packets that are larger than a datagram of their path.
fn parts(session: &core::PeerStatus) -> BTreeMap<String, u64> {
    let assembly = &session.assembly;
    let counts = [
        ("mss_lowered", session.counters.mss_lowered),
        ("split", session.counters.split),
        ("joined", assembly.joined),
        ("waiting", assembly.waiting as u64),
        ("incomplete", assembly.incomplete),
        ("refused", assembly.refused),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// What reordering did to the inner packets received.
fn reorder(session: &core::PeerStatus) -> BTreeMap<String, u64> {
    let counters = &session.reorder;
    let counts = [
        ("delivered", counters.delivered),
        ("held", counters.held as u64),
        ("late", counters.late),
        ("skipped", counters.skipped),
        ("jumps", counters.jumps),
        ("released_by_deadline", counters.released_by_deadline),
        ("released_by_horizon", counters.released_by_horizon),
        ("released_by_limit", counters.released_by_limit),
        ("released_by_buffer", counters.released_by_buffer),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

/// What was sent to make good what paths lose, and what was recovered of what the peer's paths lost.
fn repair(session: &core::PeerStatus) -> BTreeMap<String, u64> {
    let counters = &session.counters.repair;
    let resent: u64 = session.paths.iter().map(|path| path.counters.resent_packets).sum();
    let counts = [
        ("resent", resent + session.counters.forgotten_resent),
        ("tx_copies", counters.tx_copies),
        ("tx_repairs", counters.tx_repairs),
        ("dropped", counters.dropped),
        ("rx_repairs", counters.rx_repairs),
        ("recovered", counters.recovered),
        ("unsolved", counters.unsolved),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn conditioner_status(status: &core::ConditionerStatus) -> ConditionerStatus {
    let Conditioning { profile, mode, mark } = status.conditioning;
    let marked = Precedence::ALL.into_iter().zip(status.marked).map(|(precedence, marked)| {
        let core::condition::Marked { packets, bytes } = marked;
        (format!("dp{}", precedence.number()), Marked { packets, bytes })
    });
    ConditionerStatus {
        class: status.class.clone(),
        mode: mode.name().to_owned(),
        rate_mbps: profile.rate as f64 / 1e6,
        burst_bytes: profile.burst,
        mark: mark.map(|mark| format!("AF{}", mark.number())),
        marked: marked.collect(),
    }
}

fn stream_status(counters: core::StreamCounters, open: usize) -> psmc_api::StreamsStatus {
    psmc_api::StreamsStatus {
        open: open as u64,
        opened: counters.opened,
        accepted: counters.accepted,
        refused: counters.refused,
        reset: counters.reset,
        tx_bytes: counters.tx_bytes,
        resent_bytes: counters.resent_bytes,
        answered: counters.answered,
        answer_time_s: counters.answer_time.as_secs_f64(),
        rx_bytes: counters.rx_bytes,
    }
}

fn class_status(class: &core::ClassStatus) -> ClassStatus {
    let counters = class.counters;
    let drops = [
        ("codel", counters.dropped_by_codel),
        ("full", counters.dropped_full),
        ("stale", counters.dropped_stale),
    ];
    ClassStatus {
        name: class.name.clone(),
        queued_packets: class.queued_packets as u64,
        queued_bytes: class.queued_bytes,
        is_stuck: class.is_stuck,
        tx_packets: counters.passed,
        marked_packets: counters.marked,
        put_out_packets: counters.put_out,
        superseded_packets: counters.superseded,
        drops: drops.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
    }
}

/// What was dropped of a session's inner packets.
fn drops(session: &core::PeerStatus) -> BTreeMap<String, u64> {
    let path_queue: u64 = session.paths.iter().map(|path| path.counters.dropped_packets).sum();
    let counts = [
        ("queue", session.queue_drops),
        ("path_queue", path_queue + session.counters.forgotten_dropped),
        ("udp_rate_limit", session.counters.udp_limited),
        ("unresponsive", session.counters.unresponsive),
        ("shed", session.counters.shed),
        ("duplicate", session.reorder.duplicates),
    ];
    counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn path_status(path: &core::PathStatus, open: Option<&OpenPath>) -> PathStatus {
    let settings = open.map(|open| &open.settings);
    let keeping = open.and_then(|open| open.keeper.as_ref()).map(Keeper::keeping).unwrap_or_default();
    let counters = &path.counters;
    let is_in_tunnel = open.is_some_and(OpenPath::is_in_tunnel);
    PathStatus {
        name: path.name.clone(),
        id: u32::from(path.id.0),
        state: path_state(path),
        since_s: 0.0,
        why: None,
        portal: open.and_then(|open| open.portal.clone()),
        added: false,
        local: path.address.local_ip.map(|ip| ip.to_string()),
        local_port: None,
        // What a machine unwraps on the way says nothing about the way to it.
        seen_as: path.seen_as.filter(|_| !is_in_tunnel).map(|seen| seen.to_string()),
        remote: Some(path.address.remote.to_string()),
        relays: relay_names(open, &keeping),
        ip_in_ip: is_in_tunnel,
        in_stream: open.is_some_and(OpenPath::is_in_stream),
        relay_error: keeping.error,
        interface: settings.and_then(|settings| settings.interface.as_ref()).map(ToString::to_string),
        uplink: open.map(OpenPath::uplink),
        weight: path.weight,
        tier: path.tier.name().to_owned(),
        direction: path.direction.name().to_owned(),
        quota: None,
        max_rate_mbps: path.max_rate.map(megabits),
        mtu: path.mtu,
        narrower_than: path.narrower_than,
        rtt_ms: path.rtt.map(|(smoothed, _)| milliseconds(smoothed)),
        rtt_var_ms: path.rtt.map(|(_, variation)| milliseconds(variation)),
        loss_pct: 100.0 * path.loss,
        ecn: match path.ecn.state {
            core::EcnState::Trying => PathEcn::Trying,
            core::EcnState::Capable => PathEcn::Capable,
            core::EcnState::Failed => PathEcn::Failed,
        },
        marked_pct: share_pct(path.ecn.marked_packets, path.ecn.capable_packets),
        slot: None,
        bottleneck: path.bottleneck,
        rate_mbps: path.rate.map(megabits),
        tx_bytes: counters.tx_bytes,
        rx_bytes: path.received.bytes,
        tx_packets: counters.tx_packets,
        rx_packets: path.received.packets,
        lost_packets: counters.lost_packets,
        undelivered: counters.undelivered,
    }
}

/// Its state, in which its use is told, too.
pub(super) fn path_state(path: &core::PathStatus) -> PathState {
    let is_spared = path.usage == PathUse::Standby || path.tier >= Tier::Backup;
    match (path.state, path.usage) {
        (_, PathUse::Closed) => PathState::Closing,
        (core::PathState::Active, _) if is_spared => PathState::Standby,
        (core::PathState::Active, _) => PathState::Active,
        (core::PathState::Suspect, _) => PathState::Suspect,
        (core::PathState::Probing, _) => PathState::Probing,
        (core::PathState::Dead, _) => PathState::Dead,
    }
}

/// Through which machines a path of this site leads.
fn relay_names(open: Option<&OpenPath>, keeping: &Keeping) -> Vec<String> {
    match open {
        Some(open) if open.is_in_plain_tunnel() => {
            open.settings.relays.iter().map(ToString::to_string).collect()
        }
        Some(_) | None => keeping.relays.iter().map(|relay| relay.name.to_string()).collect(),
    }
}

/// So many hundredths of `whole`, none of which is none.
fn share_pct(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn megabits(bits: u64) -> f64 {
    bits as f64 / 1e6
}
