//! Sockets whose address is another host's.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use nix::errno::Errno;
use psmc_wire::ip::tcp::Unreachable;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};

use super::Accepted;
use super::namespace::Namespace;

/// Connections that may wait at a port to be accepted. Each was wanted by the owner, who bounds them.
const BACKLOG: i32 = 65535;

/// How long a host says nothing before it is asked whether it is there. "This interval MUST be configurable and MUST default to no less
/// than two hours" (RFC 9293 section 3.8.4), so that no connection ends here that would live on without us.
const KEEPALIVE: Duration = Duration::from_hours(2);

/// Why a server was not reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It refused, by a reset or an ICMP error that says that nobody is there at this port.
    #[error("connection refused")]
    Refused,
    /// A router, or the host itself, said that it cannot be reached.
    #[error("unreachable")]
    Unreachable(Unreachable),
    /// Nobody has answered.
    #[error("no answer")]
    TimedOut,
    /// This host has failed.
    #[error("cannot connect")]
    Failed(#[source] io::Error),
}

/// Opens a port for connections to any host.
pub(super) fn listener(namespace: &Namespace, congestion: Option<&str>, port: u16) -> io::Result<Socket> {
    let socket = transparent(namespace, Domain::IPV6, congestion)?;
    socket.set_only_v6(false)?;
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Takes a connection from a port.
pub(super) fn accept(listener: &Socket) -> io::Result<Accepted> {
    // It has the options of the listener, but for this one.
    let (socket, client) = listener.accept()?;
    socket.set_nonblocking(true)?;
    let server = ip(&socket.local_addr()?)?;
    Ok(Accepted { client: ip(&client)?, server, stream: socket.into() })
}

/// Begins a connection to `server` in the name of `client`.
pub(super) fn connect(
    namespace: &Namespace,
    congestion: Option<&str>,
    client: SocketAddr,
    server: SocketAddr,
    dscp: u8,
) -> io::Result<TcpStream> {
    let socket = transparent(namespace, Domain::for_address(server), congestion)?;
    let traffic_class = u32::from(dscp) << 2;
    if server.is_ipv4() {
        socket.set_tos_v4(traffic_class)?;
    } else {
        socket.set_tclass_v6(traffic_class)?;
    }
    socket.bind(&client.into())?;
    match socket.connect(&server.into()) {
        Err(error) if error.raw_os_error() != Some(Errno::EINPROGRESS as i32) => Err(error),
        Ok(()) | Err(_) => Ok(socket.into()),
    }
}

/// What has become of a connection that was begun: true if it is made, false if nobody knows yet. An error is told once, and then
/// the stream is of no more use.
///
/// # Errors
/// [`ConnectError`], by which the client can be told what the server would have told it.
pub fn finish(stream: &TcpStream) -> Result<bool, ConnectError> {
    match stream.take_error() {
        Ok(None) => Ok(stream.peer_addr().is_ok()),
        Ok(Some(error)) | Err(error) => Err(why(error)),
    }
}

/// Ends a connection by a reset; a host that is still connected loses what it has not read.
pub fn reset(stream: TcpStream) {
    // It fails for what is no socket. Without it this is a close like others, which resets only what was not read.
    let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
}

/// A socket that may have anybody's address.
fn transparent(namespace: &Namespace, domain: Domain, congestion: Option<&str>) -> io::Result<Socket> {
    let socket = namespace.within(|| Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP)))?;
    if domain == Domain::IPV6 {
        socket.set_ip_transparent_v6(true)?;
    } else {
        socket.set_ip_transparent_v4(true)?;
    }
    // A client has one port for many servers, and it may be one at which others listen: only both together permit that.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_out_of_band_inline(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    if let Some(name) = congestion {
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    Ok(socket)
}

/// An address, of IPv4 as what it is where a socket of IPv6 has it.
fn ip(address: &SockAddr) -> io::Result<SocketAddr> {
    let address = address.as_socket().ok_or(io::ErrorKind::NotConnected)?;
    Ok(SocketAddr::new(address.ip().to_canonical(), address.port()))
}

fn why(error: io::Error) -> ConnectError {
    let errno = Errno::from_raw(error.raw_os_error().unwrap_or_default());
    // From <linux/icmp.h> and net/ipv6/icmp.c, by what ICMP errors become these.
    let told = [
        (Errno::ECONNREFUSED, ConnectError::Refused),
        (Errno::ECONNRESET, ConnectError::Refused),
        (Errno::ENETUNREACH, ConnectError::Unreachable(Unreachable::Network)),
        (Errno::EHOSTUNREACH, ConnectError::Unreachable(Unreachable::Host)),
        (Errno::EACCES, ConnectError::Unreachable(Unreachable::Prohibited)),
        (Errno::ETIMEDOUT, ConnectError::TimedOut),
    ];
    let told = told.into_iter().find(|(known, _)| *known == errno);
    told.map_or(ConnectError::Failed(error), |(_, why)| why)
}
