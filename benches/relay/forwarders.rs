//! Those that hand datagrams on.

mod coturn;
mod kernel;
mod psmc;

use std::any::Any;
use std::error::Error;
use std::path::Path;

pub(crate) use psmc::Psmc;

use crate::lane::Lane;
use crate::network::Network;

/// Who hands datagrams on.
pub(crate) trait Forwarder {
    /// What the tables call it.
    fn name(&self) -> String;

    /// What exactly runs: a file and its version.
    fn origin(&self) -> String;

    /// Starts it on the host in the middle, with so many sessions.
    fn raise(&self, network: &Network, sessions: usize) -> Result<Raised, Box<dyn Error>>;
}

/// A forwarder that runs, and ends when the value is dropped.
pub(crate) struct Raised {
    /// Its processes; the kernel has none.
    pub(crate) processes: Vec<u32>,
    pub(crate) lanes: Vec<Lane>,
    /// The programs, and what is to be removed after them, in this order.
    _parts: Vec<Box<dyn Any>>,
}

/// Ours, the kernel, and every competitor on this machine.
pub(crate) fn found(program: &Path) -> Vec<Box<dyn Forwarder>> {
    let mut forwarders: Vec<Box<dyn Forwarder>> =
        vec![Box::new(Psmc { program: program.to_owned(), hops: 1 })];
    if let Some(coturn) = coturn::Coturn::found() {
        forwarders.push(Box::new(coturn));
    }
    forwarders.push(Box::new(kernel::Kernel));
    forwarders
}
