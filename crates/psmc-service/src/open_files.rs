//! How many files and sockets a program may have open (`RLIMIT_NOFILE`, setrlimit(2)).
//!
//! The limit that counts, the soft one, is 1,024 on most systems, for the sake of programs that use select(2). Others may raise it
//! by themselves, up to the hard one.

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// The hard limit of this process.
///
/// # Errors
/// What the kernel says.
pub fn most() -> Result<u64, Errno> {
    getrlimit(Resource::RLIMIT_NOFILE).map(|(_, hard)| hard)
}

/// Raises the limit as far as this process may, and returns it.
///
/// # Errors
/// What the kernel says.
pub fn raise() -> Result<u64, Errno> {
    let hard = most()?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}
