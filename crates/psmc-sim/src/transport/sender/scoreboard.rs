//! What was sent and is not acknowledged yet, and what has become of it.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::delivery::{Delivery, Stamp};

/// Segments that arrived behind a gap before the gap counts as a loss, while no reordering was seen (RFC 5681 §3.2).
const DUPLICATE_THRESHOLD: usize = 3;

/// The most by which a segment may be later than others: RFC 8985 allows the window to grow up to a round trip.
const MAX_PATIENCE: u32 = 16;

/// A segment on its way.
#[derive(Debug)]
struct Segment {
    start: u64,
    end: u64,
    /// As it was sent, to be sent again.
    packet: Vec<u8>,
    sent_at: Instant,
    stamp: Stamp,
    retransmitted: bool,
    fate: Fate,
}

/// What is known of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InFlight,
    /// The receiver has it, and something before it is missing.
    Sacked,
    /// To be sent again.
    Lost,
}

/// All unacknowledged segments, by selective acknowledgements (RFC 2018) and by time (RACK, RFC 8985).
///
/// Bytes are counted from the beginning of the stream.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    segments: VecDeque<Segment>,
    /// Every transmission, the oldest first; those that were followed by another one, or settled, are void.
    transmissions: VecDeque<(Instant, u64)>,
    lost: BTreeSet<u64>,
    /// What has arrived, and how fast.
    pub(super) delivery: Delivery,
    sacked: usize,
    in_flight: u64,
    /// Where the next new segment starts.
    next: u64,
    /// The last transmission of which the receiver has told, and the end of its segment.
    newest: Option<(Instant, u64)>,
    /// The end of what was acknowledged in any way.
    forward: u64,
    reordering_seen: bool,
    /// How many quarters of the smallest round trip a segment may be late, beyond the first.
    patience: u32,
}

/// What an acknowledgement has brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// Bytes of which nobody knew before that they have arrived.
    pub(super) bytes: u64,
    /// Whether the beginning of what is unacknowledged has moved.
    pub(super) advanced: bool,
    /// The round trip of the segment sent last, if it was sent once only.
    pub(super) rtt: Option<Duration>,
}

/// What time says about the segments in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overdue {
    /// Bytes of segments that were found lost.
    pub(super) bytes: u64,
    /// When to look again.
    pub(super) look_again: Option<Instant>,
}

impl Scoreboard {
    /// A new segment was sent.
    pub(super) fn on_sent(&mut self, len: u64, packet: Vec<u8>, now: Instant) {
        let (start, end) = (self.next, self.next + len);
        let stamp = self.delivery.stamp(self.segments.is_empty(), now);
        self.segments.push_back(Segment {
            start,
            end,
            packet,
            sent_at: now,
            stamp,
            retransmitted: false,
            fate: Fate::InFlight,
        });
        self.transmissions.push_back((now, start));
        self.in_flight += len;
        self.next = end;
    }

    /// Everything before `ack` has arrived, and so have the ranges. `min_rtt` tells the answer to a segment that was
    /// sent again from that to the first one.
    pub(super) fn on_ack(
        &mut self,
        ack: u64,
        ranges: &[(u64, u64)],
        min_rtt: Duration,
        now: Instant,
    ) -> Settled {
        let (mut settled, forward) = (Settled::default(), self.forward);
        while let Some(segment) = self.segments.pop_front_if(|segment| segment.end <= ack) {
            settled.advanced = true;
            match segment.fate {
                Fate::Sacked => self.sacked -= 1,
                Fate::InFlight | Fate::Lost => {
                    self.settle(&segment, forward, min_rtt, now, &mut settled);
                }
            }
        }
        for &(start, end) in ranges {
            self.sack(start, end, forward, min_rtt, now, &mut settled);
        }
        settled
    }

    fn sack(
        &mut self,
        start: u64,
        end: u64,
        forward: u64,
        min_rtt: Duration,
        now: Instant,
        settled: &mut Settled,
    ) {
        let first = self.segments.partition_point(|segment| segment.start < start);
        for index in first..self.segments.len() {
            let segment = &mut self.segments[index];
            if segment.end > end {
                return;
            }
            if segment.fate != Fate::Sacked {
                let packet = std::mem::take(&mut segment.packet);
                let seen = Segment { packet, ..*segment };
                segment.fate = Fate::Sacked;
                self.sacked += 1;
                self.settle(&seen, forward, min_rtt, now, settled);
            }
        }
    }

