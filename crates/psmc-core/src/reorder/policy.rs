//! The ways to put packets back in order.

use std::time::Duration;

use super::buffer::AdaptiveBuffer;

/// No packet is held longer, whatever the paths' delays: after a second the sender's retransmission timer
/// runs out (RFC 6298 §2.4), and holding can only do harm.
const MAX_HOLD: Duration = Duration::from_secs(1);

/// How a session puts the packets of its ordered flows back in order.
///
/// `Fixed` and `Adaptive` are the buffers of PSMC ch. IV, one for each bucket. Where the seed goes on to wait
/// for the packet that was given up, these do not: what the inner connection sends again bears a new number, so
/// the gap is never filled, and what follows the first three packets without a further gap is delivered with
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReorderPolicy {
    /// A packet is held until those before it are there or can't come any more.
    #[default]
    Deadline,
    /// A buffer that never changes. When it is full, its first three packets are delivered.
    Fixed {
        /// No packet is held longer; more than a second counts as a second.
        timeout: Duration,
        /// With so many packets the buffer of a flow is full.
        packets: u16,
    },
    /// A buffer whose size follows the paths and what is found in order (the seed's algorithm). Its
    /// retransmission timeout is the second after which no packet is held under any policy.
    Adaptive(AdaptiveBuffer),
    /// No packet is held.
    Off,
}

impl ReorderPolicy {
    /// How long a packet is held at most that came by a path `spread` faster than the slowest.
    pub(super) fn hold(&self, spread: Duration) -> Duration {
        match self {
            Self::Deadline => spread.min(MAX_HOLD),
            Self::Fixed { timeout, .. } => (*timeout).min(MAX_HOLD),
            Self::Adaptive(_) => MAX_HOLD,
            Self::Off => Duration::ZERO,
        }
    }
}
