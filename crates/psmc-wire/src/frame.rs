//! The frames inside a datagram: reading them as views, writing them into a datagram under construction.

mod read;
mod stream;
#[cfg(test)]
mod tests;
mod write;

use crate::crypto::EXCHANGE_KEY_LEN;
use crate::fields::{Malformed, Reader};
use crate::ids::{Bucket, FlowSeq, Label, PacketNumber, PathId};
pub use read::{AckFrame, AckRanges, DataFrame, Frame, Frames};
pub use stream::{
    STREAM_OVERHEAD, STREAM_OVERHEAD_WITH_LENGTH, StreamControl, StreamFrame, StreamOpening, StreamOutcome,
};
pub use write::FrameWriter;

/// Bytes of a data frame in front of its packet when it is the last frame of its datagram (no length field).
pub const DATA_OVERHEAD: usize = 7;

/// Bytes of a data frame in front of its packet when another frame may follow.
pub const DATA_OVERHEAD_WITH_LENGTH: usize = 9;

/// Bytes by which a frame with a part of a packet is longer than one with a whole packet.
pub const PART_OVERHEAD: usize = 4;

/// The most gaps that one acknowledgement reports; with more, the oldest stay unreported.
///
/// 32 gaps cost 128 bytes, a tenth of a datagram; losses scattered wider than that are long since declared lost.
pub const MAX_ACK_GAPS: usize = 32;

/// Microseconds per unit of an acknowledgement's delay field, so that 16 bits reach half a second.
pub const ACK_DELAY_UNIT_US: u32 = 8;

/// A byte that is skipped: a frame of its own.
pub const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ACK: u8 = 0x02;
const PATH_STATS: u8 = 0x03;
const PATH_CHALLENGE: u8 = 0x04;
const PATH_RESPONSE: u8 = 0x05;
const PATH_USE: u8 = 0x06;
const DATA: u8 = 0x08;
const DATA_LENGTH_FLAG: u8 = 0x01;
const DATA_UNORDERED_FLAG: u8 = 0x02;
const DATA_REPAIRED_FLAG: u8 = 0x04;
const DATA_PARTIAL_CHECKSUM_FLAG: u8 = 0x10;
const REKEY: u8 = 0x10;
const REKEYED: u8 = 0x11;
const REPAIR: u8 = 0x14;
const DATA_PART: u8 = 0x20;

/// What a receiver says of the datagrams of one path, apart from the ranges themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckHeader {
    /// The path whose datagrams are acknowledged; the frame itself may travel on another.
    pub path: PathId,
    /// The largest number received, low 32 bits.
    pub largest: u32,
    /// From the arrival of the largest to the sending of this frame, in microseconds; half a second at most.
    pub delay_us: u32,
    /// The receiver's clock when the largest arrived, in microseconds, wrapping, from an arbitrary origin that
    /// is the same for all paths: differences between paths of one-way delays need no synchronised clocks.
    pub received_at_us: u32,
    /// How many datagrams of the path arrived as the ECN codepoint ECT(0), wrapping.
    pub ect0: u16,
    /// How many datagrams of the path arrived with an ECN congestion-experienced mark, wrapping.
    pub congestion_experienced: u16,
}

/// What a receiver measured on one path since the session began. Delays are signed, in two's complement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Datagrams received and found authentic.
    pub packets: u64,
    /// Their bytes, UDP payload only.
    pub bytes: u64,
    /// The smallest one-way delay of the last seconds, microseconds, relative to the two clocks' offset.
    pub owd_min_us: u32,
    /// The smoothed one-way delay, on the same scale.
    pub owd_smoothed_us: u32,
    /// The interarrival jitter (RFC 3550 §6.4.1), microseconds.
    pub jitter_us: u32,
}

/// How a site wants its peer to use a path; what restricts more is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathUse {
    /// For data.
    #[default]
    Available,
    /// Only when no available path is left.
    Standby,
    /// Not at all: it is about to be removed.
    Closed,
}

/// Asks the peer to use a path differently; repeated until the datagram that carried it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathUseFrame {
    /// The path.
    pub path: PathId,
    /// Grows with each change, so that a late frame cannot undo a newer one; serial arithmetic on 16 bits.
    pub sequence: u16,
    /// The use from here on.
    pub usage: PathUse,
}

/// One side's part in a key exchange within the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RekeyFrame {
    /// A label of the receiver: that of the generation which is to be followed by another one; in an answer, the new one that
    /// was announced to the sender of this.
    pub regarding: Label,
    /// The label for datagrams to the sender under the new keys.
    pub label: Label,
    /// The sender's ephemeral public key.
    pub public_key: [u8; EXCHANGE_KEY_LEN],
}

/// Which part of an inner packet a frame carries, when it does not carry all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where in the packet its first byte belongs.
    pub offset: u16,
    /// The length of the whole packet.
    pub total: u16,
}

