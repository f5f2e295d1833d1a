//! A socket of the data plane, with what it could not send yet.

use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use psmc_core::{SocketId, Transmit};
use psmc_net::ipip::TunnelPort;
use psmc_net::poller::{Poller, Wants};
use psmc_net::stream::StreamPort;
use psmc_net::udp::{self, RecvBatch, RecvMeta, SendError, SendFailure, UdpPort};

use super::joined::{Advice, Joined};
use super::tunnels::{Bind, PortError};

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// All of it is with the kernel, or will be as soon as the socket has room.
    Yes,
    /// At least a part was dropped.
    Dropped,
    /// At least a part was dropped, because these datagrams are larger than the interface takes.
    TooBig(Transmit),
    /// What could be sent was sent, but from another address: the one asked for is none of this machine's.
    SourceGone(Transmit),
}

/// A batch that waits for room in the socket.
struct Stalled {
    transmit: Transmit,
    contents: Vec<u8>,
}

/// A socket for datagrams, as they are, in a tunnel, or in a stream.
enum Socket {
    Udp(UdpPort),
    Tunnel(Box<TunnelPort>),
    Stream(Box<StreamPort>),
}

/// A socket, or the place of one whose interface is not there.
pub(super) struct Port {
    id: SocketId,
    socket: Option<Socket>,
    /// Whether there may be something to be received.
    due: bool,
    stalled: Option<Stalled>,
    pub(super) joined: Joined,
}

impl Socket {
    fn open(bind: &Bind) -> Result<Self, PortError> {
        Ok(match bind {
            Bind::Udp(bind) => Self::Udp(UdpPort::bind(bind)?),
            Bind::Tunnel(bind) => Self::Tunnel(Box::new(TunnelPort::open(bind.clone())?)),
        })
    }

    fn try_send(&mut self, transmit: &udp::Transmit<'_>) -> Result<(), SendError> {
        match self {
            Self::Udp(port) => port.try_send(transmit),
            Self::Tunnel(port) => port.try_send(transmit),
            Self::Stream(port) => port.try_send(transmit),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(port) => port.as_fd(),
            Self::Tunnel(port) => port.as_fd(),
            Self::Stream(port) => port.as_fd(),
        }
    }
}

impl Port {
    /// The place of a socket that is not there.
    pub(super) fn empty(id: SocketId) -> Self {
        Self { id, socket: None, due: false, stalled: None, joined: Joined::default() }
    }

    /// Opens a socket, of which the poller tells by its number.
    pub(super) fn open(id: SocketId, bind: &Bind, poller: &Poller) -> Result<Self, PortError> {
        Self::watch(id, Socket::open(bind)?, poller)
    }

    /// Uses the end of a stream, of which the poller tells by this number.
    pub(super) fn of_stream(id: SocketId, stream: StreamPort, poller: &Poller) -> Result<Self, PortError> {
        Self::watch(id, Socket::Stream(Box::new(stream)), poller)
    }

    fn watch(id: SocketId, socket: Socket, poller: &Poller) -> Result<Self, PortError> {
        poller.add(socket.as_fd(), id.0.into()).map_err(PortError::Unwatched)?;
        Ok(Self { socket: Some(socket), ..Self::empty(id) })
    }

    /// Whether there is a socket.
    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// The local port, if it has any.
    pub(super) fn local_port(&self) -> Option<u16> {
        match self.socket.as_ref()? {
            Socket::Udp(port) => Some(port.local_addr().port()),
            Socket::Tunnel(_) | Socket::Stream(_) => None,
        }
    }

    /// There is something to be received, or room.
    pub(super) fn set_due(&mut self) {
        self.due = true;
    }

