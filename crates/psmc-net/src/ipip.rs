//! IPv4 in IPv4 (protocol 4, RFC 2003): raw sockets that send and receive many packets with one system call.
//!
//! Where the kernel has a tunnel device of its own both get each packet, and neither minds.

mod batches;
mod tunnel;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

use nix::libc::{EACCES, EPERM};
use psmc_wire::ip::PROTOCOL_IPIP;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::mark;
use crate::udp::enlarge_buffers;
use crate::watched::Watched;

pub use batches::{NotSent, RecvBatch, SendBatch};
pub use tunnel::{TunnelBind, TunnelPort, Way};

/// How many packets one system call moves at most.
const BATCH: usize = 32;

/// Why there is no [`IpIpPort`].
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// This process may not have one.
    #[error(
        "not allowed to send or receive IP-in-IP: CAP_NET_RAW is needed. Run as root, or give the program that right: \
         `setcap cap_net_raw+ep PROGRAM`, or AmbientCapabilities=CAP_NET_RAW in its systemd unit"
    )]
    Denied(#[source] io::Error),
    /// The interface does not exist, or may not be used.
    #[error("cannot use interface {interface}: `ip link` lists the interfaces")]
    Interface {
        /// The interface asked for.
        interface: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The kernel refused for another reason.
    #[error("cannot create a raw socket for IP-in-IP")]
    Socket(#[source] io::Error),
}

/// A socket for all packets of protocol 4 that reach this host, or one of its interfaces.
///
/// One task may wait in [`poll_recv`](Self::poll_recv) and one in [`poll_writable`](Self::poll_writable).
#[derive(Debug)]
pub struct IpIpPort {
    socket: Watched<Socket>,
}

impl IpIpPort {
    /// Opens a socket. All packets go through `interface`, if there is one, whatever the routes say.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(interface: Option<&str>) -> Result<Self, OpenError> {
        let socket = open_raw().map_err(|source| match source.raw_os_error() {
            Some(EPERM | EACCES) => OpenError::Denied(source),
            _ => OpenError::Socket(source),
        })?;
        if let Some(interface) = interface {
            let failed = |source| OpenError::Interface { interface: interface.to_owned(), source };
            socket.bind_device(Some(interface.as_bytes())).map_err(failed)?;
        }
        enlarge_buffers(&socket);
        socket.set_nonblocking(true).map_err(OpenError::Socket)?;
        Ok(Self { socket: Watched::new(socket) })
    }

    /// Whether the socket accepts packets again. Call it after [`SendFailure::WouldBlock`](crate::udp::SendFailure), and
    /// only then.
    ///
    /// # Errors
    /// When the runtime is shutting down, or there are no descriptors left.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_writable(cx)
    }

    /// Receives with one `recvmmsg` what is there, replacing the contents of `batch`, and returns how many packets that
    /// is. It must be called again after every `Ready`.
    ///
    /// # Errors
    /// Those of the socket itself.
    ///
    /// # Panics
    /// The first time, outside a tokio runtime.
    pub fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, |socket| batch.fill_from(socket))
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, and those of the socket itself.
    pub fn try_recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.fill_from(self.socket.get())
    }
}

impl AsFd for IpIpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether this process may have an [`IpIpPort`].
#[must_use]
pub fn is_allowed() -> bool {
    open_raw().is_ok()
}

/// A socket to which every packet is given with its outer header, and which takes them so.
fn open_raw() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(i32::from(PROTOCOL_IPIP))))?;
    mark::apply(SockRef::from(&socket))?;
    socket.set_header_included_v4(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests;
