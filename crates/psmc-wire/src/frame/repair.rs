//! REPAIR: what a lost inner packet can be computed from.

use crate::ids::{Bucket, FlowSeq};
use crate::reader::{Malformed, Reader};

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
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
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
