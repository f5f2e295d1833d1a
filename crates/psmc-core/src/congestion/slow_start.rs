//! How a path is found.

use std::time::Duration;

use super::phase::{ALLOWANCE, INITIAL_DATAGRAMS, Phase};
use super::{AckSample, bytes_in, rate_over};

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