/// A run of consecutive packet numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRange {
    /// The smallest.
    pub first: PacketNumber,
    /// The largest.
    pub last: PacketNumber,
}

// REPAIR: what a lost inner packet can be computed from.

/// The most shards that a packet is cut into: a quarter of a packet fits wherever a packet does, its group's places
/// included.
pub const MAX_CELLS: u8 = 4;

/// The most runs of places behind the first: six bits.
pub const MAX_RUNS: usize = 63;

/// Bytes of a body in front of the runs behind the first.
const BODY_HEADER: usize = 6;

/// Bytes of a run of places.
const RUN_LEN: usize = 7;

/// Packets of a group whose places follow each other in one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Their bucket.
    pub bucket: Bucket,
    /// The place of the first of them.
    pub first: FlowSeq,
    /// How many there are, at least one.
    pub count: u8,
}

/// One of the repair shards of a group of inner packets.
///
/// Each packet of the group stands in a record, all as long as the longest: two bytes, of which the highest bit says that
/// the packet is unordered and the others are its length; the packet; zeros. A record is cut into `cells` shards. The
/// shards of all packets, in the order of their places here, are the originals of a Reed-Solomon code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairFrame<'a> {
    /// Tells groups with the same first packet apart.
    pub group: u16,
    /// Which of the repair shards this is.
    pub index: u8,
    /// How many repair shards there are.
    pub repairs: u8,
    /// How many shards a packet is cut into.
    pub cells: u8,
    first: Run,
    more: &'a [u8],
    /// The repair shard.
    pub shard: &'a [u8],
}

impl<'a> RepairFrame<'a> {
    fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let bucket = Bucket::new(reader.u16()?).ok_or(Malformed::Illegal("flow bucket"))?;
        let first = FlowSeq(reader.u32()?);
        let (group, index, repairs) = (reader.u16()?, reader.u8()?, reader.u8()?);
        let (shape, count) = (reader.u8()?, reader.u8()?);
        let more = reader.bytes(usize::from(shape & 0x3f) * RUN_LEN)?;
        let frame = Self {
            group,
            index,
            repairs,
            cells: (shape >> 6) + 1,
            first: Run { bucket, first, count },
            more,
            shard: reader.rest(),
        };
        let is_legal = index < repairs && frame.has_legal_runs() && !frame.shard.is_empty();
        is_legal.then_some(frame).ok_or(Malformed::Illegal("repair"))
    }

    fn has_legal_runs(&self) -> bool {
        let legal =
            |run: &[u8]| run[RUN_LEN - 1] > 0 && Bucket::new(u16::from_be_bytes([run[0], run[1]])).is_some();
        self.first.count > 0 && self.more.chunks_exact(RUN_LEN).all(legal)
    }

    /// The places of the group's packets, in their order.
    pub fn places(&self) -> impl Iterator<Item = (Bucket, FlowSeq)> + use<'a> {
        let more = self.more.chunks_exact(RUN_LEN).filter_map(|run| {
            let &[b0, b1, s0, s1, s2, s3, count] = run else { return None };
            let bucket = Bucket::new(u16::from_be_bytes([b0, b1]))?;
            Some(Run { bucket, first: FlowSeq(u32::from_be_bytes([s0, s1, s2, s3])), count })
        });
        let runs = std::iter::once(self.first).chain(more);
        runs.flat_map(|run| (0..u32::from(run.count)).map(move |i| (run.bucket, run.first.plus(i))))
    }

    /// Bytes of a body with so many runs of places and so long a shard.
    #[must_use]
    pub fn body_len(runs: usize, shard: usize) -> usize {
        BODY_HEADER + runs.saturating_sub(1) * RUN_LEN + shard
    }

    /// Replaces `body` by all of a frame but its type and the place of its first packet. `runs` are the places of the
    /// group's packets: one at least, and no more than [`MAX_RUNS`] behind it; `cells` are 1 to [`MAX_CELLS`].
    pub fn write_body(
        body: &mut Vec<u8>,
        group: u16,
        (index, repairs): (u8, u8),
        cells: u8,
        runs: &[Run],
        shard: &[u8],
    ) {
        let Some((first, more)) = runs.split_first() else { return };
        debug_assert!(more.len() <= MAX_RUNS && (1..=MAX_CELLS).contains(&cells));
        let more = &more[..more.len().min(MAX_RUNS)];
        let shape = (cells.clamp(1, MAX_CELLS) - 1) << 6 | u8::try_from(more.len()).unwrap_or_default();
        body.clear();
        body.extend_from_slice(&group.to_be_bytes());
        body.extend_from_slice(&[index, repairs, shape, first.count]);
        for run in more {
            body.extend_from_slice(&run.bucket.number().to_be_bytes());
            body.extend_from_slice(&run.first.0.to_be_bytes());
            body.push(run.count);
        }
        body.extend_from_slice(shard);
    }
}
