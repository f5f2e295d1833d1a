//! Delivery-rate samples and rounds, after draft-cheng-iccrg-delivery-rate-estimation.

use std::time::{Duration, Instant};

use super::rate_over;

/// Measures how fast a path delivers.
///
/// Each packet carries away a [`Snapshot`] of what had been delivered when it was sent; when it is
/// acknowledged, the bytes delivered since, over the time that took, are the rate. Per acknowledgement
/// frame call [`on_acked`](Self::on_acked) for each newly acknowledged packet, then
/// [`take_sample`](Self::take_sample) once. Call [`set_app_limited`](Self::set_app_limited) whenever window
/// and pacing would have let a packet go and there was none. Packets declared lost need no call.
#[derive(Debug)]
pub(crate) struct RateSampler {
    /// Times are kept as nanoseconds since this instant: half the size of an `Instant` in each snapshot.
    origin: Instant,
    current: Checkpoint,
    recent: Checkpoint,
    /// What snapshots hold: a checkpoint old enough that a sample spans [`ROUND_FLOOR`].
    lagging: Checkpoint,
    /// Samples that begin before this many delivered bytes saw the sender idle (the draft's `C.app_limited`).
    app_limited_until: u64,
    /// Delivered bytes when the sender last began after a pause: a checkpoint from then is no arrival.
    restarted: u64,
    /// Delivered bytes at the beginning of the present round.
    round_start: u64,
    /// Snapshot of the packet sent last among those acknowledged since the last sample.
    newest: Option<Snapshot>,
}

/// What a sent packet remembers of the sampler, to be handed back when it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    start: Checkpoint,
    app_limited: bool,
}

/// One measurement of the rate at which a path delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateSample {
    /// Bytes per second.
    pub(crate) bytes_per_s: u64,
    /// The sender had nothing to send during part of the measurement: the path can do at least this.
    pub(crate) app_limited: bool,
    /// The datagrams arrived over a notably longer time than they were sent in: the path was the limit, not the
    /// sender.
    pub(crate) stretched: bool,
    /// This sample closes a round: a packet sent after the last round's end was acknowledged.
    pub(crate) round_ended: bool,
}

/// A point on the delivery curve; times in nanoseconds since the sampler's origin.
#[derive(Clone, Copy, Debug, Default)]
struct Checkpoint {
    /// Bytes delivered so far (`C.delivered`).
    delivered: u64,
    /// When the last of them was acknowledged (`C.delivered_time`).
    at: u64,
    /// When the packet sent last among them was sent (`C.first_sent_time`).
    newest_sent: u64,
}

