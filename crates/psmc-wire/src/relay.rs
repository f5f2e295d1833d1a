//! The messages between a site and a relay, framed as those of the control channel ([`crate::control`]).
//!
//! The site has dialled. It begins with HELLO, the relay answers WELCOME. Then each request has a number that the
//! site chose, and one answer with the same number.

mod grant;
mod read;
#[cfg(test)]
mod tests;
mod write;

use std::net::{Ipv4Addr, SocketAddr};

pub use grant::{Grant, SIGNATURE_LEN, SIGNED_GRANT_LEN, SignedGrant};

use crate::counts::LaneCounts;
use crate::hop::Hop;
use crate::ids::KeyBytes;
use crate::shed::{Answer, Ask};

/// What both sides name in the handshake (ALPN, RFC 7301).
pub const ALPN: &[u8] = b"psmc-relay/1";

/// The version of these messages.
pub const VERSION: u16 = 1;

/// A request of a site, and the answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId(pub u32);

impl RequestId {
    /// What a [`Refused`] names that means the whole connection.
    pub const CONNECTION: Self = Self(0);
}

/// A session at a relay, whatever connection it was made on. Chosen at random by the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// A byte stream that waits for a gateway to accept it. Chosen at random by the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

/// The first message of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version that the site speaks.
    pub version: u16,
    /// What the site calls itself; for people only.
    pub name: String,
    /// Its right to be served, if the relay does not know its key.
    pub grant: Option<SignedGrant>,
}

/// The answer of a relay that serves this site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version that the relay speaks.
    pub version: u16,
    /// The UDP port that takes datagrams, at the address that was dialled.
    pub data_port: u16,
    /// How many sessions the site may have at a time.
    pub sessions: u16,
    /// What all its sessions may carry in each direction, in bits per second.
    pub max_rate: Option<u64>,
    /// What the relay calls itself; for people only.
    pub name: String,
    /// What it understands beyond the first version.
    pub abilities: Abilities,
}

/// What a relay understands that earlier ones do not. They do not answer requests that they do not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// It counts by colour, and tells of it ([`Message::Count`]).
    pub counts: bool,
    /// Grants can be taken back from it ([`Message::Revoke`]).
    pub revokes: bool,
    /// It drops what the owner of a destination cannot take ([`Message::Shed`]).
    pub sheds: bool,
}

impl Abilities {
    fn from_bits(bits: u32) -> Self {
        let has = |bit| bits & bit != 0;
        Self { counts: has(abilities::COUNT), revokes: has(abilities::REVOKE), sheds: has(abilities::SHED) }
    }

    fn bits(self) -> u32 {
        let bit = |is_able, bit| if is_able { bit } else { 0 };
        bit(self.counts, abilities::COUNT)
            | bit(self.revokes, abilities::REVOKE)
            | bit(self.sheds, abilities::SHED)
    }
}

/// Where a session or a stream leads, seen from the site that asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Far {
    /// To a site at this address.
    Address(SocketAddr),
    /// To the gateway that has registered with this key.
    Gateway(KeyBytes),
    /// To a label of another relay, which takes datagrams at this address. No stream leads there.
    Relay(SocketAddr, Hop),
}

/// A session wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// Repeated in the answer.
    pub request: RequestId,
    /// What it should carry in each direction, in bits per second; `None` takes what there is.
    pub rate: Option<u64>,
    /// Where it leads.
    pub far: Far,
}

/// A session wanted whose datagrams come and go in IPv4 in IPv4 on the site's side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveTunnel {
    /// What is to be said of every session. This one leads to an IPv4 address.
    pub session: Reserve,
    /// The address that the site has within the tunnel.
    pub inside: Ipv4Addr,
}

/// A session made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The request's.
    pub request: RequestId,
    /// The session.
    pub session: SessionId,
    /// For datagrams from the site that asked for it.
    pub near: Hop,
    /// For datagrams from its far end.
    pub far: Hop,
    /// What it carries in each direction at most, in bits per second.
    pub rate: Option<u64>,
    /// After how many seconds without an authentic datagram or REFRESH it is forgotten.
    pub idle_s: u32,
}

/// A further cap of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// Repeated in the answer.
    pub request: RequestId,
    /// What it caps.
    pub target: CapTarget,
    /// In each direction, in bits per second; `None` lifts it.
    pub rate: Option<u64>,
}

/// What a cap applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapTarget {
    /// One session. Its site may ask for that.
    Session(SessionId),
    /// All sessions of a site. Only the coordinator may ask for that.
    Site(KeyBytes),
    /// The whole relay. Only the coordinator may ask for that.
    Relay,
}

/// Grants that are void, however long they were to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoke {
    /// Repeated in the answer.
    pub request: RequestId,
    /// Whose.
    pub site: KeyBytes,
    /// Those that end at this second or before, since 1970 (UTC); with 0 none is void any more.
    pub until_s: u64,
}

/// What a relay has counted of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The request's.
    pub request: RequestId,
    /// The session.
    pub session: SessionId,
    /// The relay's clock, in microseconds since whenever.
    pub clock_us: u64,
    /// Of what comes from the near end.
    pub to_far: LaneCounts,
    /// Of what comes from the far end.
    pub to_near: LaneCounts,
}

