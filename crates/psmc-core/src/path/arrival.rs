//! When a packet would arrive on a path: its delay, its rate, and what stands before the packet.

use std::time::{Duration, Instant};

use super::{Path, on_wire};

/// The round trip that is assumed before one is measured (RFC 9002 §6.2.2).
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// The delays of a path that is used well vary by as much, because of its queue.
const OWN_DEVIATION: Duration = Duration::from_millis(20);

impl Path {
    /// When a packet of `bytes` would arrive if it were given to this path now: what waits before it, at the
    /// path's rate, the path's delay, and what it costs on average that it may be lost. Comparable between the paths
    /// of a session. A packet that is sent `again` is late already, and others wait for it: it shuns losses more.
    pub(crate) fn arrival(&self, bytes: usize, again: bool, now: Instant) -> Duration {
        let rate = self.expected_rate();
        let queueing = self.forward.queueing(now);
        let waiting = Duration::from_secs_f64((self.outbox_bytes + on_wire(bytes)) as f64 / rate as f64);
        // What was sent of late stands in the queue of the bottleneck, and no round trip tells of it yet.
        let ahead = self.bottleneck.saturating_duration_since(now);
        let repair = (self.smoothed_rtt() * 5 / 4).mul_f64(self.losses.risk(again, now));
        let varies = 4 * self.forward.deviation().saturating_sub(OWN_DEVIATION);
        self.propagation() + queueing.max(ahead) + waiting + repair + varies
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

    /// `bytes` join what the bottleneck has still to forward.
    pub(super) fn note_forwarding(&mut self, bytes: u64, now: Instant) {
        let rate = self.expected_rate();
        let time = Duration::from_secs_f64(bytes as f64 / rate as f64);
        self.bottleneck = self.bottleneck.max(now) + time;
    }
}
