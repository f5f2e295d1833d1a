//! Which namespace it is, and which one a process lives in.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use nix::fcntl::OFlag;
use nix::libc::{self, SO_NETNS_COOKIE, SOL_SOCKET, socklen_t};
use nix::sched::{CloneFlags, setns};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork, pipe2, write};
use socket2::{Domain, Socket, Type};

use super::{Namespace, NetnsError};

/// What tells a network namespace from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceId {
    /// The number that `/proc/PID/ns/net` shows. When the namespace is gone another one may get it.
    pub inode: u64,
    /// A number that no other network namespace gets until the machine is started again (Linux 5.14).
    pub cookie: u64,
}

impl NamespaceId {
    /// That of the namespace in which a process lives: of its main thread.
    ///
    /// Expensive: it takes a process that enters the namespace. [`inode_of_process`](Self::inode_of_process) rules
    /// most of them out.
    ///
    /// # Errors
    /// When the process is gone, or not ours to look into.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        let inode = Self::inode_of_process(pid)?;
        Ok(Self { inode, cookie: cookie_of_process(pid)? })
    }

    /// The first half of it.
    ///
    /// # Errors
    /// As [`of_process`](Self::of_process).
    pub fn inode_of_process(pid: u32) -> io::Result<u64> {
        Ok(fs::metadata(format!("/proc/{pid}/ns/net"))?.ino())
    }
}

impl Namespace {
    /// What tells it from all others.
    ///
    /// # Errors
    /// [`NetnsError::Identity`] from a kernel that does not know.
    pub fn id(&self) -> Result<NamespaceId, NetnsError> {
        let cookie = self.run(own_cookie).map_err(NetnsError::Identity)?;
        let file = self.fd.try_clone().map(File::from).map_err(NetnsError::Identity)?;
        Ok(NamespaceId { inode: file.metadata().map_err(NetnsError::Identity)?.ino(), cookie })
    }
}

/// The cookie of the namespace that this thread is in.
fn own_cookie() -> io::Result<u64> {
    let socket = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
    let (mut cookie, mut length) = (0_u64, COOKIE_BYTES);
    // SAFETY: the kernel writes no more bytes than the length says, which is that of the variable, and both outlive the
    // call; every value of the bytes is a number.
    #[expect(unsafe_code, reason = "no crate of ours knows this option")]
    let outcome = unsafe {
        let (value, length) = ((&raw mut cookie).cast(), &raw mut length);
        libc::getsockopt(socket.as_raw_fd(), SOL_SOCKET, SO_NETNS_COOKIE, value, length)
    };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(cookie) }
}

/// Only a process with a single thread may enter the user namespace that an ordinary user's network namespace belongs
/// to, and it cannot come back. So a child does, and tells.
fn cookie_of_process(pid: u32) -> io::Result<u64> {
    let [user, net] = ["user", "net"].map(|kind| File::open(format!("/proc/{pid}/ns/{kind}")));
    let (user, net) = (user?, net?);
    let (answer, report) = pipe2(OFlag::O_CLOEXEC)?;
    // SAFETY: the child has one thread of a process that may have had more, so that it must not allocate or take a
    // lock: all it does is make system calls and exit.
    #[expect(unsafe_code, reason = "no program to execute does this")]
    match unsafe { fork() }? {
        ForkResult::Child => {
            tell_cookie(&user, &net, &report);
            // SAFETY: this ends the process and runs nothing else.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => {
            drop(report);
            let mut cookie = [0; COOKIE_BYTES as usize];
            let outcome = File::from(answer).read_exact(&mut cookie);
            waitpid(child, None)?;
            outcome.map(|()| u64::from_ne_bytes(cookie))
        }
    }
}

/// Whatever fails here shows as an answer that does not come.
fn tell_cookie(user: &File, net: &File, report: &OwnedFd) {
    // It fails for the user namespace that we are in already, which is as good.
    let _ = setns(user, CloneFlags::CLONE_NEWUSER);
    if setns(net, CloneFlags::CLONE_NEWNET).is_err() {
        return;
    }
    if let Ok(cookie) = own_cookie() {
        let _ = write(report.as_fd(), &cookie.to_ne_bytes());
    }
}

/// The size of a cookie, as the kernel takes it.
const COOKIE_BYTES: socklen_t = 8;
