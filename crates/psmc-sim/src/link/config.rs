//! What a direction of a link is like.

use std::sync::Arc;
use std::time::Duration;

use super::trace::Trace;

/// One direction of a link. The default is a wire: no limit, no delay, no loss.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LinkConfig {
    /// How fast packets leave the queue.
    pub rate: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// How the delay varies.
    pub jitter: Jitter,
    /// Whether jitter may make packets overtake each other. Without it a packet waits for the one before.
    pub reordering: bool,
    /// Chance of a packet to be sent ahead, without the propagation delay (what netem calls reorder).
    pub reorder: Probability,
    /// How packets get lost on the way.
    pub loss: Loss,
    /// Chance of a packet to arrive twice.
    pub duplicate: Probability,
    /// Chance of a packet to have a bit flipped.
    pub corrupt: Probability,
    /// How much the queue holds.
    pub queue: QueueLimit,
    /// What the queue drops or marks before it is full.
    pub discipline: Discipline,
    /// The longest packet in bytes, from the IP header on; `None` is without limit.
    pub mtu: Option<usize>,
    /// Whether every packet vanishes.
    pub black_hole: bool,
}

/// How fast packets leave a queue. Lengths count from the IP header on.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Rate {
    /// At once.
    #[default]
    Unlimited,
    /// Bits per second; never 0.
    Fixed(u64),
    /// At the opportunities of a trace.
    Trace(Arc<Trace>),
}

/// How the delay of a packet differs from the propagation delay. A delay never falls below zero.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Jitter {
    /// Not at all.
    #[default]
    None,
    /// Normally distributed, with this standard deviation.
    Normal(Duration),
    /// Evenly distributed, up to this much more or less.
    Uniform(Duration),
    /// Each as likely as the others: delays beyond the propagation delay. Never empty.
    Samples(Arc<[Duration]>),
}

/// How packets get lost on the way.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Loss {
    /// None do.
    #[default]
    None,
    /// Each with the same chance, whatever became of others.
    Random(Probability),
    /// In bursts: two states, of which the chain enters the other with a chance per packet, each with its own loss.
    GilbertElliott {
        /// From good to bad.
        to_bad: Probability,
        /// From bad to good.
        to_good: Probability,
        /// Loss in the good state.
        loss_good: Probability,
        /// Loss in the bad state.
        loss_bad: Probability,
    },
}

/// A chance from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Default)]
pub struct Probability(f64);

/// How much a queue holds, the packet that is being sent not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// So many packets.
    Packets(usize),
    /// So many bytes.
    Bytes(usize),
    /// As much as leaves within this time.
    Time(Duration),
}

/// What a queue drops or marks before it is full.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Discipline {
    /// Nothing.
    #[default]
    DropTail,
    /// Random early detection (Floyd and Jacobson 1993): by the average length, more the longer it is.
    Red {
        /// The average length in bytes below which nothing is dropped.
        min_bytes: usize,
        /// The average length in bytes above which everything is.
        max_bytes: usize,
        /// The chance at `max_bytes`.
        max_probability: Probability,
        /// The weight of the present length in the average.
        weight: f64,
        /// Whether packets are marked instead where they can be.
        ecn: bool,
    },
    /// Controlled delay (RFC 8289).
    CoDel {
        /// The time in the queue that is acceptable.
        target: Duration,
        /// For how long it may be more.
        interval: Duration,
        /// Whether packets are marked instead where they can be.
        ecn: bool,
    },
}

impl LinkConfig {
    /// A link of this rate in bits per second, and this delay.
    #[must_use]
    pub fn new(rate: u64, delay: Duration) -> Self {
        Self { rate: Rate::Fixed(rate), delay, ..Self::default() }
    }

    /// With this jitter.
    #[must_use]
    pub fn with_jitter(self, jitter: Jitter) -> Self {
        Self { jitter, ..self }
    }

    /// With this loss.
    #[must_use]
    pub fn with_loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }

    /// With this queue.
    #[must_use]
    pub fn with_queue(self, queue: QueueLimit) -> Self {
        Self { queue, ..self }
    }

    /// With this discipline.
    #[must_use]
    pub fn with_discipline(self, discipline: Discipline) -> Self {
        Self { discipline, ..self }
    }

    /// The same link while nothing gets through.
    #[must_use]
    pub fn black_holed(self) -> Self {
        Self { black_hole: true, ..self }
    }
}

impl QueueLimit {
    /// Full packets, from the IP header on.
    const FULL_PACKET_BITS: u128 = 1500 * 8;

    /// A path of little bandwidth by delay gets this, because a burst of TCP's initial windows must fit.
    const LEAST_PACKETS: usize = 64;

    /// In packets of 1500 bytes, what is on its way in a round trip at a rate in bits per second; at least 64.
    #[must_use]
    pub fn bandwidth_delay_product(rate: u64, round_trip: Duration) -> Self {
        let bits = u128::from(rate).saturating_mul(round_trip.as_nanos()) / 1_000_000_000;
        let packets = usize::try_from(bits.div_ceil(Self::FULL_PACKET_BITS)).unwrap_or(usize::MAX);
        Self::Packets(packets.max(Self::LEAST_PACKETS))
    }
}

impl Default for QueueLimit {
    /// As Linux queues on an interface (`txqueuelen`).
    fn default() -> Self {
        Self::Packets(1000)
    }
}

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0.0);

    /// A chance; `None` unless it is a number from 0 to 1.
    #[must_use]
    pub fn new(chance: f64) -> Option<Self> {
        (0.0..=1.0).contains(&chance).then_some(Self(chance))
    }

    /// From 0 to 1.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}
