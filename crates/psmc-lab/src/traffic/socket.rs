//! Sockets of both ends.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use psmc_testbed::netns::Namespace;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use super::TrafficError;

/// How long a connection may take to be made: longer than any tunnel of use.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many connections may wait to be taken: what arrives while a busy machine does something else.
const BACKLOG: i32 = 1024;

/// Bytes asked for each buffer of a UDP socket: what 1 Gb/s brings while this process is not scheduled for 50 ms, and
/// then some.
const UDP_BUFFER: usize = 7 << 20;

/// How a TCP socket is made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TcpOptions<'a> {
    /// Whose congestion control is asked for; the kernel's default one if `None`.
    pub(super) congestion_control: Option<&'a str>,
    /// Whether it is an MPTCP socket.
    pub(super) multipath: bool,
}

/// Fails if the kernel has no such congestion control, in the words of a [`TrafficError`].
///
/// # Errors
/// [`TrafficError::CongestionControl`]; others if not even a socket can be had.
pub fn check_congestion_control(name: &str) -> Result<(), TrafficError> {
    let options = TcpOptions { congestion_control: Some(name), multipath: false };
    tcp(Ipv4Addr::LOCALHOST.into(), options).map(drop)
}

/// Listens in a namespace, on a port that the kernel chooses, for connections to `address`.
pub(super) fn listen(
    namespace: &Namespace,
    address: IpAddr,
    options: TcpOptions<'_>,
) -> Result<(TcpListener, SocketAddr), TrafficError> {
    let listen = || {
        let socket = tcp(address, options)?;
        let listening = socket.bind(&unspecified(address).into()).and_then(|()| socket.listen(BACKLOG));
        listening.and_then(|()| socket.set_nonblocking(true)).map_err(TrafficError::socket("TCP"))?;
        Ok(socket)
    };
    let listener = TcpListener::from_std(namespace.run(listen)?.into());
    let listener = listener.map_err(TrafficError::socket("TCP"))?;
    let local = listener.local_addr().map_err(TrafficError::socket("TCP"))?;
    Ok((listener, SocketAddr::new(address, local.port())))
}

/// Connects from the namespace of this thread.
pub(super) async fn connect(to: SocketAddr, options: TcpOptions<'_>) -> Result<TcpStream, TrafficError> {
    let socket = tcp(to.ip(), options)?;
    socket.set_nonblocking(true).map_err(TrafficError::socket("TCP"))?;
    let connecting = TcpSocket::from_std_stream(socket.into()).connect(to);
    match timeout(PATIENCE, connecting).await {
        Ok(stream) => stream.map_err(|source| TrafficError::Connect { to, source }),
        Err(_elapsed) => Err(TrafficError::NoConnection { to, waited: PATIENCE }),
    }
}

/// A UDP socket in the namespace of this thread, for datagrams to or from `address`.
pub(super) fn udp(address: IpAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(unspecified(address))?;
    // Smaller buffers cost datagrams in bursts, no more.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &UDP_BUFFER);
    let _ = setsockopt(&socket, sockopt::SndBufForce, &UDP_BUFFER);
    Ok(socket)
}

fn tcp(address: IpAddr, options: TcpOptions<'_>) -> Result<Socket, TrafficError> {
    let protocol = if options.multipath { Protocol::MPTCP } else { Protocol::TCP };
    let what = if options.multipath { "MPTCP: is net.mptcp.enabled 1?" } else { "TCP" };
    let domain = Domain::for_address(SocketAddr::new(address, 0));
    let socket = Socket::new(domain, Type::STREAM, Some(protocol)).map_err(TrafficError::socket(what))?;
    if let Some(name) = options.congestion_control {
        socket.set_tcp_congestion(name.as_bytes()).map_err(|source| no_congestion_control(name, source))?;
    }
    Ok(socket)
}

fn no_congestion_control(name: &str, source: io::Error) -> TrafficError {
    if source.kind() != io::ErrorKind::NotFound {
        return TrafficError::Socket { what: "TCP", source };
    }
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.unwrap_or_else(|error| format!("others ({error})"));
    let available = available.split_whitespace().collect::<Vec<_>>().join(", ");
    TrafficError::CongestionControl { wanted: name.to_owned(), available }
}

/// Any address of the same family, any port.
fn unspecified(address: IpAddr) -> SocketAddr {
    let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(any, 0)
}
