//! What the model does at a time, and how much it sends meanwhile.
//!
//! How a path is found.
//!
//! The window that losses impose.

use std::time::Duration;

use super::saturation::Manner;
use super::{AckSample, bytes_in, percent, rate_over};

/// A phase of the [`Model`](super::model::Model), which shows how they follow on one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Doubles each round, until the path delivers no more.
    Startup,
    /// Lets the queue at the bottleneck run empty.
    Drain,
    /// Sends what the path delivers.
    Cruise,
    /// Sends more for a round, and waits a round to see whether it is delivered.
    Probe,
    /// Makes the window smaller, to see the round trip without any queue (`ProbeRTT`).
    Refresh,
    /// Holds its own against others who keep a queue.
    Compete,
}

impl Phase {
    /// The pacing rate, percent of the path's rate, after `rounds` rounds in this phase, the last of which has
    /// found a queue or not.
    pub(crate) fn pacing_percent(self, rounds: u32, queued: bool, manner: Manner) -> u64 {
        match self {
            Self::Probe if rounds == 0 && manner == Manner::Bold => 125,
            Self::Probe if rounds == 0 => 110,
            Self::Startup | Self::Probe | Self::Compete => 100,
            // Where delays vary what looks like a queue may be none.
            Self::Cruise if queued && manner == Manner::Gentle => 95,
            // A queue that a probe, or an estimate a little too high, has built goes away again.
            Self::Cruise | Self::Refresh if queued => 94,
            Self::Cruise if manner == Manner::Gentle => 97,
            // `BBR.PacingMarginPercent`.
            Self::Cruise | Self::Refresh => 99,
            Self::Drain => 85,
        }
    }

    /// The window in bytes for a path of `rate` bytes/s whose round trip is `base_rtt` at best under load, and
    /// `held_rtt` as a rule; of that of [`Phase::Refresh`] some is left out.
    pub(crate) fn window(self, rate: u64, base_rtt: Duration, held_rtt: Duration) -> u64 {
        let with = |slack| bytes_in(rate, held_rtt + slack);
        match self {
            // Beside another sender's queue a window for an empty path would leave nothing to probe with.
            Self::Probe => percent(with(2 * ALLOWANCE), 125),
            Self::Startup | Self::Cruise | Self::Compete => with(ALLOWANCE),
            Self::Drain => bytes_in(rate, base_rtt + ACK_DELAY),
            Self::Refresh => bytes_in(rate, base_rtt),
        }
    }

    /// The smallest window, in datagrams.
    pub(crate) fn least_datagrams(self) -> u64 {
        match self {
            // On a slow path even two are a queue.
            Self::Refresh => 1,
            Self::Startup | Self::Drain | Self::Cruise | Self::Probe | Self::Compete => LEAST_DATAGRAMS,
        }
    }

    /// What a round must deliver to count as growth, percent of what was delivered before.
    pub(crate) fn growth_percent(self) -> u64 {
        match self {
            // As BBR tells a full pipe (`BBR.full_bw`).
            Self::Startup => 125,
            // Well above jitter, well below the quarter that a probe adds.
            Self::Probe | Self::Cruise | Self::Drain | Self::Refresh | Self::Compete => 110,
        }
    }
}

/// With probe and drain a cycle of about 8 rounds, as that of BBR's first version.
pub(crate) const CRUISE_ROUNDS: u32 = 5;

/// What the window covers beyond the round trip, or late acknowledgements and hosts that wake up some
/// milliseconds late would limit the rate.
pub(crate) const ALLOWANCE: Duration = Duration::from_millis(10);

/// Receivers acknowledge at the latest after this time: so much is in flight without any queue.
pub(crate) const ACK_DELAY: Duration = Duration::from_millis(5);

/// The first flight: three times that of one TCP flow (RFC 6928), for a tunnel carries several, and each has its
/// own slow start.
pub(crate) const INITIAL_DATAGRAMS: u64 = 32;

/// Fewer would stall on each late acknowledgement (`BBR.MinPipeCwnd`); more would be a long queue on a slow
/// path: at 1 Mb/s four datagrams take 45 ms.
const LEAST_DATAGRAMS: u64 = 4;

/// The window while nobody knows how fast the path is.
#[derive(Debug)]
pub(crate) struct SlowStart {
    /// Bytes.
    window: u64,
    /// The rate, bytes per second, that a single datagram made believe before anything else was known.
    hint: Option<u64>,
}