    /// Whether there may be more to be received, of which the poller need not tell.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Receives a batch, for which there is room in `batch`, and gives each datagram to `deliver`. `None` if there is nothing.
    pub(super) fn recv(
        &mut self,
        batch: &mut RecvBatch,
        mut deliver: impl FnMut(RecvMeta, &mut [u8]),
    ) -> Option<io::Result<usize>> {
        if !mem::take(&mut self.due) {
            return None;
        }
        let (received, is_full) = match self.socket.as_mut()? {
            Socket::Udp(port) => {
                let received = port.try_recv(batch);
                batch.datagrams().for_each(|(meta, datagram)| deliver(meta, datagram));
                (received, batch.is_full())
            }
            Socket::Tunnel(port) => (port.try_recv(deliver), port.is_full()),
            Socket::Stream(port) => (port.try_recv(deliver), port.is_full()),
        };
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            received => {
                self.due = is_full && received.is_ok();
                Some(received)
            }
        }
    }

    /// Switches receive offload off if joined datagrams arrive corrupt, and tries again later.
    pub(super) fn judge_joined(&mut self, now: Instant) {
        let Some(Socket::Udp(port)) = &self.socket else { return };
        let Some(advice) = self.joined.advice(now) else { return };
        if advice == Advice::Stop {
            tracing::warn!(socket = self.id.0, "corrupt GRO datagrams: receiving without GRO for a while");
        }
        if let Err(error) = port.set_joins_arriving(advice == Advice::TryAgain) {
            tracing::debug!(%error, "joining on arrival cannot be changed");
        }
    }

    /// Sends a batch. One that the socket has no room for is kept; while one is kept, others are dropped.
    pub(super) fn send(&mut self, transmit: Transmit, contents: &[u8], poller: &Poller) -> Sent {
        if self.stalled.is_some() {
            return Sent::Dropped;
        }
        let Some(socket) = &mut self.socket else {
            return Sent::Dropped;
        };
        let (rest, sent) = send_all(socket, transmit, contents);
        let Some(from) = rest else { return sent };
        if poller.set_wants(socket.as_fd(), self.id.0.into(), Wants { data: true, room: true }).is_err() {
            // Nobody would say when there is room.
            return Sent::Dropped;
        }
        self.stalled = Some(Stalled { transmit, contents: contents[from..].to_vec() });
        sent
    }

    /// Sends what was kept, if there may be room for it.
    pub(super) fn send_stalled(&mut self, poller: &Poller) -> Sent {
        let (true, Some(socket)) = (self.due, &mut self.socket) else { return Sent::Yes };
        let Some(Stalled { transmit, mut contents }) = self.stalled.take() else {
            return Sent::Yes;
        };
        let (rest, sent) = send_all(socket, transmit, &contents);
        match rest {
            Some(from) => {
                contents.drain(..from);
                self.stalled = Some(Stalled { transmit, contents });
            }
            // If it fails the poller tells of room once more, and there is nothing to be sent.
            None => {
                drop(poller.set_wants(socket.as_fd(), self.id.0.into(), Wants { data: true, room: false }))
            }
        }
        sent
    }
}

/// Sends what it can. Returns where to go on when there is room again, if there is any such place.
fn send_all(socket: &mut Socket, transmit: Transmit, contents: &[u8]) -> (Option<usize>, Sent) {
    let mut from = 0;
    let mut outcome = Sent::Yes;
    let mut local_ip = transmit.local_ip;
    while from < contents.len() {
        let batch = udp::Transmit {
            remote: transmit.remote,
            local_ip,
            ecn: transmit.ecn,
            segment_size: Some(transmit.segment_size),
            apart: transmit.apart,
            contents: &contents[from..],
        };
        let Err(error) = socket.try_send(&batch) else {
            break;
        };
        from += error.sent;
        match error.failure {
            SendFailure::WouldBlock => return (Some(from), outcome),
            failure if local_ip.is_some() && failure.may_be_of_source() => {
                local_ip = None;
                outcome = Sent::SourceGone(transmit);
            }
            SendFailure::TooBig => {
                let len = transmit.segment_size.min(contents.len() - from);
                outcome = Sent::TooBig(Transmit { segment_size: len, ..transmit });
                from += transmit.segment_size;
            }
            SendFailure::Unreachable(_) | SendFailure::Other(_) => {
                from += transmit.segment_size;
                outcome = Sent::Dropped;
            }
        }
    }
    (None, outcome)
}
