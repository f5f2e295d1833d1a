//! The measuring programs of UDP: one offers datagrams, the other counts what arrives.
//!
//! They cost so little that what they measure is the tunnel, on a machine where both share the cores with it: they hand the
//! kernel many datagrams in one system call, and take many. The source sends little and often, so that no queue on
//! the way has to be longer than a tunnel's own; and the sink's socket holds more than arrives while it waits for a core.

mod sink;
mod source;

use clap::Args;

pub(crate) use sink::{LISTENING, UdpSink};
pub(crate) use source::UdpSource;

/// What is sent.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Bytes of payload of each datagram.
    #[arg(long)]
    pub(crate) payload: usize,
    /// Whether the kernel gets, and gives, many datagrams in one piece (UDP_SEGMENT, UDP_GRO).
    #[arg(long)]
    pub(crate) offload: bool,
}

impl Load {
    /// What the programs are to be told of it.
    pub(crate) fn arguments(self) -> Vec<String> {
        let mut arguments = vec!["--payload".to_owned(), self.payload.to_string()];
        arguments.extend(self.offload.then(|| "--offload".to_owned()));
        arguments
    }

    /// How many datagrams go to the kernel at once.
    fn batch(self) -> usize {
        if self.offload { (MAX_PIECE / self.payload).clamp(1, MAX_SEGMENTS) } else { CALL }
    }
}

/// Datagrams of one system call, without offload.
const CALL: usize = 64;

/// The most that the kernel cuts into datagrams, bytes of payload and datagrams (udp(7), and `UDP_MAX_SEGMENTS` of old).
const MAX_PIECE: usize = 65_507;
const MAX_SEGMENTS: usize = 64;

/// Bytes of the sockets' buffers.
const SOCKET_BUFFER: usize = 16 << 20;
