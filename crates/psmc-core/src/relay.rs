//! The relay: sessions by label, and what becomes of each datagram.
//!
//! [`Relay`] is the engine of one worker. It has no socket and no clock; datagrams, times and random bytes are
//! arguments. The calling contract stands on [`Relay`]; `docs/PROTOCOL.md` section 14 is what it implements.

mod account;
mod engine;
mod labels;
mod lane;
mod limiter;
mod plain;
mod queues;
mod rio;
mod session;
mod status;
#[cfg(test)]
mod tests;

pub use account::{Account, Ticket};
pub use engine::{AddError, Added, NoSession, Relay, RelayConfig, SessionSpec};
pub use labels::worker_of;
pub use limiter::Limiter;
pub use plain::{
    Packets, PlainCounters, PlainEnd, PlainOuter, PlainPair, PlainStatus, PlainTunnels, PlainTunnelsConfig,
    PlainWay,
};
pub use rio::{RED, Red};
pub use session::{Address, Inside, Leg, Side, Tunnel};
pub use status::{LaneStatus, Refusals, SessionStatus};