impl SlowStart {
    /// The window of a first flight.
    pub(crate) fn new(datagram_size: u64) -> Self {
        Self { window: INITIAL_DATAGRAMS * datagram_size, hint: None }
    }

    /// Begins again on a path that is believed to forward `rate` bytes per second, and to hold `held` bytes: as with a new one, but with no
    /// more than it forwards in a moment if that is less.
    pub(crate) fn resume(&mut self, held: u64, rate: u64, datagram_size: u64) {
        let first = (INITIAL_DATAGRAMS * datagram_size).min(bytes_in(rate, RESUMED_FLIGHT));
        self.window = held.max(first).max(Phase::Startup.least_datagrams() * datagram_size);
    }

    /// A single datagram, before anything else was sent, seemed to be forwarded at `rate` bytes per second, on a path whose shortest
    /// round trip is `min_rtt`.
    pub(crate) fn on_hint(&mut self, rate: u64, min_rtt: Duration, datagram_size: u64) {
        if self.hint.is_some_and(|known| known >= rate) {
            return;
        }
        self.hint = Some(rate);
        let held = bytes_in(HINT_GAIN * rate, min_rtt + ALLOWANCE);
        self.window = held.clamp(HINTED_DATAGRAMS * datagram_size, INITIAL_DATAGRAMS * datagram_size);
    }

    /// Grows by what is acknowledged, as far as use is made of the window (RFC 9438 §4.10).
    pub(crate) fn on_ack(&mut self, sample: &AckSample) {
        if 2 * (sample.inflight + sample.acked_bytes) > self.window {
            self.window = self.window.saturating_add(sample.acked_bytes);
        }
    }

    /// Bytes that may be in flight.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Bytes per second at which to send: twice what the window amounts to in a `round_trip`. A path that seems to be slow has to show that
    /// it is not, by a `measured` rate.
    pub(crate) fn rate(&self, round_trip: Duration, measured: Option<u64>) -> u64 {
        let rate = 2 * rate_over(self.window, round_trip.max(LEAST_RTT));
        self.hint.map_or(rate, |hint| rate.min(HINT_GAIN * hint.max(measured.unwrap_or(0))))
    }
}

/// What a first flight may take to be forwarded on a path that is known: 32 datagrams at 1.5 Mb/s, which at 200 kb/s would stand there for
/// two seconds.
const RESUMED_FLIGHT: Duration = Duration::from_millis(250);

/// On a path that is shorter the startup is paced as on this one: nobody gains by doubling faster.
const LEAST_RTT: Duration = Duration::from_millis(1);

/// A single datagram may have been late for other reasons: the path may be so many times as fast.
const HINT_GAIN: u64 = 2;

/// Two can be told apart; on a path of 64 kb/s they take 360 ms.
const HINTED_DATAGRAMS: u64 = 2;

/// How much may be in flight after losses, until rounds without any have shown that more may (`BBR.inflight_longterm`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossCeiling(u64);

impl Default for LossCeiling {
    fn default() -> Self {
        Self(u64::MAX)
    }
}

impl LossCeiling {
    /// In bytes.
    pub(crate) fn bytes(self) -> u64 {
        self.0
    }

    /// Nothing is known of losses any more.
    pub(crate) fn lift(&mut self) {
        *self = Self::default();
    }

    /// What was lost had been sent to try whether the path takes more than it is believed to hold.
    pub(crate) fn limit(&mut self, held: u64) {
        self.0 = self.0.min(held);
    }

    /// A round has lost this share of what was sent in a `window`, and has delivered so much.
    pub(crate) fn lower(&mut self, window: u64, lost_percent: u64, delivered: u64) {
        let share = LOSS_BACKOFF_PERCENT.min(100 - lost_percent);
        self.0 = percent(window, share).max(delivered);
    }

    /// Nothing was lost: back to what the path is believed to hold at once, beyond it only as far as probes go unharmed.
    pub(crate) fn raise(&mut self, held: u64, is_probe: bool) {
        if self.0 < held || is_probe {
            self.0 = self.0.saturating_add(self.0 / CEILING_GROWTH);
        }
    }
}

/// After loss the window sinks at most to this (`BBR.Beta`).
const LOSS_BACKOFF_PERCENT: u64 = 70;

/// A clean round raises the ceiling by an eighth: three make good for one lossy round.
const CEILING_GROWTH: u64 = 8;