impl RateSampler {
    /// A sampler that has seen nothing.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            origin: now,
            current: Checkpoint::default(),
            recent: Checkpoint::default(),
            lagging: Checkpoint::default(),
            app_limited_until: 0,
            restarted: 0,
            round_start: 0,
            newest: None,
        }
    }

    /// A packet is sent now, `inflight` bytes being in flight before it.
    pub(crate) fn on_sent(&mut self, now: Instant, inflight: u64) -> Snapshot {
        if inflight == 0 && self.current.delivered <= self.app_limited_until {
            self.restart(self.nanos(now));
        }
        Snapshot { start: self.lagging, app_limited: self.lagging.delivered < self.app_limited_until }
    }

    /// A packet of `bytes`, sent at `sent_at`, was acknowledged for the first time.
    pub(crate) fn on_acked(&mut self, snapshot: &Snapshot, sent_at: Instant, bytes: u64, now: Instant) {
        self.current.delivered += bytes;
        self.current.at = self.nanos(now).max(self.current.at);
        let sent = self.nanos(sent_at);
        if sent >= self.current.newest_sent {
            self.current.newest_sent = sent;
            self.newest = Some(*snapshot);
        }
    }

    /// Bytes that were delivered since a packet was sent, or up to [`ROUND_FLOOR`] longer.
    pub(crate) fn delivered_since(&self, snapshot: &Snapshot) -> u64 {
        self.current.delivered - snapshot.start.delivered
    }

    /// The sample of one acknowledgement frame, or `None` if it taught nothing.
    ///
    /// The interval is the longer of that of sending and that of acknowledging: a burst of acknowledgements
    /// cannot make the path look faster than the packets were sent. One below `min_rtt` is discarded, and one
    /// below [`ROUND_FLOOR`]: a burst after a pause passes a token bucket at many times the rate of the link.
    pub(crate) fn take_sample(&mut self, min_rtt: Option<Duration>) -> Option<RateSample> {
        let newest = self.newest.take()?;
        self.advance_checkpoints(min_rtt);
        let (start, end) = (newest.start, self.current);
        let (arriving, sending) = (end.at.saturating_sub(start.at), end.newest_sent - start.newest_sent);
        let span = Duration::from_nanos(arriving.max(sending - sending / COMPRESSION));
        if span < min_rtt.unwrap_or_default().max(ROUND_FLOOR) {
            return None;
        }
        let round_ended = start.delivered >= self.round_start;
        if round_ended {
            self.round_start = end.delivered;
        }
        let bytes_per_s = rate_over(end.delivered - start.delivered, span);
        let stretched = start.delivered > self.restarted && arriving > sending + sending / STRETCH;
        Some(RateSample { bytes_per_s, app_limited: newest.app_limited, stretched, round_ended })
    }

    /// There was nothing to send although `inflight` bytes in flight left room for more.
    pub(crate) fn set_app_limited(&mut self, inflight: u64) {
        self.app_limited_until = self.current.delivered + inflight;
    }

    /// The path came back from the dead: the time in which it was that is no time in which it was slow.
    pub(crate) fn on_restart(&mut self, now: Instant) {
        self.restart(self.nanos(now));
    }

    /// The first packet after an idle time: what was measured before it must not count as waiting.
    /// The first flight is marked too, since its interval holds a round trip without deliveries.
    fn restart(&mut self, now: u64) {
        self.current.at = now;
        self.current.newest_sent = now;
        self.recent = self.current;
        self.lagging = self.current;
        self.app_limited_until = self.current.delivered + 1;
        self.restarted = self.current.delivered;
    }

    fn advance_checkpoints(&mut self, min_rtt: Option<Duration>) {
        let lag = ROUND_FLOOR.saturating_sub(min_rtt.unwrap_or_default());
        if u128::from(self.current.at.saturating_sub(self.recent.at)) >= lag.as_nanos() {
            self.lagging = self.recent;
            self.recent = self.current;
        }
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The shortest time that a round and a sample span, because acknowledgements come up to 5 ms late and
/// hosts wake up some milliseconds late: over a round trip of 0.2 ms one would measure nothing but that.
pub(super) const ROUND_FLOOR: Duration = Duration::from_millis(20);

/// What arrives in a shorter time than it was sent in had been held up before. Delays that vary do so in both
/// directions, and must not make all samples too small.
const COMPRESSION: u64 = 8;

/// A quarter longer than it was sent is more than acknowledgements are late.
const STRETCH: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 1000;
    const RTT: Duration = Duration::from_millis(50);

    /// Sends `count` packets `gap` apart, then acknowledges each one round trip later, in frames of `batch`.
    fn run(
        sampler: &mut RateSampler,
        start: Instant,
        count: u32,
        gap: Duration,
        batch: u32,
    ) -> Vec<RateSample> {
        let step = |n: u32| start + gap * n;
        let mut sent: Vec<(Snapshot, Instant)> = Vec::new();
        let mut samples = Vec::new();
        let flight = u32::try_from(RTT.as_nanos() / gap.as_nanos()).unwrap();
        for n in 0..count + flight {
            if n < count {
                let inflight = PACKET * u64::from(n.min(flight));
                sent.push((sampler.on_sent(step(n), inflight), step(n)));
            }
            if n >= flight && (n - flight + 1).is_multiple_of(batch) {
                for i in (n - flight + 1 - batch)..=(n - flight) {
                    let (snapshot, at) = sent[i as usize];
                    sampler.on_acked(&snapshot, at, PACKET, step(n));
                }
                samples.extend(sampler.take_sample(Some(RTT)));
            }
        }
        samples
    }

    #[test]
    fn measures_the_rate_at_which_packets_flow() {
        let now = Instant::now();
        for batch in [1, 16, 50] {
            let mut sampler = RateSampler::new(now);
            let samples = run(&mut sampler, now, 1000, Duration::from_millis(1), batch);
            let last = samples.last().unwrap();
            assert!((950_000..=1_050_000).contains(&last.bytes_per_s), "batch {batch}: {last:?}");
            assert!(!last.app_limited);
        }
    }

    #[test]
    fn never_reports_more_than_was_sent() {
        let now = Instant::now();
        let mut sampler = RateSampler::new(now);
        let mut snapshots = Vec::new();
        for n in 0..200u32 {
            let at = now + Duration::from_millis(1) * n;
            snapshots.push((sampler.on_sent(at, u64::from(n) * PACKET), at));
        }
        // All acknowledgements arrive at once: the send interval, not the ack interval, must count.
        let late = now + Duration::from_millis(201);
        for chunk in snapshots.chunks(10) {
            for (snapshot, at) in chunk {
                sampler.on_acked(snapshot, *at, PACKET, late);
            }
            let sample = sampler.take_sample(Some(Duration::from_millis(1)));
            assert!(sample.is_none_or(|s| s.bytes_per_s <= 1_050_000), "{sample:?}");
        }
    }

    #[test]
    fn rounds_last_a_round_trip() {
        let now = Instant::now();
        let mut sampler = RateSampler::new(now);
        let samples = run(&mut sampler, now, 1000, Duration::from_millis(1), 1);
        let rounds = samples.iter().filter(|s| s.round_ended).count();
        assert!((17..=21).contains(&rounds), "{rounds}");
    }

    #[test]
    fn an_idle_sender_marks_its_samples() {
        let now = Instant::now();
        let mut sampler = RateSampler::new(now);
        run(&mut sampler, now, 200, Duration::from_millis(1), 1);
        sampler.set_app_limited(0);
        let later = now + Duration::from_secs(5);
        let samples = run(&mut sampler, later, 300, Duration::from_millis(1), 1);
        assert!(samples.first().unwrap().app_limited);
        let last = samples.last().unwrap();
        assert!(!last.app_limited && last.bytes_per_s > 900_000, "{last:?}");
    }

    #[test]
    fn snapshots_stay_small() {
        assert!(size_of::<Snapshot>() <= 40);
    }
}
