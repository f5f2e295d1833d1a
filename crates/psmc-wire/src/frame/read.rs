//! Frames as views over the opened bytes of a datagram.

use super::{
    ACK, ACK_DELAY_UNIT_US, AckHeader, DATA, DATA_LENGTH_FLAG, DATA_PART, DATA_PARTIAL_CHECKSUM_FLAG,
    DATA_REPAIRED_FLAG, DATA_UNORDERED_FLAG, PADDING, PATH_CHALLENGE, PATH_RESPONSE, PATH_STATS, PATH_USE,
    PING, PacketRange, Part, PathStats, PathUse, PathUseFrame, REKEY, REKEYED, REPAIR, RekeyFrame,
    RepairFrame, StreamControl, StreamFrame, stream,
};
use crate::fields::{Malformed, Reader};
use crate::ids::{Bucket, FlowSeq, Label, PacketNumber, PathId};
use crate::ip::transport::Checksum;

/// All flags of a frame with data.
const DATA_FLAGS: u8 =
    DATA_LENGTH_FLAG | DATA_UNORDERED_FLAG | DATA_REPAIRED_FLAG | DATA_PARTIAL_CHECKSUM_FLAG;

/// One frame.
#[derive(Clone, Copy, Debug)]
pub enum Frame<'a> {
    /// Nothing.
    Padding,
    /// Asks for an acknowledgement.
    Ping,
    /// Datagrams of a path have arrived.
    Ack(AckFrame<'a>),
    /// What the receiver of a path measured.
    PathStats(PathId, PathStats),
    /// To be answered on the same path with the same bytes.
    PathChallenge([u8; 8]),
    /// The answer.
    PathResponse([u8; 8]),
    /// A wish for the use of a path.
    PathUse(PathUseFrame),
    /// The sender begins a key exchange.
    Rekey(RekeyFrame),
    /// The answer.
    Rekeyed(RekeyFrame),
    /// An inner packet, or a part of one.
    Data(DataFrame<'a>),
    /// What a lost inner packet can be computed from.
    Repair(RepairFrame<'a>),
    /// Bytes of a stream.
    Stream(StreamFrame<'a>),
    /// A stream is opened, answered, given credit, or reset.
    StreamControl(StreamControl),
}

impl Frame<'_> {
    /// Whether the receiver owes an acknowledgement for a datagram with such a frame.
    #[must_use]
    pub fn is_ack_eliciting(&self) -> bool {
        match self {
            Self::Ping
            | Self::PathChallenge(_)
            | Self::PathUse(_)
            | Self::Rekey(_)
            | Self::Rekeyed(_)
            | Self::Data(_)
            | Self::Repair(_)
            | Self::Stream(_)
            | Self::StreamControl(_) => true,
            Self::Padding | Self::Ack(_) | Self::PathStats(..) | Self::PathResponse(_) => false,
        }
    }
}

/// An inner packet and its place in the order of its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFrame<'a> {
    /// The bucket of its flow.
    pub bucket: Bucket,
    /// Its place.
    pub seq: FlowSeq,
    /// Whether it has to wait for those before it.
    pub ordered: bool,
    /// Whether its flow's packets are sent again when a path has lost them.
    pub repaired: bool,
    /// What is in the packet's checksum field.
    pub checksum: Checksum,
    /// Which part of the packet it is; `None` if it is all of it.
    pub part: Option<Part>,
    /// The whole IP packet, or the part.
    pub packet: &'a [u8],
}

/// An acknowledgement: a header, and the runs of numbers received, largest first.
#[derive(Clone, Copy, Debug)]
pub struct AckFrame<'a> {
    /// All but the runs.
    pub header: AckHeader,
    first_run: u16,
    gaps: &'a [u8],
}

impl<'a> AckFrame<'a> {
    fn parse(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let header = AckHeader {
            path: PathId(reader.u16()?),
            largest: reader.u32()?,
            delay_us: u32::from(reader.u16()?) * ACK_DELAY_UNIT_US,
            received_at_us: reader.u32()?,
            ect0: reader.u16()?,
            congestion_experienced: reader.u16()?,
        };
        let gaps = usize::from(reader.u8()?);
        let first_run = reader.u16()?;
        if first_run == 0 {
            return Err(Malformed::Illegal("empty run in an acknowledgement"));
        }
        Ok(Self { header, first_run, gaps: reader.bytes(gaps * 4)? })
    }

    /// The largest number. `expected` is the sender's next one, near which it must lie.
    #[must_use]
    pub fn largest(&self, expected: PacketNumber) -> PacketNumber {
        PacketNumber::expand(self.header.largest, expected)
    }

    /// The runs, largest first; `expected` as for [`largest`](Self::largest).
    #[must_use]
    pub fn ranges(&self, expected: PacketNumber) -> AckRanges<'a> {
        let largest = self.largest(expected);
        AckRanges { next_last: Some(largest), run: self.first_run, gaps: Reader::new(self.gaps) }
    }
}

