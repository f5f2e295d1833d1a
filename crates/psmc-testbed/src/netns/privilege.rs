//! What an ordinary user may do about namespaces.

use std::fs;
use std::io;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getgid, getuid};

/// Bits of `CAP_NET_ADMIN` and `CAP_SYS_ADMIN` in a set of capabilities (`linux/capability.h`).
const NEEDED_CAPABILITIES: u64 = 1 << 12 | 1 << 21;

/// Why there is no user namespace.
#[derive(Debug, thiserror::Error)]
pub enum UserNamespaceError {
    /// Only a process with a single thread may change its user namespace.
    #[error("a user namespace must be entered before the process starts its second thread")]
    Threads(#[source] io::Error),
    /// The kernel does not let ordinary users make user namespaces.
    #[error(
        "ordinary users may not make user namespaces here: run as root, or as root set \
         kernel.unprivileged_userns_clone=1 (Debian) or kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)"
    )]
    Forbidden(#[source] io::Error),
    /// There are as many user namespaces as there may be.
    #[error("too many user namespaces: run as root, or as root raise user.max_user_namespaces")]
    Exhausted(#[source] io::Error),
    /// Another error of the kernel.
    #[error("cannot make a user namespace: run as root instead")]
    Other(#[source] io::Error),
}

/// Whether this thread may set up networks and make network namespaces: both `CAP_NET_ADMIN` and `CAP_SYS_ADMIN`
/// are effective. False also when `/proc` does not say.
#[must_use]
pub fn is_privileged() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|set| set & NEEDED_CAPABILITIES == NEEDED_CAPABILITIES)
}

/// Makes this process root of a new user namespace, with a network and a mount namespace to go with it.
///
/// After it an ordinary user can make [`Namespace`](super::Namespace)s and TUN devices, in there. Call it before
/// the process has a second thread, so before any runtime; there is no way back.
///
/// # Errors
/// [`UserNamespaceError`]; each says what would help.
pub fn enter_user_namespace() -> Result<(), UserNamespaceError> {
    let (uid, gid) = (getuid(), getgid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).map_err(why)?;
    // user_namespaces(7): without a privilege outside, a gid_map may be written only once setgroups is denied.
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {uid} 1")),
        ("gid_map", format!("0 {gid} 1")),
    ];
    for (file, map) in maps {
        // AppArmor lets the namespace come to be, and denies what could be done in it.
        fs::write(format!("/proc/self/{file}"), map).map_err(UserNamespaceError::Forbidden)?;
    }
    Ok(())
}

fn why(errno: Errno) -> UserNamespaceError {
    let wrap = if errno == Errno::EINVAL {
        UserNamespaceError::Threads
    } else if errno == Errno::EPERM || errno == Errno::EACCES {
        UserNamespaceError::Forbidden
    } else if errno == Errno::ENOSPC || errno == Errno::EUSERS {
        UserNamespaceError::Exhausted
    } else {
        UserNamespaceError::Other
    };
    wrap(errno.into())
}
