//! Sockets for servers of questions in datagrams, such as name servers.
//!
//! A machine has several addresses, and whoever asks at one of them takes an answer from no other. So where a socket listens
//! on all of them, each answer leaves from the address that was asked.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener};
use std::os::fd::AsRawFd;

use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrStorage, recvmsg,
    sendmsg, setsockopt, sockopt,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Who has asked, and at which address of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// Where the answer goes.
    pub address: SocketAddr,
    at: Option<At>,
}

/// The address that was asked, of a socket that has several.
#[derive(Clone, Copy, Debug)]
enum At {
    V4(in_pktinfo),
    V6(in6_pktinfo),
}

/// A UDP socket that answers from the address at which it was asked.
#[derive(Debug)]
pub struct AnsweringSocket {
    socket: UdpSocket,
    has_many: bool,
}

/// Whether an IPv6 socket for `address` has to leave IPv4 to another one of `all` with the same port.
#[must_use]
pub fn is_for_v6_only(address: SocketAddr, all: &[SocketAddr]) -> bool {
    address.is_ipv6() && all.iter().any(|other| other.is_ipv4() && other.port() == address.port())
}

/// What counts as one source: an IPv4 address, or the /64 that an IPv6 site can draw addresses from at will
/// (RFC 6177 §2).
#[must_use]
pub fn source_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into(),
    }
}

/// A TCP socket that listens on `address`, for IPv6 only if `v6_only`; one of `[::]` takes IPv4 as well otherwise.
///
/// # Errors
/// What the system says, such as that the port is taken.
pub fn listen_tcp(address: SocketAddr, v6_only: bool) -> io::Result<TcpListener> {
    let socket = socket(address, v6_only, Type::STREAM, Protocol::TCP)?;
    // A server that is started again takes its port although old connections linger.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl AnsweringSocket {
    /// A socket on `address`, for IPv6 only if `v6_only`. It takes the runtime of tokio.
    ///
    /// # Errors
    /// What the system says, such as that the port is taken.
    pub fn bind(address: SocketAddr, v6_only: bool) -> io::Result<Self> {
        let socket = socket(address, v6_only, Type::DGRAM, Protocol::UDP)?;
        let has_many = address.ip().is_unspecified();
        if has_many && address.is_ipv4() {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
        } else if has_many {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
        socket.bind(&address.into())?;
        Ok(Self { socket: UdpSocket::from_std(socket.into())?, has_many })
    }

    /// Waits for a datagram; yields its length, of which no more than the buffer's is there, and who has sent it.
    ///
    /// # Errors
    /// What the system says.
    pub async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, Asker)> {
        if !self.has_many {
            let (length, address) = self.socket.recv_from(buffer).await?;
            return Ok((length, Asker { address, at: None }));
        }
        self.socket.async_io(Interest::READABLE, || receive(&self.socket, buffer)).await
    }

    /// Sends an answer, if that takes no waiting.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_send_to(&self, answer: &[u8], to: &Asker) -> io::Result<()> {
        let Some(at) = to.at else { return self.socket.try_send_to(answer, to.address).map(drop) };
        self.socket.try_io(Interest::WRITABLE, || {
            let control = match &at {
                At::V4(info) => ControlMessage::Ipv4PacketInfo(info),
                At::V6(info) => ControlMessage::Ipv6PacketInfo(info),
            };
            let (fd, parts) = (self.socket.as_raw_fd(), [IoSlice::new(answer)]);
            let address = SockaddrStorage::from(to.address);
            sendmsg(fd, &parts, &[control], MsgFlags::empty(), Some(&address))?;
            Ok(())
        })
    }
}

fn socket(address: SocketAddr, v6_only: bool, kind: Type, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(v6_only)?;
    }
    Ok(socket)
}

fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, Asker)> {
    let mut control = nix::cmsg_space!(in_pktinfo, in6_pktinfo);
    let mut parts = [IoSliceMut::new(buffer)];
    let received =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty())?;
    let from = received.address.as_ref().and_then(address_of);
    let address = from.ok_or_else(|| io::Error::other("a datagram without a sender"))?;
    let at = received.cmsgs().ok().and_then(|mut messages| messages.find_map(|message| asked_at(&message)));
    Ok((received.bytes, Asker { address, at }))
}

