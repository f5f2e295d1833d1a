//! When a path has something to do.

use std::time::{Duration, Instant};

use super::{Path, PathState, on_wire};

/// A path on which a site only answers asks for an acknowledgement itself this often, so that its own
/// direction is known to work.
pub(super) const PING_INTERVAL: Duration = Duration::from_millis(200);

/// An idle path of a session with recent traffic is probed this often, so that its estimates are fresh when
/// it is needed.
const WARM_INTERVAL: Duration = Duration::from_secs(1);

/// The pacer wakes the session when at least this many bytes may leave: a datagram of usual size.
const MIN_PACED: u64 = 1500;

impl Path {
    /// Judges the silence, and keeps an idle path warm. `warm` says that the session has seen traffic of late.
    pub(crate) fn handle_timeout(&mut self, warm: bool, now: Instant) {
        if self.silence_deadline().is_some_and(|at| at <= now) {
            self.liveness.on_silence(self.smoothed_rtt(), now);
            self.mtu.on_silence(self.sent.oldest_bytes());
        }
        if self.keepalive_at(warm).is_some_and(|at| at <= now) {
            self.liveness.probe_now(now);
        }
    }

    /// When the path has something to do by itself. `backlog` is the size of the packet whose turn it is in the
    /// session.
    pub(crate) fn next_timeout(&self, warm: bool, backlog: Option<usize>, now: Instant) -> Option<Instant> {
        if self.first_hop.is_awaited() {
            return self.usage.forget_at();
        }
        let waiting = self.outbox_bytes + backlog.map_or(0, on_wire);
        let wants_data = waiting > 0 && self.rank().is_some() && self.window_is_open();
        let pacer = wants_data
            .then(|| self.pacer.ready_at(now, waiting.max(MIN_PACED), self.pacing_rate()))
            .filter(|&at| at > now);
        [
            self.received.ack_due(),
            pacer,
            self.liveness.next_probe(),
            self.received.stats_due(),
            self.silence_deadline(),
            self.sent.loss_deadline(self.loss_rtt()),
            self.keepalive_at(warm),
            self.ping_at(),
            self.usage.forget_at(),
            self.mtu_probe_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether a datagram should leave now.
    pub(crate) fn wants_to_send(&self, now: Instant) -> bool {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.first_hop.is_awaited() {
            return false;
        }
        self.response.is_some()
            || !self.carried.is_empty()
            || self.carried_use.is_some()
            || is_due(self.liveness.next_probe())
            || (is_due(self.received.ack_due()) && !self.ack_travels_elsewhere)
            || is_due(self.received.stats_due())
            || self.ping_due(now)
            || is_due(self.mtu_probe_at())
            || self.may_send_data(now)
    }

    pub(super) fn may_send_data(&self, now: Instant) -> bool {
        self.outbox.front().filter(|_| self.rank().is_some()).is_some_and(|front| {
            let bytes = on_wire(front.packet.len());
            self.window_is_open() && self.pacer.ready_at(now, bytes, self.pacing_rate()) <= now
        })
    }

    pub(super) fn window_is_open(&self) -> bool {
        self.sent.has_room() && self.sent.inflight_bytes() < self.window()
    }

    fn silence_deadline(&self) -> Option<Instant> {
        let since = self.sent.oldest_sent_at()?.max(self.answered_at);
        self.liveness.silence_deadline(since, self.smoothed_rtt())
    }

    fn keepalive_at(&self, warm: bool) -> Option<Instant> {
        let idle = self.state() == PathState::Active && self.liveness.next_probe().is_none();
        let interval = if warm { WARM_INTERVAL.min(self.keepalive) } else { self.keepalive };
        let since = self.last_eliciting_at.map_or(self.answered_at, |at| at.max(self.answered_at));
        idle.then(|| since + interval)
    }

    fn ping_at(&self) -> Option<Instant> {
        self.only_answered_since.map(|since| since + PING_INTERVAL)
    }

    /// When something is to be done for finding the datagram size.
    fn mtu_probe_at(&self) -> Option<Instant> {
        self.mtu.due().filter(|_| self.state() == PathState::Active)
    }

    pub(super) fn ping_due(&self, now: Instant) -> bool {
        self.ping_at().is_some_and(|at| at <= now)
    }
}
