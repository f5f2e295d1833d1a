//! What acknowledgements, and their absence, teach a path.

use std::time::{Duration, Instant};

use psmc_wire::PacketNumber;
use psmc_wire::frame::{AckFrame, AckHeader};

use super::Path;
use super::losses::Losses;
use super::marking::EcnCounts;
use super::received::MAX_ACK_DELAY;
use super::sent::{NeverSent, SentDatagram, Settled, UNKNOWN_QUEUE};
use crate::clock::SessionClock;
use crate::congestion::{AckSample, rate_over};

/// A large datagram that takes longer by this much is on a slow path: one of 1 Mb/s or less. Less may be jitter.
const CLEARLY_LONGER: Duration = Duration::from_millis(12);

impl Path {
    /// The peer acknowledges datagrams of this path. What that settles is left in `acked` and `lost`.
    ///
    /// # Errors
    /// [`NeverSent`] if it can't be true; nothing in it is believed then.
    pub(crate) fn on_ack(
        &mut self,
        ack: &AckFrame<'_>,
        acked: &mut Settled,
        lost: &mut Settled,
        clock: &SessionClock,
        now: Instant,
    ) -> Result<(), NeverSent> {
        let next = self.sent.next_number();
        let ranges = ack.ranges(next);
        let largest_sent_at = self.sent.acknowledge(ranges.clone(), acked)?;
        self.counters.silences += u64::from(self.sent.confirms_doubt(ranges.clone()));
        let delay = Duration::from_micros(u64::from(ack.header.delay_us)).min(2 * MAX_ACK_DELAY);
        if let Some((size, sent_at)) = self.mtu.on_ack(&ranges, now) {
            self.note_alive(now);
            self.heed_large_probe(size, now.saturating_duration_since(sent_at).saturating_sub(delay));
        }
        if acked.datagrams.is_empty() {
            return Ok(());
        }
        self.note_alive(now);
        self.counters.acked_packets += acked.datagrams.len() as u64;
        self.losses.note(0, acked.datagrams.len(), now);
        self.slots.settle(now);
        for datagram in &acked.datagrams {
            self.slots.on_arrived(datagram.sent_at);
            self.mtu.on_arrived(datagram.bytes, datagram.sent_at);
            self.offload.on_arrived(datagram.batch, datagram.sent_at);
        }
        let mut queued = None;
        if let Some(sent_at) = largest_sent_at {
            let sample = now.saturating_duration_since(sent_at);
            self.rtt.update(sample, delay, now);
            let queueing = self.forward.update(clock.timestamp(sent_at), ack.header.received_at_us, now);
            queued = Some((sent_at, queueing));
        }
        self.detect_lost(lost, now);
        if let Some((_, queueing)) = queued {
            self.reckon_queue(acked, queueing, now);
        }
        self.heed_marks(ack.largest(next), &ack.header, acked, now);
        self.feed_controller(acked, queued, now);
        Ok(())
    }

    /// Something of what the path has sent has arrived.
    fn note_alive(&mut self, now: Instant) {
        self.answered_at = now;
        if !self.sent.is_in_doubt() {
            self.liveness.on_acknowledged();
        }
    }

    /// The newest datagram that has arrived stood in queues for so long.
    fn reckon_queue(&mut self, acked: &Settled, queueing: Duration, now: Instant) {
        if self.governor.is_coupled() {
            self.bottleneck.on_coupled(queueing, now);
            return;
        }
        let Some(newest) = acked.datagrams.last() else { return };
        let known = self.forwarding_rate();
        let rate = if newest.queue_us == UNKNOWN_QUEUE {
            // No more stood before it than was in flight.
            let arrived: u64 = acked.datagrams.iter().map(|datagram| u64::from(datagram.bytes)).sum();
            known.min(rate_over(self.rates.delivered_since(&newest.snapshot) + arrived, queueing))
        } else {
            known
        };
        let expected = Duration::from_micros(newest.queue_us.into());
        let following = (self.sent.inflight_bytes(), rate);
        self.bottleneck.on_arrived((newest.sent_at, expected), queueing, following, now);
    }

