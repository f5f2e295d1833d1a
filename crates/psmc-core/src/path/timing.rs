//! When a path has something to do.

use std::time::{Duration, Instant};

use psmc_wire::control::Tier;
use psmc_wire::datagram::DATAGRAM_OVERHEAD;

use super::{Path, PathState, on_wire};

/// A path on which a site only answers asks for an acknowledgement itself this often, so that its own
/// direction is known to work.
pub(super) const PING_INTERVAL: Duration = Duration::from_millis(200);

/// An idle path of a session with recent traffic is probed this often, so that its estimates are fresh when
/// it is needed.
const WARM_INTERVAL: Duration = Duration::from_secs(1);

/// A path that is spared is probed only so often that NATs keep their bindings: WireGuard's interval, which suits those that people
/// have.
const SPARED_INTERVAL: Duration = Duration::from_secs(25);

/// The golden ratio's fraction, in 2^-64: its multiples, whole numbers left off, are spread evenly, however many there are.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// So finely intervals differ.
const SPREAD_BITS: u32 = 8;

/// Bytes of a datagram with a challenge, and an answer.
pub(super) const QUESTION_LEN: usize = DATAGRAM_OVERHEAD + 2 * (1 + size_of::<[u8; 8]>());

/// The pacer wakes the session when at least this many bytes may leave: a datagram of usual size.
const MIN_PACED: u64 = 1500;

impl Path {
    /// Judges the silence, rests when it is time to, and keeps an idle path warm. `warm` says that the session has seen traffic of late.
    pub(crate) fn handle_timeout(&mut self, warm: bool, now: Instant) {
        if self.silence_deadline().is_some_and(|at| at <= now) {
            if self.is_proven() {
                self.mtu.on_silence(self.sent.oldest_bytes());
                self.marking.on_silence();
            }
            self.sent.doubt();
            self.liveness.on_silence(self.smoothed_rtt(), now);
        }
        self.slots.on_time(now);
        if self.keepalive_at(warm).is_some_and(|at| at <= now) {
            self.liveness.probe_now(now);
        }
    }

    /// When the path has something to do by itself.
    pub(crate) fn wake_at(&self, warm: bool, now: Instant) -> Option<Instant> {
        if self.first_hop.is_awaited() {
            return self.usage.forget_at();
        }
        let outbox = if self.outbox_bytes > 0 { self.room_at(0, now) } else { None };
        [
            self.received.ack_due(),
            outbox,
            self.liveness.next_probe(),
            self.received.stats_due(),
            self.silence_deadline(),
            self.sent.loss_deadline(self.loss_rtt()),
            self.keepalive_at(warm),
            self.ping_at(),
            self.usage.forget_at(),
            self.mtu_probe_at(),
            self.asks_elsewhere_at(),
            self.slots.edge(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// When the path will have room for `bytes` on the wire behind what waits in it; `None` if it has, or if that is not
    /// a matter of time.
    pub(crate) fn room_at(&self, bytes: u64, now: Instant) -> Option<Instant> {
        let takes_data = self.rank().is_some() && !self.first_hop.is_awaited() && self.window_is_open();
        let bytes = (self.outbox_bytes + bytes).max(MIN_PACED);
        takes_data.then(|| self.pacer.ready_at(now, bytes, self.pace())).filter(|&at| at > now)
    }

    /// When a datagram should leave.
    pub(crate) fn send_at(&self, now: Instant) -> Option<Instant> {
        if self.first_hop.is_awaited() {
            return None;
        }
        let at_once = self.response.is_some()
            || self.hop_response.is_some()
            || self.measurements.are_due()
            || !self.carried.is_empty()
            || self.carried_use.is_some()
            || self.carried_exchange.is_some();
        [
            at_once.then_some(now),
            self.liveness.next_probe(),
            self.received.ack_due().filter(|_| !self.ack_travels_elsewhere),
            self.received.stats_due(),
            self.ping_at(),
            self.mtu_probe_at(),
            self.asks_elsewhere_at(),
            self.data_at(now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether a datagram should leave now.
    pub(super) fn wants_to_send(&self, now: Instant) -> bool {
        self.may_send_data(now) || self.send_at(now).is_some_and(|at| at <= now)
    }

    pub(super) fn may_send_data(&self, now: Instant) -> bool {
        self.data_at(now).is_some_and(|at| at <= now)
    }

    /// When the first packet that waits in the path may leave.
    fn data_at(&self, now: Instant) -> Option<Instant> {
        let front = self.outbox.front().filter(|_| self.rank().is_some() && self.window_is_open())?;
        Some(self.pacer.ready_at(now, on_wire(front.packet.len()), self.pace()))
    }

    /// Whether frames of this path travel on another one, or should, because this one doesn't work in our direction.
    pub(crate) fn needs_carrier(&self) -> bool {
        let is_silent = self.state() != PathState::Active;
        self.ack_travels_elsewhere || (is_silent && self.received.ack_pending())
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
        let keepalive = self.probe_interval();
        let interval = match (self.config.tier, warm) {
            (Tier::Backup | Tier::Never, _) => keepalive.max(SPARED_INTERVAL),
            (Tier::Primary | Tier::Secondary, true) => keepalive.min(WARM_INTERVAL),
            (Tier::Primary | Tier::Secondary, false) => keepalive,
        };
        let since = self.last_eliciting_at.map_or(self.answered_at, |at| at.max(self.answered_at));
        idle.then(|| since + interval)
    }

    /// How long the path is idle until the next probe. Under scrutiny from three to seven fifths of what was asked for.
    fn probe_interval(&self) -> Duration {
        if !self.scrutiny {
            return self.keepalive;
        }
        let spread = self.tokens.drawn().wrapping_mul(GOLDEN_RATIO) >> (u64::BITS - SPREAD_BITS);
        let spread = u32::try_from(spread).unwrap_or_default();
        self.keepalive * 3 / 5 + self.keepalive * 4 / 5 * spread / (1 << SPREAD_BITS)
    }

    /// Whether a probe after so many others is as large as a full datagram.
    pub(super) fn is_large(&self, drawn: u64) -> bool {
        self.scrutiny && drawn.is_multiple_of(2)
    }

    fn ping_at(&self) -> Option<Instant> {
        let unacknowledged = self.only_answered_since.map(|since| since + PING_INTERVAL);
        [unacknowledged, self.filled_at()].into_iter().flatten().min()
    }

    /// When something is to be done for finding the datagram size.
    fn mtu_probe_at(&self) -> Option<Instant> {
        self.mtu.due().filter(|_| self.is_proven())
    }

    /// When the address to which the peer seems to have moved should be asked.
    pub(super) fn asks_elsewhere_at(&self) -> Option<Instant> {
        let bytes = self.first_hop.header_len() + QUESTION_LEN;
        self.roaming.ask_at(bytes).filter(|_| self.liveness.link_is_up())
    }

    pub(super) fn ping_due(&self, now: Instant) -> bool {
        self.ping_at().is_some_and(|at| at <= now)
    }
}
