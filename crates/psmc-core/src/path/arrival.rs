//! When a packet would arrive on a path: its delay, its rate, and what stands before the packet.

use std::time::{Duration, Instant};

use super::{Path, on_wire};

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
