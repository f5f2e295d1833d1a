//! How much a path may send: what its controller allows, or its share of what all behind its bottleneck may.

use std::time::{Duration, Instant};

use super::governor::Share;
use super::pacer::{Pace, Pacer};
use super::{Path, mtu, on_wire};
use crate::congestion::AckSample;

/// What a path has learnt since it was last asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Feedback {
    /// What its controller was told of the newest acknowledgement.
    pub(crate) sample: AckSample,
    /// How long the largest datagram in it took, offset by a constant, and about when it left the last queue, by our clock.
    pub(crate) delay: Option<(Duration, Instant)>,
    /// Bytes found lost.
    pub(crate) lost: u64,
    /// Whether datagrams were marked by routers (ECN).
    pub(crate) marked: bool,
    /// Whether there was nothing to send although the path would have taken it.
    pub(crate) idle: bool,
}

/// What a path may send, as long as it is not touched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Bytes that wait in the path.
    outbox: u64,
    /// What may still be in flight, those included.
    window: u64,
    pacer: Pacer,
    pace: Pace,
}

impl Allowance {
    /// Whether a packet of `bytes` could leave at once.
    pub(crate) fn admits(&self, bytes: usize, now: Instant) -> bool {
        let waiting = self.outbox + on_wire(bytes);
        waiting <= self.window && self.pacer.admits(waiting, now, self.pace)
    }
}

impl Path {
    /// What may be sent.
    pub(crate) fn allowance(&self) -> Allowance {
        let takes_more = self.sent.has_room() && !self.is_full();
        let window = if takes_more { self.window() } else { 0 };
        let window = window.saturating_sub(self.sent.inflight_bytes());
        Allowance { outbox: self.outbox_bytes, window, pacer: self.pacer, pace: self.pace() }
    }

    /// Whether a packet of `bytes` could leave at once.
    pub(crate) fn has_room(&self, bytes: usize, now: Instant) -> bool {
        self.allowance().admits(bytes, now)
    }

    /// Bytes that may be in flight.
    pub(super) fn window(&self) -> u64 {
        self.governor.limits().window
    }

    /// Bytes per second at which data may leave.
    pub(crate) fn pacing_rate(&self) -> u64 {
        self.pace().rate
    }

    /// How data may leave. What one path does not take at once another one may, and earlier: only where there is no other the bursts of
    /// a sender inside leave as they come.
    pub(super) fn pace(&self) -> Pace {
        let pace = self.governor.limits().pace;
        if self.is_alone { pace } else { pace.rate.into() }
    }

    /// All that waits in the session is for this path from now on, or is not.
    pub(crate) fn set_alone(&mut self, is_alone: bool) {
        self.is_alone = is_alone;
    }

    /// The path's estimated rate, in bytes per second.
    pub(crate) fn bandwidth(&self) -> Option<u64> {
        self.governor.limits().bandwidth
    }

    /// The share of the last datagrams that was lost, 0 to 1.
    pub(crate) fn loss(&self) -> f64 {
        self.losses.of_late()
    }

    /// The largest datagram that the path may turn out to carry.
    pub(crate) fn datagram_ceiling(&self) -> u16 {
        mtu::ceiling(self.config.mtu, mtu::headers_to(self.address.remote))
    }

    /// What has been learnt since the last call.
    pub(crate) fn take_feedback(&mut self) -> Feedback {
        std::mem::take(&mut self.feedback)
    }

    /// The path belongs to those of one bottleneck, and this is its share. Its own controller rests.
    pub(crate) fn couple(&mut self, share: Share) {
        self.governor.couple(share);
    }

    /// Whether it belongs to those of one bottleneck.
    pub(crate) fn is_coupled(&self) -> bool {
        self.governor.is_coupled()
    }

    /// The path is on its own, and begins with what it had.
    pub(crate) fn uncouple(&mut self, now: Instant) {
        self.governor.uncouple(self.smoothed_rtt(), now);
    }
}
