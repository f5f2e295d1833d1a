//! A UDP socket of the data plane, with what it could not send yet.

use std::io;
use std::task::{Context, Poll};

use psmc_core::Transmit;
use psmc_net::udp::{self, Ecn, RecvBatch, SendFailure, UdpPort};

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

/// A socket, or the place of one whose interface is not there.
#[derive(Default)]
pub(super) struct Port {
    socket: Option<UdpPort>,
    stalled: Option<Stalled>,
}

impl Port {
    pub(super) fn new(socket: Option<UdpPort>) -> Self {
        Self { socket, stalled: None }
    }

    /// Whether there is a socket.
    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Receives a batch.
    pub(super) fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<usize>> {
        match &self.socket {
            Some(socket) => socket.poll_recv(cx, batch),
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
        &self,
        transmit: Transmit,
        contents: &[u8],
        mut from: usize,
        cx: &mut Context<'_>,
    ) -> (Option<usize>, Sent) {
        let Some(socket) = &self.socket else {
            return (None, Sent::Dropped);
        };
        let mut outcome = Sent::Yes;
        while from < contents.len() {
            let batch = udp::Transmit {
                remote: transmit.remote,
                local_ip: transmit.local_ip,
                ecn: Ecn::NotEct,
                segment_size: Some(transmit.segment_size),
                contents: &contents[from..],
            };
            let Err(error) = socket.try_send(&batch) else {
                break;
            };
            from += error.sent;
            match error.failure {
                SendFailure::WouldBlock if socket.poll_writable(cx).is_pending() => {
                    return (Some(from), outcome);
                }
                SendFailure::WouldBlock => {}
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
