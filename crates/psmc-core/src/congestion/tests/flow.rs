//! A sender as the path is one: window, pacer, sampler, loss detection by packet threshold.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::congestion::rate::{RateSampler, Snapshot};
use crate::congestion::{AckSample, Controller};
use crate::path::pacer::Pacer;
use crate::path::rtt::RttEstimator;

/// Bytes of each packet.
pub(super) const SIZE: u64 = 1400;

/// One sender and what its receiver has not acknowledged yet.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) controller: Box<dyn Controller>,
    pub(super) begins: Instant,
    /// Packets that arrived and await their acknowledgement.
    pub(super) received: Vec<u64>,
    pub(super) last_ack: Instant,
    /// When the last packet arrived.
    pub(super) arrived: Instant,
    /// Bytes acknowledged in all.
    pub(super) acked: u64,
    /// Largest rate at which the host can send, bytes per second.
    pub(super) processor: u64,
    /// Bytes that the application has to send; none: endless.
    pub(super) backlog: Option<u64>,
    processor_free: Instant,
    sampler: RateSampler,
    rtt: RttEstimator,
    pacer: Pacer,
    outstanding: VecDeque<Sent>,
    first: u64,
    inflight: u64,
    timer: Option<Instant>,
}

#[derive(Debug)]
struct Sent {
    at: Instant,
    snapshot: Snapshot,
    settled: bool,
}

impl Flow {
    pub(super) fn new(controller: Box<dyn Controller>, begins: Instant) -> Self {
        Self {
            controller,
            begins,
            received: Vec::new(),
            last_ack: begins,
            arrived: begins,
            acked: 0,
            processor: u64::MAX,
            backlog: None,
            processor_free: begins,
            sampler: RateSampler::new(begins),
            rtt: RttEstimator::default(),
            pacer: Pacer::new(1400, begins),
            outstanding: VecDeque::new(),
            first: 0,
            inflight: 0,
            timer: None,
        }
    }

    /// The number of the packet that goes now, if one may.
    pub(super) fn poll(&mut self, now: Instant) -> Option<u64> {
        if self.inflight + SIZE > self.controller.window() || self.is_busy(now) {
            return None;
        }
        if self.backlog.is_some_and(|bytes| bytes < SIZE) {
            self.sampler.set_app_limited(self.inflight);
            return None;
        }
        let rate = self.controller.pacing_rate();
        self.pacer.admits(SIZE, now, rate).then(|| self.send(rate, now))
    }

    /// Whether the processor has not caught up; it works on a batch of up to 0.2 ms at once.
    pub(super) fn is_busy(&self, now: Instant) -> bool {
        self.processor_free > now + Duration::from_micros(200)
    }

    fn send(&mut self, rate: u64, now: Instant) -> u64 {
        self.backlog = self.backlog.map(|bytes| bytes - SIZE);
        self.processor_free =
            self.processor_free.max(now) + Duration::from_secs_f64(SIZE as f64 / self.processor as f64);
        let snapshot = self.sampler.on_sent(now, self.inflight);
        self.pacer.on_sent(SIZE, rate, now);
        self.outstanding.push_back(Sent { at: now, snapshot, settled: false });
        self.inflight += SIZE;
        self.first + self.outstanding.len() as u64 - 1
    }

    /// When to poll again, if that is news. Batches of up to 1 ms are asked for, as for segmentation offload.
    pub(super) fn poll_timer(&mut self, now: Instant) -> Option<Instant> {
        let idle = self.backlog.is_some_and(|bytes| bytes < SIZE);
        if idle || self.inflight + SIZE > self.controller.window() {
            return None;
        }
        let rate = self.controller.pacing_rate();
        let batch = (rate / 1000).clamp(SIZE, 40 * SIZE);
        let paced = || self.pacer.ready_at(now, batch, rate);
        let at = if self.is_busy(now) { self.processor_free } else { paced() };
        if self.timer.is_some_and(|timer| timer > now && timer <= at) {
            return None;
        }
        self.timer = Some(at);
        Some(at)
    }

    /// `arrived` is when the last of them would have been acknowledged if acknowledgements took no time of their own.
    pub(super) fn on_ack(&mut self, numbers: &[u64], arrived: Instant, now: Instant) {
        let Some(&largest) = numbers.last() else { return };
        let mut acked_bytes = 0;
        let mut rtt = None;
        for number in numbers {
            let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
            let Some(sent) = index.and_then(|index| self.outstanding.get_mut(index)) else {
                continue;
            };
            if !std::mem::replace(&mut sent.settled, true) {
                self.sampler.on_acked(&sent.snapshot, sent.at, SIZE, arrived);
                acked_bytes += SIZE;
                rtt = Some((now - sent.at, arrived - sent.at));
            }
        }
        if let Some((round_trip, _)) = rtt {
            self.rtt.update(round_trip, Duration::ZERO, now);
        }
        self.inflight -= acked_bytes;
        self.acked += acked_bytes;
        self.detect_losses(largest.saturating_sub(2), now);
        let rate = self.sampler.take_sample(self.rtt.min());
        let min_rtt = self.rtt.min();
        let (smoothed_rtt, jitter) = (self.rtt.smoothed(), Duration::ZERO);
        let rtt = rtt.map(|(_, forward)| forward);
        let inflight = self.inflight;
        let sample = AckSample { acked_bytes, rate, rtt, min_rtt, smoothed_rtt, jitter, inflight };
        self.controller.on_ack(&sample, now);
    }

    /// Nothing heard for long: all is lost.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        let patience = self.rtt.smoothed().unwrap_or(Duration::from_millis(333)) * 3;
        let newest = self.outstanding.back().map(|sent| sent.at);
        if newest.is_some_and(|at| now - at > patience) {
            self.detect_losses(u64::MAX, now);
        }
    }

    fn detect_losses(&mut self, below: u64, now: Instant) {
        let mut lost = 0;
        while self.first < below {
            let Some(sent) = self.outstanding.pop_front() else {
                break;
            };
            self.first += 1;
            lost += if sent.settled { 0 } else { SIZE };
        }
        self.inflight -= lost;
        if lost > 0 {
            self.controller.on_loss(lost, self.inflight, now);
        }
    }
}
