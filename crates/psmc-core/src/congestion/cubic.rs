//! CUBIC: the window is a cubic function of the time since the last reduction (RFC 9438).

use std::time::{Duration, Instant};

use super::filter::MaxFilter;
use super::hystart::HyStart;
use super::{AckSample, Controller, bytes_in, percent, rate_over};

/// CUBIC with HyStart++ and pacing, for paths whose other users are ordinary TCP connections.
///
/// It takes each loss for congestion, so random loss slows it down, and it fills a bottleneck's queue before it
/// yields: it is as fair, and as slow, as what it competes with. Windows are in datagrams, as the RFC has them
/// in segments.
#[derive(Debug)]
pub(crate) struct Cubic {
    datagram_size: u64,
    /// `cwnd`
    window: f64,
    /// `ssthresh`
    threshold: f64,
    /// `W_max`: where the curve is flat.
    plateau: f64,
    epoch: Option<Epoch>,
    hystart: HyStart,
    /// Smoothed round trip, acknowledgement delay included.
    rtt: Option<Duration>,
    round: Round,
    /// When the window was last reduced.
    reduced_at: Option<Instant>,
    last_ack_at: Option<Instant>,
    delivered: MaxFilter,
}

/// Congestion avoidance since a reduction.
#[derive(Debug)]
struct Epoch {
    began: Instant,
    /// `K`: seconds from the beginning to the plateau.
    to_plateau: f64,
    plateau: f64,
    /// `cwnd_prior`: the window before the reduction.
    prior: f64,
    /// `W_est`: what Reno would have.
    reno: f64,
}

/// A round trip: it ends when something sent in it is acknowledged.
#[derive(Debug, Default)]
struct Round {
    began: Option<Instant>,
    /// The most that was in flight in it and in the one before, in bytes.
    peak: u64,
    peak_before: u64,
}

