//! What an emulator is made of.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use psmc_net::packet::{ETHERNET_HEADER, PacketPort, VLAN_TAG};
use psmc_sim::link::LinkConfig;
use psmc_sim::router::RouterConfig;
use psmc_testbed::netns::{Namespace, link_pair};

use super::capture::Log;
use super::counters::Board;
use super::device::{Device, Table};
use super::wire::{End, Wire};
use super::worker::Worker;
use super::{Emulator, EmulatorError, Place};
use crate::scenario::LinkId;

/// The MTU of the interfaces, in bytes, unless a direction carries longer packets. One that carries only shorter ones
/// does not say so to the hosts: it drops the others.
const MTU: usize = 1500;

/// The largest MTU of an interface.
const MAX_MTU: usize = 65535;

/// Emulators are made in three steps: [`Emulator::builder`], [`link`](Self::link) for each link, [`start`](Self::start).
#[derive(Debug)]
pub struct Builder {
    namespace: Namespace,
    wires: Vec<(Wire, Arc<Board>)>,
    routers: Vec<RouterPlan>,
}

/// What a router should be, and where.
#[derive(Clone, Debug)]
pub struct RouterPlan {
    /// What it is like.
    pub config: RouterConfig,
    /// Where its chance comes from.
    pub seed: u64,
    /// The links at its ports, in their order, and the end at which the router is.
    pub ports: Vec<(LinkId, usize)>,
    /// By which port packets leave.
    pub table: Table,
}

/// What a link should be.
#[derive(Debug)]
pub struct Plan<'a> {
    /// Its ends: where the interface of each goes, and what it is called there.
    pub ends: [(&'a Namespace, &'a str); 2],
    /// From the first end to the second, and back.
    pub directions: [LinkConfig; 2],
    /// Where the chance of each direction comes from.
    pub seeds: [u64; 2],
    /// Where all packets at each end are logged (pcap with nanoseconds): what enters there, and what leaves.
    pub captures: Option<[PathBuf; 2]>,
}

impl Builder {
    pub(super) fn new() -> Result<Self, EmulatorError> {
        let namespace = Namespace::new()?;
        // The lab's ends must not say anything of their own.
        namespace.disable_ipv6()?;
        Ok(Self { namespace, wires: Vec::new(), routers: Vec::new() })
    }

    /// Makes a link: an interface in the namespace of each end, up and without addresses. Nothing passes before the
    /// emulator is started. The links are numbered in the order of the calls.
    ///
    /// # Errors
    /// [`EmulatorError`]: most often, that there is already an interface of that name.
    pub fn link(&mut self, plan: Plan<'_>) -> Result<LinkId, EmulatorError> {
        let id = LinkId(self.wires.len());
        let mtu = interface_mtu(&plan.directions);
        let board = Arc::new(Board::default());
        let ends = [self.make_end(&plan, id, 0, mtu, &board)?, self.make_end(&plan, id, 1, mtu, &board)?];
        let [there, back] = plan.directions;
        let directions = [(there, plan.seeds[0]), (back, plan.seeds[1])];
        self.wires.push((Wire::new(ends, directions, max_frame(mtu), Arc::clone(&board)), board));
        Ok(id)
    }

    /// Has what arrives at the ends of links pass a router before their host gets it. Each end is of one router at most.
    ///
    /// # Panics
    /// If there is no such link or end.
    pub fn router(&mut self, plan: RouterPlan) {
        for (link, end) in &plan.ports {
            self.wires[link.0].0.join(1 - end);
        }
        self.routers.push(plan);
    }

    /// Starts all links.
    ///
    /// # Errors
    /// [`EmulatorError::Thread`].
    pub fn start(self) -> Result<Emulator, EmulatorError> {
        let count = worker_count(self.wires.len());
        let teams = teams(self.wires.len(), &self.routers);
        let mut shares: Vec<(Vec<Wire>, Vec<Device>)> = (0..count).map(|_| Default::default()).collect();
        let mut links: Vec<Place> = Vec::new();
        for (id, (wire, board)) in self.wires.into_iter().enumerate() {
            let worker = teams[id] % count;
            let (wires, _) = &mut shares[worker];
            links.push(Place { worker, wire: wires.len(), board });
            wires.push(wire);
        }
        for RouterPlan { config, seed, ports, table } in self.routers {
            let Some((first, _)) = ports.first() else { continue };
            let ports: Vec<_> = ports.iter().map(|(link, end)| (links[link.0].wire, 1 - end)).collect();
            shares[links[first.0].worker].1.push(Device::new(config, seed, &ports, table));
        }
        let workers: Result<_, _> = shares.into_iter().map(Worker::start).collect();
        Ok(Emulator { workers: workers.map_err(EmulatorError::Thread)?, links, _namespace: self.namespace })
    }

    /// Makes one end of a link, 0 or 1.
    fn make_end(
        &self,
        plan: &Plan<'_>,
        id: LinkId,
        end: usize,
        mtu: usize,
        board: &Arc<Board>,
    ) -> Result<End, EmulatorError> {
        let port = self.make_interfaces(plan.ends[end], &format!("l{}.{end}", id.0), mtu)?;
        let log = plan.captures.as_ref().map(|paths| open_log(&paths[end], end, board)).transpose()?;
        Ok(End { port, log })
    }

    /// Makes the pair of interfaces of an end, and opens the lab's.
    fn make_interfaces(
        &self,
        (host, name): (&Namespace, &str),
        lab_name: &str,
        mtu: usize,
    ) -> Result<PacketPort, EmulatorError> {
        let lab = &self.namespace;
        link_pair(host, name, lab, lab_name)?;
        lab.disable_arp(lab_name)?;
        for (side, name) in [(lab, lab_name), (host, name)] {
            side.set_mtu(name, u32::try_from(mtu).unwrap_or(u32::MAX))?;
            side.disable_offloads(name)?;
        }
        Ok(lab.run(|| PacketPort::open(lab_name, max_frame(mtu)))?)
    }
}

/// For each link a number, which is the same for all that lead to one router: one thread serves them.
fn teams(links: usize, routers: &[RouterPlan]) -> Vec<usize> {
    let mut teams: Vec<usize> = (0..links).collect();
    for router in routers {
        let joined: Vec<_> = router.ports.iter().map(|(link, _)| teams[link.0]).collect();
        if let Some(first) = joined.iter().min().copied() {
            teams.iter_mut().filter(|team| joined.contains(team)).for_each(|team| *team = first);
        }
    }
    teams
}

/// One thread for each two processors, for the hosts need the others; no more than there are links.
fn worker_count(links: usize) -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, links.max(1))
}

fn interface_mtu(directions: &[LinkConfig; 2]) -> usize {
    let longest = directions.iter().filter_map(|direction| direction.mtu).max();
    longest.unwrap_or(MTU).clamp(MTU, MAX_MTU)
}

fn max_frame(mtu: usize) -> usize {
    ETHERNET_HEADER + VLAN_TAG + mtu
}

fn open_log(path: &Path, end: usize, board: &Arc<Board>) -> Result<Log, EmulatorError> {
    let (board, shown) = (Arc::clone(board), path.display().to_string());
    let on_failure = move |error| {
        // Each end has one log, which fails once.
        let _ = board.capture_failures[end].set(format!("cannot write the packets to {shown}: {error}"));
    };
    Log::create(path, on_failure).map_err(|source| EmulatorError::Capture { path: path.to_owned(), source })
}
