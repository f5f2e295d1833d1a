//! A socket of the data plane, with what it could not send yet.

use std::io;
use std::task::{Context, Poll, ready};

use psmc_core::Transmit;
use psmc_net::ipip::TunnelPort;
use psmc_net::udp::{self, RecvBatch, RecvMeta, SendError, SendFailure, UdpPort};

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
}

/// A batch that waits for room in the socket.
struct Stalled {
    transmit: Transmit,
    contents: Vec<u8>,
}

/// A socket for datagrams, as they are or in a tunnel.
enum Socket {
    Udp(UdpPort),
    Tunnel(Box<TunnelPort>),
}

/// A socket, or the place of one whose interface is not there.
#[derive(Default)]
pub(super) struct Port {
    socket: Option<Socket>,
    stalled: Option<Stalled>,
}

impl Socket {
    fn open(bind: &Bind) -> Result<Self, PortError> {
        Ok(match bind {
            Bind::Udp(bind) => Self::Udp(UdpPort::bind(bind)?),
            Bind::Tunnel(bind) => Self::Tunnel(Box::new(TunnelPort::open(bind.clone())?)),
        })
    }

    fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Udp(port) => port.poll_writable(cx),
            Self::Tunnel(port) => port.poll_writable(cx),
        }
    }

    fn try_send(&mut self, transmit: &udp::Transmit<'_>) -> Result<(), SendError> {
        match self {
            Self::Udp(port) => port.try_send(transmit),
            Self::Tunnel(port) => port.try_send(transmit),
        }
    }
}

impl Port {
    /// Opens a socket.
    pub(super) fn open(bind: &Bind) -> Result<Self, PortError> {
        Ok(Self { socket: Some(Socket::open(bind)?), stalled: None })
    }

    /// Whether there is a socket.
    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Receives a batch, for which there is room in `batch`, and gives each datagram to `deliver`.
    pub(super) fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        batch: &mut RecvBatch,
        mut deliver: impl FnMut(RecvMeta, &mut [u8]),
    ) -> Poll<io::Result<usize>> {
        match &mut self.socket {
            Some(Socket::Udp(port)) => {
                let received = ready!(port.poll_recv(cx, batch));
                batch.datagrams().for_each(|(meta, datagram)| deliver(meta, datagram));
                Poll::Ready(received)
            }
            Some(Socket::Tunnel(port)) => port.poll_recv(cx, deliver),
            None => Poll::Pending,
        }
    }

    /// Sends a batch. One that the socket has no room for is kept; while one is kept, others are dropped.
    pub(super) fn send(&mut self, transmit: Transmit, contents: &[u8], cx: &mut Context<'_>) -> Sent {
        if self.socket.is_none() || self.stalled.is_some() {
            return Sent::Dropped;
        }
        let (rest, sent) = self.send_from(transmit, contents, 0, cx);
        if let Some(from) = rest {
            self.stalled = Some(Stalled { transmit, contents: contents[from..].to_vec() });
        }
        sent
    }

    /// Sends what was kept, if there is room for it.
    pub(super) fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Sent {
        let Some(Stalled { transmit, mut contents }) = self.stalled.take() else {
            return Sent::Yes;
        };
        let (rest, sent) = self.send_from(transmit, &contents, 0, cx);
        if let Some(from) = rest {
            contents.drain(..from);
            self.stalled = Some(Stalled { transmit, contents });
        }
        sent
    }

    /// Sends `contents` from byte `from` on. Returns where to go on when there is room again, if there is any
    /// such place; the task is woken then.
    fn send_from(
        &mut self,
        transmit: Transmit,
        contents: &[u8],
        mut from: usize,
        cx: &mut Context<'_>,
    ) -> (Option<usize>, Sent) {
        let Some(socket) = &mut self.socket else {
            return (None, Sent::Dropped);
        };
        let mut outcome = Sent::Yes;
        while from < contents.len() {
            let batch = udp::Transmit {
                remote: transmit.remote,
                local_ip: transmit.local_ip,
                ecn: transmit.ecn,
                segment_size: Some(transmit.segment_size),
                contents: &contents[from..],
            };
            let Err(error) = socket.try_send(&batch) else {
                break;
            };
            from += error.sent;
            match error.failure {
                SendFailure::WouldBlock => match socket.poll_writable(cx) {
                    Poll::Pending => return (Some(from), outcome),
                    Poll::Ready(Ok(())) => {}
                    // Nobody would say when there is room.
                    Poll::Ready(Err(_)) => return (None, Sent::Dropped),
                },
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
}
