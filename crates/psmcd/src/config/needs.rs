//! What a configuration needs of the system.

use super::model::{Config, Paths, Peer};

/// Descriptors that every site has: its interface, sockets, timers, clients, the log, and those that are kept in reserve.
const OWN: usize = 96;

/// Calls of which it is not known yet whose they are (`psmc_net::tls::Listener`).
const STRANGERS: usize = 512;

/// Uplinks of a machine that opens a path over each: as many as most have.
const UPLINKS: usize = 4;

impl Config {
    /// How many files and sockets psmcd may have open at the same time with this configuration, at most.
    #[must_use]
    pub fn open_files(&self) -> usize {
        let strangers = if self.site.is_hidden { 0 } else { STRANGERS };
        let peers: usize = self.peers.iter().map(open_files_of).sum();
        // A call through a relay has a connection of its own.
        OWN + strangers + 2 * self.site.register.len() + peers
    }
}

fn open_files_of(peer: &Peer) -> usize {
    let paths = match &peer.paths {
        Paths::Listed(paths) => paths.iter().map(|path| 1 + path.relays.len()).sum(),
        Paths::EveryUplink if peer.endpoint.is_some() => UPLINKS,
        Paths::EveryUplink => 0,
    };
    // Two control connections while one takes over from the other.
    2 + paths
}
