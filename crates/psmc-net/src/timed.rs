//! UDP sockets for measuring: of each datagram they tell when the kernel took it, how many hops it may still pass, and where it
//! was sent to (socket(7) `SO_TIMESTAMPNS`, ip(7), ipv6(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::cmsg_space;
use nix::libc::{self, c_int, in_addr, in_pktinfo, in6_addr, in6_pktinfo, timespec};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use socket2::Socket;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::icmp::set_option;
use crate::mark;
use crate::probe::{IcmpError, next_error};
use crate::udp::{canonical, mapped, open_as};

/// Hops that a datagram may pass: all that there can be, so that who receives it sees how many it has passed (RFC 8762 section
/// 4.2.1, RFC 5881 section 5).
const MOST_HOPS: u32 = 255;

/// What is known of a datagram besides its bytes. Addresses are canonical.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// How many bytes it has; those beyond the buffer are lost.
    pub length: usize,
    /// Who has sent it.
    pub from: SocketAddr,
    /// The address of ours that it was sent to.
    pub to: Option<IpAddr>,
    /// How many hops it could still pass: TTL, or hop limit.
    pub hops: Option<u8>,
    /// When the kernel took it, since 1970 by the clock of the system.
    pub at: Option<Duration>,
}

/// A UDP socket of an IPv4 or IPv6 address, or of all of both. It never blocks, and needs the runtime of tokio.
#[derive(Debug)]
pub struct TimedSocket {
    socket: UdpSocket,
    is_v6: bool,
}

impl TimedSocket {
    /// A socket that answers at `address`; `[::]` stands for all addresses of both families.
    ///
    /// # Errors
    /// What the system says, such as that the port is taken.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let has_no_v6 = |error: &io::Error| error.raw_os_error() == Some(libc::EAFNOSUPPORT);
        let is_any_v6 = address.is_ipv6() && address.ip().is_unspecified();
        let (socket, address) = match open_as(address) {
            Err(error) if is_any_v6 && has_no_v6(&error) => {
                let any_v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
                (open_as(any_v4)?, any_v4)
            }
            opened => (opened?, address),
        };
        socket.bind(&address.into())?;
        Self::register(socket, address.is_ipv6())
    }

    /// A socket for asking `remote`, through `interface` and from the address `local` if they are given. It hears ICMP errors, and
    /// whoever else sends to it.
    ///
    /// # Errors
    /// When there is no such interface, address or route; [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if `local` is an
    /// address in the tunnel of this process.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn asking(interface: Option<&str>, local: Option<IpAddr>, remote: SocketAddr) -> io::Result<Self> {
        let socket = open_as(remote)?;
        if let Some(interface) = interface {
            socket.bind_device(Some(interface.as_bytes()))?;
        }
        if let Some(local) = local {
            socket.bind(&SocketAddr::new(mark::outside(local)?, 0).into())?;
        }
        if remote.is_ipv4() {
            setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?;
        } else {
            setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?;
        }
        Self::register(socket, remote.is_ipv6())
    }

    fn register(socket: Socket, is_v6: bool) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        // Of datagrams by IPv4, also those that an IPv6 socket receives.
        set_option(&socket, libc::IPPROTO_IP, libc::IP_RECVTTL, &ON)?;
        socket.set_ttl_v4(MOST_HOPS)?;
        if is_v6 {
            setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true)?;
            set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, &ON)?;
            socket.set_unicast_hops_v6(MOST_HOPS)?;
        } else {
            setsockopt(&socket, sockopt::Ipv4PacketInfo, &true)?;
        }
        Ok(Self { socket: UdpSocket::from_std(socket.into())?, is_v6 })
    }

    /// The address that it has, with the port that the kernel chose if it was asked to.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits for a datagram.
    ///
    /// # Errors
    /// What the system says, among it what ICMP says of one that was sent ([`take_icmp_error`](Self::take_icmp_error)).
    pub async fn recv(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let readable = Interest::READABLE | Interest::ERROR;
        self.socket.async_io(readable, || receive(&self.socket, buffer)).await
    }

    /// What ICMP has said of a datagram that was sent, and where that was to; `None` if there is no more.
    #[must_use]
    pub fn take_icmp_error(&self) -> Option<(Option<SocketAddr>, IcmpError)> {
        next_error(&self.socket).ok().map(|(to, error)| (to.map(canonical), error))
    }

    /// Sends a datagram, if that takes no waiting, from an address of ours if one is given.
    ///
    /// # Errors
    /// What the system says, among it what ICMP says of an earlier one; [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if
    /// `from` is an address in the tunnel of this process, where nothing of its own belongs.
    pub fn try_send(&self, bytes: &[u8], from: Option<IpAddr>, to: SocketAddr) -> io::Result<()> {
        from.map(mark::outside).transpose()?;
        let to = if self.is_v6 { mapped(to) } else { to };
        let (parts, address) = ([IoSlice::new(bytes)], SockaddrStorage::from(to));
        let (v4, v6) = self.source(from, to);
        let v4 = v4.as_ref().map(ControlMessage::Ipv4PacketInfo);
        let control = v4.or_else(|| v6.as_ref().map(ControlMessage::Ipv6PacketInfo));
        // Not by way of the runtime, which has to be asked first whether there is room.
        sendmsg(self.socket.as_raw_fd(), &parts, control.as_slice(), MsgFlags::empty(), Some(&address))?;
        Ok(())
    }

    /// The address to send from, as the kernel wants to be told. Which interface it leaves by is the routes' business, but for
    /// addresses that count on one interface only.
    fn source(&self, from: Option<IpAddr>, to: SocketAddr) -> (Option<in_pktinfo>, Option<in6_pktinfo>) {
        let Some(from) = from.filter(|from| !from.is_multicast()) else { return (None, None) };
        match (self.is_v6, from) {
            (false, IpAddr::V4(v4)) => {
                let ipi_spec_dst = in_addr { s_addr: u32::from(v4).to_be() };
                let ipi_addr = in_addr { s_addr: 0 };
                (Some(in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr }), None)
            }
            (false, IpAddr::V6(_)) => (None, None),
            (true, from) => {
                let (address, ipi6_ifindex) = match from {
                    IpAddr::V4(v4) => (v4.to_ipv6_mapped(), 0),
                    IpAddr::V6(v6) => (v6, scope_of(v6, to)),
                };
                let ipi6_addr = in6_addr { s6_addr: address.octets() };
                (None, Some(in6_pktinfo { ipi6_addr, ipi6_ifindex }))
            }
        }
    }
}

