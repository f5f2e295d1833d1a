//! Reading the messages.

use super::{
    ACCEPT, Abilities, CAP, CHAIN, CONNECT, CONNECTED, COUNT, COUNTED, Cap, CapTarget, Counted, DONE, Far,
    HELLO, Hello, INCOMING, Message, REFRESH, REFUSED, REGISTER, RELEASE, RESERVE, RESERVE_TUNNEL, RESERVED,
    REVOKE, Refusal, Refused, RequestId, Reserve, ReserveTunnel, Reserved, Revoke, SHED, SHEDDING, SessionId,
    StreamId, WELCOME, Welcome, cap, far, grant,
};
use crate::counts::LaneCounts;
use crate::fields::{Malformed, Reader};
use crate::ids::KeyBytes;
use crate::shed::{Answer, Ask};

impl Message {
    /// Reads a message from its type and body, without the length in front.
    ///
    /// Bytes behind the fields of this version are passed over: later versions may add fields.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or illegal.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let reader = &mut reader;
        Ok(match reader.u8()? {
            HELLO => Self::Hello(hello(reader)?),
            WELCOME => Self::Welcome(welcome(reader)?),
            REFUSED => Self::Refused(refused(reader)?),
            DONE => Self::Done(request(reader)?),
            RESERVE => Self::Reserve(reserve(reader)?),
            RESERVED => Self::Reserved(reserved(reader)?),
            RESERVE_TUNNEL => Self::ReserveTunnel(reserve_tunnel(reader)?),
            RELEASE => Self::Release(request(reader)?, session(reader)?),
            REFRESH => Self::Refresh(request(reader)?, session(reader)?),
            CAP => Self::Cap(cap(reader)?),
            REVOKE => Self::Revoke(revoke(reader)?),
            CHAIN => Self::Chain(request(reader)?, session(reader)?, reader.hop()?),
            CONNECT => Self::Connect(request(reader)?, stream_end(reader)?),
            CONNECTED => Self::Connected(request(reader)?),
            REGISTER => Self::Register(request(reader)?),
            INCOMING => Self::Incoming(stream(reader)?),
            ACCEPT => Self::Accept(request(reader)?, stream(reader)?),
            COUNT => Self::Count(request(reader)?, session(reader)?),
            COUNTED => Self::Counted(counted(reader)?),
            SHED => Self::Shed(Ask::decode(reader)?),
            SHEDDING => Self::Shedding(Answer::decode(reader)?),
            unknown => Self::Unknown(unknown),
        })
    }

    /// The number of the request that these bytes are, from type to body, even where [`decode`](Self::decode) refuses them:
    /// a site waits for its answer. `None` if they are no request, or have none.
    #[must_use]
    pub fn request_of(bytes: &[u8]) -> Option<RequestId> {
        let mut reader = Reader::new(bytes);
        match reader.u8().ok()? {
            RESERVE | RESERVE_TUNNEL | RELEASE | REFRESH | CAP | CHAIN | CONNECT | REGISTER | ACCEPT
            | COUNT | REVOKE | SHED => request(&mut reader).ok(),
            _ => None,
        }
    }
}

/// The number of a request; [`RequestId::CONNECTION`] is none.
fn request(reader: &mut Reader<'_>) -> Result<RequestId, Malformed> {
    match reader.u32()? {
        0 => Err(Malformed::Illegal("request")),
        number => Ok(RequestId(number)),
    }
}

fn session(reader: &mut Reader<'_>) -> Result<SessionId, Malformed> {
    reader.u64().map(SessionId)
}

fn stream(reader: &mut Reader<'_>) -> Result<StreamId, Malformed> {
    reader.u64().map(StreamId)
}

fn hello(reader: &mut Reader<'_>) -> Result<Hello, Malformed> {
    Ok(Hello {
        version: reader.u16()?,
        name: reader.short_str("name")?.to_owned(),
        grant: grant::decode(reader)?,
    })
}

fn welcome(reader: &mut Reader<'_>) -> Result<Welcome, Malformed> {
    Ok(Welcome {
        version: reader.u16()?,
        data_port: reader.u16()?,
        sessions: reader.u16()?,
        max_rate: reader.rate()?,
        name: reader.short_str("name")?.to_owned(),
        // Earlier relays end here.
        abilities: if reader.is_empty() { Abilities::default() } else { Abilities::from_bits(reader.u32()?) },
    })
}

fn counted(reader: &mut Reader<'_>) -> Result<Counted, Malformed> {
    Ok(Counted {
        request: request(reader)?,
        session: session(reader)?,
        clock_us: reader.u64()?,
        to_far: LaneCounts::decode(reader)?,
        to_near: LaneCounts::decode(reader)?,
    })
}

fn refused(reader: &mut Reader<'_>) -> Result<Refused, Malformed> {
    Ok(Refused {
        request: RequestId(reader.u32()?),
        reason: Refusal::from_code(reader.u16()?),
        text: reader.short_str("text")?.to_owned(),
    })
}

fn reserve(reader: &mut Reader<'_>) -> Result<Reserve, Malformed> {
    Ok(Reserve { request: request(reader)?, rate: reader.rate()?, far: far(reader)? })
}

fn reserve_tunnel(reader: &mut Reader<'_>) -> Result<ReserveTunnel, Malformed> {
    Ok(ReserveTunnel { session: reserve(reader)?, inside: reader.array::<4>()?.into() })
}

fn reserved(reader: &mut Reader<'_>) -> Result<Reserved, Malformed> {
    Ok(Reserved {
        request: request(reader)?,
        session: session(reader)?,
        near: reader.hop()?,
        far: reader.hop()?,
        rate: reader.rate()?,
        idle_s: reader.u32()?,
    })
}

fn revoke(reader: &mut Reader<'_>) -> Result<Revoke, Malformed> {
    Ok(Revoke { request: request(reader)?, site: KeyBytes(reader.array()?), until_s: reader.u64()? })
}

fn cap(reader: &mut Reader<'_>) -> Result<Cap, Malformed> {
    let request = request(reader)?;
    let target = match reader.u8()? {
        cap::SESSION => CapTarget::Session(session(reader)?),
        cap::SITE => CapTarget::Site(KeyBytes(reader.array()?)),
        cap::RELAY => CapTarget::Relay,
        _ => return Err(Malformed::Illegal("target of a cap")),
    };
    Ok(Cap { request, target, rate: reader.rate()? })
}

fn far(reader: &mut Reader<'_>) -> Result<Far, Malformed> {
    match reader.u8()? {
        far::ADDRESS => reader.address().map(Far::Address),
        far::GATEWAY => reader.array().map(KeyBytes).map(Far::Gateway),
        far::RELAY => Ok(Far::Relay(reader.address()?, reader.hop()?)),
        _ => Err(Malformed::Illegal("destination")),
    }
}

/// A destination of streams, which no label of a relay is.
fn stream_end(reader: &mut Reader<'_>) -> Result<Far, Malformed> {
    match far(reader)? {
        Far::Relay(..) => Err(Malformed::Illegal("destination of a stream")),
        end @ (Far::Address(_) | Far::Gateway(_)) => Ok(end),
    }
}
