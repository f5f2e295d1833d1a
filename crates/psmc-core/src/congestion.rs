//! How fast a path may send: one controller per path, behind one trait.
//!
//! A [`rate::RateSampler`] turns acknowledgements into rates; a [`Controller`] turns rates, round-trip times and
//! losses into a window and a pacing rate. Everything inside is in bytes and bytes per second; only
//! [`CongestionConfig`], which people fill in, counts bits.

mod chance;
mod contest;
mod crowd;
mod cubic;
mod filter;
mod fixed;
mod hystart;
mod model;
mod phase;
pub(crate) mod rate;
mod round;
mod round_trips;
mod saturation;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use cubic::Cubic;
use fixed::Fixed;
use model::Model;
use rate::RateSample;

/// Which controller a path uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CongestionConfig {
    /// Measures what the path delivers and sends that much (after draft-ietf-ccwg-bbr).
    #[default]
    Model,
    /// Takes loss for congestion, as most TCP does (RFC 9438).
    Cubic,
    /// Sends at a constant rate and does not react to loss.
    Fixed {
        /// Bits per second.
        rate: u64,
    },
}

impl CongestionConfig {
    /// A controller for a path whose datagrams have at most `datagram_size` bytes.
    pub(crate) fn build(&self, datagram_size: u16) -> Box<dyn Controller> {
        match *self {
            Self::Model => Box::new(Model::new(datagram_size)),
            Self::Cubic => Box::new(Cubic::new(datagram_size)),
            Self::Fixed { rate } => Box::new(Fixed::new(rate / 8, datagram_size)),
        }
    }

    /// Whether the rate is what was configured, whatever the path does.
    pub(crate) fn is_fixed(self) -> bool {
        match self {
            Self::Model | Self::Cubic => false,
            Self::Fixed { .. } => true,
        }
    }
}

/// What one acknowledgement frame taught.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckSample {
    /// Bytes newly acknowledged.
    pub(crate) acked_bytes: u64,
    /// From [`rate::RateSampler::take_sample`].
    pub(crate) rate: Option<RateSample>,
    /// The round trip of this frame's largest datagram, as it would be without any queue on the way back.
    pub(crate) rtt: Option<Duration>,
    /// The smallest round-trip time of the last 10 s, and the smoothed one.
    pub(crate) min_rtt: Option<Duration>,
    pub(crate) smoothed_rtt: Option<Duration>,
    /// By how much the delays of successive datagrams differ (RFC 3550 §6.4.1).
    pub(crate) jitter: Duration,
    /// Bytes in flight after this frame, its losses taken off too.
    pub(crate) inflight: u64,
}

/// Decides how much a path sends.
///
/// Per acknowledgement frame call [`on_loss`](Self::on_loss) for what it revealed as lost, then
/// [`on_ack`](Self::on_ack). Send while fewer than [`window`](Self::window) bytes are in flight, no faster
/// than [`pacing_rate`](Self::pacing_rate); both may change with each call.
pub(crate) trait Controller: Send + std::fmt::Debug {
    /// Packets were acknowledged.
    fn on_ack(&mut self, sample: &AckSample, now: Instant);

    /// `lost_bytes` were declared lost, and `inflight` bytes are in flight without them.
    fn on_loss(&mut self, lost_bytes: u64, inflight: u64, now: Instant);

    /// Routers have marked datagrams where they would have dropped them (RFC 3168): congestion, but nothing is lost. Called
    /// with each acknowledgement that tells of marks, after [`on_loss`](Self::on_loss).
    fn on_marks(&mut self, now: Instant);

    /// Bytes that may be in flight.
    fn window(&self) -> u64;

    /// Bytes per second at which to send.
    fn pacing_rate(&self) -> u64;

    /// Bytes that may leave at once after a pause, however little that is in a moment at the pacing rate.
    fn burst(&self) -> u64 {
        0
    }

    /// What the path is believed to deliver, bytes per second; `None` before the first sample.
    fn bandwidth(&self) -> Option<u64>;

    /// Whether what was sent at that moment was sent to find out what the path carries, which is known since, and which it may
    /// have exceeded by far.
    fn was_finding_rate(&self, _sent_at: Instant) -> bool {
        false
    }

    /// The path forwards at about this rate, bytes per second, as a single large datagram makes believe; it may well be
    /// faster.
    fn on_hint(&mut self, _rate: u64) {}

    /// The path delivers about `rate` bytes per second, as others have found: begin there. `round_trip` is what it takes.
    fn adopt(&mut self, rate: u64, round_trip: Duration, now: Instant);

    /// The path came back from the dead: what was learnt about it is stale.
    fn on_restart(&mut self, now: Instant);
}

/// Bytes that `rate` (bytes/s) delivers in `span`, rounded down.
pub(crate) fn bytes_in(rate: u64, span: Duration) -> u64 {
    // 64 bits, whose division is cheap, hold the product of all that is asked for with every packet.
    match u64::try_from(span.as_nanos()).ok().and_then(|nanos| rate.checked_mul(nanos)) {
        Some(product) => product / 1_000_000_000,
        None => u64::try_from(u128::from(rate) * span.as_nanos() / NANOS_PER_S).unwrap_or(u64::MAX),
    }
}

/// The rate (bytes/s) that delivers `bytes` in `span`, which is not zero.
pub(crate) fn rate_over(bytes: u64, span: Duration) -> u64 {
    u64::try_from(u128::from(bytes) * NANOS_PER_S / span.as_nanos().max(1)).unwrap_or(u64::MAX)
}

/// The time in which `rate` (bytes/s), taken for 1 if it is 0, delivers `bytes`.
pub(crate) fn span_of(bytes: u64, rate: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.max(1))
}

/// `share` hundredths of `value`.
fn percent(value: u64, share: u64) -> u64 {
    value.saturating_mul(share) / 100
}

const NANOS_PER_S: u128 = 1_000_000_000;
