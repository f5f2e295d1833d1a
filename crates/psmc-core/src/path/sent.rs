//! The send side of a path: which datagrams are out, which have arrived, which are lost.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use psmc_wire::PacketNumber;
use psmc_wire::frame::{AckRanges, PathUseFrame};

use crate::congestion::rate::Snapshot;
use crate::egress::Queued;

/// A datagram is lost when one sent this many numbers later has arrived (RFC 9002 §6.1.1).
const PACKET_THRESHOLD: u64 = 3;

/// A datagram is lost when a later one has arrived and this share of a round trip has passed since its sending,
/// as a fraction (RFC 9002 §6.1.2).
const TIME_THRESHOLD: (u32, u32) = (9, 8);

/// The finest grain of timers that loss detection relies on (RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);

/// The most datagrams of a path that wait for their acknowledgement; a sender that reaches it stops.
///
/// At 10 Gb/s and 1500 bytes that is a round trip of 40 ms; it bounds the buffers a dead peer can pin.
pub(crate) const MAX_OUTSTANDING: usize = 32 * 1024;

/// A datagram that is not waited for may be on its way if at most so many were sent after it: acknowledgements, of which one
/// side of a path may send nothing else.
const MAYBE_OUT: u64 = 64;

/// How many emptied packet lists are kept for the next datagrams.
const SPARE_LISTS: usize = 8 * 1024;

/// How long a datagram would stand before the bottleneck was not known when it was sent, for nobody knew how fast that is. It is longer than
/// any queue, so that nothing is late beyond it.
pub(crate) const UNKNOWN_QUEUE: u32 = u32::MAX;

/// A datagram on its way.
#[derive(Debug)]
pub(crate) struct SentDatagram {
    pub(crate) sent_at: Instant,
    /// UDP payload.
    pub(crate) bytes: u16,
    /// Whether an acknowledgement is expected.
    pub(crate) ack_eliciting: bool,
    /// Whether it left as ECT(0).
    pub(crate) is_ect: bool,
    /// The bytes of the batch in which the kernel has got it, 0 if it left alone.
    pub(crate) batch: u16,
    /// How long it was expected to stand before the bottleneck, in microseconds, or [`UNKNOWN_QUEUE`].
    pub(crate) queue_us: u32,
    pub(crate) snapshot: Snapshot,
    /// The inner packets inside, kept until they are known to have arrived.
    pub(crate) packets: Vec<Queued>,
    /// A wish about a path that travelled along.
    pub(crate) path_use: Option<PathUseFrame>,
}

/// An acknowledgement of a datagram that was never sent. Ranges descend, so that the first one tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeverSent;

/// What an acknowledgement or a timer has settled.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// Datagrams that have newly been acknowledged or lost, oldest first.
    pub(crate) datagrams: Vec<SentDatagram>,
}

/// All datagrams of a path that are neither acknowledged nor lost.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// By number, from `first` on without gaps; settled ones leave a hole.
    log: VecDeque<Option<SentDatagram>>,
    first: PacketNumber,
    largest_acked: Option<PacketNumber>,
    inflight_bytes: u64,
    outstanding: usize,
    /// The datagram for which the path became suspect, until an acknowledgement says what became of it.
    doubted: Option<PacketNumber>,
    spare: Vec<Vec<Queued>>,
}

impl Sent {
    /// The number of the next datagram.
    pub(crate) fn next_number(&self) -> PacketNumber {
        PacketNumber(self.first.0 + self.log.len() as u64)
    }

