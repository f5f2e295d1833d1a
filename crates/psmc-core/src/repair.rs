//! How inner packets survive paths that lose some.

mod coder;
mod copies;
mod decoder;
mod extras;
mod history;
mod plan;

use std::time::Duration;

use psmc_wire::{Bucket, FlowSeq};

use coder::MAX_GROUP_AGE;
pub(crate) use coder::{Coder, Repair};
pub(crate) use copies::Copies;
pub(crate) use decoder::{Decoder, Recovered};
pub(crate) use extras::{Demand, Extra, Extras};
pub(crate) use plan::PathReport;

/// How a session makes good what its paths lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RepairKind {
    /// What is lost is sent again, on the path where it arrives first. What paths carry that lose much is followed by
    /// repairs, too, while there is room for them.
    #[default]
    Auto,
    /// What is lost is sent again, and nothing else.
    Resend,
    /// Every packet leaves on two paths, if there are two; what both lose stays lost.
    Duplicate,
    /// Packets are followed by repairs, on other paths where there are some, from which the peer computes what is
    /// lost (Reed-Solomon); what is beyond that stays lost.
    Fec,
    /// What is lost stays lost.
    Off,
}

/// Where an inner packet belongs: its bucket, and its place in the order of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) bucket: Bucket,
    /// A [`FlowSeq`], whose order is not that of numbers; here any will do.
    number: u32,
}

impl Place {
    pub(crate) fn new((bucket, seq): (Bucket, FlowSeq)) -> Self {
        Self { bucket, number: seq.0 }
    }

    pub(crate) fn seq(self) -> FlowSeq {
        FlowSeq(self.number)
    }
}

/// What is in a buffer that waits for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// An inner packet, and how it is made good if it is lost.
    Packet(RepairKind),
    /// One more copy of an inner packet, and whether that is sent again if it is lost.
    Copy { resent: bool },
    /// A repair of a group of packets, whose first one has its place.
    Repair,
}

impl Role {
    /// Whether it is sent again when a path has lost it.
    pub(crate) fn is_resent(self) -> bool {
        matches!(self, Self::Packet(RepairKind::Auto | RepairKind::Resend))
    }

    /// Whether it is worth waiting for what is missing before it.
    pub(crate) fn promises_more(self) -> bool {
        self.is_resent() || self == Self::Copy { resent: true }
    }

    /// Whether it may travel in one datagram with others. A repair must not be lost with what it repairs; and of packets
    /// that are repaired together no two, for repairs are counted as if each of them were lost by itself.
    pub(crate) fn may_join(self, mut others: impl Iterator<Item = Self>) -> bool {
        match self {
            Self::Repair => false,
            Self::Packet(RepairKind::Fec) => others.all(|other| other != self),
            Self::Packet(_) | Self::Copy { .. } => true,
        }
    }
}

/// What repair has done for the packets of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairCounters {
    /// Second copies sent.
    pub tx_copies: u64,
    /// Repairs sent.
    pub tx_repairs: u64,
    /// Second copies and repairs that found no room on a path in time.
    pub dropped: u64,
    /// Repairs received.
    pub rx_repairs: u64,
    /// Inner packets computed from repairs, those among them that came later all the same.
    pub recovered: u64,
    /// Groups of packets of which too much was lost.
    pub unsolved: u64,
}

impl RepairKind {
    /// All of them, the default first.
    pub const ALL: [Self; 5] = [Self::Auto, Self::Resend, Self::Duplicate, Self::Fec, Self::Off];

    /// The name in configuration files and in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Resend => "resend",
            Self::Duplicate => "duplicate",
            Self::Fec => "fec",
            Self::Off => "off",
        }
    }
}

/// How long a receiver waits for what is sent again, `round_trip` being the longest of the live paths: until its
/// sender knows of the loss (RFC 9002 §6.1.2: 9/8 of a round trip after sending, which is that much after the
/// packet's turn), and, since what is sent again may be lost too, as long again.
pub(crate) fn repair_time(round_trip: Duration) -> Duration {
    (2 * (round_trip + round_trip / 4 + REPAIR_SLACK)).min(MAX_REPAIR_TIME)
}

/// Acknowledgements that are up to 5 ms late, timers, and the queue of the path that carries the repair.
const REPAIR_SLACK: Duration = Duration::from_millis(10);

/// After half a second an inner sender has begun to repair by itself.
const MAX_REPAIR_TIME: Duration = Duration::from_millis(500);

/// How long a receiver waits for what it may compute: until the group is complete, and its repairs are on their way.
pub(crate) const RECOVERY_TIME: Duration = MAX_GROUP_AGE.saturating_add(Duration::from_millis(5));

/// In the first two bytes of a record, which hold the length of its packet: the packet is unordered.
const UNORDERED: u16 = 0x8000;

/// Replaces `shard` by the part of `record` with this index, all of them being `len` bytes long; zeros follow its end.
fn cut_cell(record: &[u8], index: usize, len: usize, shard: &mut Vec<u8>) {
    let from = (index * len).min(record.len());
    let to = (from + len).min(record.len());
    shard.clear();
    shard.extend_from_slice(&record[from..to]);
    shard.resize(len, 0);
}

#[cfg(test)]
mod tests;
