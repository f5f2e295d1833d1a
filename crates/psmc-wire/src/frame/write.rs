//! Writing frames into the room of a datagram.

use super::{
    ACK, ACK_DELAY_UNIT_US, AckHeader, DATA, DATA_LENGTH_FLAG, DATA_OVERHEAD, DATA_OVERHEAD_WITH_LENGTH,
    DATA_PART, DATA_PARTIAL_CHECKSUM_FLAG, DATA_REPAIRED_FLAG, DATA_UNORDERED_FLAG, MAX_ACK_GAPS,
    PART_OVERHEAD, PATH_CHALLENGE, PATH_RESPONSE, PATH_STATS, PATH_USE, PING, PacketRange, Part, PathStats,
    PathUse, PathUseFrame, REKEY, REKEYED, REPAIR, RekeyFrame, StreamFrame,
};
use crate::frame::DataFrame;
use crate::ids::{Bucket, FlowSeq, PathId};
use crate::ip::transport::Checksum;

/// Bytes of an acknowledgement without gaps.
const ACK_LEN: usize = 20;

/// Appends frames to a fixed room, one after the other.
///
/// Every method writes its frame whole and says `true`, or writes nothing and says `false` because the room
/// is too small.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    room: &'a mut [u8],
    len: usize,
}

impl<'a> FrameWriter<'a> {
    /// A writer that may fill all of `room`.
    pub fn new(room: &'a mut [u8]) -> Self {
        Self { room, len: 0 }
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.room.len() - self.len
    }

    /// Asks for an acknowledgement.
    pub fn ping(&mut self) -> bool {
        self.put(&[&[PING]])
    }

    /// Asks for these bytes back on the same path.
    pub fn path_challenge(&mut self, token: [u8; 8]) -> bool {
        self.put(&[&[PATH_CHALLENGE], &token])
    }

    /// Answers a challenge.
    pub fn path_response(&mut self, token: [u8; 8]) -> bool {
        self.put(&[&[PATH_RESPONSE], &token])
    }

    /// Says what was measured on a path.
    pub fn path_stats(&mut self, path: PathId, stats: &PathStats) -> bool {
        self.put(&[
            &[PATH_STATS],
            &path.0.to_be_bytes(),
            &stats.packets.to_be_bytes(),
            &stats.bytes.to_be_bytes(),
            &stats.owd_min_us.to_be_bytes(),
            &stats.owd_smoothed_us.to_be_bytes(),
            &stats.jitter_us.to_be_bytes(),
        ])
    }

    /// Asks the peer to use a path differently.
    pub fn path_use(&mut self, frame: PathUseFrame) -> bool {
        let usage = match frame.usage {
            PathUse::Available => 0,
            PathUse::Standby => 1,
            PathUse::Closed => 2,
        };
        self.put(&[&[PATH_USE], &frame.path.0.to_be_bytes(), &frame.sequence.to_be_bytes(), &[usage]])
    }

    /// Begins a key exchange.
    pub fn rekey(&mut self, frame: &RekeyFrame) -> bool {
        self.exchange(REKEY, frame)
    }

    /// Answers one that the peer has begun.
    pub fn rekeyed(&mut self, frame: &RekeyFrame) -> bool {
        self.exchange(REKEYED, frame)
    }

    fn exchange(&mut self, kind: u8, frame: &RekeyFrame) -> bool {
        let (regarding, label) = (frame.regarding.0.to_be_bytes(), frame.label.0.to_be_bytes());
        self.put(&[&[kind], &regarding, &label, &frame.public_key])
    }

    /// Acknowledges the runs of `ranges`, which come largest first and do not touch each other.
    ///
    /// Runs and gaps beyond 65,535 numbers, beyond [`MAX_ACK_GAPS`], or beyond the room are left out: the
    /// frame then says less, never anything false.
    pub fn ack(&mut self, header: &AckHeader, mut ranges: impl Iterator<Item = PacketRange>) -> bool {
        let Some(first) = ranges.next() else { return false };
        let start = self.len;
        let delay = u16::try_from(header.delay_us / ACK_DELAY_UNIT_US).unwrap_or(u16::MAX);
        let first_run = run_length(first);
        let written = self.put(&[
            &[ACK],
            &header.path.0.to_be_bytes(),
            &header.largest.to_be_bytes(),
            &delay.to_be_bytes(),
            &header.received_at_us.to_be_bytes(),
            &header.ect0.to_be_bytes(),
            &header.congestion_experienced.to_be_bytes(),
            &[0],
            &first_run.to_be_bytes(),
        ]);
        if written && u64::from(first_run) == first.last.0 - first.first.0 + 1 {
            self.room[start + ACK_LEN - 3] = self.ack_gaps(first, ranges);
        }
        written
    }