const ON: c_int = 1;

fn scope_of(from: Ipv6Addr, to: SocketAddr) -> u32 {
    match to {
        SocketAddr::V6(to) if from.is_unicast_link_local() => to.scope_id(),
        SocketAddr::V6(_) | SocketAddr::V4(_) => 0,
    }
}

fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Arrival> {
    let mut space = cmsg_space!(timespec, c_int, in_pktinfo, in6_pktinfo);
    let mut parts = [IoSliceMut::new(buffer)];
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::empty())?;
    let from = message.address.as_ref().and_then(address_of);
    let from = from.ok_or_else(|| io::Error::other("a datagram without a sender"))?;
    let mut arrival =
        Arrival { length: message.bytes, from: canonical(from), to: None, hops: None, at: None };
    for control in message.cmsgs()? {
        arrival.note(&control);
    }
    Ok(arrival)
}

impl Arrival {
    fn note(&mut self, control: &ControlMessageOwned) {
        if let ControlMessageOwned::ScmTimestampns(time) = control {
            self.at = since_1970(*time);
        } else if let ControlMessageOwned::Ipv4Ttl(hops) | ControlMessageOwned::Ipv6HopLimit(hops) = control {
            self.hops = u8::try_from(*hops).ok();
        } else if let ControlMessageOwned::Ipv4PacketInfo(info) = control {
            // Of a datagram to a group that is an address of ours.
            self.to = Some(Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr)).into());
        } else if let ControlMessageOwned::Ipv6PacketInfo(info) = control {
            self.to = Some(IpAddr::from(info.ipi6_addr.s6_addr).to_canonical());
        }
    }
}

/// Nothing for a clock that stands before 1970.
fn since_1970(time: TimeSpec) -> Option<Duration> {
    Some(Duration::new(u64::try_from(time.tv_sec()).ok()?, u32::try_from(time.tv_nsec()).ok()?))
}

fn address_of(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::from((v4.ip(), v4.port())));
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddrV6::from(*v6).into()))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tokio::time::timeout;

    use super::*;
    use crate::probe::IcmpKind;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn next(socket: &TimedSocket) -> (Arrival, Vec<u8>) {
        let mut buffer = [0; 100];
        let arrival = timeout(PATIENCE, socket.recv(&mut buffer)).await.unwrap().unwrap();
        (arrival, buffer[..arrival.length].to_vec())
    }

    fn since_1970() -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
    }

    #[tokio::test]
    async fn a_datagram_comes_with_its_time_hops_and_addresses_and_is_answered_from_there() {
        for (listen, asked) in [
            ("0.0.0.0:0", "127.0.0.2"),
            ("127.0.0.3:0", "127.0.0.3"),
            ("[::]:0", "127.0.0.4"),
            ("[::]:0", "::1"),
        ] {
            let server = TimedSocket::bind(listen.parse().unwrap()).unwrap();
            let remote = SocketAddr::new(asked.parse().unwrap(), server.local_addr().unwrap().port());
            let client = TimedSocket::asking(None, None, remote).unwrap();
            let before = since_1970();
            client.try_send(b"who?", None, remote).unwrap();
            let (question, bytes) = next(&server).await;
            let at = question.at.unwrap();
            assert!(before <= at && at <= since_1970(), "{before:?} {at:?}");
            assert_eq!((bytes.as_slice(), question.hops), (b"who?".as_slice(), Some(255)), "{listen}");
            assert_eq!(question.to, Some(remote.ip()));
            server.try_send(b"me", question.to, question.from).unwrap();
            let (answer, bytes) = next(&client).await;
            assert_eq!((bytes.as_slice(), answer.from, answer.hops), (b"me".as_slice(), remote, Some(255)));
        }
    }

    #[tokio::test]
    async fn who_asks_hears_that_nobody_listens() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let unused = std::net::UdpSocket::bind(any).unwrap().local_addr().unwrap();
            let client = TimedSocket::asking(None, None, unused).unwrap();
            client.try_send(b"who?", None, unused).unwrap();
            timeout(PATIENCE, client.recv(&mut [0; 100])).await.unwrap().unwrap_err();
            let (about, error) = client.take_icmp_error().unwrap();
            assert_eq!((about, error.kind), (Some(unused), IcmpKind::NoPort));
            assert_eq!(client.take_icmp_error(), None);
        }
    }
}
