//! PSMC sites: the engine of `psmc-core` on the hosts of the world.

mod control;
mod engine;
mod flights;
mod splits;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use ipnet::IpNet;
use psmc_core::police::PoliceConfig;
use psmc_core::{PathConfig, PeerConfig, PeerError, PeerStatus, SiteConfig, SocketId};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::agenda::Agenda;
use crate::packet::Packet;
use crate::stack::Stack;
use crate::transport::StreamId;
use crate::world::{HostId, LinkId, SiteId};
use engine::Engine;

/// A site, whether it runs or not.
struct Place {
    setup: SiteSetup,
    engine: Option<Engine>,
}

/// All sites.
///
/// After any call: [`settle`](Self::settle).
pub(crate) struct Sites {
    places: Vec<Place>,
    agenda: Agenda<SiteId>,
    /// Sites to which something has happened.
    touched: BTreeSet<SiteId>,
    rng: Pcg64Mcg,
}

impl Sites {
    /// None.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            places: Vec::new(),
            agenda: Agenda::default(),
            touched: BTreeSet::new(),
            rng: Pcg64Mcg::seed_from_u64(seed),
        }
    }

    /// Adds a site that doesn't run yet.
    pub(crate) fn add(&mut self, setup: SiteSetup) -> SiteId {
        self.places.push(Place { setup, engine: None });
        SiteId(self.places.len() - 1)
    }

    /// Starts a site; one that runs is killed first.
    pub(crate) fn start(&mut self, id: SiteId, stack: &mut Stack) -> Result<(), PeerError> {
        self.kill(id, stack);
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let place = &mut self.places[id.0];
        place.engine = Some(Engine::start(id, &place.setup, seed, stack)?);
        self.touched.insert(id);
        Ok(())
    }

    /// Kills a site, if it runs.
    pub(crate) fn kill(&mut self, id: SiteId, stack: &mut Stack) {
        if let Some(engine) = self.places[id.0].engine.take() {
            engine.kill(stack);
            self.agenda.set(id, None);
        }
    }

    /// A packet has come to the TUN device of a site.
    pub(crate) fn handle_inner(&mut self, id: SiteId, packet: &Packet, now: Instant) {
        self.with(id, |engine| engine.handle_inner(packet, now));
    }

    /// A datagram has arrived at a socket of a site.
    pub(crate) fn handle_datagram(
        &mut self,
        id: SiteId,
        socket: SocketId,
        packet: &mut Packet,
        now: Instant,
    ) {
        self.with(id, |engine| engine.handle_datagram(socket, packet, now));
    }

    /// Something has happened to a control connection of a site.
    pub(crate) fn handle_stream(&mut self, id: SiteId, stream: StreamId, stack: &mut Stack) {
        self.with(id, |engine| engine.handle_stream(stream, stack));
    }

    /// The interfaces of a link have gone up or down.
    pub(crate) fn handle_link(&mut self, hosts: [HostId; 2], link: LinkId, up: bool, now: Instant) {
        for id in (0..self.places.len()).map(SiteId) {
            if hosts.contains(&self.places[id.0].setup.host) {
                self.with(id, |engine| engine.handle_link(link, up, now));
            }
        }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, stack: &mut Stack) {
        while let Some(id) = self.agenda.pop(stack.now) {
            self.with(id, |engine| engine.handle_timeout(stack));
        }
    }

    /// Carries out what the engines ask for; says whether there was anything to be looked at.
    pub(crate) fn settle(&mut self, stack: &mut Stack) -> bool {
        let mut any = false;
        while let Some(id) = self.touched.pop_first() {
            if let Some(engine) = &mut self.places[id.0].engine {
                engine.settle(stack);
                self.agenda.set(id, engine.poll_timeout());
            }
            any = true;
        }
        any
    }

    /// When there is something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.agenda.next()
    }

    /// What a site that runs says of the peer with that number in its setup.
    pub(crate) fn status(&self, id: SiteId, peer: usize) -> Option<PeerStatus> {
        self.places[id.0].engine.as_ref()?.status(peer)
    }

    /// A site that runs holds flows down from now on that heed no loss.
    pub(crate) fn set_police(&mut self, id: SiteId, config: PoliceConfig) {
        self.with(id, |engine| engine.set_police(config));
    }

    fn with(&mut self, id: SiteId, work: impl FnOnce(&mut Engine)) {
        if let Some(engine) = &mut self.places[id.0].engine {
            work(engine);
            self.touched.insert(id);
        }
    }
}

// What a site is.

/// What a site proves to be: here a number, where the daemon has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity(pub u64);

/// A site: a host that runs the engine behind a TUN device.
#[derive(Clone, Debug)]
pub struct SiteSetup {
    /// The host.
    pub host: HostId,
    /// What it proves to be.
    pub identity: Identity,
    /// What its engine is told; the seed is another one at each start.
    pub config: SiteConfig,
    /// The addresses of its TUN device.
    pub addresses: Vec<IpNet>,
    /// The port where it takes datagrams and control connections.
    pub listen: u16,
    /// The other ends of its tunnels.
    pub peers: Vec<PeerSetup>,
}

/// The other end of a tunnel.
#[derive(Clone, Debug)]
pub struct PeerSetup {
    /// What it must prove to be.
    pub identity: Identity,
    /// What the engine is told; its networks are routed into the tunnel.
    pub config: PeerConfig,
    /// Where it is dialled if there are no paths.
    pub endpoint: Option<SocketAddr>,
    /// The paths to it.
    pub paths: Vec<PathSetup>,
}

/// A path that a site opens.
#[derive(Clone, Debug)]
pub struct PathSetup {
    /// What the engine is told; the socket is found here.
    pub config: PathConfig,
    /// The link that it must leave by; the routes say which if `None`.
    pub link: Option<LinkId>,
    /// The address that it sends from; the one that fits if `None`.
    pub address: Option<IpAddr>,
}
