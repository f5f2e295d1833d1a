//! What a host forwards by if it is a router with a model.

use std::time::Instant;

use crate::packet::Packet;
use crate::router::{Departure, Router, RouterConfig, RouterCounters};
use crate::world::LinkId;

use super::cable::info_of;

/// The router of a host.
#[derive(Debug)]
pub(super) struct Device {
    router: Router<Passing>,
    /// The link at each port.
    links: Vec<LinkId>,
}

/// A packet inside, and the link that it came by.
#[derive(Debug)]
pub(super) struct Passing {
    pub(super) packet: Packet,
    pub(super) by: LinkId,
}

impl Device {
    /// A router whose ports are at these links, in their order.
    pub(super) fn new(config: RouterConfig, links: Vec<LinkId>, seed: u64, now: Instant) -> Self {
        Self { router: Router::new(config, seed, now), links }
    }

    /// The port at a link.
    pub(super) fn port(&self, link: LinkId) -> Option<usize> {
        self.links.iter().position(|other| *other == link)
    }

    /// The link at a port.
    pub(super) fn link(&self, port: usize) -> LinkId {
        self.links[port]
    }

    /// A packet has come to a port, to leave by another one, or to stay here.
    pub(super) fn handle_packet(
        &mut self,
        packet: Packet,
        [input, output]: [Option<usize>; 2],
        now: Instant,
    ) {
        let Some(input) = input else { return };
        let info = info_of(&packet);
        let by = self.links[input];
        self.router.handle_packet(Passing { packet, by }, info, input, output, now);
    }

    /// The next packet that leaves. Those that are dropped are gone.
    pub(super) fn poll_packet(&mut self, now: Instant) -> Option<Departure<Passing>> {
        let departure = self.router.poll_packet(now);
        while self.router.poll_dropped().is_some() {}
        departure
    }

    /// When there is something to poll for.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.router.poll_timeout()
    }

    /// What the router has done.
    pub(super) fn counters(&self) -> &RouterCounters {
        self.router.counters()
    }
}
