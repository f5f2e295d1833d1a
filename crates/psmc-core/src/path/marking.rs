//! Whether the network under a path carries ECN marks, and what they tell (RFC 9000 §13.4.2).
//!
//! ```text
//!          the first that arrives is counted rightly
//!   trying ─────────────────────────────────────────▶ capable
//!    ▲ │ ▲       silence, or so much unheard of         │ │
//!    │ │ │           that counts may be ambiguous       │ │
//!    │ │ └──────────────────────────────────────────────┘ │
//!    │ └─────────────────▶ failed ◀───────────────────────┘
//!    │  none arrives, counts  │       counts are wrong
//!    │  are wrong, all marked │
//!    └────────────────────────┘
//!        the network may be another one
//! ```
//!
//! Only a few datagrams are tried with: a network that drops them costs one silence, or none where others arrive. Which
//! datagrams are marked is the path's affair (`emit`).
//!
//! The peer's counts travel in 16 bits. How many datagrams can have arrived between two acknowledgements follows from the
//! numbers that they acknowledge, so that a difference is either exact or not looked at.

use std::time::Instant;

use psmc_wire::PacketNumber;

use crate::replay::{PATH_WORDS, ReplayWindow};

/// So many datagrams are tried with (RFC 9000 §A.4).
const TRIALS: u64 = 10;

/// A path may fall silent for other reasons while it is tried, but hardly twice in a row.
const SILENT_TRIES: u32 = 2;

/// So far behind the largest number a datagram may lie that the peer still takes and counts (`docs/PROTOCOL.md`, 6.1).
const MAX_LATENESS: u64 = 16 * 1024;

/// With so many further numbers at the most no count can have grown by more than 16 bits tell.
const MAX_ADVANCE: u64 = u16::MAX as u64 - MAX_LATENESS;

const _: () = assert!(ReplayWindow::<PATH_WORDS>::WINDOW <= MAX_LATENESS, "the peer counts what it takes");

/// What is known of ECN on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnState {
    /// Not yet known, for no data has been sent, or none acknowledged.
    #[default]
    Trying,
    /// Routers on the path can mark datagrams instead of dropping them.
    Capable,
    /// The path drops datagrams that can be marked, or does not carry marks to the other end.
    Failed,
}

/// What is known of ECN on a path, and what its marks have told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnStatus {
    /// Whether marks are carried.
    pub state: EcnState,
    /// Datagrams that could be marked, and were acknowledged.
    pub capable_packets: u64,
    /// Those that were marked, as the peer counts them.
    pub marked_packets: u64,
}

/// What the peer has counted of the datagrams that arrived, wrapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EcnCounts {
    /// Those that came as ECT(0).
    pub(crate) ect0: u16,
    /// Those that came with a mark.
    pub(crate) marked: u16,
}

/// ECN on the datagrams that a path sends.
#[derive(Debug, Default)]
pub(crate) struct Marking {
    state: EcnState,
    /// Datagrams sent as ECT(0).
    sent: u64,
    /// Of these at least so many have arrived, unmarked.
    arrived: u64,
    /// The peer's counts in its newest acknowledgement, and the number behind the largest there.
    counts: EcnCounts,
    next: PacketNumber,
    trial: Trial,
    /// How many trials in a row ended in silence.
    silences: u32,
    capable_packets: u64,
    marked_packets: u64,
}

/// The datagrams that are tried with.
#[derive(Debug, Default)]
struct Trial {
    began: Option<Instant>,
    sent: u64,
    lost: u64,
    acked: u64,
    unmarked: u64,
}

impl Marking {
    /// Whether whatever is sent can be marked.
    pub(crate) fn is_capable(&self) -> bool {
        self.state == EcnState::Capable
    }

    /// Whether data should be sent that can be marked, to see what becomes of it.
    pub(crate) fn is_trying(&self) -> bool {
        self.state == EcnState::Trying && self.trial.sent < TRIALS
    }

    /// A datagram has left as ECT(0). `awaited`: the peer is to acknowledge it.
    pub(crate) fn on_sent(&mut self, awaited: bool, now: Instant) {
        self.sent += 1;
        self.trial.began.get_or_insert(now);
        self.trial.sent += u64::from(awaited);
    }

    /// A datagram that left as ECT(0) at `sent_at` is lost.
    pub(crate) fn on_lost(&mut self, sent_at: Instant) {
        // What is older belongs to a silence that has ended.
        if self.trial.began.is_none_or(|began| sent_at < began) {
            return;
        }
        self.trial.lost += 1;
        if self.state == EcnState::Trying && self.trial.lost >= TRIALS && self.trial.acked == 0 {
            self.fail();
        }
    }

    /// The path has fallen silent. It may be another one by now, or drop what can be marked.
    pub(crate) fn on_silence(&mut self) {
        if self.state == EcnState::Failed || self.trial.sent == 0 {
            return;
        }
        self.silences = if self.is_capable() { 0 } else { self.silences + 1 };
        if self.silences >= SILENT_TRIES {
            self.fail();
        } else {
            self.begin_trial();
        }
    }

    /// The network under the path may be another one.
    pub(crate) fn restart(&mut self) {
        self.silences = 0;
        self.begin_trial();
    }

    /// An acknowledgement up to `largest` settles `acked` datagrams that had left as ECT(0), and tells the peer's counts.
    /// Says whether any datagram has met congestion. Older acknowledgements have older counts, and say nothing.
    pub(crate) fn on_ack(&mut self, largest: PacketNumber, acked: usize, counts: EcnCounts) -> bool {
        let next = largest.next();
        if next <= self.next {
            return false;
        }
        let advance = next.0 - self.next.0;
        let ect0 = u64::from(counts.ect0.wrapping_sub(self.counts.ect0));
        let marked = u64::from(counts.marked.wrapping_sub(self.counts.marked));
        (self.next, self.counts) = (next, counts);
        if self.state == EcnState::Failed {
            return false;
        }
        if advance > MAX_ADVANCE {
            self.begin_trial();
            return false;
        }
        let acked = acked as u64;
        self.arrived += ect0;
        let are_right = (acked..=advance + MAX_LATENESS).contains(&(ect0 + marked));
        if !are_right || self.arrived > self.sent {
            self.fail();
            return false;
        }
        if acked > 0 {
            self.judge_trial(acked, ect0);
        }
        self.capable_packets += acked;
        self.marked_packets += marked;
        self.is_capable() && marked > 0
    }

    /// What has been found out, and counted.
    pub(crate) fn status(&self) -> EcnStatus {
        EcnStatus {
            state: self.state,
            capable_packets: self.capable_packets,
            marked_packets: self.marked_packets,
        }
    }

    /// Some of what is tried with has arrived, so much of it without a mark. Where all of it is marked something marks
    /// whatever passes: a queue that needs to would drop most of it.
    fn judge_trial(&mut self, acked: u64, unmarked: u64) {
        if self.trial.acked >= TRIALS {
            return;
        }
        self.trial.acked += acked;
        self.trial.unmarked += unmarked;
        if self.trial.acked >= TRIALS && self.trial.unmarked == 0 {
            self.fail();
        } else {
            self.state = EcnState::Capable;
        }
    }

    fn begin_trial(&mut self) {
        (self.state, self.trial) = (EcnState::Trying, Trial::default());
    }

    /// Whatever comes is Not-ECT. What was counted wrongly does not count against another trial.
    fn fail(&mut self) {
        (self.state, self.arrived) = (EcnState::Failed, 0);
    }
}

#[cfg(test)]
mod tests;
