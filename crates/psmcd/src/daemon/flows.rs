//! Flows for whoever asks: those that lose much, and what is done about them; and TCP connections that end here.

use std::cmp::Reverse;
use std::net::SocketAddr;
use std::time::Instant;

use psmc_api::{EndedFlow, FlowLimit, FlowStatus, Flows, Response};
use psmc_core::StreamStatus;
use psmc_core::police::{AggregateStatus, Facts, PoliceMode};

use super::DaemonError;
use super::control::Control;

impl Control {
    /// Those of all peers, in the order of the peers.
    pub(super) async fn flows(&self) -> Result<Response, DaemonError> {
        let mode = match self.site.unresponsive.map(|police| police.mode) {
            None => "off",
            Some(PoliceMode::Police) => "police",
            Some(PoliceMode::Seed { .. }) => "seed",
        };
        let peers: Vec<_> = self.peers.iter().map(|peer| (peer.id, peer.config.name.to_string())).collect();
        let flows = self.plane.call(move |plane| {
            let now = Instant::now();
            let (mut flows, mut ended) = (Vec::new(), Vec::new());
            for (id, name) in peers {
                let aggregates = plane.site.aggregates(id).into_iter();
                let class = |number| plane.site.class_name(number?).map(str::to_owned);
                flows.extend(aggregates.map(|one| flow_status(&name, class(one.aggregate.class), &one, now)));
                let streams = plane.site.peer(id).map(|peer| peer.streams()).unwrap_or_default();
                ended.extend(busiest(streams).map(|stream| ended_flow(&name, &stream, now)));
            }
            (flows, ended)
        });
        let (flows, ended) = flows.await?;
        Ok(Response::Flows(Flows { mode: mode.to_owned(), flows, ended }))
    }
}

/// Those with the most bytes, those first.
fn busiest(mut streams: Vec<StreamStatus>) -> impl Iterator<Item = StreamStatus> {
    streams.sort_by_key(|stream| Reverse(stream.sent + stream.received));
    streams.into_iter().take(MOST_ENDED)
}

fn ended_flow(peer: &str, stream: &StreamStatus, now: Instant) -> EndedFlow {
    EndedFlow {
        peer: peer.to_owned(),
        client: stream.opening.client.to_string(),
        server: stream.opening.server.to_string(),
        is_from_here: stream.is_from_here,
        stands: stream.stands,
        age_s: now.saturating_duration_since(stream.since).as_secs_f64(),
        first_byte_s: stream.first_byte.map(|time| time.as_secs_f64()),
        tx_bytes: stream.sent,
        resent_bytes: stream.resent,
        rx_bytes: stream.received,
        waiting_bytes: stream.waiting,
        held_bytes: stream.held,
        window_bytes: stream.window,
    }
}

/// Of each peer.
const MOST_ENDED: usize = 1000;

fn flow_status(peer: &str, class: Option<String>, one: &AggregateStatus, now: Instant) -> FlowStatus {
    let limit = one.limit.map(|limit| FlowLimit {
        since_s: now.saturating_duration_since(limit.since).as_secs_f64(),
        bits_per_second: limit.rate,
        loss_pct: limit.loss * 100.0,
    });
    FlowStatus {
        peer: peer.to_owned(),
        class,
        is_dropped_behind: one.is_reported,
        kind: one.aggregate.kind.name().to_owned(),
        sources: one.aggregate.prefix.to_string(),
        destinations: one.aggregate.destinations.map(|prefix| prefix.to_string()),
        is_one_flow: one.aggregate.flow.is_some(),
        example: one.example.map(|example| ends(&example)),
        candidate_of: one.suspected_by.as_deref().map(str::to_owned),
        offered_bits_per_second: one.offered,
        delivered_bits_per_second: one.delivered,
        loss_pct: one.loss * 100.0,
        offered_bytes: one.counts.offered,
        held_back_bytes: one.counts.held_back,
        delivered_bytes: one.counts.delivered,
        dropped_bytes: one.counts.dropped,
        limit,
    }
}

/// Both ends of a packet.
fn ends(packet: &Facts) -> String {
    match packet.ports {
        Some([from, to]) => {
            let (from, to) = (SocketAddr::new(packet.source, from), SocketAddr::new(packet.destination, to));
            format!("{from} to {to}")
        }
        None => format!("{} to {}", packet.source, packet.destination),
    }
}