    /// What an acknowledgement up to `largest` says of ECN marks (RFC 9000 §13.4.2.1).
    fn heed_marks(&mut self, largest: PacketNumber, header: &AckHeader, acked: &Settled, now: Instant) {
        let ect = acked.datagrams.iter().filter(|datagram| datagram.is_ect).count();
        let counts = EcnCounts { ect0: header.ect0, marked: header.congestion_experienced };
        if self.marking.on_ack(largest, ect, counts) {
            self.feedback.marked = true;
            self.governor.on_marks(now);
        }
    }

    /// A probe of `size` bytes took so long. By how much that is longer than a small datagram takes, the path is slow.
    fn heed_large_probe(&mut self, size: u16, took: Duration) {
        let longer = self.rtt.min().map_or(Duration::ZERO, |least| took.saturating_sub(least));
        if longer > CLEARLY_LONGER {
            self.governor.on_hint(rate_over(size.into(), longer));
        }
    }

    /// Tells the controller what an acknowledgement has taught: `queued` is when its largest datagram was sent,
    /// and how long it stood in queues. For the controller, acknowledgements come as they would if they were
    /// never late and met no queue.
    fn feed_controller(&mut self, acked: &Settled, queued: Option<(Instant, Duration)>, now: Instant) {
        let shortest = self.rtt.min().unwrap_or_default();
        let round_trip = queued.map(|(_, queueing)| shortest + queueing);
        let arrived = queued.map_or(now, |(sent_at, queueing)| (sent_at + shortest + queueing).min(now));
        let mut acked_bytes = 0;
        for datagram in &acked.datagrams {
            acked_bytes += u64::from(datagram.bytes);
            self.rates.on_acked(&datagram.snapshot, datagram.sent_at, u64::from(datagram.bytes), arrived);
        }
        let sample = AckSample {
            acked_bytes,
            rate: self.rates.take_sample(self.rtt.min()),
            rtt: round_trip,
            min_rtt: self.rtt.min(),
            smoothed_rtt: self.rtt.smoothed(),
            jitter: self.jitter(),
            inflight: self.sent.inflight_bytes(),
        };
        self.governor.on_ack(&sample, now);
        let left = queued.map(|(sent_at, queueing)| sent_at + shortest / 2 + queueing);
        let delay = left.map(|left| (self.forward.latest_delay(), left));
        (self.feedback.sample, self.feedback.delay) = (sample, delay);
    }

    /// Finds the datagrams that are lost by now.
    pub(crate) fn detect_lost(&mut self, lost: &mut Settled, now: Instant) {
        let before = lost.datagrams.len();
        self.sent.detect_lost(self.loss_rtt(), now, lost);
        let bytes: u64 = lost.datagrams[before..].iter().map(|datagram| u64::from(datagram.bytes)).sum();
        if bytes > 0 {
            let count = lost.datagrams.len() - before;
            self.counters.lost_packets += count as u64;
            self.feedback.lost += bytes;
            self.governor.on_loss(bytes, self.sent.inflight_bytes(), now);
            // By now the controller knows whether these are what ends its startup.
            let is_provoked = |datagram: &&SentDatagram| self.governor.was_finding_rate(datagram.sent_at);
            let provoked = lost.datagrams[before..].iter().filter(is_provoked).count();
            self.losses.note_provoked(provoked);
            self.losses.note(count - provoked, count - provoked, now);
        }
        let mut batches_vanish = false;
        for datagram in &lost.datagrams[before..] {
            batches_vanish |= self.offload.on_lost(datagram.batch, datagram.sent_at, now);
            self.slots.on_lost(datagram.sent_at);
            self.mtu.on_lost(datagram.bytes, datagram.sent_at);
            if datagram.is_ect {
                self.marking.on_lost(datagram.sent_at);
            }
        }
        self.mtu.judge(now);
        if batches_vanish {
            self.acquit(now);
        }
    }

    /// What was lost was lost because it left in batches: that says nothing of the path.
    fn acquit(&mut self, now: Instant) {
        self.governor.on_restart(now);
        self.rates.on_restart(now);
        self.losses = Losses::default();
    }

    /// The round trip by which losses are judged (RFC 9002 §6.1.2).
    pub(super) fn loss_rtt(&self) -> Duration {
        self.smoothed_rtt().max(self.rtt.latest().unwrap_or_default())
    }
}
