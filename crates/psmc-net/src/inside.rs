//! The addresses that this process has in its tunnel, from which nothing of the tunnel's own may come.
//!
//! An interface without an address of its own lends itself one of another interface's: that is how Linux chooses. If it is one
//! in the tunnel, answers go there, too.

use std::io;
use std::net::IpAddr;
use std::sync::OnceLock;

/// What is missing where only the tunnel has an address.
const NO_ADDRESS: &str = "this host has no address for it but those in the tunnel";

static ADDRESSES: OnceLock<Vec<IpAddr>> = OnceLock::new();

/// These are in the tunnel from now on. The first call counts.
pub fn set(addresses: Vec<IpAddr>) {
    // A process is one site, and that keeps its addresses.
    let _ = ADDRESSES.set(addresses);
}

/// The address, unless it is in the tunnel.
pub(crate) fn outside(address: IpAddr) -> io::Result<IpAddr> {
    let is_inside = ADDRESSES.get().is_some_and(|inside| inside.contains(&address.to_canonical()));
    if is_inside { Err(io::Error::new(io::ErrorKind::AddrNotAvailable, NO_ADDRESS)) } else { Ok(address) }
}
