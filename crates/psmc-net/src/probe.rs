//! Datagrams that are sent to see how far they come, and the ICMP errors that they bring back (`IP_RECVERR`, ip(7)).
//!
//! Whoever listens for datagrams of ours drops these: that nothing comes back says nothing.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::cmsg_space;
use nix::libc::{self, c_int, in_pktinfo, in6_pktinfo, sock_extended_err, sockaddr_in6, timespec};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::icmp::set_option;
use crate::udp::connect_udp_from;

/// How a datagram is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Through which interface; `None` follows the routes.
    pub interface: Option<String>,
    /// From which address; `None` leaves it to the kernel.
    pub local: Option<IpAddr>,
    /// Where to.
    pub remote: SocketAddr,
    /// How many bytes the IP packet has, with its headers. No router may cut it.
    pub length: u16,
}

/// What somebody on the way has said of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpError {
    /// Who: a router, the destination, or this host; `None` if the kernel does not tell.
    pub from: Option<IpAddr>,
    /// What.
    pub kind: IcmpKind,
}

/// What ICMP (RFC 792, RFC 1812 section 5.2.7.1) or ICMPv6 (RFC 4443) says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpKind {
    /// It has passed as many routers as it may.
    Expired,
    /// Nobody listens at that port; firewalls say so, too.
    NoPort,
    /// The host, or its network, is not reached.
    Unreachable,
    /// A firewall does not let it through.
    Prohibited,
    /// It is larger than so many bytes.
    TooBig(u32),
    /// Something else: type and code.
    Other(u8, u8),
}

/// How far datagrams come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// The routers that have answered, and how far away they are.
    pub hops: Vec<(u8, IpAddr)>,
    /// What was said of a datagram that may pass any number of routers.
    pub end: Option<IcmpError>,
}

/// Sends a datagram that may pass `hops` routers at most, and waits for what is said of it; `None` if nothing is.
///
/// # Errors
/// When it cannot be sent: no interface is named, and there is no route
/// ([`NetworkUnreachable`](io::ErrorKind::NetworkUnreachable)); there is no such interface or address; a firewall of this host drops
/// it ([`PermissionDenied`](io::ErrorKind::PermissionDenied)).
///
/// # Panics
/// Outside a tokio runtime.
pub async fn send(probe: &Probe, hops: Option<u8>, patience: Duration) -> io::Result<Option<IcmpError>> {
    let socket =
        UdpSocket::from_std(connect_udp_from(probe.interface.as_deref(), probe.local, probe.remote)?)?;
    let is_v4 = probe.remote.is_ipv4();
    if is_v4 {
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
        set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_PROBE)?;
    } else {
        setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
        set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, &libc::IPV6_PMTUDISC_PROBE)?;
    }
    if let Some(hops) = hops.map(c_int::from) {
        if is_v4 {
            setsockopt(&socket, sockopt::Ipv4Ttl, &hops)?;
        } else {
            setsockopt(&socket, sockopt::Ipv6Ttl, &hops)?;
        }
    }
    let headers = if is_v4 { 28 } else { 48 };
    socket.send(&vec![0; usize::from(probe.length).saturating_sub(headers)]).await?;
    let said = socket.async_io(Interest::ERROR, || next_error(&socket).map(|(_, said)| said));
    timeout(patience, said).await.map_or(Ok(None), |said| said.map(Some))
}

/// Sends datagrams that end at the first router, the second, and so on to the `most`th, and one that does not, all at a time.
///
/// # Errors
/// As [`send`].
///
/// # Panics
/// Outside a tokio runtime.
pub async fn walk(probe: &Probe, most: u8, patience: Duration) -> io::Result<Walk> {
    let mut sent = JoinSet::new();
    for hops in 1..=most {
        let probe = probe.clone();
        sent.spawn(async move { (hops, send(&probe, Some(hops), patience).await) });
    }
    let mut walk = Walk::default();
    // A router says no more than a few things at once: the one that is asked for most comes first.
    let (end, told) = tokio::join!(biased; send(probe, None, patience), sent.join_all());
    walk.end = end?;
    for (hops, said) in told {
        if let Some(IcmpError { from: Some(from), kind: IcmpKind::Expired }) = said? {
            walk.hops.push((hops, from));
        }
    }
    walk.hops.sort_unstable();
    Ok(walk)
}

/// The next error in the queue of a socket, and the address that the datagram went to which it is about.
///
/// # Errors
/// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none.
pub(crate) fn next_error(socket: &impl AsRawFd) -> io::Result<(Option<SocketAddr>, IcmpError)> {
    let mut bytes = [0; 64];
    let mut buffers = [IoSliceMut::new(&mut bytes)];
    // With what sockets that measure are told of each datagram.
    let mut space = cmsg_space!(sock_extended_err, sockaddr_in6, timespec, c_int, in_pktinfo, in6_pktinfo);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut buffers, Some(&mut space), flags)?;
    let to = message.address.as_ref().and_then(|to| {
        let v4 = to.as_sockaddr_in().map(|to| SocketAddr::from((to.ip(), to.port())));
        v4.or_else(|| to.as_sockaddr_in6().map(|to| SocketAddr::from((to.ip(), to.port()))))
    });
    let said = message.cmsgs()?.find_map(|control| {
        if let ControlMessageOwned::Ipv4RecvErr(error, from) = control {
            let from = from.map(|from| IpAddr::from(Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr))));
            Some(IcmpError { from, kind: kind_of(&error, true) })
        } else if let ControlMessageOwned::Ipv6RecvErr(error, from) = control {
            let from = from.map(|from| IpAddr::from(Ipv6Addr::from(from.sin6_addr.s6_addr)));
            Some(IcmpError { from, kind: kind_of(&error, false) })
        } else {
            None
        }
    });
    said.map(|said| (to, said)).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn kind_of(error: &sock_extended_err, is_v4: bool) -> IcmpKind {
    if error.ee_errno == libc::EMSGSIZE.cast_unsigned() {
        return IcmpKind::TooBig(error.ee_info);
    }
    match (is_v4, error.ee_type, error.ee_code) {
        (true, 11, _) | (false, 3, _) => IcmpKind::Expired,
        (true, 3, 3) | (false, 1, 4) => IcmpKind::NoPort,
        (true, 3, 9 | 10 | 13) | (false, 1, 1 | 5 | 6) => IcmpKind::Prohibited,
        (true, 3, 0 | 1 | 5..=8 | 11 | 12) | (false, 1, 0 | 2 | 3) => IcmpKind::Unreachable,
        (_, kind, code) => IcmpKind::Other(kind, code),
    }
}

#[cfg(test)]
mod tests;