/// A request that was not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The request's; [`RequestId::CONNECTION`] ends the connection.
    pub request: RequestId,
    /// Why.
    pub reason: Refusal,
    /// The same for people, with what to do about it.
    pub text: String,
}

/// Why a relay refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The site's messages make no sense, or come out of turn.
    Protocol,
    /// The relay does not speak the site's version.
    Version,
    /// The grant is missing, forged, expired, or for another site or relay.
    Grant,
    /// The site may not do that, or not to that destination.
    NotAllowed,
    /// The site or the relay has as many of these as it may have.
    Limit,
    /// There is no such session, or it is another site's.
    UnknownSession,
    /// No gateway has registered with that key.
    NoGateway,
    /// The destination has not answered.
    Unreachable,
    /// A reason that this version has no name for.
    Other(u16),
}

/// A message between a site and a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Site: who it is.
    Hello(Hello),
    /// Relay: that it serves the site.
    Welcome(Welcome),
    /// Relay: that it does not do what was asked for.
    Refused(Refused),
    /// Relay: that it has done what was asked for.
    Done(RequestId),
    /// Site: a session is wanted.
    Reserve(Reserve),
    /// Relay: there it is.
    Reserved(Reserved),
    /// Site: a session in a tunnel is wanted. Answered like [`Reserve`](Self::Reserve).
    ReserveTunnel(ReserveTunnel),
    /// Site: a session is not wanted any more.
    Release(RequestId, SessionId),
    /// Site: a session is still wanted, though idle. Answered with [`Refusal::UnknownSession`] if it is gone.
    Refresh(RequestId, SessionId),
    /// Site or coordinator: a rate is to be capped further.
    Cap(Cap),
    /// Coordinator: grants are void. Only for relays that have [the ability](Abilities::revokes).
    Revoke(Revoke),
    /// Site: its own end of a session is reached through another relay, by this label there.
    Chain(RequestId, SessionId, Hop),
    /// Site: turn this connection into a byte stream to there.
    Connect(RequestId, Far),
    /// Relay: what follows are the bytes of the other end.
    Connected(RequestId),
    /// Gateway: it can be reached over this connection, by its key.
    Register(RequestId),
    /// Relay, to a registered gateway: a stream waits.
    Incoming(StreamId),
    /// Gateway, on a new connection: turn it into that stream.
    Accept(RequestId, StreamId),
    /// Site: what has the relay counted of a session? Only for relays that have [the ability](Abilities::counts).
    Count(RequestId, SessionId),
    /// Relay: that.
    Counted(Counted),
    /// Site: what it wants dropped of its own traffic. Only for relays that have [the ability](Abilities::sheds).
    Shed(Ask),
    /// Relay: what became of that.
    Shedding(Answer),
    /// A type that a later version may have defined: to be passed over.
    Unknown(u8),
}

const HELLO: u8 = 1;
const WELCOME: u8 = 2;
const REFUSED: u8 = 3;
const DONE: u8 = 4;
const RESERVE: u8 = 5;
const RESERVED: u8 = 6;
const RELEASE: u8 = 7;
const REFRESH: u8 = 8;
const CAP: u8 = 9;
const CHAIN: u8 = 10;
const CONNECT: u8 = 11;
const CONNECTED: u8 = 12;
const REGISTER: u8 = 13;
const INCOMING: u8 = 14;
const ACCEPT: u8 = 15;
const RESERVE_TUNNEL: u8 = 16;
const COUNT: u8 = 17;
const COUNTED: u8 = 18;
const REVOKE: u8 = 19;
const SHED: u8 = 20;
const SHEDDING: u8 = 21;

/// The bit that stands for each ability.
mod abilities {
    pub(super) const COUNT: u32 = 1;
    pub(super) const REVOKE: u32 = 2;
    pub(super) const SHED: u32 = 4;
}

/// The type that stands for each kind of destination.
mod far {
    pub(super) const ADDRESS: u8 = 1;
    pub(super) const GATEWAY: u8 = 2;
    pub(super) const RELAY: u8 = 3;
}

/// The type that stands for each target of a cap.
mod cap {
    pub(super) const SESSION: u8 = 1;
    pub(super) const SITE: u8 = 2;
    pub(super) const RELAY: u8 = 3;
}

impl Refusal {
    fn code(self) -> u16 {
        match self {
            Self::Protocol => 1,
            Self::Version => 2,
            Self::Grant => 3,
            Self::NotAllowed => 4,
            Self::Limit => 5,
            Self::UnknownSession => 6,
            Self::NoGateway => 7,
            Self::Unreachable => 8,
            Self::Other(code) => code,
        }
    }

    fn from_code(code: u16) -> Self {
        match code {
            1 => Self::Protocol,
            2 => Self::Version,
            3 => Self::Grant,
            4 => Self::NotAllowed,
            5 => Self::Limit,
            6 => Self::UnknownSession,
            7 => Self::NoGateway,
            8 => Self::Unreachable,
            code => Self::Other(code),
        }
    }
}