    /// Takes note of a segment that has just turned out to have arrived.
    fn settle(
        &mut self,
        segment: &Segment,
        forward: u64,
        min_rtt: Duration,
        now: Instant,
        settled: &mut Settled,
    ) {
        let len = segment.end - segment.start;
        settled.bytes += len;
        self.delivery.on_arrived(len, segment.stamp, segment.sent_at, now);
        match segment.fate {
            Fate::Lost => drop(self.lost.remove(&segment.start)),
            Fate::InFlight | Fate::Sacked => self.in_flight -= len,
        }
        self.forward = self.forward.max(segment.end);
        let rtt = now.saturating_duration_since(segment.sent_at);
        if segment.retransmitted {
            if rtt < min_rtt {
                return;
            }
        } else {
            self.reordering_seen |= segment.end < forward;
            settled.rtt = Some(settled.rtt.map_or(rtt, |other| other.min(rtt)));
        }
        self.newest = self.newest.max(Some((segment.sent_at, segment.end)));
    }

    /// Finds the segments that were sent before the newest one that has arrived, and had their time: a round trip,
    /// and some more if segments overtake each other here.
    pub(super) fn find_overdue(&mut self, rtt: Duration, min_rtt: Duration, now: Instant) -> Overdue {
        let mut overdue = Overdue { bytes: 0, look_again: None };
        let patience =
            if !self.reordering_seen && (self.sacked >= DUPLICATE_THRESHOLD || !self.lost.is_empty()) {
                Duration::ZERO
            } else {
                min_rtt / 4
            };
        while let Some(&(sent_at, start)) = self.transmissions.front() {
            let Some(segment) = find(&mut self.segments, start)
                .filter(|segment| segment.fate == Fate::InFlight && segment.sent_at == sent_at)
            else {
                self.transmissions.pop_front();
                continue;
            };
            if self.newest.is_none_or(|newest| (sent_at, segment.end) >= newest) {
                break;
            }
            let deadline = sent_at + rtt + patience;
            if now < deadline {
                overdue.look_again = Some(deadline);
                break;
            }
            segment.fate = Fate::Lost;
            let len = segment.end - segment.start;
            self.in_flight -= len;
            self.lost.insert(start);
            self.transmissions.pop_front();
            overdue.bytes += len;
        }
        overdue
    }

    /// Takes everything for lost of which the receiver has not told.
    pub(super) fn lose_all(&mut self) {
        for segment in self.segments.iter_mut().filter(|segment| segment.fate == Fate::InFlight) {
            segment.fate = Fate::Lost;
            self.lost.insert(segment.start);
        }
        self.in_flight = 0;
        self.transmissions.clear();
    }

    /// Nothing was lost after all: segments overtake each other more than was thought.
    pub(super) fn find_again(&mut self) {
        for start in std::mem::take(&mut self.lost) {
            if let Some(segment) = find(&mut self.segments, start) {
                segment.fate = Fate::InFlight;
                self.in_flight += segment.end - segment.start;
                // It is not judged by the time of a transmission that is forgotten, but by the timeout.
            }
        }
        self.reordering_seen = true;
        self.patience = (self.patience + 1).min(MAX_PATIENCE);
    }

    /// Sends the first lost segment again.
    pub(super) fn retransmit_lost(&mut self, now: Instant) -> Option<Vec<u8>> {
        let start = self.lost.pop_first()?;
        let segment = find(&mut self.segments, start)?;
        segment.fate = Fate::InFlight;
        self.in_flight += segment.end - segment.start;
        Some(self.transmit_again(start, now)?.clone())
    }

    /// Sends the last segment again, to have the receiver tell what it has.
    pub(super) fn probe(&mut self, now: Instant) -> Option<Vec<u8>> {
        let last = self.segments.back().filter(|segment| segment.fate == Fate::InFlight)?.start;
        Some(self.transmit_again(last, now)?.clone())
    }

    fn transmit_again(&mut self, start: u64, now: Instant) -> Option<&Vec<u8>> {
        let stamp = self.delivery.stamp(false, now);
        let segment = find(&mut self.segments, start)?;
        segment.retransmitted = true;
        (segment.sent_at, segment.stamp) = (now, stamp);
        self.transmissions.push_back((now, start));
        Some(&segment.packet)
    }

    /// Bytes on their way, as far as one can know.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Where the next new segment starts.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether everything is acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether something that was sent again is not acknowledged yet.
    pub(super) fn has_repairs(&self) -> bool {
        self.segments.iter().any(|segment| segment.retransmitted)
    }

    /// Whether a segment waits to be sent again.
    pub(super) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }
}

fn find(segments: &mut VecDeque<Segment>, start: u64) -> Option<&mut Segment> {
    let index = segments.binary_search_by_key(&start, |segment| segment.start).ok()?;
    segments.get_mut(index)
}
