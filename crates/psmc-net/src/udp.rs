//! UDP sockets that send and receive many datagrams with one system call.
//!
//! Outside this module an address is canonical: an IPv4 peer of a dual-stack socket shows as IPv4.

mod control;
mod group;
mod recv;
mod send;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};

use nix::libc::EAFNOSUPPORT;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use quinn_udp::{UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::mark;
use crate::watched::Watched;

pub(crate) use control::{canonical, mapped};

pub use group::Group;
pub use psmc_wire::ip::Ecn;
pub use recv::{RecvBatch, RecvMeta};
pub use send::{SendError, SendFailure, Transmit};

/// Bytes asked for each socket buffer: what 1 Gb/s brings while this process is not scheduled for 50 ms, and then
/// some. The kernel grants more than `net.core.rmem_max` only to `CAP_NET_ADMIN`.
const SOCKET_BUFFER: usize = 7 << 20;

/// Where a [`UdpPort`] listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpBind {
    /// The local address. `[::]` stands for every address of both families.
    pub address: SocketAddr,
    /// The interface through which all datagrams go, whatever the routes say; `None` follows the routes.
    pub interface: Option<String>,
}

/// Why there is no [`UdpPort`].
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address is not ours, or its port is taken.
    #[error(
        "cannot listen on UDP {address}: `ip address` shows the addresses, `ss -ulpn` shows which program uses the port"
    )]
    Address {
        /// The address asked for.
        address: SocketAddr,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The interface does not exist, or may not be used.
    #[error("cannot use interface {interface}: `ip link` lists the interfaces")]
    Interface {
        /// The interface asked for.
        interface: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// No socket could be had.
    #[error("cannot make a UDP socket")]
    Socket(#[source] io::Error),
}

/// One UDP socket.
///
/// One task may wait in [`poll_recv`](Self::poll_recv) and one in [`poll_writable`](Self::poll_writable); a second
/// one that waits replaces the first.
#[derive(Debug)]
pub struct UdpPort {
    socket: Watched<Socket>,
    state: UdpSocketState,
    local: SocketAddr,
}

impl UdpPort {
    /// Opens a socket, with large buffers.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(bind: &UdpBind) -> Result<Self, BindError> {
        Self::bind_with(bind, |_| Ok(()), |_| Ok(()))
    }

    /// Opens the next of several sockets on one address, among which a byte of each datagram decides.
    ///
    /// They have to be opened one after the other, in the order of their numbers; `number` 0 is the first.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind_in_group(bind: &UdpBind, group: Group, number: u8) -> Result<Self, BindError> {
        let share = |socket: &Socket| socket.set_reuse_port(true);
        Self::bind_with(bind, share, |socket| if number == 0 { group.steer(socket) } else { Ok(()) })
    }

    fn bind_with(
        bind: &UdpBind,
        before: impl FnOnce(&Socket) -> io::Result<()>,
        after: impl FnOnce(&Socket) -> io::Result<()>,
    ) -> Result<Self, BindError> {
        let (socket, address) = open(bind.address)?;
        before(&socket).map_err(BindError::Socket)?;
        if let Some(interface) = &bind.interface {
            let failed = |source| BindError::Interface { interface: interface.clone(), source };
            socket.bind_device(Some(interface.as_bytes())).map_err(failed)?;
        }
        socket.bind(&address.into()).map_err(|source| BindError::Address { address, source })?;
        after(&socket).map_err(BindError::Socket)?;
        enlarge_buffers(&socket);
        Self::register(socket).map_err(BindError::Socket)
    }

    /// The local address, with the port that the kernel chose if it was asked to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether the socket accepts datagrams again. Call it after [`SendFailure::WouldBlock`], and only then.
    ///
    /// # Errors
    /// When the runtime is shutting down, or there are no descriptors left.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_writable(cx)
    }

    /// Switches generic receive offload on, as it is at first, or off.
    ///
    /// # Errors
    /// Where the kernel does not know of joining (Linux 5.0).
    pub fn set_joins_arriving(&self, joins: bool) -> io::Result<()> {
        Ok(setsockopt(self.socket.get(), sockopt::UdpGroSegment, &joins)?)
    }

    fn register(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // Nobody reads these timestamps, and of a datagram that came with them and offloaded, the congestion mark has
        // no room left among quinn-udp's 96 bytes of ancillary data.
        setsockopt(&socket, sockopt::ReceiveTimestampns, &false)?;
        let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { socket: Watched::new(socket), state, local })
    }

    /// Whether the socket is of the IPv6 family, dual-stack or not.
    fn is_v6(&self) -> bool {
        self.local.is_ipv6()
    }
}

