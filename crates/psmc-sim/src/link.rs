//! One direction of a link, as a state machine.

mod config;

use std::time::{Duration, Instant};

pub use config::{Discipline, Jitter, LinkConfig, Loss, Probability, QueueLimit, Rate, Trace};

/// One direction of a link.
///
/// It knows nothing of packets but their length: `P` is whatever stands for one. All times are logical: a packet that
/// entered at `t` leaves when the configuration says, however late the driver polls, so that errors never add up.
///
/// After [`handle_packet`](Self::handle_packet) and whenever [`poll_timeout`](Self::poll_timeout) is due: call
/// [`poll_packet`](Self::poll_packet) and [`poll_dropped`](Self::poll_dropped) until they say `None`. Polling early or
/// twice is harmless.
#[derive(Debug)]
pub struct Link<P> {
    _packets: std::marker::PhantomData<P>,
}

/// A packet at the far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<P> {
    /// The packet.
    pub packet: P,
    /// When it arrives, in logical time; never later than the `now` it was polled with.
    pub at: Instant,
    /// How often the far end sees it: 2 for a duplicated one.
    pub copies: u8,
    /// The bit to be flipped in it, counted from its beginning and taken modulo its length, if it gets corrupted.
    pub corrupt_bit: Option<u64>,
    /// Whether the queue marks it (ECN), if it can be marked.
    pub congestion_experienced: bool,
}

/// Why a link has dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// By chance, as configured.
    Loss,
    /// The queue was full.
    QueueFull,
    /// The queue discipline thought it better.
    Discipline,
    /// It is longer than the MTU.
    TooLong,
    /// Nothing gets through.
    BlackHole,
}

/// What a link has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets that entered.
    pub entered_packets: u64,
    /// Their bytes.
    pub entered_bytes: u64,
    /// Packets that arrived, copies counted once.
    pub carried_packets: u64,
    /// Their bytes.
    pub carried_bytes: u64,
    /// Packets dropped for each [`DropReason`], in their order.
    pub dropped: [u64; 5],
    /// The longest time in the queue.
    pub longest_queueing: Duration,
}
