//! What keeps a tunnel from carrying itself: the mark on the sockets of this process (`SO_MARK`), by which routing rules know what
//! it sends, and addresses that are never its source.
//!
//! The mark belongs to the process and not to a socket, so that none can be forgotten: a single unmarked one would be enough
//! for a tunnel to carry itself.

use std::io;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::OnceLock;

use socket2::SockRef;

/// What is missing where a socket must not be marked.
const MISSING_RIGHT: &str = "to mark its packets takes root, or the capability CAP_NET_ADMIN";

static MARK: OnceLock<NonZeroU32> = OnceLock::new();

/// Sets the mark of every socket that this crate opens from now on. The first call counts.
pub fn set(mark: NonZeroU32) {
    // A process is one site, and that has one mark.
    let _ = MARK.set(mark);
}

/// Marks a socket, if this process has a mark.
///
/// # Errors
/// Those of the system: most often, that `CAP_NET_ADMIN` is missing.
pub fn apply(socket: SockRef<'_>) -> io::Result<()> {
    let marked = MARK.get().map_or(Ok(()), |mark| socket.set_mark(mark.get()));
    marked.map_err(|error| {
        let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
        if is_refused { io::Error::new(error.kind(), MISSING_RIGHT) } else { error }
    })
}

/// What is missing where only the tunnel has an address.
const NO_ADDRESS: &str = "this host has no address for it but those in the tunnel";

static ADDRESSES: OnceLock<Vec<IpAddr>> = OnceLock::new();

/// This process has these addresses in its tunnel from now on, from which nothing of the tunnel's own may come. The first call
/// counts.
///
/// An interface without an address of its own lends itself one of another interface's: that is how Linux chooses. If it is one
/// in the tunnel, answers go there, too.
pub fn set_inside(addresses: Vec<IpAddr>) {
    // A process is one site, and that keeps its addresses.
    let _ = ADDRESSES.set(addresses);
}

/// The address, unless it is in the tunnel.
pub(crate) fn outside(address: IpAddr) -> io::Result<IpAddr> {
    let is_inside = ADDRESSES.get().is_some_and(|inside| inside.contains(&address.to_canonical()));
    if is_inside { Err(io::Error::new(io::ErrorKind::AddrNotAvailable, NO_ADDRESS)) } else { Ok(address) }
}
