//! Frames of byte streams, which carry connections that the sites end.

use std::net::SocketAddr;

use crate::fields::{self, Malformed, Reader};
use crate::ids::StreamId;

const STREAM: u8 = 0x60;
const LENGTH_FLAG: u8 = 0x01;
const FIN_FLAG: u8 = 0x02;
const OPEN: u8 = 0x68;
const ANSWER: u8 = 0x69;
const CREDIT: u8 = 0x6a;
const RESET: u8 = 0x6b;

/// Bytes of a stream frame in front of its bytes when it is the last frame of its datagram (no length field).
pub const STREAM_OVERHEAD: usize = 9;

/// Bytes of a stream frame in front of its bytes when another frame may follow.
pub const STREAM_OVERHEAD_WITH_LENGTH: usize = 11;

pub(super) fn is_data(kind: u8) -> bool {
    kind & !(LENGTH_FLAG | FIN_FLAG) == STREAM
}

pub(super) fn is_control(kind: u8) -> bool {
    matches!(kind, OPEN | ANSWER | CREDIT | RESET)
}

/// Some bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamFrame<'a> {
    /// The stream.
    pub id: StreamId,
    /// Where in the stream the first of the bytes belongs, low 32 bits.
    pub offset: u32,
    /// Whether the stream ends behind them.
    pub fin: bool,
    /// The bytes; none only with `fin`.
    pub bytes: &'a [u8],
}

impl<'a> StreamFrame<'a> {
    pub(super) fn parse(kind: u8, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let (id, offset) = (StreamId(reader.u32()?), reader.u32()?);
        let bytes = match kind & LENGTH_FLAG {
            0 => reader.rest(),
            _ => {
                let len = usize::from(reader.u16()?);
                reader.bytes(len)?
            }
        };
        let fin = kind & FIN_FLAG != 0;
        let is_legal = fin || !bytes.is_empty();
        is_legal.then_some(Self { id, offset, fin, bytes }).ok_or(Malformed::Illegal("empty stream frame"))
    }

    /// All in front of the length.
    pub(super) fn head(&self, has_length: bool) -> [u8; STREAM_OVERHEAD] {
        let flags = if has_length { LENGTH_FLAG } else { 0 } | if self.fin { FIN_FLAG } else { 0 };
        let mut head = [STREAM | flags; STREAM_OVERHEAD];
        head[1..5].copy_from_slice(&self.id.0.to_be_bytes());
        head[5..].copy_from_slice(&self.offset.to_be_bytes());
        head
    }
}

/// A connection that a stream is to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOpening {
    /// Who has opened it, at the sender of the frame.
    pub client: SocketAddr,
    /// To whom.
    pub server: SocketAddr,
    /// The differentiated services code point of its packets (RFC 2474), six bits.
    pub dscp: u8,
}

/// What has become of the attempt to open a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOutcome {
    /// It stands.
    Open,
    /// The host has refused it.
    Refused,
    /// Nobody knows a way to the host.
    Unreachable,
    /// The host has not answered.
    TimedOut,
    /// The site carries no such streams.
    Prohibited,
    /// The site carries as many as it can.
    Full,
}

impl StreamOutcome {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 6] =
        [Self::Open, Self::Refused, Self::Unreachable, Self::TimedOut, Self::Prohibited, Self::Full];

    fn code(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Refused => 1,
            Self::Unreachable => 2,
            Self::TimedOut => 3,
            Self::Prohibited => 4,
            Self::Full => 5,
        }
    }
}

/// What the sites say of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamControl {
    /// The sender opens a stream; the receiver may send so many bytes of it at first.
    Open {
        /// The stream, new.
        id: StreamId,
        /// How many bytes.
        credit: u32,
        /// What it is to carry.
        opening: StreamOpening,
    },
    /// The answer; the opener may send so many bytes at first.
    Answer {
        /// The stream.
        id: StreamId,
        /// What has become of the connection.
        outcome: StreamOutcome,
        /// How many bytes.
        credit: u32,
    },
    /// The receiver may send up to this offset of the stream, low 32 bits.
    Credit {
        /// The stream.
        id: StreamId,
        /// The offset behind the last byte.
        limit: u32,
    },
    /// The stream has ended before its time, in both directions.
    Reset {
        /// The stream.
        id: StreamId,
    },
}

impl StreamControl {
    pub(super) fn parse(kind: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let id = StreamId(reader.u32()?);
        match kind {
            OPEN => {
                let (credit, dscp) = (reader.u32()?, reader.u8()?);
                let (client, server) = (reader.address()?, reader.address()?);
                if dscp >= 64 || client.is_ipv4() != server.is_ipv4() {
                    return Err(Malformed::Illegal("connection of a stream"));
                }
                Ok(Self::Open { id, credit, opening: StreamOpening { client, server, dscp } })
            }
            ANSWER => {
                let (code, credit) = (reader.u8()?, reader.u32()?);
                let outcome = StreamOutcome::ALL.get(usize::from(code)).copied();
                let outcome = outcome.ok_or(Malformed::Illegal("outcome of a stream"))?;
                Ok(Self::Answer { id, outcome, credit })
            }
            CREDIT => Ok(Self::Credit { id, limit: reader.u32()? }),
            RESET => Ok(Self::Reset { id }),
            unknown => Err(Malformed::UnknownType(unknown)),
        }
    }

    /// Replaces what is in `out` by the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Self::Open { id, credit, opening } => {
                out.push(OPEN);
                out.extend(id.0.to_be_bytes());
                out.extend(credit.to_be_bytes());
                out.push(opening.dscp);
                fields::address(opening.client, out);
                fields::address(opening.server, out);
            }
            Self::Answer { id, outcome, credit } => {
                out.push(ANSWER);
                out.extend(id.0.to_be_bytes());
                out.push(outcome.code());
                out.extend(credit.to_be_bytes());
            }
            Self::Credit { id, limit } => {
                out.push(CREDIT);
                out.extend(id.0.to_be_bytes());
                out.extend(limit.to_be_bytes());
            }
            Self::Reset { id } => {
                out.push(RESET);
                out.extend(id.0.to_be_bytes());
            }
        }
    }
}
