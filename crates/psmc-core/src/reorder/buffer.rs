//! The seed's double buffer: how many packets of a flow are held before a gap counts as a loss.
//!
//! The ways to put packets back in order.

use std::time::Duration;

/// "deliver first 3 packets in double buffer to TCP handler to trigger a fast retransmit" (PSMC ch. IV, step
/// 4): three duplicate acknowledgements (RFC 5681 §3.2).
pub(super) const FIRST_PACKETS: usize = 3;

/// The policy [`Adaptive`](super::ReorderPolicy::Adaptive): what the seed leaves to its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveBuffer {
    /// How many times the lower limit a buffer is large at first (the seed's `a`).
    pub factor: u16,
    /// The least lower limit of a new flow's buffer, in packets: the first "user input value" of step 1.
    pub least: u16,
    /// The upper limit of a new flow's buffer, in packets: the second "user input value" of step 1.
    pub most: u16,
    /// The time between two measurements of the paths (step 7).
    pub sampling: Duration,
}

impl Default for AdaptiveBuffer {
    /// The seed's `a` is usually 2, and its fixed buffers have up to 40 packets. It names no period: a second
    /// holds the packets of many round trips, and follows a path that changes.
    fn default() -> Self {
        Self { factor: 2, least: 1, most: 40, sampling: Duration::from_secs(1) }
    }
}

/// The size of one flow's buffer, after the "adaptive TCP double buffer algorithm" of PSMC ch. IV. Packets
/// throughout.
///
/// The steps are the seed's, with two things put in their place that a tunnel cannot have: the congestion
/// window of the inner connection is what of the flow has arrived in one round trip; and its slow-start
/// threshold begins "arbitrarily high" (RFC 5681 §3.1), so that only the user's value limits a new buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BufferSize {
    /// `dbsize`
    size: u32,
    /// `dbsize_low`
    low: u32,
    /// `dbsize_up`
    up: u32,
    /// `packet_in_sequence`
    in_sequence: u32,
    /// Packets that arrived in the present sampling period.
    arrived: u32,
    /// The present sampling period; 0 until the buffer is initialised.
    period: u32,
}

/// What has been measured of the session's paths, for all flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Measured {
    /// Counts the sampling periods, from 1.
    pub(super) period: u32,
    /// The number of paths.
    pub(super) paths: u32,
    /// Formula 4.3 over the last period; `None` if nothing arrived in it, or if there was none.
    pub(super) formula_4_3: Option<u32>,
    /// How many round trips, in thousandths, the last period had.
    pub(super) round_trips_permille: u32,
}

impl BufferSize {
    /// A packet of the flow has arrived: steps 1 and 7, where they are due.
    pub(super) fn on_arrival(&mut self, policy: &AdaptiveBuffer, measured: &Measured) {
        if self.period == 0 {
            self.initialise(policy, measured);
        } else if self.period != measured.period {
            self.up = self.window(measured);
            self.arrived = 0;
            self.remeasure(policy, measured);
        }
        self.period = measured.period;
        self.arrived = self.arrived.saturating_add(1);
    }

    /// Whether `held` packets fill the buffer.
    pub(super) fn is_full(&self, held: usize) -> bool {
        held >= self.size as usize
    }

    /// Step 3: a segment of that many packets in order was delivered.
    pub(super) fn on_segment(&mut self, packets: u32) {
        self.in_sequence = self.in_sequence.saturating_add(packets);
    }

    /// Step 4: the buffer was full, and its first packets are delivered.
    pub(super) fn on_full(&mut self) {
        if self.size > self.low {
            self.size -= 1;
        }
        self.in_sequence = 0;
    }

    /// Step 5, at the end of each turn of the loop.
    pub(super) fn on_turn_end(&mut self) {
        if self.in_sequence > self.size && self.size < self.up {
            self.size += 1;
        }
    }

