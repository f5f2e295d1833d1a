//! What an emulator is made of.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use psmc_net::packet::{ETHERNET_HEADER, PacketPort, VLAN_TAG};
use psmc_sim::link::LinkConfig;
use psmc_testbed::netns::{Namespace, link_pair};

use super::capture::Log;
use super::counters::Board;
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
        Ok(Self { namespace, wires: Vec::new() })
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

    /// Starts all links.
    ///
    /// # Errors
    /// [`EmulatorError::Thread`].
    pub fn start(self) -> Result<Emulator, EmulatorError> {
        let count = worker_count(self.wires.len());
        let mut shares: Vec<Vec<Wire>> = (0..count).map(|_| Vec::new()).collect();
        let mut links = Vec::new();
        for (id, (wire, board)) in self.wires.into_iter().enumerate() {
            let (worker, share) = (id % count, &mut shares[id % count]);
            links.push(Place { worker, wire: share.len(), board });
            share.push(wire);
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
