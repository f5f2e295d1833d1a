//! How inner packets survive paths that lose some.

mod coder;
mod decoder;
mod extras;
mod plan;
mod trial;

use std::time::Duration;

use psmc_wire::{Bucket, FlowSeq};

use coder::MAX_GROUP_AGE;
pub(crate) use coder::{Coder, Repair};
pub(crate) use decoder::{Decoder, Recovered};
pub(crate) use extras::{Copies, Demand, Extra, Extras};
pub(crate) use plan::PathReport;

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