fn address_of(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = |address: &SockaddrIn| SocketAddr::new(IpAddr::V4(address.ip()), address.port());
    let v6 = |address: &SockaddrIn6| SocketAddr::V6(SocketAddrV6::from(*address));
    storage.as_sockaddr_in().map(v4).or_else(|| storage.as_sockaddr_in6().map(v6))
}

/// What an answer has to say so that it leaves from the address that was asked. Which interface it leaves by is the routes'
/// business, but for addresses that count on one interface only.
fn asked_at(message: &ControlMessageOwned) -> Option<At> {
    if let ControlMessageOwned::Ipv4PacketInfo(info) = message {
        let nowhere = in_addr { s_addr: 0 };
        return Some(At::V4(in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: info.ipi_spec_dst,
            ipi_addr: nowhere,
        }));
    }
    let ControlMessageOwned::Ipv6PacketInfo(info) = message else { return None };
    let in6_addr { s6_addr } = info.ipi6_addr;
    let address = Ipv6Addr::from(s6_addr);
    // An answer cannot come from a group.
    if address.is_multicast() {
        return None;
    }
    let is_local = address.is_unicast_link_local();
    let ipi6_ifindex = if is_local { info.ipi6_ifindex } else { 0 };
    Some(At::V6(in6_pktinfo { ipi6_addr: info.ipi6_addr, ipi6_ifindex }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Asks a server on `listen` at each of `asked`, and sees who answers.
    async fn answers(listen: &str, v6_only: bool, asked: &[&str]) {
        let server = AnsweringSocket::bind(listen.parse().unwrap(), v6_only).unwrap();
        let port = server.socket.local_addr().unwrap().port();
        for ip in asked {
            let to = SocketAddr::new(ip.parse().unwrap(), port);
            let own = if to.is_ipv4() { "127.0.0.9:0" } else { "[::1]:0" };
            let client = UdpSocket::bind(own).await.unwrap();
            client.send_to(b"who?", to).await.unwrap();
            let mut buffer = [0; 16];
            let (length, asker) =
                timeout(Duration::from_secs(20), server.recv_from(&mut buffer)).await.unwrap().unwrap();
            assert_eq!(
                (&buffer[..length], asker.address.port()),
                (&b"who?"[..], client.local_addr().unwrap().port())
            );
            server.try_send_to(b"me", &asker).unwrap();
            let (_, from) =
                timeout(Duration::from_secs(20), client.recv_from(&mut buffer)).await.unwrap().unwrap();
            assert_eq!(from, to);
        }
    }

    #[tokio::test]
    async fn an_answer_leaves_from_the_address_that_was_asked() {
        answers("0.0.0.0:0", false, &["127.0.0.1", "127.0.0.2", "127.1.2.3"]).await;
        answers("[::]:0", false, &["127.0.0.2", "::1", "127.0.0.3"]).await;
        answers("[::]:0", true, &["::1"]).await;
        answers("127.0.0.4:0", false, &["127.0.0.4"]).await;
    }

    #[tokio::test]
    async fn both_families_can_be_listened_on_at_the_same_port() {
        let v4 = AnsweringSocket::bind("0.0.0.0:0".parse().unwrap(), false).unwrap();
        let port = v4.socket.local_addr().unwrap().port();
        let all = [SocketAddr::from(([0, 0, 0, 0], port)), SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))];
        assert!(AnsweringSocket::bind(all[1], false).is_err());
        assert!(
            is_for_v6_only(all[1], &all)
                && !is_for_v6_only(all[0], &all)
                && !is_for_v6_only(all[1], &all[1..])
        );
        AnsweringSocket::bind(all[1], true).unwrap();
        let (_v4, _v6) = (listen_tcp(all[0], false).unwrap(), listen_tcp(all[1], true).unwrap());
    }
}