impl AsFd for UdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The address of ours from which datagrams to `remote` leave, through `interface` if there is one. Nothing is sent.
///
/// # Errors
/// When there is no route, or no such interface; [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if only the tunnel has an
/// address.
pub fn source_address(interface: Option<&str>, remote: SocketAddr) -> io::Result<IpAddr> {
    let socket = open_as(remote)?;
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    socket.connect(&remote.into())?;
    let local = socket.local_addr()?.as_socket();
    mark::outside(local.ok_or(io::ErrorKind::AddrNotAvailable)?.ip())
}

/// A socket that sends to `remote` and receives from there only, through `interface` if there is one, and never blocks.
///
/// # Errors
/// When there is no route, or no such interface.
pub fn connect_udp(interface: Option<&str>, remote: SocketAddr) -> io::Result<std::net::UdpSocket> {
    connect_udp_from(interface, None, remote)
}

/// The same from the address `local`, if there is one.
pub(crate) fn connect_udp_from(
    interface: Option<&str>,
    local: Option<IpAddr>,
    remote: SocketAddr,
) -> io::Result<std::net::UdpSocket> {
    let socket = open_as(remote)?;
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    if let Some(local) = local {
        socket.bind(&SocketAddr::new(local, 0).into())?;
    }
    socket.connect(&remote.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// A socket at `local`, at a port of the kernel's choice, that leaves through `interface` if there is one, and never blocks.
///
/// # Errors
/// When there is no such address, or no such interface.
pub fn bind_udp(interface: Option<&str>, local: IpAddr) -> io::Result<std::net::UdpSocket> {
    let local = SocketAddr::new(local, 0);
    let socket = open_as(local)?;
    if let Some(interface) = interface {
        socket.bind_device(Some(interface.as_bytes()))?;
    }
    socket.bind(&local.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// What the way to `remote` takes, in bytes of IPv4 packets, as far as the kernel knows: what the first link takes, or less
/// if a router has said so. Nothing is sent.
///
/// # Errors
/// When there is no route.
pub fn route_mtu(remote: Ipv4Addr) -> io::Result<u16> {
    // Any port will do for asking.
    let remote = SocketAddr::from((remote, 9));
    let socket = open_as(remote)?;
    socket.connect(&remote.into())?;
    // Loopback takes more than a packet holds.
    Ok(u16::try_from(getsockopt(&socket, sockopt::IpMtu)?).unwrap_or(u16::MAX))
}

/// A socket for `address`, and the address to bind it to: a kernel without IPv6 gets `0.0.0.0` for `[::]`.
fn open(address: SocketAddr) -> Result<(Socket, SocketAddr), BindError> {
    let is_any_v6 = address.is_ipv6() && address.ip().is_unspecified();
    match open_as(address) {
        Err(error) if is_any_v6 && error.raw_os_error() == Some(EAFNOSUPPORT) => {
            let any_v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port());
            open_as(any_v4).map(|socket| (socket, any_v4)).map_err(BindError::Socket)
        }
        outcome => outcome.map(|socket| (socket, address)).map_err(BindError::Socket),
    }
}

pub(crate) fn open_as(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    mark::apply(SockRef::from(&socket))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    Ok(socket)
}

/// Asks for [`SOCKET_BUFFER`], by privilege if we have it. Smaller buffers cost packets in bursts, no more.
pub(crate) fn enlarge_buffers(socket: &Socket) {
    if setsockopt(socket, sockopt::RcvBufForce, &SOCKET_BUFFER).is_err() {
        let _ = socket.set_recv_buffer_size(SOCKET_BUFFER);
    }
    if setsockopt(socket, sockopt::SndBufForce, &SOCKET_BUFFER).is_err() {
        let _ = socket.set_send_buffer_size(SOCKET_BUFFER);
    }
}

#[cfg(test)]
mod tests;
