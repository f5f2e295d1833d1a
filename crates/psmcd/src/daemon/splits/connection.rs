//! A connection that is ended here.

use std::net::TcpStream;

use psmc_core::PeerId;
use psmc_net::poller::Wants;
use psmc_wire::frame::StreamOpening;
use psmc_wire::ip::tcp::Ends;
use psmc_wire::{PacketBuf, StreamId};

/// How far a connection is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Near the client: the peer has been asked to call the server; this is the client's first segment.
    Asked(PacketBuf),
    /// Near the client: the server has answered, and the stack is to answer the client.
    Answered,
    /// Near the server: it was called.
    Called(TcpStream),
    /// It stands.
    Stands(TcpStream),
    /// It is about to be forgotten.
    Over,
}

impl Stage {
    pub(super) fn socket(&self) -> Option<&TcpStream> {
        match self {
            Self::Called(socket) | Self::Stands(socket) => Some(socket),
            Self::Asked(_) | Self::Answered | Self::Over => None,
        }
    }
}

/// A connection, and the stream that carries it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: PeerId,
    pub(super) stream: StreamId,
    pub(super) opening: StreamOpening,
    pub(super) stage: Stage,
    /// Whether the host at this side is the client.
    is_near: bool,
    /// What the poller tells of its socket, and what it should.
    pub(super) wants: Wants,
    pub(super) wanted: Wants,
    /// Whether the poller has its socket, once it was given it.
    pub(super) is_watched: bool,
    /// Whether it is among those with something to do.
    pub(super) is_due: bool,
    /// Whether the host sends no more, and was told that nobody sends to it any more.
    pub(super) is_read: bool,
    pub(super) is_written: bool,
}

impl Connection {
    pub(super) fn new(peer: PeerId, stream: StreamId, opening: StreamOpening, stage: Stage) -> Self {
        let is_near = matches!(stage, Stage::Asked(_));
        let wants = Wants { data: true, room: false };
        let (is_due, is_read, is_written) = (false, false, false);
        Self {
            peer,
            stream,
            opening,
            stage,
            is_near,
            wants,
            wanted: wants,
            is_watched: true,
            is_due,
            is_read,
            is_written,
        }
    }

    /// The ends of packets that the host at this side sends.
    pub(super) fn ends(&self) -> Ends {
        let StreamOpening { client, server, .. } = self.opening;
        if self.is_near { [client, server] } else { [server, client] }
    }

    /// Whether it is being made.
    pub(super) fn is_pending(&self) -> bool {
        !matches!(self.stage, Stage::Stands(_))
    }
}
