//! The frames inside a datagram: reading them as views, writing them into a datagram under construction.

mod read;
mod repair;
mod write;

pub use read::{AckFrame, AckRanges, DataFrame, Frame, Frames};
pub use repair::{MAX_CELLS, MAX_RUNS, RepairFrame, Run};
pub use write::FrameWriter;

use crate::ids::{PacketNumber, PathId};

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

#[cfg(test)]
mod tests;
