//! What the driver has to know or to do.

use std::time::Duration;

use ipnet::IpNet;
use psmc_wire::control::CloseReason;
use psmc_wire::counts::Counts;
use psmc_wire::frame::{StreamOpening, StreamOutcome};
use psmc_wire::{PathId, StreamId};

use crate::ids::{ConnectionId, PeerId};
use crate::path::PathState;

/// Something that happened; to be taken with `poll_event`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Open a control connection to the peer, then say how it went.
    Dial(PeerId),
    /// End a control connection once what was written to it is sent.
    Hangup(ConnectionId),
    /// The hellos have been exchanged. `fresh` says that the session started from nothing.
    Connected {
        /// The peer.
        peer: PeerId,
        /// What it calls itself.
        name: String,
        /// Whether all numbers and windows begin anew.
        fresh: bool,
    },
    /// Networks that several peers claim have another owner: this one, which works, or works again for long enough.
    GatewayChanged {
        /// The peer to which packets to the network go from now on.
        peer: PeerId,
        /// The first of the networks.
        network: IpNet,
        /// How many more there are, which may have other owners.
        others: usize,
    },
    /// The session's keys have reached their end, and there are no others: nothing is sent or accepted until a control
    /// connection brings some.
    KeysEnded {
        /// The peer.
        peer: PeerId,
    },
    /// The peer has ended the control connection and said why.
    Closed {
        /// The peer.
        peer: PeerId,
        /// The reason it gave.
        reason: CloseReason,
    },
    /// A path has another state.
    PathChanged {
        /// The peer.
        peer: PeerId,
        /// The path.
        path: PathId,
        /// The state it has.
        state: PathState,
    },
    /// The peer has opened a path.
    PathOpened {
        /// The peer.
        peer: PeerId,
        /// The path.
        path: PathId,
    },
    /// A path was closed by either side and is forgotten; its socket is free.
    PathForgotten {
        /// The peer.
        peer: PeerId,
        /// The path.
        path: PathId,
    },
    /// A path that leads through relays needs a new session there: the peer may have lost count of what it sent in the
    /// old one.
    HopWanted {
        /// The peer.
        peer: PeerId,
        /// The path.
        path: PathId,
    },
    /// What left on a path in batches did not arrive, and what left alone did: datagrams leave one by one from here on. Told
    /// once for each network under the path.
    BatchesLost {
        /// The peer.
        peer: PeerId,
        /// The path.
        path: PathId,
    },
    /// A round trip was measured, as [`PathHandle::measure`](crate::PathHandle::measure) was told to.
    Measured {
        /// The peer.
        peer: PeerId,
        /// The path.
        path: PathId,
        /// The number that was given to it.
        number: u64,
        /// From the sending of the challenge to its answer.
        round_trip: Duration,
    },
    /// The peer has told what it has counted, as [`PeerHandle::ask_for_counts`](crate::PeerHandle::ask_for_counts) asked it to.
    Counts {
        /// The peer.
        peer: PeerId,
        /// That.
        counts: Box<Counts>,
    },
    /// Something happened to a stream.
    Stream {
        /// The peer.
        peer: PeerId,
        /// The stream.
        stream: StreamId,
        /// What.
        event: StreamEvent,
    },
    /// The peer's address on a path has changed.
    PathMoved {
        /// The peer.
        peer: PeerId,
        /// The path.
        path: PathId,
    },
}

/// What happened to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The peer has opened it: [answer](crate::StreamHandle::answer) once it is known what becomes of the connection.
    Opened(StreamOpening),
    /// The peer has answered. Unless the connection stands, the stream has ended.
    Answered(StreamOutcome),
    /// There is something to [take](crate::StreamHandle::chunks), or the end; not told again before all was taken.
    Readable,
    /// There is room again, after there was [none](crate::StreamHandle::room).
    Writable,
    /// It has ended before its time.
    Reset,
}