/// Iterator over the runs of an acknowledgement; ends early where they would reach below zero.
#[derive(Clone, Debug)]
pub struct AckRanges<'a> {
    next_last: Option<PacketNumber>,
    run: u16,
    gaps: Reader<'a>,
}

impl Iterator for AckRanges<'_> {
    type Item = PacketRange;

    fn next(&mut self) -> Option<PacketRange> {
        let last = self.next_last.take()?;
        let first = PacketNumber(last.0.checked_sub(u64::from(self.run) - 1)?);
        if let (Ok(gap), Ok(run @ 1..)) = (self.gaps.u16(), self.gaps.u16()) {
            self.run = run;
            self.next_last = first.0.checked_sub(u64::from(gap) + 1).map(PacketNumber);
        }
        Some(PacketRange { first, last })
    }
}

/// Iterator over the frames of a datagram. After an error it ends.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    reader: Reader<'a>,
}

impl<'a> Frames<'a> {
    /// Over the opened bytes behind the timestamp.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new(bytes) }
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Frame<'a>, Malformed> {
        match reader.u8()? {
            PADDING => Ok(Frame::Padding),
            PING => Ok(Frame::Ping),
            ACK => AckFrame::parse(reader).map(Frame::Ack),
            PATH_STATS => parse_stats(reader),
            PATH_CHALLENGE => reader.array().map(Frame::PathChallenge),
            PATH_RESPONSE => reader.array().map(Frame::PathResponse),
            PATH_USE => parse_use(reader).map(Frame::PathUse),
            REKEY => parse_rekey(reader).map(Frame::Rekey),
            REKEYED => parse_rekey(reader).map(Frame::Rekeyed),
            data if matches!(data & !DATA_FLAGS, DATA | DATA_PART) => {
                parse_data(reader, data).map(Frame::Data)
            }
            REPAIR => RepairFrame::parse(reader).map(Frame::Repair),
            kind if stream::is_data(kind) => StreamFrame::parse(kind, reader).map(Frame::Stream),
            kind if stream::is_control(kind) => StreamControl::parse(kind, reader).map(Frame::StreamControl),
            unknown => Err(Malformed::UnknownType(unknown)),
        }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let frame = Self::parse(&mut self.reader);
        if frame.is_err() {
            self.reader.rest();
        }
        Some(frame)
    }
}

fn parse_stats<'a>(reader: &mut Reader<'a>) -> Result<Frame<'a>, Malformed> {
    let path = PathId(reader.u16()?);
    let stats = PathStats {
        packets: reader.u64()?,
        bytes: reader.u64()?,
        owd_min_us: reader.u32()?,
        owd_smoothed_us: reader.u32()?,
        jitter_us: reader.u32()?,
    };
    Ok(Frame::PathStats(path, stats))
}

fn parse_use(reader: &mut Reader<'_>) -> Result<PathUseFrame, Malformed> {
    Ok(PathUseFrame {
        path: PathId(reader.u16()?),
        sequence: reader.u16()?,
        usage: match reader.u8()? {
            0 => PathUse::Available,
            1 => PathUse::Standby,
            2 => PathUse::Closed,
            _ => return Err(Malformed::Illegal("use of a path")),
        },
    })
}

fn parse_rekey(reader: &mut Reader<'_>) -> Result<RekeyFrame, Malformed> {
    Ok(RekeyFrame {
        regarding: Label(reader.u32()?),
        label: Label(reader.u32()?),
        public_key: reader.array()?,
    })
}

fn parse_data<'a>(reader: &mut Reader<'a>, kind: u8) -> Result<DataFrame<'a>, Malformed> {
    let bucket = Bucket::new(reader.u16()?).ok_or(Malformed::Illegal("flow bucket"))?;
    let seq = FlowSeq(reader.u32()?);
    let part = match kind & !DATA_FLAGS {
        DATA_PART => Some(Part { offset: reader.u16()?, total: reader.u16()? }),
        _ => None,
    };
    let packet = match kind & DATA_LENGTH_FLAG {
        0 => reader.rest(),
        _ => {
            let len = usize::from(reader.u16()?);
            reader.bytes(len)?
        }
    };
    if part
        .is_some_and(|part| packet.is_empty() || usize::from(part.offset) + packet.len() > part.total.into())
    {
        return Err(Malformed::Illegal("part of an inner packet"));
    }
    let (ordered, repaired) = (kind & DATA_UNORDERED_FLAG == 0, kind & DATA_REPAIRED_FLAG != 0);
    let is_partial = kind & DATA_PARTIAL_CHECKSUM_FLAG != 0;
    let checksum = if is_partial { Checksum::Partial } else { Checksum::Complete };
    Ok(DataFrame { bucket, seq, ordered, repaired, checksum, part, packet })
}
