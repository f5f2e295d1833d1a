//! ICMP: what the relay says of packets that go no further, and what it makes of what others say (RFC 2003, section 4).

use std::net::Ipv4Addr;
use std::time::Instant;

use psmc_wire::ip::{IcmpError, Ipv4, PROTOCOL_IPIP, Problem, icmp_error, may_be_reported};

use super::{Direction, Packets, PlainTunnels};

/// Codes of "unreachable".
const NETWORK: u8 = 0;
pub(super) const HOST: u8 = 1;

impl PlainTunnels {
    /// Handles an ICMP message, with its IP header. Nothing becomes of it unless it is an error about what the relay has
    /// sent through a plain tunnel.
    pub fn handle_error(&mut self, message: &[u8], now: Instant, out: &mut impl Packets) {
        let now = self.clock(now);
        let Ok(error) = Ipv4::parse(message).and_then(|packet| IcmpError::parse(&packet)) else { return };
        let Ok(outer) = Ipv4::parse_quoted(error.quoted) else { return };
        if outer.protocol() != PROTOCOL_IPIP || !self.from.contains_key(&outer.destination()) {
            return;
        }
        let is_new = match error.problem {
            Problem::TooBig { mtu } => self.learn(&outer, mtu, now),
            Problem::Unreachable(_) | Problem::Expired => {
                self.counters.heard_unreachable += 1;
                true
            }
        };
        // Routers need not quote more than 8 bytes behind the header. Then only what was learnt remains, and who sends
        // the next packet that is too large hears of it.
        let Ok(inner) = Ipv4::parse_quoted(outer.payload()) else { return };
        let Some(direction) = self.direction_to(&outer, &inner).filter(|_| is_new) else { return };
        if let Some(problem) = self.passed_on(error.problem, direction, now) {
            self.report(problem, inner.bytes(), direction, outer.source(), now, out);
        }
    }

    /// Tells the sender of an inner packet, of which `about` is as much as there is, what became of it on its way in that
    /// direction. It is called `local` in that message.
    pub(super) fn report(
        &mut self,
        problem: Problem,
        about: &[u8],
        direction: Direction,
        local: Ipv4Addr,
        now: u64,
        out: &mut impl Packets,
    ) {
        let Ok(packet) = Ipv4::parse_quoted(about) else { return };
        if !may_be_reported(&packet) || self.errors.ready_at(now) > now {
            return;
        }
        let error = icmp_error(problem, about, local, packet.source());
        self.errors.take(error.len(), now);
        self.counters.errors_sent += 1;
        self.pass_on(&error, Direction { to: direction.to.other(), ..direction }, now, out);
    }

    /// Learns what the way of a packet takes; false if that cannot be.
    fn learn(&mut self, outer: &Ipv4<'_>, mtu: u16, now: u64) -> bool {
        let (end, length) = (outer.destination(), outer.total_len());
        let mut learnt = false;
        for end in self.ends_at(end) {
            learnt |= end.learn(mtu, length, now);
        }
        self.counters.heard_too_big += u64::from(learnt);
        learnt
    }

    /// In which direction the relay has sent a packet of which an error quotes both headers.
    fn direction_to(&self, outer: &Ipv4<'_>, inner: &Ipv4<'_>) -> Option<Direction> {
        // What comes from an end goes the other way.
        let backwards = self.from.get(&outer.destination())?.iter().copied();
        let mut directions = backwards.map(|back| Direction { to: back.to.other(), ..back });
        directions.find(|direction| {
            let (pair, to) = (&self.pairs[&direction.pair], direction.to);
            pair.end(to).knows_as(outer.source())
                && pair.admits(to.other(), inner.source(), inner.destination())
        })
    }

    /// As what the sender of the inner packet hears of it. `None` if it is none of his concern.
    fn passed_on(&self, problem: Problem, direction: Direction, now: u64) -> Option<Problem> {
        match problem {
            // "The encapsulator MUST relay ICMP Datagram Too Big messages to the sender" (section 4.1).
            Problem::TooBig { .. } => {
                let end = self.pairs[&direction.pair].end(direction.to);
                Some(Problem::TooBig { mtu: end.max_inner(now) })
            }
            // An end that knows no tunnels (protocol unreachable) is to its clients a network that is not there.
            Problem::Unreachable(0 | 2 | 6 | 9 | 11) => Some(Problem::Unreachable(NETWORK)),
            Problem::Unreachable(1 | 7 | 8 | 10 | 12 | 13) => Some(Problem::Unreachable(HOST)),
            // Ports and source routes are not what its packets asked for.
            Problem::Unreachable(_) => None,
            // "MUST be reported to the sender of the original unencapsulated datagram as Host Unreachable" (section 4.4).
            Problem::Expired => Some(Problem::Unreachable(HOST)),
        }
    }
}
