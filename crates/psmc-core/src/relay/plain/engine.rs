//! What becomes of a packet that comes from an end of a plain tunnel.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_wire::ip::{
    Fragments, IPV4_HEADER_LEN, Ipv4, Problem, TunnelError, decapsulate, encapsulate, forward,
};
use rand_pcg::Pcg64Mcg;

use super::pair::{Pair, PlainPair};
use super::status::{PlainCounters, PlainStatus, PlainWay};
use crate::relay::limiter::Limiter;
use crate::relay::queues::{MAX_LEN, Queues, Turn};
use crate::relay::session::Side;

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
pub(super) struct Direction {
    pub(super) pair: usize,
    pub(super) to: Side,
}

/// All plain tunnels of a relay.
///
/// 1. [`is_from_end`](Self::is_from_end) says whether a packet of protocol 4 is for
///    [`handle_packet`](Self::handle_packet), which gives what is to be sent at once.
/// 2. What ICMP says goes to [`handle_error`](Self::handle_error), whatever it is about.
/// 3. When the time of [`poll_timeout`](Self::poll_timeout) has come: [`handle_timeout`](Self::handle_timeout). To be
///    early is harmless.
#[derive(Debug)]
pub struct PlainTunnels {
    /// What went no further.
    pub counters: PlainCounters,
    pub(super) pairs: Vec<Pair>,
    /// The directions of what comes from each end.
    pub(super) from: BTreeMap<Ipv4Addr, Vec<Direction>>,
    queues: Queues,
    total: Arc<Limiter>,
    pub(super) errors: Limiter,
    /// For pieces of a packet that is cut.
    piece: Vec<u8>,
    rng: Pcg64Mcg,
    origin: Instant,
}

impl PlainTunnels {
    /// Tunnels through which nothing has come yet.
    #[must_use]
    pub fn new(config: PlainTunnelsConfig) -> Self {
        let mut from: BTreeMap<Ipv4Addr, Vec<Direction>> = BTreeMap::new();
        for (pair, PlainPair { ends: [near, far], .. }) in config.pairs.iter().enumerate() {
            from.entry(near.address).or_default().push(Direction { pair, to: Side::Far });
            from.entry(far.address).or_default().push(Direction { pair, to: Side::Near });
        }
        Self {
            counters: PlainCounters::default(),
            pairs: config.pairs.into_iter().map(Pair::new).collect(),
            from,
            queues: Queues::new(config.max_waiting),
            total: config.total,
            errors: Limiter::new(Some(ERRORS_RATE)),
            piece: Vec::new(),
            rng: Pcg64Mcg::new(u128::from(config.seed)),
            origin: config.origin,
        }
    }

    /// Whether a packet, with its outer header, comes from an end of a plain tunnel.
    #[must_use]
    pub fn is_from_end(&self, packet: &[u8]) -> bool {
        let source = packet.get(12..).and_then(|bytes| bytes.first_chunk::<4>());
        source.is_some_and(|source| self.from.contains_key(&Ipv4Addr::from(*source)))
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
        let max = self.pairs[direction.pair].end(direction.to).max_inner(now);
        if inner.len() <= usize::from(max) {
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

    /// Says what the first link to an end takes.
    pub fn set_link_mtu(&mut self, end: Ipv4Addr, mtu: u16) {
        for end in self.pairs.iter_mut().flat_map(|pair| &mut pair.ends).filter(|it| it.told.address == end) {
            end.told.mtu = mtu;
        }
    }

    /// All pairs, in the order in which they were configured.
    pub fn status(&self, now: Instant) -> impl Iterator<Item = PlainStatus> + '_ {
        let now = self.clock(now);
        self.pairs.iter().map(move |pair| status_of(pair, now))
    }

    /// Which way an inner packet goes that came from an end, at that address of ours. `None` if it may not.
    fn direction(&self, end: Ipv4Addr, local: Ipv4Addr, inner: &[u8]) -> Option<Direction> {
        let inner = Ipv4::parse(inner).ok()?;
        self.from.get(&end)?.iter().copied().find(|direction| {
            let (pair, from) = (&self.pairs[direction.pair], direction.to.other());
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
    pub(super) fn pass_on(&mut self, inner: &[u8], direction: Direction, now: u64, out: &mut impl Packets) {
        let due = self.ready_at(direction, now);
        let Direction { pair: index, to } = direction;
        let pair = &mut self.pairs[index];
        if due <= now && pair.lanes[to.index()].is_empty() {
            self.send(inner, direction, now, out);
            return;
        }
        let lane = &mut pair.lanes[to.index()];
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
        let direction = Direction { pair: turn.session as usize, to: turn.to };
        let due = self.ready_at(direction, now);
        if due > now {
            self.queues.put_off(turn, due);
            return;
        }
        let lane = &mut self.pairs[direction.pair].lanes[direction.to.index()];
        let Some(buffer) = lane.pop(now, &mut self.queues.slab) else { return };
        let is_last = lane.is_empty();
        self.send(buffer.packet(), direction, now, out);
        self.queues.recycle(buffer);
        if !is_last {
            self.schedule(direction, self.ready_at(direction, now).max(now));
        }
    }

    fn schedule(&mut self, direction: Direction, due: u64) {
        // There are far fewer pairs than that, and none ever goes, so that they need no generations.
        let index = u32::try_from(direction.pair).unwrap_or(u32::MAX);
        self.queues.schedule(index, 0, direction.to, due);
    }

    /// Wraps an inner packet, and counts it.
    fn send(&mut self, inner: &[u8], Direction { pair, to }: Direction, now: u64, out: &mut impl Packets) {
        let pair = &mut self.pairs[pair];
        let end = &pair.end(to).told;
        let header = Ipv4::parse(inner).ok().and_then(|inner| encapsulate(&inner, end.local, end.address));
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
        let own = self.pairs[pair].lanes[to.index()].limiter.ready_at(now);
        own.max(self.total.ready_at(now))
    }

    /// In nanoseconds since the origin.
    pub(super) fn clock(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}

fn status_of(pair: &Pair, now: u64) -> PlainStatus {
    let ways = [Side::Near, Side::Far].map(|to| {
        let (end, lane) = (pair.end(to), &pair.lanes[to.index()]);
        PlainWay {
            address: end.told.address,
            path_mtu: end.path_mtu(now),
            packets: lane.datagrams,
            bytes: lane.bytes,
            waiting: lane.len().into(),
            dropped: lane.dropped,
        }
    });
    PlainStatus { rate: pair.lanes[0].limiter.rate(), ways }
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
