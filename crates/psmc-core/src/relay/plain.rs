//! Plain tunnels of IPv4 in IPv4 (RFC 2003): the relay as the router between two ends that know nothing of it but its
//! address, such as a kernel's tunnel device.
//!
//! ```text
//!   left end ══ outer: left → relay ══▶ relay ══ outer: relay → right ══▶ right end
//!               inner: a → b                     inner: a → b, one less to live
//! ```
//!
//! There is no key that ends could prove to have. So who they are, and which addresses are behind each, is
//! configured: a packet passes only from an end of a pair to the other, and only if its inner source is behind the one
//! and its inner destination behind the other. Nobody is reached otherwise, and nobody is feigned who is not behind
//! the end that sends. Where an end is can be left to a site that has a key: then it is wherever that site registers
//! from, and nowhere while it does not.

mod errors;
mod pair;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_wire::ids::KeyBytes;
use psmc_wire::ip::{
    Fragments, IPV4_HEADER_LEN, Ipv4, Problem, TunnelError, decapsulate, encapsulate, forward,
};
use rand_pcg::Pcg64Mcg;

use errors::HOST;
use pair::Pair;
pub use pair::{PlainCounters, PlainEnd, PlainOuter, PlainPair, PlainStatus, PlainWay};

use crate::classify::classify;
use crate::limiter::Limiter;
use crate::relay::queues::{MAX_LEN, Queues, Turn};
use crate::relay::rio::Lane;
use crate::relay::session::Side;
use crate::relay::shedding::Shedding;
use crate::shed::Held;

/// What all ICMP errors may take, in bits per second: some two hundred of them, as routers bound them (RFC 1812, section
/// 4.3.2.8). Who sends what fits nowhere gets no traffic of the same size back.
const ERRORS_RATE: u64 = 1_000_000;

/// What plain tunnels are told at their start.
#[derive(Clone, Debug)]
pub struct PlainTunnelsConfig {
    /// The pairs. No two of them can mean the same packet.
    pub pairs: Vec<PlainPair>,
    /// Packets that wait at most, of all pairs together.
    pub max_waiting: usize,
    /// What all of the relay may send together.
    pub total: Arc<Limiter>,
    /// For the drops of the queues, which need not be unpredictable.
    pub seed: u64,
    /// Where its clock begins.
    pub origin: Instant,
}

/// Takes packets that are to be sent, each of an outer header and an inner packet. A source address of 0 is left to the
/// kernel.
pub trait Packets {
    /// Takes a packet.
    fn push(&mut self, header: &[u8; IPV4_HEADER_LEN], inner: &[u8]);
}

/// From one side of a pair to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Direction {
    pair: u32,
    to: Side,
}

/// All plain tunnels of a relay.
///
/// 1. [`claims`](Self::claims) says whether a packet of protocol 4 is for
///    [`handle_packet`](Self::handle_packet), which gives what is to be sent at once.
///    [`reconfigure`](Self::reconfigure) and [`place_site`](Self::place_site) may come at any time between packets.
/// 2. What ICMP says goes to [`handle_error`](Self::handle_error), whatever it is about.
/// 3. When the time of [`poll_timeout`](Self::poll_timeout) has come: [`handle_timeout`](Self::handle_timeout). To be
///    early is harmless.
#[derive(Debug)]
pub struct PlainTunnels {
    /// What went no further.
    pub counters: PlainCounters,
    /// By numbers, none of which is ever given again: turns of a pair that has gone find nothing.
    pairs: BTreeMap<u32, Pair>,
    next_pair: u32,
    /// The numbers in the order of the configuration.
    order: Vec<u32>,
    /// The directions of what comes from each end.
    from: BTreeMap<Ipv4Addr, Vec<Direction>>,
    queues: Queues,
    shedding: Shedding,
    total: Arc<Limiter>,
    errors: Limiter,
    /// For pieces of a packet that is cut.
    piece: Vec<u8>,
    rng: Pcg64Mcg,
    origin: Instant,
}

impl PlainTunnels {
    /// Tunnels through which nothing has come yet.
    #[must_use]
    pub fn new(config: PlainTunnelsConfig) -> Self {
        let mut tunnels = Self {
            counters: PlainCounters::default(),
            pairs: BTreeMap::new(),
            next_pair: 0,
            order: Vec::new(),
            from: BTreeMap::new(),
            queues: Queues::new(config.max_waiting),
            shedding: Shedding::default(),
            total: config.total,
            errors: Limiter::new(Some(ERRORS_RATE)),
            piece: Vec::new(),
            rng: Pcg64Mcg::new(u128::from(config.seed)),
            origin: config.origin,
        };
        tunnels.reconfigure(config.pairs, config.origin);
        tunnels
    }

