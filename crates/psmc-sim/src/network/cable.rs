//! A link between two hosts: both directions, and what is at the ends.
//!
//! What a router does to packets where they leave it.

use std::net::IpAddr;
use std::time::Instant;

use ipnet::IpNet;
use psmc_wire::ip::Ecn;

use crate::link::{Arrival, DropReason, Link, LinkConfig, LinkCounters, PacketInfo};
use crate::packet::Packet;
use crate::world::{HostId, LinkId};

/// The MTU of an interface, Ethernet's, unless its link carries longer packets. One that carries less drops what is too
/// long, and nobody is told.
const DEFAULT_MTU: usize = 1500;

/// An end of a link: an interface of a host.
#[derive(Clone, Debug)]
pub struct LinkEnd {
    /// The host.
    pub host: HostId,
    /// Its addresses, with the length of the prefix.
    pub addresses: Vec<IpNet>,
}

/// A link between two hosts.
#[derive(Clone, Debug)]
pub struct LinkSetup {
    /// Its ends.
    pub ends: [LinkEnd; 2],
    /// From the first end to the second, and back.
    pub directions: [LinkConfig; 2],
}

/// What a router does to packets where they leave it by a link: it marks, or drops. What it looks at are IP packets without
/// valid checksums.
pub trait Conditioner {
    /// A packet leaves by the link, unless this says `false`. Its length stays as it is.
    fn leave(&mut self, packet: &mut [u8], now: Instant) -> bool;

    /// A packet has come by the link. A conditioner may learn from it.
    fn come(&mut self, _packet: &[u8], _now: Instant) {}
}

/// A packet that a link has dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedPacket {
    /// Which link.
    pub link: LinkId,
    /// The end at which the packet entered, by its number in [`LinkSetup::ends`].
    pub from: usize,
    /// When it was dropped.
    pub at: Instant,
    /// Why.
    pub reason: DropReason,
    /// The IP packet.
    pub packet: Vec<u8>,
}

/// A link as it is.
pub(super) struct Cable {
    pub(super) ends: [LinkEnd; 2],
    directions: [Link<Packet>; 2],
    conditioners: [Option<Box<dyn Conditioner>>; 2],
    mtu: usize,
    up: bool,
}

impl Cable {
    /// A link that is up; `seeds` are where the chance of its directions comes from.
    pub(super) fn new(setup: LinkSetup, seeds: [u64; 2], now: Instant) -> Self {
        let LinkSetup { ends, directions } = setup;
        let mtu = interface_mtu(&directions);
        let [there, back] = directions;
        let directions = [Link::new(there, seeds[0], now), Link::new(back, seeds[1], now)];
        Self { ends, directions, conditioners: [None, None], mtu, up: true }
    }

    /// What leaves at this end is conditioned from now on.
    pub(super) fn set_conditioner(&mut self, from: usize, conditioner: Box<dyn Conditioner>) {
        self.conditioners[from] = Some(conditioner);
    }

    /// A packet enters at an end.
    pub(super) fn send(&mut self, from: usize, mut packet: Packet, now: Instant) {
        if !self.up {
            return;
        }
        if let Some(conditioner) = &mut self.conditioners[from]
            && !conditioner.leave(packet.bytes_mut(), now)
        {
            return;
        }
        let info = info_of(&packet);
        self.directions[from].handle_packet(packet, info, now);
    }

    /// A packet that came in at end `from` leaves at the other one. Nothing does while the interfaces are down.
    pub(super) fn poll_packet(&mut self, from: usize, now: Instant) -> Option<Arrival<Packet>> {
        while let Some(arrival) = self.directions[from].poll_packet(now) {
            if !self.up {
                continue;
            }
            if let Some(conditioner) = &mut self.conditioners[1 - from] {
                conditioner.come(arrival.packet.bytes(), now);
            }
            return Some(arrival);
        }
        None
    }

    /// The next packet that was dropped of those that came in at this end.
    pub(super) fn poll_dropped(&mut self, from: usize) -> Option<(Packet, DropReason)> {
        self.directions[from].poll_dropped()
    }

    /// When there is something to poll for.
    pub(super) fn poll_timeout(&self, from: usize) -> Option<Instant> {
        self.directions[from].poll_timeout()
    }

    /// Both directions become others.
    pub(super) fn change(&mut self, directions: [LinkConfig; 2], now: Instant) {
        for (link, config) in self.directions.iter_mut().zip(directions) {
            link.reconfigure(config, now);
        }
    }

    /// Both interfaces go up or down.
    pub(super) fn set_up(&mut self, up: bool) {
        self.up = up;
    }

    /// Whether the interfaces are up.
    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    /// The longest packet that the interfaces take.
    pub(super) fn mtu(&self) -> usize {
        self.mtu
    }

    /// What each direction has done.
    pub(super) fn counters(&self) -> [&LinkCounters; 2] {
        [self.directions[0].counters(), self.directions[1].counters()]
    }

    /// What each direction is like.
    pub(super) fn config(&self) -> [&LinkConfig; 2] {
        [self.directions[0].config(), self.directions[1].config()]
    }

    /// The address from which an end speaks to `to`: one of the same network, or else the first of the same family.
    pub(super) fn source(&self, end: usize, to: IpAddr) -> Option<IpAddr> {
        source_among(&self.ends[end].addresses, to)
    }
}

/// The address among some from which one speaks to `to`.
pub(super) fn source_among(addresses: &[IpNet], to: IpAddr) -> Option<IpAddr> {
    let of_family = || addresses.iter().filter(|net| net.addr().is_ipv4() == to.is_ipv4());
    let near = of_family().find(|net| net.contains(&to));
    near.or_else(|| of_family().next()).map(IpNet::addr)
}

fn interface_mtu(directions: &[LinkConfig; 2]) -> usize {
    let longest = directions.iter().filter_map(|direction| direction.mtu).max();
    longest.unwrap_or(DEFAULT_MTU).max(DEFAULT_MTU)
}

/// What a queue has to know of a packet.
pub(super) fn info_of(packet: &Packet) -> PacketInfo {
    PacketInfo {
        ecn_capable: packet.ecn() != Ecn::NotEct,
        precedence: precedence(packet.dscp()),
        flow: packet.flow(),
        ..PacketInfo::new(packet.len())
    }
}

/// The drop precedence of a code point of assured forwarding (RFC 2597 §6: class, precedence from 1 to 3, and a zero); others
/// have none, and are dropped last.
fn precedence(dscp: u8) -> u8 {
    match (dscp >> 3, dscp >> 1 & 0b11, dscp & 1) {
        (1..=4, precedence @ 1..=3, 0) => precedence - 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assured_forwarding_has_three_precedences() {
        let [af11, af12, af13, af43] = [10, 12, 14, 38];
        assert_eq!([af11, af12, af13, af43].map(precedence), [0, 1, 2, 2]);
        let [default, expedited, selector] = [0, 46, 8];
        assert_eq!([default, expedited, selector].map(precedence), [0, 0, 0]);
    }
}
