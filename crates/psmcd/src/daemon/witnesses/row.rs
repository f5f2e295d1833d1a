//! The witnesses of one path, in both directions: this site, the relays, the peer.

use std::time::{Duration, Instant};

use psmc_api::{Passage, PathSegments, SegmentBlock, WayStatus, Witness, WitnessCount};
use psmc_wire::counts::{Arrived, Counts, LaneCounts, PathCounts};
use psmc_wire::relay::SessionId;

use super::way::{Block, Count, Reading, Way};
use crate::daemon::relays::RelayCounts;

/// How the clock of a peer's session stands to that of this site's.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerClock {
    /// What is to be added to this one, in microseconds; off by half the round trip at most.
    offset_us: i64,
    round_trip: Duration,
    at: Instant,
}

/// The best that is known of clocks is forgotten after this time, in which they drift by a few milliseconds at the most.
const CLOCK_LIFETIME: Duration = Duration::from_secs(10);

impl PeerClock {
    /// What an answer says of it that was asked for at one time of this site's clock and came at another.
    pub(super) fn of(clock_us: u64, asked_us: i64, (asked, came): (Instant, Instant)) -> Self {
        let round_trip = came.saturating_duration_since(asked);
        Self { offset_us: clock_us.cast_signed() - asked_us - half(round_trip), round_trip, at: came }
    }

    /// Which of the two tells more.
    pub(super) fn better(self, before: Option<Self>) -> Self {
        let still = before
            .filter(|before| self.at < before.at + CLOCK_LIFETIME && before.round_trip < self.round_trip);
        still.unwrap_or(self)
    }
}

/// The witnesses of one path.
#[derive(Debug)]
pub(super) struct Row {
    /// The path's name here.
    pub(super) name: String,
    /// Its relays, the nearest first, with the sessions there by which they were counted last.
    relays: Vec<(String, Option<SessionId>)>,
    /// The path's own shortest round trip.
    pub(super) round_trip: Duration,
    to_peer: Way,
    from_peer: Way,
}

impl Row {
    /// A path through these relays.
    pub(super) fn new(name: String, relays: Vec<String>) -> Self {
        let witnesses = relays.len() + 2;
        Self {
            name,
            relays: relays.into_iter().map(|relay| (relay, None)).collect(),
            round_trip: Duration::ZERO,
            to_peer: Way::new(witnesses),
            from_peer: Way::new(witnesses),
        }
    }

    /// Whether these are the relays that it leads through.
    pub(super) fn leads_through(&self, relays: &[String]) -> bool {
        self.relays.iter().map(|(name, _)| name).eq(relays)
    }

    /// What this site has counted by `own_us` of its clock.
    pub(super) fn note_own(&mut self, counts: &PathCounts, own_us: i64, peer: Option<PeerClock>) {
        self.to_peer.note(0, own_us, Reading { received: None, handed_on: Some(counts.sent) });
        let last = self.relays.len() + 1;
        if let Some(peer) = peer {
            let sent_us = own_us + peer.offset_us - half(self.round_trip);
            self.from_peer.note(last, sent_us, Reading { received: Some(counts.received), handed_on: None });
            let clocks = [own_us + peer.offset_us, own_us];
            note_arrivals(&mut self.from_peer, &counts.samples, clocks);
        }
    }

    /// What the peer has counted, who was asked at `asked_us` of this site's clock; its answer came at `own_us`.
    pub(super) fn note_peer(&mut self, counts: &PathCounts, peer_us: u64, asked_us: i64, own_us: i64) {
        let last = self.relays.len() + 1;
        let peer_us = peer_us.cast_signed();
        self.to_peer.note(last, asked_us, Reading { received: Some(counts.received), handed_on: None });
        self.from_peer.note(0, peer_us, Reading { received: None, handed_on: Some(counts.sent) });
        note_arrivals(&mut self.to_peer, &counts.samples, [own_us, peer_us]);
    }

    /// The peer has never told what it has counted.
    pub(super) fn note_silent_peer(&mut self) {
        self.to_peer.note_silent(self.relays.len() + 1);
        self.from_peer.note_silent(0);
    }

    /// What the relay at this place has counted, which was asked at `asked_us` of this site's clock; `None` if it does not count.
    pub(super) fn note_relay(
        &mut self,
        place: usize,
        counts: Option<&RelayCounts>,
        asked_us: i64,
        peer: Option<PeerClock>,
    ) {
        let count = self.relays.len();
        if place >= count {
            return;
        }
        let (forward, backward) = (place + 1, count - place);
        let Some(RelayCounts { asked_at, answered_at, counted }) = counts else {
            self.to_peer.note_silent(forward);
            self.from_peer.note_silent(backward);
            return;
        };
        if self.relays[place].1.replace(counted.session).is_some_and(|before| before != counted.session) {
            // Another session counts from the beginning, and the others have counted what went through the last one.
            (self.to_peer, self.from_peer) = (Way::new(count + 2), Way::new(count + 2));
        }
        self.to_peer.note(forward, asked_us, reading(&counted.to_far));
        note_passages(&mut self.to_peer, forward, &counted.to_far, counted.clock_us);
        note_passages(&mut self.from_peer, backward, &counted.to_near, counted.clock_us);
        if let Some(peer) = peer {
            // It has counted about then; what arrived there had been under way for half of the rest of the round trip.
            let there_and_back = answered_at.saturating_duration_since(*asked_at);
            let rest = self.round_trip.saturating_sub(there_and_back);
            let sent_us = asked_us + half(there_and_back) + peer.offset_us - half(rest);
            self.from_peer.note(backward, sent_us, reading(&counted.to_near));
        }
    }

