//! The mark on the sockets of this process (`SO_MARK`), by which routing rules know what a tunnel itself sends.
//!
//! It belongs to the process and not to a socket, so that none can be forgotten: a single unmarked one would be enough for a tunnel
//! to carry itself.

use std::io;
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