impl Cubic {
    /// A controller that knows nothing of the path but the size of its datagrams.
    pub(crate) fn new(datagram_size: u16) -> Self {
        Self {
            datagram_size: u64::from(datagram_size),
            window: INITIAL_WINDOW,
            threshold: f64::INFINITY,
            plateau: 0.0,
            epoch: None,
            hystart: HyStart::default(),
            rtt: None,
            round: Round::default(),
            reduced_at: None,
            last_ack_at: None,
            delivered: MaxFilter::default(),
        }
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Whether what was sent at `sent_at` can be lost, or acknowledged, because of the window before the last
    /// reduction. Losses are found up to an eighth of a round trip late (RFC 9002 §6.1.2), and what shows them
    /// may have waited, too.
    fn is_recovering(&self, sent_at: Instant) -> bool {
        self.reduced_at.is_some_and(|at| sent_at <= at + self.smoothed_rtt() / 8 + ACK_WAIT)
    }

    /// Whether the window is what limits the sender: "cwnd SHOULD NOT be increased" otherwise (RFC 9438 §5.8).
    /// In slow start half of it is enough, since it may double in the next round.
    fn is_limiting(&self) -> bool {
        let used = self.round.peak.max(self.round.peak_before) as f64 / self.datagram_size as f64;
        if self.in_slow_start() { self.window < 2.0 * used } else { self.window <= used + USED_SLACK }
    }

    fn grow(&mut self, acked: f64, now: Instant) {
        if self.in_slow_start() {
            self.window = (self.window + acked / self.hystart.divisor()).min(self.threshold);
            return;
        }
        let rtt = self.smoothed_rtt();
        let (window, plateau) = (self.window, self.plateau);
        let epoch = self.epoch.get_or_insert_with(|| Epoch::begin(window, plateau, now));
        self.window = epoch.grow(window, acked, rtt, now);
    }

    fn on_round_end(&mut self, now: Instant) {
        self.round = Round { began: Some(now), peak: 0, peak_before: self.round.peak };
        if self.in_slow_start() && self.hystart.on_round_end() {
            self.threshold = self.window;
        }
    }

    /// What was not limited by the window is no time in which it should have grown (RFC 9438 §5.8).
    fn leave_out(&mut self, now: Instant) {
        if let (Some(epoch), Some(last)) = (&mut self.epoch, self.last_ack_at) {
            epoch.began += now.saturating_duration_since(last);
        }
    }

    /// Reduces the window, once for all that is lost or marked of one round trip.
    fn reduce(&mut self, now: Instant) {
        // What is found lost now was sent a round trip ago at the latest.
        let sent_at = now.checked_sub(self.smoothed_rtt()).unwrap_or(now);
        if self.is_recovering(sent_at) {
            return;
        }
        // Fast convergence (§4.7): who reaches less than before leaves room for those who come.
        let fell_short = self.window < self.plateau;
        self.plateau = if fell_short { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(LEAST_WINDOW);
        self.threshold = self.window;
        self.epoch = None;
        self.reduced_at = Some(now);
    }

    fn smoothed_rtt(&self) -> Duration {
        self.rtt.unwrap_or(INITIAL_RTT)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped")]
    fn window_bytes(&self) -> u64 {
        (self.window * self.datagram_size as f64).round().clamp(0.0, MAX_WINDOW) as u64
    }
}

impl Epoch {
    fn begin(window: f64, plateau: f64, now: Instant) -> Self {
        let flat = plateau.max(window);
        Self {
            began: now,
            to_plateau: ((flat - window) / C).cbrt(),
            plateau: flat,
            prior: flat,
            reno: window,
        }
    }

    /// `W_cubic` after that many seconds.
    fn curve(&self, seconds: f64) -> f64 {
        self.plateau + C * (seconds - self.to_plateau).powi(3)
    }

    /// The window after `acked` more datagrams (RFC 9438 §4.2 to 4.5).
    fn grow(&mut self, window: f64, acked: f64, rtt: Duration, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.began).as_secs_f64();
        let share = if self.reno < self.prior { ALPHA } else { 1.0 };
        self.reno += share * acked / window;
        if self.curve(elapsed) < self.reno {
            return window.max(self.reno);
        }
        let target = self.curve(elapsed + rtt.as_secs_f64()).clamp(window, 1.5 * window);
        window + (target - window) / window * acked
    }
}

impl Controller for Cubic {
    fn on_ack(&mut self, sample: &AckSample, now: Instant) {
        if let Some(rtt) = sample.rtt {
            self.rtt = Some(self.rtt.map_or(rtt, |smoothed| (smoothed * 7 + rtt) / 8));
        }
        if let Some(rate) = sample.rate {
            let raises = self.delivered.max().is_none_or(|max| rate.bytes_per_s > max);
            if raises || !rate.app_limited {
                self.delivered.update(rate.bytes_per_s);
            }
            if rate.round_ended && !rate.app_limited {
                self.delivered.advance();
            }
        }
        self.round.peak = self.round.peak.max(sample.inflight + sample.acked_bytes);
        let acked = sample.acked_bytes as f64 / self.datagram_size as f64;
        // When the newest of what is acknowledged was sent.
        let sent_at = sample.rtt.and_then(|rtt| now.checked_sub(rtt));
        if let Some(rtt) = sample.rtt.filter(|_| self.in_slow_start()) {
            self.hystart.on_ack(rtt, sample.acked_bytes / self.datagram_size);
        }
        if sent_at.is_some_and(|at| self.is_recovering(at)) || !self.is_limiting() {
            self.leave_out(now);
        } else {
            self.grow(acked, now);
        }
        if sent_at.is_some_and(|at| self.round.began.is_none_or(|began| at >= began)) {
            self.on_round_end(now);
        }
        self.last_ack_at = Some(now);
    }

    fn on_loss(&mut self, _lost_bytes: u64, _inflight: u64, now: Instant) {
        self.reduce(now);
    }

    fn on_marks(&mut self, now: Instant) {
        self.reduce(now);
    }

    fn window(&self) -> u64 {
        self.window_bytes()
    }

    fn pacing_rate(&self) -> u64 {
        let share = if self.in_slow_start() { 200 } else { 125 };
        let rate = percent(rate_over(self.window_bytes(), self.smoothed_rtt()), share);
        rate.max(self.datagram_size)
    }

    fn bandwidth(&self) -> Option<u64> {
        self.delivered.max()
    }

    fn adopt(&mut self, rate: u64, round_trip: Duration, now: Instant) {
        self.on_restart(now);
        self.window =
            (bytes_in(rate, round_trip) as f64 / self.datagram_size as f64).clamp(LEAST_WINDOW, MAX_WINDOW);
        (self.threshold, self.plateau, self.rtt) = (self.window, self.window, Some(round_trip));
        self.delivered.update(rate);
    }

    fn on_restart(&mut self, _now: Instant) {
        let size = u16::try_from(self.datagram_size).unwrap_or(u16::MAX);
        *self = Self::new(size);
    }
}

/// What is left of the window after a loss or a mark (`β_cubic`, RFC 9438 §4.6).
const BETA: f64 = 0.7;

/// The steepness of the curve, datagrams per second cubed (§5.1).
const C: f64 = 0.4;

/// What Reno would have to add each round trip to be as fast with [`BETA`] (`α_cubic`, §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Ten datagrams (RFC 9002 §7.2).
const INITIAL_WINDOW: f64 = 10.0;

/// Two datagrams (RFC 9438 §4.6).
const LEAST_WINDOW: f64 = 2.0;

/// With twice the window per round trip, the first flight spreads over 20 ms, as the model's does.
const INITIAL_RTT: Duration = Duration::from_millis(40);

/// Acknowledgements wait so long for each other.
const ACK_WAIT: Duration = Duration::from_millis(5);

/// A window is used if no full-size datagram and few of a batch's end would still fit.
const USED_SLACK: f64 = 3.0;

/// Far beyond what any path holds: 10 Gb/s for a second. Windows count in floating point, and must not run away.
const MAX_WINDOW: f64 = 1.25e9;

#[cfg(test)]
mod tests;
