//! The link emulator: links between namespaces, with delay, rate, loss and all else that a [`LinkConfig`] says.
//!
//! ```text
//! host A            the lab's own namespace            host B
//!  name ══════ l0.0 ─▶ Link (A to B) ─▶ l0.1 ══════ name
//!                   ◀─ Link (B to A) ◀─
//! ```
//!
//! Each link is two pairs of virtual Ethernet interfaces. A thread takes the frames out of the lab's ends one by one,
//! with the time at which the kernel got each; asks the same state machine that the simulator uses when it arrives;
//! and sends it by the other end then. Nothing but time, loss and the like distinguishes it from a cable: ARP and IPv6
//! neighbour discovery pass as well.

mod build;
mod capture;
mod counters;
mod device;
mod ethernet;
mod health;
mod pool;
mod wire;
mod worker;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use psmc_net::packet::PacketError;
use psmc_sim::link::{LinkConfig, LinkCounters};
use psmc_testbed::netns::{Namespace, NetnsError};

use crate::scenario::LinkId;
use worker::{Command, Worker};

pub use build::{Builder, Plan, RouterPlan};
pub use device::Table;
pub(crate) use health::Fatigue;
pub use health::{Health, Lateness};

/// Why there is no emulator.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The interfaces of a link could not be made.
    #[error("cannot make the interfaces of a link")]
    Interfaces(#[from] NetnsError),
    /// The frames of a link cannot be had.
    #[error("cannot take the packets off a link")]
    Packets(#[from] PacketError),
    /// A log of packets could not be made.
    #[error("cannot make {} for the packets of a link", path.display())]
    Capture {
        /// Where it should be.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The system has no thread left, or no descriptor.
    #[error("cannot start the emulator's thread")]
    Thread(#[source] io::Error),
}

/// Links that carry packets for as long as this lives. Its interfaces go with it.
#[derive(Debug)]
pub struct Emulator {
    workers: Vec<Worker>,
    links: Vec<Place>,
    /// The lab's ends are in it.
    _namespace: Namespace,
}

/// Where a link is: of which worker, which of its wires, and what it tells about itself.
#[derive(Debug)]
struct Place {
    worker: usize,
    wire: usize,
    board: Arc<counters::Board>,
}

impl Emulator {
    /// Starts to describe an emulator.
    ///
    /// # Errors
    /// [`EmulatorError::Interfaces`] without the right to make a network namespace.
    pub fn builder() -> Result<Builder, EmulatorError> {
        Builder::new()
    }

    /// Makes `direction` of a link (0 from its first end to its second) be like `config` from now on. What is on the
    /// way stays on the way.
    ///
    /// # Panics
    /// If there is no such link or direction.
    pub fn change(&self, link: LinkId, direction: usize, config: LinkConfig) {
        assert!(direction < 2, "a link has two directions");
        let place = &self.links[link.0];
        let (config, at) = (Box::new(config), Instant::now());
        let change = Command::Change { wire: place.wire, direction, config, at };
        self.workers[place.worker].order(change);
    }

    /// What both directions of a link have done so far. The numbers of one direction are microseconds apart.
    ///
    /// # Panics
    /// If there is no such link.
    #[must_use]
    pub fn counters(&self, link: LinkId) -> [LinkCounters; 2] {
        self.links[link.0].board.counters()
    }

    /// How well a link was emulated so far.
    ///
    /// # Panics
    /// If there is no such link.
    #[must_use]
    pub fn health(&self, link: LinkId) -> Health {
        self.links[link.0].board.health()
    }
}