    /// An empty list for the packets of the next datagram.
    pub(crate) fn packet_list(&mut self) -> Vec<Queued> {
        // Most datagrams carry one packet.
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(1))
    }

    /// Gives back a list whose packets have been taken out.
    pub(crate) fn recycle(&mut self, list: Vec<Queued>) {
        if list.is_empty() && list.capacity() > 0 && self.spare.len() < SPARE_LISTS {
            self.spare.push(list);
        }
    }

    /// The datagram with [`next_number`](Self::next_number) has been sent.
    pub(crate) fn push(&mut self, datagram: SentDatagram) {
        // Datagrams that nobody will acknowledge are not waited for, but they have their numbers.
        if datagram.ack_eliciting {
            self.inflight_bytes += u64::from(datagram.bytes);
            self.outstanding += 1;
            self.log.push_back(Some(datagram));
        } else {
            self.recycle(datagram.packets);
            self.log.push_back(None);
            self.trim();
        }
    }

    /// The last `count` datagrams have left as one packet, a batch of so many bytes.
    pub(crate) fn note_batch(&mut self, count: usize, bytes: u16) {
        for datagram in self.log.iter_mut().rev().take(count).flatten() {
            datagram.batch = bytes;
        }
    }

    /// Takes out the datagrams that `ranges` acknowledges. Returns the time at which the largest of them was
    /// sent, if that one is among the new ones: the only round trip that an acknowledgement measures.
    ///
    /// # Errors
    /// [`NeverSent`] if a datagram is acknowledged that was never sent; none is settled then.
    pub(crate) fn acknowledge(
        &mut self,
        ranges: AckRanges<'_>,
        settled: &mut Settled,
    ) -> Result<Option<Instant>, NeverSent> {
        let next = self.next_number();
        let mut largest_sent_at = None;
        for (index, range) in ranges.enumerate() {
            if range.last >= next {
                return Err(NeverSent);
            }
            if range.last < self.first {
                break;
            }
            let largest_was_open = index == 0 && self.slot(range.last).is_some_and(Option::is_some);
            for number in range.first.0.max(self.first.0)..=range.last.0 {
                self.settle(PacketNumber(number), settled);
            }
            if index == 0 {
                self.largest_acked = self.largest_acked.max(Some(range.last));
                largest_sent_at =
                    settled.datagrams.last().filter(|_| largest_was_open).map(|last| last.sent_at);
            }
        }
        self.trim();
        Ok(largest_sent_at)
    }

    /// Takes out the datagrams that are lost by now (RFC 9002 §6.1).
    pub(crate) fn detect_lost(&mut self, round_trip: Duration, now: Instant, lost: &mut Settled) {
        let Some(largest) = self.largest_acked else { return };
        let delay = loss_delay(round_trip);
        for number in self.first.0..largest.0 {
            let Some(Some(datagram)) = self.slot(PacketNumber(number)) else {
                continue;
            };
            let overtaken = largest.0 - number >= PACKET_THRESHOLD;
            if !overtaken && datagram.sent_at + delay > now {
                break;
            }
            self.settle(PacketNumber(number), lost);
        }
        self.trim();
    }

    /// When the oldest datagram that a later one has overtaken will be lost.
    pub(crate) fn loss_deadline(&self, round_trip: Duration) -> Option<Instant> {
        let oldest = self.log.front()?.as_ref()?;
        (Some(self.first) < self.largest_acked).then(|| oldest.sent_at + loss_delay(round_trip))
    }

    /// Takes out the inner packets of all that is unacknowledged, oldest first. The datagrams are still waited for: they count as in
    /// flight, and an acknowledgement says as much of the path as ever.
    pub(crate) fn take_packets(&mut self) -> impl DoubleEndedIterator<Item = Queued> + '_ {
        self.log.iter_mut().flatten().flat_map(|datagram| datagram.packets.drain(..))
    }

    /// Changes the inner packets of all that is unacknowledged.
    pub(crate) fn for_each_packet(&mut self, change: impl FnMut(&mut Queued)) {
        self.log.iter_mut().flatten().flat_map(|datagram| &mut datagram.packets).for_each(change);
    }

    /// How many inner packets are unacknowledged.
    pub(crate) fn packets(&self) -> usize {
        self.log.iter().flatten().map(|datagram| datagram.packets.len()).sum()
    }

    /// Waits for nothing that was sent so far any more.
    pub(crate) fn forget_all(&mut self) {
        self.first = self.next_number();
        for datagram in std::mem::take(&mut self.log).into_iter().flatten() {
            self.recycle(datagram.packets);
        }
        self.inflight_bytes = 0;
        self.outstanding = 0;
    }

    /// The path has become suspect: the oldest datagram should have been acknowledged by now.
    pub(crate) fn doubt(&mut self) {
        self.doubted = self.doubted.or(self.is_waiting().then_some(self.first));
    }

    /// The path has become suspect: the network says that the datagram whose number has these low bits was not delivered.
    pub(crate) fn doubt_number(&mut self, truncated: u32) {
        self.doubted = self.doubted.max(Some(PacketNumber::expand(truncated, self.next_number())));
    }

    /// Whether nobody knows yet what became of the datagram for which the path became suspect. What was sent before it says nothing of
    /// that.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubted.is_some()
    }

    /// Whether an acknowledgement, the first one that could know, says that the datagram that was [doubted](Self::doubt), and is not
    /// waited for any more, has not arrived.
    pub(crate) fn confirms_doubt(&mut self, mut ranges: AckRanges<'_>) -> bool {
        let largest = ranges.clone().next().map(|range| range.last);
        let Some(doubted) = self.doubted.take_if(|doubted| largest >= Some(*doubted)) else {
            return false;
        };
        let is_waited_for = self.slot(doubted).is_some_and(Option::is_some);
        !is_waited_for && !ranges.any(|range| range.first <= doubted && doubted <= range.last)
    }

    /// When the oldest datagram that expects an acknowledgement was sent.
    pub(crate) fn oldest_sent_at(&self) -> Option<Instant> {
        self.log.front()?.as_ref().map(|datagram| datagram.sent_at)
    }

    /// The size of the oldest datagram that expects an acknowledgement.
    pub(crate) fn oldest_bytes(&self) -> Option<u16> {
        self.log.front()?.as_ref().map(|datagram| datagram.bytes)
    }

    /// Bytes that are neither acknowledged nor lost.
    pub(crate) fn inflight_bytes(&self) -> u64 {
        self.inflight_bytes
    }

    /// Whether another datagram may be sent before some of those on their way are settled.
    pub(crate) fn has_room(&self) -> bool {
        self.log.len() < MAX_OUTSTANDING
    }

    /// Whether the datagram whose number has these low bits was sent, and may not have arrived.
    pub(crate) fn may_be_out(&self, truncated: u32) -> bool {
        let next = self.next_number();
        let number = PacketNumber::expand(truncated, next);
        let since = self.first.0.min(next.0.saturating_sub(MAYBE_OUT));
        number < next && number.0 >= since
    }

    /// Whether any acknowledgement is expected.
    pub(crate) fn is_waiting(&self) -> bool {
        self.outstanding > 0
    }

    fn slot(&self, number: PacketNumber) -> Option<&Option<SentDatagram>> {
        self.log.get(usize::try_from(number.0.checked_sub(self.first.0)?).ok()?)
    }

    fn settle(&mut self, number: PacketNumber, settled: &mut Settled) {
        let Ok(index) = usize::try_from(number.0 - self.first.0) else {
            return;
        };
        let Some(datagram) = self.log.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.doubted.take_if(|doubted| *doubted == number);
        self.inflight_bytes -= u64::from(datagram.bytes);
        self.outstanding -= 1;
        settled.datagrams.push(datagram);
    }

    /// Forgets the settled datagrams at the front.
    fn trim(&mut self) {
        while let Some(None) = self.log.front() {
            self.log.pop_front();
            self.first = self.first.next();
        }
    }
}

fn loss_delay(round_trip: Duration) -> Duration {
    (round_trip * TIME_THRESHOLD.0 / TIME_THRESHOLD.1).max(GRANULARITY)
}
