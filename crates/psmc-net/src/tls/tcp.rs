//! TCP connections as the control channel and [streams](crate::stream) of datagrams want them: without delay, with little that waits
//! to be sent, in packets that every network carries, and soon aware of a dead peer.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::mark;
use crate::udp::source_address;

/// Why there is no TCP connection, or no listener.
#[derive(Debug, Error)]
pub enum TcpError {
    /// The system gives no socket, or refuses an option of it.
    #[error("cannot prepare a tcp socket")]
    Socket(#[source] io::Error),
    /// The connection cannot be bound to the interface asked for.
    #[error("cannot send through the interface {name}: `ip link` lists the interfaces")]
    Interface {
        /// The interface.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The connection cannot be bound to the local address asked for.
    #[error("cannot send from {address}: `ip address` lists the addresses")]
    Local {
        /// The local address.
        address: IpAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The remote end refused, or there is no way to it.
    #[error("cannot connect to {remote}: is it listening, and is there a route?")]
    Connect {
        /// The remote end.
        remote: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing came back from the remote end.
    #[error(
        "connection to {remote} timed out after {timeout:?}: is a firewall or NAT in the way? A relay avoids both"
    )]
    TimedOut {
        /// The remote end.
        remote: SocketAddr,
        /// How long it was waited for.
        timeout: Duration,
    },
    /// Nothing can listen there.
    #[error("cannot listen on {address}{}", who_does(source))]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// What helps where somebody else listens.
fn who_does(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::AddrInUse { ": `ss -ltnp` shows which program does" } else { "" }
}

/// Connects to `remote` within `timeout`, through one interface if `bind_interface` names one, and from the
/// address `local` if there is one. The connection is dead after 5 s without an answer.
///
/// Its packets have 1280 bytes at most in either direction, so that it works where larger ones vanish and nobody says so.
///
/// # Errors
/// [`TcpError`].
pub async fn connect_tcp(
    bind_interface: Option<&str>,
    local: Option<IpAddr>,
    remote: SocketAddr,
    timeout: Duration,
) -> Result<TcpStream, TcpError> {
    if local.is_none() {
        has_source(bind_interface, remote).map_err(|source| TcpError::Connect { remote, source })?;
    }
    let socket = prepare(bind_interface, local, remote)?;
    tokio::time::timeout(timeout, socket.connect(remote))
        .await
        .map_err(|_| TcpError::TimedOut { remote, timeout })?
        .map_err(|source| TcpError::Connect { remote, source })
}

/// Listens on `address`; on both IPv4 and IPv6 if that is `[::]`. Connections inherit the small packets of [`connect_tcp`].
///
/// # Errors
/// [`TcpError::Listen`].
///
/// # Panics
/// Outside a tokio runtime.
pub fn listen_tcp(address: SocketAddr) -> Result<TcpListener, TcpError> {
    listen(address).map_err(|source| TcpError::Listen { address, source })
}

/// Sets what every connection has set: no delay, little that waits, and 5 s until a silent peer counts as gone.
pub(super) fn tune(socket: SockRef<'_>) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_notsent_lowat(MAX_UNSENT)?;
    // A kernel without it, or that does not allow it, has its own.
    let _ = socket.set_tcp_congestion(CONGESTION_CONTROL);
    socket.set_tcp_mss(MAX_SEGMENT)?;
    socket.set_tcp_keepalive(&keepalive)?;
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))
}

/// The address without the IPv6 clothes that a dual-stack socket puts on IPv4 (RFC 4291 §2.5.5.2).
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        // As it was: a new address would lose its scope.
        IpAddr::V6(_) => address,
    }
}

