//! The rate that an aggregate is held to, and how it follows what the far end delivers.

use std::time::Duration;

use super::PoliceMode;

/// What the limit becomes when something is still dropped, and nobody else suffers: a twentieth below what is delivered, so that
/// the bottleneck stays full.
const DECREASE_ALONE: f64 = 0.95;

/// The same while others lose packets, too: half, as TCP (RFC 5681).
const DECREASE_AMONG_OTHERS: f64 = 0.5;

/// A loss up to this is no reason for less: radios lose so much, and a probe has to be noticed.
const TOLERANCE: f64 = 0.02;

/// The increment grows up to this share of the limit: a bottleneck that has become twice as wide is found within ten rounds or so.
const MAX_INCREMENT: u64 = 16;

/// Bits of a packet: how much more is tried in a round at first.
const PACKET_BITS: f64 = 12_000.0;

/// "and is doubled when there is no drop, until it reaches a threshold wavg/f" (seed QoS §5.2, which has no value for f).
const SEED_F: f64 = 8.0;

/// What a round has shown of an aggregate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Bits per second that came.
    pub(super) offered: u64,
    /// Bits per second that arrived.
    pub(super) delivered: u64,
    /// The same over the last three rounds: a round has twenty packets of a slow flow, which come in batches.
    pub(super) carried: u64,
    /// The share that was dropped of what was let pass.
    pub(super) loss: f64,
    /// Bytes dropped by congestion: `cdrop × packet_size`.
    pub(super) dropped: u64,
    /// Bytes dropped by those who hold it down further on: `sdrop × packet_size`.
    pub(super) shaped: u64,
    /// How long the round was.
    pub(super) took: Duration,
    /// Whether others lose much.
    pub(super) others_lose: bool,
}

/// The limit of an aggregate.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// What is delivered, by additive increase and multiplicative decrease.
    Delivered {
        /// Bits per second.
        rate: u64,
        /// Bits per second that it rises by in a round without drops.
        increment: u64,
        /// It is never less.
        floor: u64,
    },
    /// Eq. 6 to 8.
    Seed(Profile),
}

/// The profile that the seed adjusts (QoS §5.2), in its own units: what eq. 6 to 8 subtract from it are the bytes of a report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile {
    /// `newprofile`, bytes per second.
    bytes: f64,
    /// `wavg`, bytes per second.
    wavg: f64,
    /// Bytes per second and round.
    increment: f64,
    /// `max(1, γ × linkbw / btlnkbw)`.
    aggressiveness: f64,
}

impl Limit {
    /// The first one, for an aggregate that has been found out.
    pub(super) fn new(mode: PoliceMode, floor: u64, seen: &Seen) -> Self {
        match mode {
            PoliceMode::Police => {
                let rate = seen.carried.max(floor);
                Self::Delivered { rate, increment: a_packet(seen.took), floor }
            }
            PoliceMode::Seed { aggressiveness } => {
                let bytes = seen.offered as f64 / 8.0;
                let aggressiveness = aggressiveness.max(1.0);
                let mut profile =
                    Profile { bytes, wavg: bytes, increment: PACKET_BITS / 8.0, aggressiveness };
                profile.follow(seen);
                Self::Seed(profile)
            }
        }
    }

    /// Bits per second.
    pub(super) fn rate(&self) -> u64 {
        match self {
            Self::Delivered { rate, .. } => *rate,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rate that is not negative"
            )]
            Self::Seed(profile) => (profile.bytes * 8.0) as u64,
        }
    }

    /// A round is over.
    pub(super) fn follow(&mut self, seen: &Seen) {
        match self {
            Self::Seed(profile) => profile.follow(seen),
            Self::Delivered { rate, increment, floor } => {
                let loses = seen.loss > TOLERANCE;
                if loses || seen.others_lose {
                    let factor = if seen.others_lose { DECREASE_AMONG_OTHERS } else { DECREASE_ALONE };
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "a share of a rate"
                    )]
                    let target = (seen.carried as f64 * factor) as u64;
                    *rate = target.min(*rate).max(*floor);
                    *increment = a_packet(seen.took);
                } else if seen.offered >= *rate {
                    *rate = rate.saturating_add(*increment);
                    *increment =
                        increment.saturating_mul(2).min(*rate / MAX_INCREMENT).max(a_packet(seen.took));
                }
            }
        }
    }
}

impl Profile {
    fn follow(&mut self, seen: &Seen) {
        // Time sliding window (Clark and Fang 1998), which is a second long.
        let share = seen.took.as_secs_f64() / (1.0 + seen.took.as_secs_f64());
        self.wavg += (seen.offered as f64 / 8.0 - self.wavg) * share;
        if seen.dropped > 0 {
            // Eq. 6 and 7.
            let decrement = seen.dropped as f64 * self.aggressiveness;
            self.bytes = (self.bytes - decrement).min(self.wavg - decrement).max(0.0);
        }
        if seen.shaped > 0 {
            // Eq. 8.
            self.bytes = (self.bytes - seen.shaped as f64).max(0.0);
        }
        if seen.dropped > 0 || seen.shaped > 0 {
            self.increment = PACKET_BITS / 8.0;
            return;
        }
        self.bytes += self.increment;
        let is_below = self.increment < self.wavg / SEED_F;
        self.increment = if is_below { self.increment * 2.0 } else { self.increment + PACKET_BITS / 8.0 };
    }
}

/// Bits per second that a packet more in a round is.
fn a_packet(took: Duration) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate of a packet in a tenth of a second or longer"
    )]
    let rate = (PACKET_BITS / took.as_secs_f64().max(0.1)) as u64;
    rate
}