    /// Whether a packet, with its outer header, comes from an end of a plain tunnel. One of ours may have sessions in
    /// IP-in-IP besides; then only what may pass is its tunnel's.
    #[must_use]
    pub fn claims(&self, packet: &[u8]) -> bool {
        let source = packet.get(12..).and_then(|bytes| bytes.first_chunk::<4>());
        let Some(directions) = source.and_then(|source| self.from.get(&Ipv4Addr::from(*source))) else {
            return false;
        };
        let is_fixed = |direction: &Direction| {
            matches!(self.pairs[&direction.pair].end(direction.to.other()).outer, PlainOuter::Fixed(_))
        };
        directions.iter().any(is_fixed) || self.may_pass(packet)
    }

    /// Handles a packet, with its outer header, that has come from an end.
    pub fn handle_packet(&mut self, packet: &mut [u8], now: Instant, out: &mut impl Packets) {
        let now = self.clock(now);
        let unwrapped = match decapsulate(packet) {
            Ok(unwrapped) => unwrapped,
            Err(TunnelError::Malformed(_)) => {
                self.counters.malformed += 1;
                return;
            }
            Err(TunnelError::Congestion) => {
                self.counters.congested += 1;
                return;
            }
        };
        let inner = &mut packet[unwrapped.inner];
        let Some(direction) = self.direction(unwrapped.source, unwrapped.destination, inner) else {
            self.counters.misaddressed += 1;
            return;
        };
        if forward(inner).is_err() {
            self.counters.expired += 1;
            self.report(Problem::Expired, inner, direction, unwrapped.destination, now, out);
            return;
        }
        let end = self.pairs[&direction.pair].end(direction.to);
        if let Some(owner) = end.owner
            && !self.passes(owner, inner, now)
        {
            self.counters.shed += 1;
            return;
        }
        let max = end.max_inner(now);
        if end.address.is_none() {
            self.counters.no_end += 1;
            let problem = Problem::Unreachable(HOST);
            self.report(problem, inner, direction, unwrapped.destination, now, out);
        } else if inner.len() <= usize::from(max) {
            self.pass_on(inner, direction, now, out);
        } else if !self.pass_on_pieces(inner, usize::from(max), direction, now, out) {
            self.counters.too_big += 1;
            let problem = Problem::TooBig { mtu: max };
            self.report(problem, inner, direction, unwrapped.destination, now, out);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, if something waits.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        Some(self.origin + Duration::from_nanos(self.queues.next_due()?))
    }

    /// Sends what need not wait any more, but at most `limit` packets.
    pub fn handle_timeout(&mut self, limit: usize, now: Instant, out: &mut impl Packets) {
        let now = self.clock(now);
        for _ in 0..limit {
            let Some(turn) = self.queues.take_due(now) else { return };
            self.take_turn(turn, now, out);
        }
    }

    /// Drops for a site, from now on, what these rules say of what goes to the ends of which it is the owner.
    pub fn set_rules(&mut self, site: KeyBytes, rules: Option<Arc<Held>>) {
        self.shedding.set(site, rules);
    }

    /// Whether an inner packet passes to an end of this owner.
    fn passes(&self, owner: KeyBytes, inner: &[u8], now: u64) -> bool {
        let Some(held) = self.shedding.of(owner) else { return true };
        // What no router would understand is dropped further on.
        let Ok(headers) = classify(inner, [0; 2]) else { return true };
        let ends = (headers.source, headers.destination);
        held.passes_packet(ends, headers.protocol, headers.ports.map(|[_, to]| to), inner.len(), now)
    }

    fn may_pass(&self, packet: &[u8]) -> bool {
        let Ok(outer) = Ipv4::parse(packet) else { return false };
        self.direction(outer.source(), outer.destination(), outer.payload()).is_some()
    }

    /// Which way an inner packet goes that came from an end, at that address of ours. `None` if it may not.
    fn direction(&self, end: Ipv4Addr, local: Ipv4Addr, inner: &[u8]) -> Option<Direction> {
        let inner = Ipv4::parse(inner).ok()?;
        self.from.get(&end)?.iter().copied().find(|direction| {
            let (pair, from) = (&self.pairs[&direction.pair], direction.to.other());
            pair.end(from).knows_as(local) && pair.admits(from, inner.source(), inner.destination())
        })
    }

    /// Sends a packet on in pieces; false if it must not be cut.
    fn pass_on_pieces(
        &mut self,
        inner: &[u8],
        max: usize,
        direction: Direction,
        now: u64,
        out: &mut impl Packets,
    ) -> bool {
        let Some(mut pieces) = Ipv4::parse(inner).ok().and_then(|inner| Fragments::of(inner, max)) else {
            return false;
        };
        self.counters.cut += 1;
        let mut piece = std::mem::take(&mut self.piece);
        while pieces.write_next(&mut piece) {
            self.pass_on(&piece, direction, now, out);
        }
        self.piece = piece;
        true
    }

    /// Sends an inner packet, or has it wait.
    fn pass_on(&mut self, inner: &[u8], direction: Direction, now: u64, out: &mut impl Packets) {
        let due = self.ready_at(direction, now);
        let Some(lane) = lane_of(&mut self.pairs, direction) else { return };
        if due <= now && lane.is_empty() {
            self.send(inner, direction, now, out);
            return;
        }
        let was_empty = lane.is_empty();
        let mark = drop_precedence(inner);
        if !lane.admits(mark, now, &mut self.rng) {
            return;
        }
        let Some(copy) = (inner.len() <= MAX_LEN).then(|| self.queues.copy(inner)).flatten() else {
            self.counters.queue_full += 1;
            return;
        };
        lane.push(copy, mark, &mut self.queues.slab);
        if was_empty {
            self.schedule(direction, due);
        }
    }

    /// Sends what is first in a lane, unless it has to wait on.
    fn take_turn(&mut self, turn: Turn, now: u64, out: &mut impl Packets) {
        let direction = Direction { pair: turn.session, to: turn.to };
        // What waited went with its pair.
        if !self.pairs.contains_key(&direction.pair) {
            return;
        }
        let due = self.ready_at(direction, now);
        if due > now {
            self.queues.put_off(turn, due);
            return;
        }
        let Some(lane) = lane_of(&mut self.pairs, direction) else { return };
        let Some(buffer) = lane.pop(now, &mut self.queues.slab) else { return };
        let is_last = lane.is_empty();
        self.send(buffer.packet(), direction, now, out);
        self.queues.recycle(buffer);
        if !is_last {
            self.schedule(direction, self.ready_at(direction, now).max(now));
        }
    }

    fn schedule(&mut self, direction: Direction, due: u64) {
        // No number is given twice, so that they need no generations.
        self.queues.schedule(direction.pair, 0, direction.to, due);
    }

    /// Wraps an inner packet, and counts it.
    fn send(&mut self, inner: &[u8], Direction { pair, to }: Direction, now: u64, out: &mut impl Packets) {
        let Some(pair) = self.pairs.get_mut(&pair) else { return };
        let end = pair.end(to);
        let Some(address) = end.address else {
            self.counters.no_end += 1;
            return;
        };
        let header = Ipv4::parse(inner).ok().and_then(|inner| encapsulate(&inner, end.local, address));
        // It was parsed before, and is not longer than the way takes.
        let Some(header) = header else { return };
        let lane = &mut pair.lanes[to.index()];
        lane.count(inner.len());
        lane.limiter.take(inner.len(), now);
        self.total.take(inner.len(), now);
        out.push(&header, inner);
    }

    /// When the next packet may go: as the pair's rate and the relay's allow.
    fn ready_at(&self, Direction { pair, to }: Direction, now: u64) -> u64 {
        let own = self.pairs[&pair].lanes[to.index()].limiter.ready_at(now);
        own.max(self.total.ready_at(now))
    }

    /// In nanoseconds since the origin.
    fn clock(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}

fn lane_of(pairs: &mut BTreeMap<u32, Pair>, Direction { pair, to }: Direction) -> Option<&mut Lane> {
    Some(&mut pairs.get_mut(&pair)?.lanes[to.index()])
}

/// How expendable a packet is: what its class of assured forwarding says (RFC 2597, section 6), whose code points are
/// eight times the class, 1 to 4, and twice the precedence, 1 to 3. All others are not.
fn drop_precedence(packet: &[u8]) -> u8 {
    let code_point = packet.get(1).map_or(0, |tos| tos >> 2);
    match (code_point >> 3, code_point & 7) {
        (1..=4, 4) => 1,
        (1..=4, 6) => 2,
        _ => 0,
    }
}
