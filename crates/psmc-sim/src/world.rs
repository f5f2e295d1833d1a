//! The world: hosts, links, sites and traffic in virtual time.
//!
//! What things of the world are called.

use std::net::IpAddr;
use std::time::Instant;

use ipnet::IpNet;
use psmc_core::police::PoliceConfig;
use psmc_core::{PeerError, PeerStatus};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::link::{LinkConfig, LinkCounters};
use crate::network::{Conditioner, Delivery, DroppedPacket, LinkSetup, NatKind, Receiver};
use crate::packet::{Content, Packet};
use crate::router::{RouterConfig, RouterCounters};
use crate::site::{SiteSetup, Sites};
use crate::stack::{Stack, UdpOwner};
use crate::traffic::{Observation, TrafficSetup, Traffics};
use crate::transport::{Changed, Owner};

/// Rounds of work at one moment after which the world is sure to spin: more than there are packets at a moment.
const MAX_STANDSTILL: u64 = 100_000_000;

/// A network of hosts, and what happens in it.
///
/// Everything is decided by the seed and by what is asked for: two worlds that are built and driven the same way do the
/// same. Build it with the `add_*` methods, start the sites, then [`run_until`](Self::run_until) a time; change it, and
/// run on. [`poll_observation`](Self::poll_observation) tells what was seen of the traffic; poll it now and then, for
/// all that was not polled is kept.
pub struct World {
    stack: Stack,
    sites: Sites,
    traffics: Traffics,
    rng: Pcg64Mcg,
}

impl World {
    /// An empty world, at a time that stands for its beginning.
    #[must_use]
    pub fn new(seed: u64, now: Instant) -> Self {
        // Each part has chance of its own, so that more of one does not change the others.
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        Self {
            stack: Stack::new(rng.next_u64(), now),
            sites: Sites::new(rng.next_u64()),
            traffics: Traffics::new(rng.next_u64()),
            rng,
        }
    }

    /// Adds a host without links.
    pub fn add_host(&mut self) -> HostId {
        self.stack.network.add_host()
    }

    /// Adds a link, with the routes to its own networks.
    pub fn add_link(&mut self, setup: LinkSetup) -> LinkId {
        let seeds = [self.rng.next_u64(), self.rng.next_u64()];
        self.stack.network.add_link(setup, seeds, self.stack.now)
    }

    /// Adds a route of a host; says whether its next hop is on a link of the host. Of routes to the same prefix the one
    /// that was added first and whose link is up counts.
    pub fn add_route(&mut self, host: HostId, to: IpNet, via: IpAddr) -> bool {
        self.stack.network.add_route(host, to, via)
    }

    /// Lets a host pass on what is not for itself.
    pub fn set_forwarding(&mut self, host: HostId) {
        self.stack.network.set_forwarding(host);
    }

    /// Lets a host pass on packets as a router does, the ports of which are at these links of the host, in their order. Says
    /// whether each port has a link to itself. What comes or goes by other links passes by the router; what a port's link
    /// can't take waits in the link's own queue, so that one should be as fast as the port.
    pub fn set_router(&mut self, host: HostId, config: RouterConfig, ports: &[LinkId]) -> bool {
        let seed = self.rng.next_u64();
        self.stack.network.set_router(host, config, ports, seed, self.stack.now)
    }

    /// What the router of a host has done, if it is one.
    #[must_use]
    pub fn router_counters(&self, host: HostId) -> Option<&RouterCounters> {
        self.stack.network.router_counters(host)
    }

    /// Lets a host translate the addresses of what it forwards to a link.
    pub fn set_nat(&mut self, host: HostId, kind: NatKind, outside: LinkId) {
        self.stack.network.set_nat(host, kind, outside);
    }

    /// Conditions what leaves a host by a link; says whether the host has that link.
    pub fn set_conditioner(&mut self, host: HostId, link: LinkId, conditioner: Box<dyn Conditioner>) -> bool {
        self.stack.network.set_conditioner(host, link, conditioner)
    }

    /// Keeps what a link drops of the packets that enter at its end of this number, for
    /// [`poll_dropped`](Self::poll_dropped).
    pub fn watch_drops(&mut self, link: LinkId, from: usize) {
        self.stack.network.watch_drops(link, from);
    }

    /// The next packet that a watched link has dropped.
    pub fn poll_dropped(&mut self) -> Option<DroppedPacket> {
        self.stack.network.poll_dropped()
    }

    /// Adds a site, which doesn't run yet.
    pub fn add_site(&mut self, setup: SiteSetup) -> SiteId {
        self.sites.add(setup)
    }

    /// Adds traffic, which starts and stops by itself.
    pub fn add_traffic(&mut self, setup: TrafficSetup) -> TrafficId {
        self.traffics.add(setup)
    }

    /// Starts a site from nothing; one that runs is killed first.
    ///
    /// # Errors
    /// [`PeerError`] if two peers of it claim the same network, or it has too many paths.
    pub fn start_site(&mut self, site: SiteId) -> Result<(), PeerError> {
        self.sites.start(site, &mut self.stack)?;
        self.settle();
        Ok(())
    }

