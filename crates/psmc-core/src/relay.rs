//! The relay: sessions by label, and what becomes of each datagram.
//!
//! [`Relay`] is the engine of one worker. It has no socket and no clock; datagrams, times and random bytes are
//! arguments. The calling contract stands on [`Relay`]; `docs/PROTOCOL.md` section 14 is what it implements.

mod engine;
mod labels;
mod plain;
mod queues;
mod rio;
mod session;
mod shedding;
#[cfg(test)]
mod tests;

use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::SessionId;

pub use crate::limiter::{Account, Limiter, Ticket};
pub use engine::{AddError, Added, NoSession, Relay, RelayConfig, SessionCounts, SessionSpec};
pub use labels::worker_of;
pub use plain::{
    Packets, PlainCounters, PlainEnd, PlainOuter, PlainPair, PlainStatus, PlainTunnels, PlainTunnelsConfig,
    PlainWay,
};
pub use rio::{PRECEDENCES, RED, Red, Rio};
pub use session::{Address, Inside, Leg, Side, Tunnel};

// What a relay has seen, for people and tools.

/// Datagrams that went no further, by reason. None of them was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Too short, or of another kind.
    pub malformed: u64,
    /// No session has the label.
    pub unknown_label: u64,
    /// The number was received before, or is too old to tell.
    pub replayed: u64,
    /// The tag is not that of whoever may use the label.
    pub forged: u64,
    /// It has come in a tunnel though it should not, or not in one, or within that between other addresses.
    pub misaddressed: u64,
    /// It has passed as many relays as a datagram may.
    pub too_many_hops: u64,
    /// The other side has not shown yet where it is.
    pub no_address: u64,
    /// It is longer than what can wait.
    pub too_long: u64,
    /// There was no room for it among all that waits.
    pub queue_full: u64,
    /// It would have made its queue too long, by drop precedence.
    pub dropped: [u64; PRECEDENCES],
    /// Whoever it goes to has asked that it be dropped.
    pub shed: u64,
}

/// A session as it stands.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// The session.
    pub id: SessionId,
    /// Whose it is.
    pub site: KeyBytes,
    /// What it may carry in each direction, in bits per second.
    pub rate: Option<u64>,
    /// How long no authentic datagram and no refresh has come, in seconds.
    pub idle_s: u64,
    /// Towards the far end.
    pub to_far: LaneStatus,
    /// Towards the near end.
    pub to_near: LaneStatus,
}

/// One direction of a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneStatus {
    /// Where its datagrams go, if that is known.
    pub address: Option<Address>,
    /// Datagrams that were passed on.
    pub datagrams: u64,
    /// Their bytes, with hop headers as they came.
    pub bytes: u64,
    /// Datagrams that wait.
    pub waiting: u32,
    /// Datagrams that were dropped so that the queue did not grow, by drop precedence.
    pub dropped: [u64; PRECEDENCES],
}
