//! Who decides how fast a path sends.

use std::time::{Duration, Instant};

use super::pacer::Pace;
use crate::congestion::{AckSample, Controller};

/// The path's own congestion controller, or the one of all paths behind its bottleneck; and what was configured.
///
/// What they allow is asked for with every datagram and changes only when they learn something, so it is kept.
#[derive(Debug)]
pub(super) struct Governor {
    controller: Box<dyn Controller>,
    /// What the paths of its bottleneck leave to it.
    share: Option<Share>,
    /// Bytes per second that were configured as the most.
    ceiling: u64,
    limits: Limits,
}

/// What a path of a group may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Bytes in flight.
    pub(crate) window: u64,
    /// Bytes per second.
    pub(crate) pacing_rate: u64,
    /// What it is believed to deliver, bytes per second.
    pub(crate) bandwidth: u64,
}

/// What a path may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// Bytes that may be in flight.
    pub(super) window: u64,
    /// How data may leave.
    pub(super) pace: Pace,
    /// The path's estimated rate, in bytes per second.
    pub(super) bandwidth: Option<u64>,
}

impl Governor {
    /// A path that this controller rules, up to `max_rate` bits per second.
    pub(super) fn new(controller: Box<dyn Controller>, max_rate: Option<u64>) -> Self {
        let ceiling = bytes(max_rate);
        let mut governor = Self { controller, share: None, ceiling, limits: Limits::default() };
        governor.settle();
        governor
    }

    /// What the path may do.
    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    /// Datagrams were acknowledged.
    pub(super) fn on_ack(&mut self, sample: &AckSample, now: Instant) {
        if self.share.is_none() {
            self.controller.on_ack(sample, now);
            self.settle();
        }
    }

    /// `lost_bytes` were lost, and `inflight` bytes are in flight without them.
    pub(super) fn on_loss(&mut self, lost_bytes: u64, inflight: u64, now: Instant) {
        if self.share.is_none() {
            self.controller.on_loss(lost_bytes, inflight, now);
            self.settle();
        }
    }

    /// Whether what was sent at that moment may have been too much, for the rate of the path was being found.
    pub(super) fn was_finding_rate(&self, sent_at: Instant) -> bool {
        self.share.is_none() && self.controller.was_finding_rate(sent_at)
    }

    /// The queue of the bottleneck was long enough for datagrams to be marked.
    pub(super) fn on_marks(&mut self, now: Instant) {
        if self.share.is_none() {
            self.controller.on_marks(now);
            self.settle();
        }
    }

    /// The path forwards at about this rate, bytes per second.
    pub(super) fn on_hint(&mut self, rate: u64) {
        self.controller.on_hint(rate);
        self.settle();
    }

    /// The network under the path may be quite another one.
    pub(super) fn on_restart(&mut self, now: Instant) {
        self.controller.on_restart(now);
        self.settle();
    }

    /// The path belongs to those of one bottleneck, and this is its share. Its own controller rests.
    pub(super) fn couple(&mut self, share: Share) {
        self.share = Some(share);
        self.settle();
    }

    /// Whether it belongs to those of one bottleneck.
    pub(super) fn is_coupled(&self) -> bool {
        self.share.is_some()
    }

    /// The path is on its own, and begins with what it had. `round_trip` is what it takes.
    pub(super) fn uncouple(&mut self, round_trip: Duration, now: Instant) {
        if let Some(share) = self.share.take() {
            self.controller.adopt(share.bandwidth, round_trip, now);
            self.settle();
        }
    }

    /// Changes the most that the path may send, bits per second.
    pub(super) fn set_max_rate(&mut self, max_rate: Option<u64>) {
        self.ceiling = bytes(max_rate);
        self.settle();
    }

    /// Sets the controller that finds the rate of the path. It begins anew.
    pub(super) fn set_controller(&mut self, controller: Box<dyn Controller>) {
        self.controller = controller;
        self.settle();
    }

    /// Something has changed: what is allowed may be different.
    fn settle(&mut self) {
        let (window, pace, bandwidth) = match self.share {
            Some(Share { window, pacing_rate, bandwidth }) => (window, pacing_rate.into(), Some(bandwidth)),
            None => {
                let controller = &self.controller;
                // Who says how fast a path may be used has a reason, which may be a policer.
                let burst = if self.ceiling == u64::MAX { controller.burst() } else { 0 };
                let pace = Pace { rate: controller.pacing_rate(), burst };
                (controller.window(), pace, controller.bandwidth())
            }
        };
        self.limits = Limits {
            window,
            pace: Pace { rate: pace.rate.clamp(1, self.ceiling), ..pace },
            bandwidth: bandwidth.map(|rate| rate.min(self.ceiling)),
        };
    }
}

/// Bytes per second, 1 at least; any number without a limit.
fn bytes(max_rate: Option<u64>) -> u64 {
    max_rate.map_or(u64::MAX, |bits| (bits / 8).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::CongestionConfig;

    #[test]
    fn no_controller_exceeds_what_was_configured() {
        let fixed = CongestionConfig::Fixed { rate: 80_000_000 };
        for config in [CongestionConfig::Model, CongestionConfig::Cubic, fixed] {
            let mut governor = Governor::new(config.build(1400), Some(16_000));
            assert_eq!(governor.limits().pace, Pace { rate: 2000, burst: 0 }, "{config:?}");
            governor.couple(Share { window: 1_000_000, pacing_rate: 1_000_000, bandwidth: 1_000_000 });
            assert_eq!((governor.limits().pace.rate, governor.limits().bandwidth), (2000, Some(2000)));
            governor.set_max_rate(None);
            assert_eq!(governor.limits().pace.rate, 1_000_000);
        }
    }
}