    /// Kills a site: it vanishes without a word, and the host closes its connections.
    pub fn kill_site(&mut self, site: SiteId) {
        self.sites.kill(site, &mut self.stack);
        self.settle();
    }

    /// A site that runs holds flows down from now on that heed no loss, until it is killed.
    pub fn set_police(&mut self, site: SiteId, config: PoliceConfig) {
        self.sites.set_police(site, config);
        self.settle();
    }

    /// Takes the interfaces of a link down or up. Both hosts know.
    pub fn set_link_up(&mut self, link: LinkId, up: bool) {
        if self.stack.network.is_up(link) == up {
            return;
        }
        self.stack.network.set_link_up(link, up, self.stack.now);
        let hosts = self.stack.network.hosts_of(link);
        self.sites.handle_link(hosts, link, up, self.stack.now);
        self.settle();
    }

    /// Makes both directions of a link others. Nobody is told.
    pub fn change_link(&mut self, link: LinkId, directions: [LinkConfig; 2]) {
        self.stack.network.change_link(link, directions, self.stack.now);
        self.settle();
    }

    /// Gives the interface of a host on a link other addresses.
    pub fn readdress(&mut self, host: HostId, link: LinkId, addresses: Vec<IpNet>) {
        self.stack.network.readdress(host, link, addresses);
    }

    /// The time it is.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.stack.now
    }

    /// Lets everything happen that happens until `end`.
    ///
    /// # Panics
    /// If time stands still, which is a fault of the world.
    pub fn run_until(&mut self, end: Instant) {
        let mut standstill = 0;
        while let Some(at) = self.next_event().filter(|at| *at <= end) {
            standstill = if at <= self.stack.now { standstill + 1 } else { 0 };
            assert!(standstill < MAX_STANDSTILL, "time stands still");
            self.stack.now = self.stack.now.max(at);
            self.stack.handle_timeout();
            self.sites.handle_timeout(&mut self.stack);
            self.traffics.handle_timeout(&mut self.stack);
            self.settle();
        }
        self.stack.now = self.stack.now.max(end);
    }

    /// The next thing that was seen of the traffic.
    pub fn poll_observation(&mut self) -> Option<Observation> {
        self.traffics.poll_observation()
    }

    /// What both directions of a link have done.
    #[must_use]
    pub fn link_counters(&self, link: LinkId) -> [&LinkCounters; 2] {
        self.stack.network.counters(link)
    }

    /// What both directions of a link are like at present.
    #[must_use]
    pub fn link_config(&self, link: LinkId) -> [&LinkConfig; 2] {
        self.stack.network.link_config(link)
    }

    /// What a site says of the peer with that number in its setup, if it runs.
    #[must_use]
    pub fn site_status(&self, site: SiteId, peer: usize) -> Option<PeerStatus> {
        self.sites.status(site, peer)
    }

    fn next_event(&self) -> Option<Instant> {
        let times = [self.stack.poll_timeout(), self.sites.poll_timeout(), self.traffics.poll_timeout()];
        times.into_iter().flatten().min()
    }

    /// Lets everything happen that happens at this moment.
    fn settle(&mut self) {
        loop {
            while let Some(delivery) = self.stack.network.poll_delivery() {
                self.deliver(delivery);
            }
            if let Some(Changed { owner, stream }) = self.stack.transport.poll_changed() {
                match owner {
                    Owner::Site(site) => self.sites.handle_stream(site, stream, &mut self.stack),
                    Owner::Traffic(traffic) => self.traffics.handle_stream(traffic, stream, &mut self.stack),
                }
                continue;
            }
            if !self.sites.settle(&mut self.stack) {
                return;
            }
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let Delivery { host, to, mut packet } = delivery;
        let by = match to {
            Receiver::Tunnel(site) => return self.sites.handle_inner(site, &packet, self.stack.now),
            Receiver::Host { by } => by,
        };
        let now = self.stack.now;
        match packet.content() {
            Content::Tcp => self.stack.transport.handle_packet(host, packet, &mut self.stack.network, now),
            Content::Udp => self.deliver_datagram(host, by, &mut packet),
            Content::EchoRequest => self.stack.network.send(host, packet.into_echo_reply(), None, now),
            Content::EchoReply => self.traffics.handle_echo_reply(&packet, &mut self.stack),
            Content::Other => {}
        }
    }

    fn deliver_datagram(&mut self, host: HostId, by: Option<LinkId>, packet: &mut Packet) {
        match self.stack.udp.owner(host, packet.to().port(), by) {
            Some(UdpOwner::Site(site, socket)) => {
                self.sites.handle_datagram(site, socket, packet, self.stack.now);
            }
            Some(UdpOwner::Traffic(traffic)) => {
                self.traffics.handle_datagram(traffic, packet, &mut self.stack);
            }
            None => {}
        }
    }
}

/// A host, by the order in which it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub usize);

/// A link, by the order in which it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub usize);

/// A site, by the order in which it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteId(pub usize);

/// A stream of traffic, by the order in which it was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrafficId(pub usize);
