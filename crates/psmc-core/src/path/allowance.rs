//! How much a path may send: what its controller allows, or its share of what all behind its bottleneck may.
//!
//! When a packet would arrive on a path: its delay, its rate, and what stands before the packet.

use std::time::{Duration, Instant};

use super::governor::Share;
use super::pacer::{Pace, Pacer};
use super::{Path, mtu, on_wire};
use crate::congestion::{AckSample, span_of};

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

/// The round trip that is assumed before one is measured (RFC 9002 §6.2.2).
pub(crate) const INITIAL_RTT: Duration = Duration::from_millis(333);

/// What a datagram takes on a path that is used well is expected no more exactly than this, because of its queue.
const OWN_DEVIATION: Duration = Duration::from_millis(20);

/// Percent of a path's rate. Who sends more than any probe does is finding out the rate, which may be as high.
const LARGEST_PROBE: u64 = 130;

/// How much more a packet that is sent again shuns losses.
const AGAIN_RISK: u32 = 4;

/// What tells when a packet would arrive on a path, as long as the path is not touched, or for a moment if it `fades`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    /// The time of a packet on the path without any queue.
    pub(crate) propagation: Duration,
    /// Bytes per second at which the path is expected to forward what is sent now.
    pub(crate) rate: u64,
    /// By how much the delays of successive datagrams differ.
    pub(crate) jitter: Duration,
    /// Whether what is known of its losses, or of how its delays vary, is worth less with time.
    pub(crate) fades: bool,
    /// Bytes that wait in the path, or are in flight.
    pub(crate) under_way: u64,
    /// The delay without queues, by which a packet arrives that may be lost: for one that is sent for the first time, and
    /// for one that is sent again. In nanoseconds.
    delay: [u64; 2],
    /// When the queues on the way have drained.
    drained_at: Instant,
    /// Bytes that wait in the path.
    outbox: u64,
    nanos_per_byte: f64,
}

impl Forecast {
    /// After how many nanoseconds a packet of `bytes` would arrive if it were given to the path now: what waits before it,
    /// at the path's rate, the path's delay, and what it costs on average that it may be lost. Comparable between the
    /// paths of a session. A packet that is sent `again` is late already, and others wait for it: it shuns losses more.
    pub(crate) fn arrival(&self, bytes: usize, again: bool, now: Instant) -> u64 {
        let waiting = whole((self.outbox + on_wire(bytes)) as f64 * self.nanos_per_byte);
        let queue = if self.has_queue(now) { nanos(self.drained_at - now) } else { 0 };
        self.delay[usize::from(again)].saturating_add(queue).saturating_add(waiting)
    }

    /// After how many nanoseconds a packet would arrive that is sent for the first time and meets no queue.
    pub(crate) fn unqueued(&self) -> u64 {
        self.delay[0]
    }

    /// Whether there are queues on the way. Only then, a packet arrives the sooner the later it is sent.
    pub(crate) fn has_queue(&self, now: Instant) -> bool {
        self.drained_at > now
    }
}

impl Path {
    /// What tells when a packet would arrive on this path.
    pub(crate) fn forecast(&self, now: Instant) -> Forecast {
        let (rate, propagation) = (self.expected_rate(), self.propagation());
        let varies = 4 * self.bottleneck.deviation_beyond(OWN_DEVIATION, now);
        let repair = (self.smoothed_rtt() * 5 / 4).mul_f64(self.losses.risk(now));
        Forecast {
            propagation,
            rate,
            jitter: self.jitter(),
            fades: self.losses.fades() || !varies.is_zero(),
            under_way: self.sent.inflight_bytes() + self.outbox_bytes,
            delay: [1, AGAIN_RISK].map(|risk| nanos(propagation + varies + risk * repair)),
            drained_at: self.bottleneck.drained_at(),
            outbox: self.outbox_bytes,
            nanos_per_byte: 1e9 / rate as f64,
        }
    }

    /// After how many nanoseconds a packet of `bytes` would arrive if it were given to this path now.
    pub(crate) fn arrival(&self, bytes: usize, now: Instant) -> u64 {
        self.forecast(now).arrival(bytes, false, now)
    }

    /// The time of a packet on the path without any queue.
    pub(crate) fn propagation(&self) -> Duration {
        self.rtt.min().unwrap_or(INITIAL_RTT) / 2
    }

    /// By how much the delays of successive datagrams differ, as the peer has measured (RFC 3550 §6.4.1).
    pub(crate) fn jitter(&self) -> Duration {
        Duration::from_micros(u64::from(self.peer_stats.jitter_us))
    }

    /// The smoothed round trip, or what is assumed before the first one.
    pub(crate) fn smoothed_rtt(&self) -> Duration {
        self.rtt.smoothed().unwrap_or(INITIAL_RTT)
    }

    /// The rate, in bytes per second, at which the path is expected to forward what is sent now: more than was
    /// measured while that is still being found out.
    pub(crate) fn expected_rate(&self) -> u64 {
        self.bandwidth().unwrap_or(0).max(self.pacing_rate()).max(1)
    }

    /// How long what waits in the path takes to leave it.
    pub(crate) fn outbox_time(&self) -> Duration {
        span_of(self.outbox_bytes, self.expected_rate())
    }

    /// The rate, in bytes per second, at which the path forwards what is sent, as far as that is known: what a probe sends beyond it
    /// stands in the queue.
    pub(super) fn forwarding_rate(&self) -> u64 {
        let rate = if self.is_finding_rate() { self.pacing_rate() } else { self.bandwidth().unwrap_or(0) };
        rate.max(1)
    }

    /// Whether more is sent than any probe does: the rate may be anything, and any queue our own.
    pub(super) fn is_finding_rate(&self) -> bool {
        let found = self.bandwidth().unwrap_or(0);
        self.pacing_rate() > found.saturating_mul(LARGEST_PROBE) / 100
    }
}

/// A time in nanoseconds.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "conversion saturates, and none is negative"
)]
fn whole(number: f64) -> u64 {
    number as u64
}
