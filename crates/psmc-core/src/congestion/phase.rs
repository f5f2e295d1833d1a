//! What the model does at a time, and how much it sends meanwhile.

use std::time::Duration;

use super::saturation::Manner;
use super::{bytes_in, percent};

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