    /// For people and programs. The sites go by their names.
    pub(super) fn status(&self, id: u32, site: &str, peer: &str) -> PathSegments {
        let relays: Vec<_> = self.relays.iter().map(|(name, _)| name.as_str()).collect();
        let there: Vec<_> = [site].into_iter().chain(relays.iter().copied()).chain([peer]).collect();
        let back: Vec<_> = there.iter().copied().rev().collect();
        PathSegments {
            peer: peer.to_owned(),
            path: self.name.clone(),
            id,
            to_peer: way_status(&self.to_peer, &there),
            from_peer: way_status(&self.from_peer, &back),
        }
    }
}

fn reading(lane: &LaneCounts) -> Reading {
    Reading { received: Some(lane.received), handed_on: Some(lane.handed_on) }
}

fn note_passages(way: &mut Way, witness: usize, lane: &LaneCounts, clock_us: u64) {
    for sample in &lane.samples {
        way.note_passage(witness, sample.number, unwrapped(sample.at_us, clock_us));
    }
}

/// Datagrams have arrived at the end of a way, by the clocks of its sender and its receiver as they stand about now.
fn note_arrivals(way: &mut Way, samples: &[Arrived], [sender, receiver]: [i64; 2]) {
    let last = way.counting().len() - 1;
    for sample in samples {
        way.note_passage(0, sample.number, unwrapped(sample.sent_us, sender.cast_unsigned()));
        way.note_passage(last, sample.number, unwrapped(sample.received_us, receiver.cast_unsigned()));
    }
}

/// The reading of a clock that has these low 32 bits and is nearest to another reading.
fn unwrapped(low: u32, near: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "it is the low half that is compared")]
    let behind = (near as u32).wrapping_sub(low).cast_signed();
    near.saturating_add_signed(-i64::from(behind))
}

/// Half of a time, in microseconds.
fn half(time: Duration) -> i64 {
    i64::try_from(time.as_micros() / 2).unwrap_or(i64::MAX)
}

fn way_status(way: &Way, names: &[&str]) -> WayStatus {
    let witness = |(name, counts): (&&str, &bool)| Witness { name: (*name).to_owned(), counts: *counts };
    WayStatus {
        witnesses: names.iter().zip(way.counting()).map(witness).collect(),
        blocks: way.blocks().map(block_status).collect(),
        total: block_status(way.total()),
        passages: way
            .passages()
            .map(|passage| Passage { number: passage.number, at_us: passage.at_us.clone() })
            .collect(),
    }
}

fn block_status(block: &Block) -> SegmentBlock {
    let count = |count: &Option<Count>| {
        count.map(|Count { received, handed_on }| WitnessCount { received, handed_on })
    };
    SegmentBlock {
        number: block.number,
        blocks: block.blocks,
        counts: block.counts.iter().map(count).collect(),
    }
}

/// What of a peer's counts is about a path.
pub(super) fn of_path(counts: &Counts, id: psmc_wire::PathId) -> Option<&PathCounts> {
    counts.paths.iter().find(|path| path.path == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_one_that_is_nearest() {
        assert_eq!(unwrapped(7, 9), 7);
        assert_eq!(unwrapped(9, 7), 9);
        assert_eq!(unwrapped(u32::MAX, 1 << 32), (1 << 32) - 1);
        assert_eq!(unwrapped(3, (5 << 32) - 1), (5 << 32) + 3);
    }

    #[test]
    fn the_answer_that_came_soonest_says_how_a_clock_stands() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let slow = PeerClock::of(5_050_000, 1_000_000, (at(0), at(100)));
        assert_eq!(slow.offset_us, 4_000_000);
        let fast = PeerClock::of(5_206_000, 1_200_000, (at(200), at(210))).better(Some(slow));
        assert_eq!(fast.offset_us, 4_001_000);
        let later = PeerClock::of(5_450_000, 1_400_000, (at(400), at(500))).better(Some(fast));
        assert_eq!(later.offset_us, 4_001_000);
        let much_later = PeerClock::of(5_450_000, 1_400_000, (at(20_000), at(20_100))).better(Some(later));
        assert_eq!(much_later.offset_us, 4_000_000);
    }
}