/// Sees to it that the kernel would not choose an address in the tunnel. Of all else it complains when it is asked to connect.
fn has_source(bind_interface: Option<&str>, remote: SocketAddr) -> io::Result<()> {
    match source_address(bind_interface, remote) {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn prepare(
    bind_interface: Option<&str>,
    local: Option<IpAddr>,
    remote: SocketAddr,
) -> Result<TcpSocket, TcpError> {
    let socket = if remote.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let socket = socket.map_err(TcpError::Socket)?;
    tune(SockRef::from(&socket)).map_err(TcpError::Socket)?;
    mark::apply(SockRef::from(&socket)).map_err(TcpError::Socket)?;
    if let Some(name) = bind_interface {
        SockRef::from(&socket)
            .bind_device(Some(name.as_bytes()))
            .map_err(|source| TcpError::Interface { name: name.into(), source })?;
    }
    if let Some(address) = local {
        socket.bind(SocketAddr::new(address, 0)).map_err(|source| TcpError::Local { address, source })?;
    }
    Ok(socket)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // What is accepted has it, too.
    mark::apply(SockRef::from(&socket))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    // Before it listens: the answer to a SYN tells the other end.
    socket.set_tcp_mss(MAX_SEGMENT)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// The most that a TCP segment carries (`TCP_MAXSEG`, tcp(7)): a packet of IPv6's least MTU, 1280 bytes (RFC 8200 §5), less the
/// headers of IPv6 and TCP. A ClientHello with a post-quantum key has more than 1400 bytes, and whoever waits for the first of
/// the system's own remedies (RFC 4821, off by default) waits longer than the handshake may take. What a control
/// connection carries is small, so that short segments cost it nothing.
const MAX_SEGMENT: u32 = 1280 - 40 - 20;

/// What a connection takes beyond what it may send at the moment, in bytes (`TCP_NOTSENT_LOWAT`, tcp(7)): the kernel would take
/// megabytes, which a slow link needs minutes for.
const MAX_UNSENT: u32 = 16 * 1024;

/// What controls congestion (`TCP_CONGESTION`, tcp(7)): not BBR, which many systems have by default. Where a queue stands it holds
/// everything back for 200 ms every ten seconds, to see the round trip without it (draft-ietf-ccwg-bbr, ProbeRTT).
const CONGESTION_CONTROL: &[u8] = b"cubic";

/// Silence until the first keepalive probe: short, because a control connection decides which paths are used.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);

/// Time between keepalive probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);

/// How many unanswered probes end a connection.
const KEEPALIVE_PROBES: u32 = 3;

/// How long sent data may stay unacknowledged (RFC 5482): the system's default is a quarter of an hour.
const USER_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections that wait to be accepted: as many as Linux lets there be unless told otherwise (`net.core.somaxconn`). A SYN that finds no room is
/// dropped, and its sender tries again only after a second (RFC 6298 §2).
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn any_port(ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), 0)
    }

    async fn connect(
        interface: Option<&str>,
        local: Option<&str>,
        to: SocketAddr,
    ) -> Result<TcpStream, TcpError> {
        connect_tcp(interface, local.map(|ip| ip.parse().unwrap()), to, SECOND).await
    }

    #[tokio::test]
    async fn connects_through_an_interface_and_from_an_address() {
        let listener = listen_tcp(any_port("127.0.0.1")).unwrap();
        let to = listener.local_addr().unwrap();
        let stream = connect(Some("lo"), Some("127.0.0.9"), to).await.unwrap();
        let (_, from) = listener.accept().await.unwrap();
        assert_eq!(from, stream.local_addr().unwrap());
        assert_eq!(from.ip().to_string(), "127.0.0.9");
        assert!(stream.nodelay().unwrap());
        assert_eq!(SockRef::from(&stream).tcp_user_timeout().unwrap(), Some(USER_TIMEOUT));
        assert_eq!(SockRef::from(&stream).tcp_keepalive_time().unwrap(), KEEPALIVE_IDLE);
    }

    #[tokio::test]
    async fn the_unspecified_ipv6_address_takes_ipv4_too() {
        let listener = listen_tcp(any_port("::")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stream = connect(None, None, SocketAddr::new([127, 0, 0, 1].into(), port)).await.unwrap();
        let (_, from) = listener.accept().await.unwrap();
        assert!(from.is_ipv6());
        assert_eq!(canonical(from), stream.local_addr().unwrap());
    }

    #[tokio::test]
    async fn errors_name_the_culprit() {
        let listener = listen_tcp(any_port("127.0.0.1")).unwrap();
        let to = listener.local_addr().unwrap();
        let interface = connect(Some("psmc-none"), None, to).await.unwrap_err();
        assert!(matches!(&interface, TcpError::Interface { name, .. } if name == "psmc-none"), "{interface}");
        let local = connect(None, Some("192.0.2.1"), to).await.unwrap_err();
        assert!(matches!(local, TcpError::Local { .. }), "{local}");
        let taken = listen_tcp(to).unwrap_err();
        assert!(matches!(taken, TcpError::Listen { address, .. } if address == to), "{taken}");
        drop(listener);
        let nobody = connect(None, None, to).await.unwrap_err();
        assert!(matches!(nobody, TcpError::Connect { remote, .. } if remote == to), "{nobody}");
    }

    /// Either end alone sees to it, whatever the other one is.
    #[tokio::test]
    async fn packets_are_small_in_both_directions_whichever_end_is_ours() {
        for (ip, name) in [("127.0.0.1", "IPv4"), ("::1", "IPv6")] {
            let ours = listen_tcp(any_port(ip)).unwrap();
            let theirs = std::net::TcpListener::bind(any_port(ip)).unwrap();
            let dialled = connect(None, None, theirs.local_addr().unwrap()).await.unwrap();
            let accepted = theirs.accept().unwrap().0;
            let dialler = TcpStream::connect(ours.local_addr().unwrap()).await.unwrap();
            let answered = ours.accept().await.unwrap().0;
            let sends = [SockRef::from(&dialled), (&accepted).into(), (&dialler).into(), (&answered).into()]
                .map(|socket| socket.tcp_mss().unwrap());
            assert!(sends.iter().all(|&bytes| bytes <= MAX_SEGMENT), "{name}: {sends:?}");
        }
    }

    #[test]
    fn canonical_keeps_the_scope_of_ipv6() {
        let link_local: SocketAddr = "[fe80::1%3]:5115".parse().unwrap();
        assert_eq!(canonical(link_local), link_local);
    }
}
