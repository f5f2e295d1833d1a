//! What plain tunnels have seen, for people and tools.

use std::net::Ipv4Addr;
use std::time::Instant;

use psmc_wire::ids::KeyBytes;

use super::engine::PlainTunnels;
use super::pair::{Pair, PlainOuter};
use crate::relay::rio::PRECEDENCES;
use crate::relay::session::Side;

/// Packets that went no further, by reason, and what was said about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainCounters {
    /// No IPv4 in IPv4.
    pub malformed: u64,
    /// Between inner addresses that are not behind the ends: spoofed, or for others.
    pub misaddressed: u64,
    /// Marked by a congested router, though their senders know no such marks (RFC 6040).
    pub congested: u64,
    /// They had passed as many routers as they may.
    pub expired: u64,
    /// To an end whose site is not registered.
    pub no_end: u64,
    /// Longer than the way on takes, and not to be cut.
    pub too_big: u64,
    /// There was no room for them among all that waits, or they are too long to wait.
    pub queue_full: u64,
    /// Packets that were cut for a narrower way.
    pub cut: u64,
    /// ICMP errors that were sent to inner hosts, the relay's own and those passed on.
    pub errors_sent: u64,
    /// ICMP errors by which routers on the ways between ends have said that packets were too long.
    pub heard_too_big: u64,
    /// Those by which they, or the ends, have said anything else.
    pub heard_unreachable: u64,
}

/// A pair as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainStatus {
    /// What it is called.
    pub name: String,
    /// What may pass to each side, in bits per second.
    pub rate: Option<u64>,
    /// The ways to both sides.
    pub ways: [PlainWay; 2],
}

/// The way to one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainWay {
    /// The end, if it is anywhere.
    pub address: Option<Ipv4Addr>,
    /// Who has to register for it to be anywhere.
    pub site: Option<KeyBytes>,
    /// What the way takes, in bytes with the outer header.
    pub path_mtu: u16,
    /// Packets that were passed on to it.
    pub packets: u64,
    /// Their bytes, without outer headers.
    pub bytes: u64,
    /// Packets that wait.
    pub waiting: u32,
    /// Packets that were dropped so that the queue did not grow, by drop precedence.
    pub dropped: [u64; PRECEDENCES],
}

impl PlainTunnels {
    /// All pairs, in the order in which they were configured.
    pub fn status(&self, now: Instant) -> impl Iterator<Item = PlainStatus> + '_ {
        let now = self.clock(now);
        self.order.iter().map(move |number| status_of(&self.pairs[number], now))
    }
}

fn status_of(pair: &Pair, now: u64) -> PlainStatus {
    let ways = [Side::Near, Side::Far].map(|to| {
        let (end, lane) = (pair.end(to), &pair.lanes[to.index()]);
        PlainWay {
            address: end.address,
            site: match end.outer {
                PlainOuter::Fixed(_) => None,
                PlainOuter::Site(site) => Some(site),
            },
            path_mtu: end.path_mtu(now),
            packets: lane.datagrams,
            bytes: lane.bytes,
            waiting: lane.len().into(),
            dropped: lane.dropped,
        }
    });
    PlainStatus { name: pair.name.clone(), rate: pair.lanes[0].limiter.rate(), ways }
}
