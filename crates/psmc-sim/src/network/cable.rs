//! A link between two hosts: both directions, and what is at the ends.

use std::net::IpAddr;
use std::time::Instant;

use ipnet::IpNet;
use psmc_wire::ip::Ecn;

use crate::link::{Arrival, Link, LinkConfig, LinkCounters, PacketInfo};
use crate::packet::Packet;
use crate::world::HostId;

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

/// A link as it is.
#[derive(Debug)]
pub(super) struct Cable {
    pub(super) ends: [LinkEnd; 2],
    directions: [Link<Packet>; 2],
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
        Self { ends, directions, mtu, up: true }
    }

    /// A packet enters at an end.
    pub(super) fn send(&mut self, from: usize, packet: Packet, now: Instant) {
        if self.up {
            let info =
                PacketInfo { ecn_capable: packet.ecn() != Ecn::NotEct, ..PacketInfo::new(packet.len()) };
            self.directions[from].handle_packet(packet, info, now);
            self.forget_dropped(from);
        }
    }

    /// A packet that came in at end `from` leaves at the other one. Nothing does while the interfaces are down.
    pub(super) fn poll_packet(&mut self, from: usize, now: Instant) -> Option<Arrival<Packet>> {
        while let Some(arrival) = self.directions[from].poll_packet(now) {
            if self.up {
                return Some(arrival);
            }
        }
        self.forget_dropped(from);
        None
    }

    fn forget_dropped(&mut self, from: usize) {
        while self.directions[from].poll_dropped().is_some() {}
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