    /// Writes the gaps and runs behind the first run, and returns how many.
    fn ack_gaps(&mut self, first: PacketRange, ranges: impl Iterator<Item = PacketRange>) -> u8 {
        let mut smallest = first.first.0;
        let mut count = 0;
        for range in ranges.take(MAX_ACK_GAPS) {
            let Ok(gap) = u16::try_from(smallest - range.last.0 - 1) else {
                break;
            };
            let run = run_length(range);
            if !self.put(&[&gap.to_be_bytes(), &run.to_be_bytes()]) {
                break;
            }
            count += 1;
            smallest = range.first.0;
            if u64::from(run) != range.last.0 - range.first.0 + 1 {
                break;
            }
        }
        count
    }

    /// Adds an inner packet, or a part of one, with a length field, so that other frames can follow.
    pub fn data(&mut self, frame: &DataFrame<'_>) -> bool {
        let Ok(len) = u16::try_from(frame.packet.len()) else {
            return false;
        };
        if self.remaining() < data_len(frame, DATA_OVERHEAD_WITH_LENGTH) {
            return false;
        }
        self.data_fields(frame, DATA_LENGTH_FLAG);
        self.put(&[&len.to_be_bytes(), frame.packet])
    }

    /// Adds an inner packet, or a part of one, that reaches to the end of the datagram; no frame may follow.
    pub fn last_data(mut self, frame: &DataFrame<'_>) -> Option<usize> {
        if self.remaining() < data_len(frame, DATA_OVERHEAD) {
            return None;
        }
        self.data_fields(frame, 0);
        self.put(&[frame.packet]);
        Some(self.len)
    }

    /// Adds a repair, the place of its group's first packet and the [body](super::RepairFrame::write_body), which
    /// reaches to the end of the datagram; no frame may follow.
    pub fn last_repair(mut self, bucket: Bucket, seq: FlowSeq, body: &[u8]) -> Option<usize> {
        let (bucket, seq) = (bucket.number().to_be_bytes(), seq.0.to_be_bytes());
        self.put(&[&[REPAIR], &bucket, &seq, body]).then_some(self.len)
    }

    /// Adds bytes of a stream with a length field, so that other frames can follow.
    pub fn stream(&mut self, frame: &StreamFrame<'_>) -> bool {
        let Ok(len) = u16::try_from(frame.bytes.len()) else { return false };
        self.put(&[&frame.head(true), &len.to_be_bytes(), frame.bytes])
    }

    /// Adds bytes of a stream that reach to the end of the datagram; no frame may follow.
    pub fn last_stream(mut self, frame: &StreamFrame<'_>) -> Option<usize> {
        self.put(&[&frame.head(false), frame.bytes]).then_some(self.len)
    }

    /// Writes what stands in front of the length and the packet.
    fn data_fields(&mut self, frame: &DataFrame<'_>, length_flag: u8) {
        let kind = if frame.part.is_some() { DATA_PART } else { DATA };
        let kind = kind | length_flag | flags(frame);
        self.put(&[&[kind], &frame.bucket.number().to_be_bytes(), &frame.seq.0.to_be_bytes()]);
        if let Some(Part { offset, total }) = frame.part {
            self.put(&[&offset.to_be_bytes(), &total.to_be_bytes()]);
        }
    }

    /// Adds frames that another writer has written.
    pub fn raw(&mut self, frames: &[u8]) -> bool {
        self.put(&[frames])
    }

    /// Appends `parts` if all of them fit.
    fn put(&mut self, parts: &[&[u8]]) -> bool {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if self.remaining() < len {
            return false;
        }
        for part in parts {
            self.room[self.len..self.len + part.len()].copy_from_slice(part);
            self.len += part.len();
        }
        true
    }
}

fn run_length(range: PacketRange) -> u16 {
    u16::try_from(range.last.0 - range.first.0 + 1).unwrap_or(u16::MAX)
}

/// Bytes of a frame, `overhead` of which are what a whole packet costs.
fn data_len(frame: &DataFrame<'_>, overhead: usize) -> usize {
    let part = if frame.part.is_some() { PART_OVERHEAD } else { 0 };
    overhead + part + frame.packet.len()
}

fn flags(frame: &DataFrame<'_>) -> u8 {
    let unordered = if frame.ordered { 0 } else { DATA_UNORDERED_FLAG };
    let repaired = if frame.repaired { DATA_REPAIRED_FLAG } else { 0 };
    let checksum = match frame.checksum {
        Checksum::Complete => 0,
        Checksum::Partial => DATA_PARTIAL_CHECKSUM_FLAG,
    };
    unordered | repaired | checksum
}