    /// Step 7, also when a packet was held until a sender's retransmission timer runs out. It overwrites what
    /// steps 4 and 5 have found, and heeds no upper limit, as the seed has it.
    pub(super) fn remeasure(&mut self, policy: &AdaptiveBuffer, measured: &Measured) {
        if let Some(low) = measured.formula_4_3 {
            self.low = low;
        }
        self.size = u32::from(policy.factor).saturating_mul(self.low);
    }

    /// Step 1.
    fn initialise(&mut self, policy: &AdaptiveBuffer, measured: &Measured) {
        self.low = measured.paths.max(policy.least.into());
        self.up = policy.most.into();
        self.size = u32::from(policy.factor).saturating_mul(self.low);
        self.in_sequence = 0;
    }

    /// The flow's congestion window: what of it arrived in one round trip.
    fn window(&self, measured: &Measured) -> u32 {
        let round_trips = u64::from(measured.round_trips_permille.max(1));
        u32::try_from(u64::from(self.arrived) * 1000 / round_trips).unwrap_or(u32::MAX).max(1)
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: AdaptiveBuffer =
        AdaptiveBuffer { factor: 2, least: 4, most: 10, sampling: Duration::from_secs(1) };

    fn measured(period: u32, formula_4_3: Option<u32>) -> Measured {
        Measured { period, paths: 3, formula_4_3, round_trips_permille: 10_000 }
    }

    fn begun() -> BufferSize {
        let mut buffer = BufferSize::default();
        buffer.on_arrival(&POLICY, &measured(1, None));
        buffer
    }

    #[test]
    fn step_1_takes_the_users_limits_and_the_number_of_paths() {
        let buffer = begun();
        assert_eq!((buffer.low, buffer.up, buffer.size), (4, 10, 8));
        let many = Measured { paths: 6, ..measured(1, None) };
        let mut buffer = BufferSize::default();
        buffer.on_arrival(&POLICY, &many);
        assert_eq!((buffer.low, buffer.up, buffer.size), (6, 10, 12));
    }

    #[test]
    fn step_4_shrinks_to_the_lower_limit() {
        let mut buffer = begun();
        assert!(buffer.is_full(8) && !buffer.is_full(7));
        for size in [7, 6, 5, 4, 4] {
            buffer.on_segment(3);
            buffer.on_full();
            assert_eq!((buffer.size, buffer.in_sequence), (size, 0));
        }
    }

    #[test]
    fn step_5_grows_to_the_upper_limit_once_more_than_its_size_came_in_sequence() {
        let mut buffer = begun();
        buffer.on_segment(8);
        buffer.on_turn_end();
        assert_eq!(buffer.size, 8);
        // The seed does not reset the count: 9 in sequence let 8 grow to 9, and no more without the tenth.
        for (segment, size) in [(1, 9), (0, 9), (1, 10), (1, 10), (50, 10)] {
            buffer.on_segment(segment);
            buffer.on_turn_end();
            assert_eq!(buffer.size, size);
        }
    }

    #[test]
    fn step_7_measures_anew_and_overwrites_steps_4_and_5() {
        let mut buffer = begun();
        for _ in 0..69 {
            buffer.on_arrival(&POLICY, &measured(1, None));
        }
        buffer.on_full();
        // 70 packets in 10 round trips are a window of 7, below the lower limit of 13 and the size of 26.
        buffer.on_arrival(&POLICY, &measured(2, Some(13)));
        assert_eq!((buffer.low, buffer.up, buffer.size, buffer.arrived), (13, 7, 26, 1));
        buffer.on_segment(100);
        buffer.on_turn_end();
        assert_eq!(buffer.size, 26);
        buffer.on_full();
        assert_eq!(buffer.size, 25);
        buffer.remeasure(&POLICY, &measured(2, Some(13)));
        assert_eq!(buffer.size, 26);
    }

    #[test]
    fn a_period_in_which_nothing_was_measured_leaves_the_lower_limit() {
        let mut buffer = begun();
        buffer.on_arrival(&POLICY, &measured(2, None));
        assert_eq!((buffer.low, buffer.up, buffer.size), (4, 1, 8));
    }
}
