//! What a direction of a link is like.

use std::sync::Arc;
use std::time::Duration;

use super::trace::Trace;

/// One direction of a link. The default is a wire: no limit, no delay, no loss.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LinkConfig {
    /// How fast packets leave the queue.
    pub rate: Rate,
    /// Propagation delay: from when the last bit of a packet was sent until it arrives.
    pub delay: Duration,
    /// How the delay varies from packet to packet, each for itself.
    pub jitter: Jitter,
    /// Whether jitter may make packets overtake each other. Without it a packet that would overtake arrives together
    /// with the last one before it, which makes the delay longer than `jitter` says if packets are closer than it.
    pub reordering: bool,
    /// Chance of a packet to be sent ahead, without delay and jitter, past all that are on the wire (what netem calls
    /// reorder), whatever `reordering` says.
    pub reorder: Probability,
    /// How packets get lost on the wire, behind the queue.
    pub loss: Loss,
    /// Chance of a packet to arrive twice, at the same time. On the wire: the rate is used once.
    pub duplicate: Probability,
    /// Chance of a packet to have a bit flipped, each bit with the same chance. All copies have it.
    pub corrupt: Probability,
    /// How much the queue holds. What finds the queue full is dropped.
    pub queue: QueueLimit,
    /// What the queue drops or marks before it is full.
    pub discipline: Discipline,
    /// The longest packet in bytes, from the IP header on; longer ones are dropped as they enter. `None` is without
    /// limit.
    pub mtu: Option<usize>,
    /// Whether every packet vanishes, as in a fibre that is cut while its lights stay on: what enters, and what was
    /// in the queue and on the wire when the hole opened. The link is empty when it closes.
    pub black_hole: bool,
}

/// How fast packets leave a queue. Lengths count from the IP header on.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Rate {
    /// At once.
    #[default]
    Unlimited,
    /// Bits per second, exact over any number of packets; 0 is taken for 1.
    Fixed(u64),
    /// At the opportunities of a trace, which begins when the link does or when it gets this trace.
    Trace(Arc<Trace>),
}

/// How the delay of a packet differs from the propagation delay. A delay never falls below zero.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Jitter {
    /// Not at all.
    #[default]
    None,
    /// Normally distributed around it, with this standard deviation.
    Normal(Duration),
    /// Evenly distributed around it, up to this much more or less.
    Uniform(Duration),
    /// Delays beyond it, drawn in any order, each as likely as the others. None are none.
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
    /// In bursts: two states with a loss of their own. After each packet the chain may enter the other state; it
    /// begins in the good one.
    ///
    /// In the long run a share `to_bad / (to_bad + to_good)` of the packets meets the bad state, for `1 / to_good`
    /// packets at a time.
    GilbertElliott {
        /// Chance per packet of the step from good to bad.
        to_bad: Probability,
        /// Chance per packet of the step from bad to good.
        to_good: Probability,
        /// Chance of a packet to get lost in the good state.
        loss_good: Probability,
        /// Chance of a packet to get lost in the bad state.
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
    /// So many bytes, from the IP headers on.
    Bytes(usize),
    /// As many bytes as can be sent within this time from now: at the rate, or at the next opportunities of the
    /// trace.
    Time(Duration),
}

/// What a queue drops or marks before it is full.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Discipline {
    /// Nothing.
    #[default]
    DropTail,
    /// Random early detection (Floyd and Jacobson 1993): by the average length, more the longer it is. It acts on
    /// packets that enter; lengths don't count the packet that is being sent.
    Red {
        /// The average length in bytes below which nothing is dropped.
        min_bytes: usize,
        /// The average length in bytes from which on everything is.
        max_bytes: usize,
        /// The chance just below `max_bytes`; from `min_bytes` on it grows linearly. (It is the chance of the first
        /// packet after a drop. For the next ones it grows, so that the gaps between drops are distributed
        /// uniformly.)
        max_probability: Probability,
        /// The weight of the present length in the average, from 0 to 1, at each packet that enters.
        weight: f64,
        /// Whether packets are marked instead where they can be.
        ecn: bool,
    },
    /// Random early detection with three drop precedences, by [`PacketInfo::precedence`](super::PacketInfo::precedence):
    /// what PSMC's relays do, with [their parameters](psmc_core::relay::RED), in packets. It acts on packets that enter.
    Rio {
        /// Whether packets are marked instead where they can be, below the upper threshold of their precedence.
        ecn: bool,
    },
    /// Controlled delay (RFC 8289). It acts on packets that leave the queue, up to where they begin to be sent.
    CoDel {
        /// The time in the queue that is acceptable; the RFC suggests 5 ms.
        target: Duration,
        /// For how long it may be more; the RFC suggests 100 ms.
        interval: Duration,
        /// Whether packets are marked instead where they can be.
        ecn: bool,
    },
    /// Flow queueing with controlled delay (RFC 8290): [`PacketInfo::flow`](super::PacketInfo::flow) says which packets
    /// belong together. What finds the queue full takes the place of a packet of the flow with the most bytes.
    FqCoDel {
        /// As for CoDel, of each flow.
        target: Duration,
        /// As for CoDel.
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

    /// Always.
    pub const ONE: Self = Self(1.0);

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
