//! Plain tunnels of IP-in-IP between two ends that know nothing of the relay but its address.

use std::net::Ipv4Addr;
use std::time::Instant;

use psmc_core::relay::{Packets, PlainCounters, PlainPair, PlainStatus, PlainTunnels};
use psmc_net::udp::route_mtu;
use psmc_wire::ids::KeyBytes;
use psmc_wire::ip::IPV4_HEADER_LEN;

use super::tunnels::{Outgoing, Tunnels};
use super::{Moved, Worker};
use crate::config::link_mtu;

/// What goes out, and is counted.
struct Leaving<'a> {
    outgoing: &'a mut Outgoing,
    moved: &'a mut Moved,
}

impl Packets for Leaving<'_> {
    fn push(&mut self, header: &[u8; IPV4_HEADER_LEN], inner: &[u8]) {
        self.outgoing.push(header, inner, self.moved);
    }
}

impl Worker {
    /// Serves these pairs of plain tunnels from now on; false if it has no socket for any.
    pub(crate) fn set_plain_tunnels(&mut self, pairs: Vec<PlainPair>, now: Instant) -> bool {
        let Some(tunnels) = &mut self.network.tunnels else { return pairs.is_empty() };
        tunnels.plain.reconfigure(pairs, now);
        true
    }

    /// A site to which ends are left is there, or nowhere; false if a tunnel would lead into itself.
    pub(crate) fn place_site(&mut self, site: KeyBytes, at: Option<Ipv4Addr>) -> bool {
        let Some(tunnels) = &mut self.network.tunnels else { return true };
        tunnels.plain.place_site(site, at.map(|address| (address, link_mtu(address))))
    }
}

impl Tunnels {
    /// Handles a packet if it comes from an end of a plain tunnel; says whether it does.
    pub(super) fn handle_plain(&mut self, packet: &mut [u8], now: Instant, moved: &mut Moved) -> bool {
        if !self.plain.claims(packet) {
            return false;
        }
        self.plain.handle_packet(packet, now, &mut Leaving { outgoing: &mut self.outgoing, moved });
        true
    }

    /// Handles an ICMP error if it is about what was sent through a plain tunnel.
    pub(super) fn handle_error(&mut self, message: &[u8], now: Instant, moved: &mut Moved) {
        self.plain.handle_error(message, now, &mut Leaving { outgoing: &mut self.outgoing, moved });
    }

    /// Sends what has waited long enough, but at most so many packets.
    pub(super) fn send_waiting(&mut self, limit: usize, now: Instant, moved: &mut Moved) {
        self.plain.handle_timeout(limit, now, &mut Leaving { outgoing: &mut self.outgoing, moved });
    }

    /// When something has waited long enough, if anything waits.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.plain.poll_timeout()
    }

    /// The plain tunnels as they stand, in the order of the file, and what went no further.
    pub(crate) fn plain_status(&self, now: Instant) -> (Vec<PlainStatus>, PlainCounters) {
        (self.plain.status(now).collect(), self.plain.counters)
    }
}

/// The first link towards an end takes less than was known.
pub(super) fn learn_link_mtu(plain: &mut PlainTunnels, end: Ipv4Addr) {
    // Without a route nothing gets there, whatever its length.
    if let Ok(mtu) = route_mtu(end) {
        plain.set_link_mtu(end, mtu);
    }
}
