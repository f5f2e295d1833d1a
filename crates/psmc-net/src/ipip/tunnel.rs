//! UDP datagrams that travel in a tunnel, with an interface like that of a UDP socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll, ready};

use psmc_wire::ip::{TunnelledUdp, decapsulate};

use super::{IpIpPort, NotSent, OpenError, RecvBatch, SendBatch};
use crate::udp::{Ecn, RecvMeta, SendError, SendFailure, Transmit};

/// How a tunnel is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Its other end is any one that unwraps and forwards: what is sent to an address goes there through this end.
    Plain(Ipv4Addr),
    /// Its other end is a relay of ours, which is the remote address of whatever is sent and received. Within the tunnel
    /// datagrams are between here and this peer.
    Relay(SocketAddrV4),
}

/// What a [`TunnelPort`] is opened for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelBind {
    /// The interface through which all packets go, whatever the routes say.
    pub interface: Option<String>,
    /// The address of ours from which packets leave; `None` leaves it to the routes.
    pub source: Option<Ipv4Addr>,
    /// Who this site is within the tunnel.
    pub local: SocketAddrV4,
    /// How the tunnel is used.
    pub way: Way,
}

/// UDP datagrams in a tunnel.
#[derive(Debug)]
pub struct TunnelPort {
    port: IpIpPort,
    bind: TunnelBind,
    received: RecvBatch,
    outgoing: SendBatch,
}

impl TunnelPort {
    /// Opens an end of a tunnel.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(bind: TunnelBind) -> Result<Self, OpenError> {
        let port = IpIpPort::open(bind.interface.as_deref())?;
        Ok(Self { port, bind, received: RecvBatch::new(), outgoing: SendBatch::new() })
    }

    /// Receives what is there, and gives each datagram of this tunnel to `deliver`. Returns how many packets there were,
    /// whosever. It must be called again after every `Ready`.
    ///
    /// # Errors
    /// Those of the socket itself.
    ///
    /// # Panics
    /// The first time, outside a tokio runtime.
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        deliver: impl FnMut(RecvMeta, &mut [u8]),
    ) -> Poll<io::Result<usize>> {
        let count = ready!(self.port.poll_recv(cx, &mut self.received))?;
        self.deliver(deliver);
        Poll::Ready(Ok(count))
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing, and those of the socket itself.
    pub fn try_recv(&mut self, deliver: impl FnMut(RecvMeta, &mut [u8])) -> io::Result<usize> {
        let count = self.port.try_recv(&mut self.received)?;
        self.deliver(deliver);
        Ok(count)
    }

    /// Whether there may be more packets than the last call had room for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.received.is_full()
    }

    fn deliver(&mut self, mut deliver: impl FnMut(RecvMeta, &mut [u8])) {
        for packet in self.received.packets() {
            if let Some((remote, datagram)) = self.bind.datagram_of(packet) {
                deliver(RecvMeta { remote, local_ip: None, ecn: Ecn::NotEct, was_joined: false }, datagram);
            }
        }
    }

    /// Whether the socket accepts packets again. Call it after [`SendFailure::WouldBlock`], and only then.
    ///
    /// # Errors
    /// When the runtime is shutting down, or there are no descriptors left.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.port.poll_writable(cx)
    }

    /// Sends, without waiting.
    ///
    /// # Errors
    /// [`SendError`], as [`UdpPort::try_send`](crate::udp::UdpPort::try_send).
    pub fn try_send(&mut self, transmit: &Transmit<'_>) -> Result<(), SendError> {
        let segment_size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        let Some(addresses) = self.bind.addresses(transmit.remote) else {
            let failure = SendFailure::Unreachable(io::ErrorKind::AddrNotAvailable.into());
            return Err(SendError { sent: 0, failure });
        };
        let mut sent = 0;
        let mut segments = transmit.contents.chunks(segment_size).peekable();
        while segments.peek().is_some() {
            self.outgoing.clear();
            let mut too_long = false;
            while !self.outgoing.is_full()
                && !too_long
                && let Some(segment) = segments.next()
            {
                match addresses.headers(segment) {
                    Some(headers) => self.outgoing.push(&headers, segment),
                    None => too_long = true,
                }
            }
            let after = |packets: usize| transmit.contents.len().min(sent + packets * segment_size);
            self.port
                .try_send(&self.outgoing, 0)
                .map_err(|NotSent { packet, failure }| SendError { sent: after(packet), failure })?;
            sent = after(self.outgoing.len());
            if too_long {
                return Err(SendError { sent, failure: SendFailure::TooBig });
            }
        }
        Ok(())
    }
}

impl AsFd for TunnelPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

impl TunnelBind {
    /// From where to where what is sent to `remote` goes. `None` if that is not of IPv4.
    fn addresses(&self, remote: SocketAddr) -> Option<TunnelledUdp> {
        let SocketAddr::V4(remote) = remote else { return None };
        let (tunnel_destination, destination) = match self.way {
            Way::Plain(end) => (end, remote),
            Way::Relay(peer) => (*remote.ip(), peer),
        };
        let tunnel_source = self.source.unwrap_or(Ipv4Addr::UNSPECIFIED);
        Some(TunnelledUdp { tunnel_source, tunnel_destination, source: self.local, destination })
    }

    /// The datagram in a packet, and from where it has come, if it has through this tunnel.
    fn datagram_of<'p>(&self, packet: &'p mut [u8]) -> Option<(SocketAddr, &'p mut [u8])> {
        let unwrapped = decapsulate(packet).ok()?;
        let (addresses, place) = TunnelledUdp::parse(packet, &unwrapped).ok()?;
        if addresses.destination != self.local {
            return None;
        }
        let remote = match self.way {
            Way::Plain(end) => (addresses.tunnel_source == end).then_some(addresses.source)?,
            Way::Relay(peer) => (addresses.source == peer)
                .then_some(SocketAddrV4::new(addresses.tunnel_source, peer.port()))?,
        };
        Some((remote.into(), packet.get_mut(place)?))
    }
}
