//! The traffic conditioner of a class: which of its packets networks shall keep longest when they must drop some.
//!
//! A class has a [`Profile`], what it may send. A [`Conditioner`] measures what it does send, and gives each packet a drop
//! [`Precedence`]. It drops and delays nothing. Whoever has a full queue, a relay or a router, heeds the marks (RIO; RFC 2597).
//!
//! Four ways of marking ([`Mode`]), of which `seed` and `standard` are there to be compared with:
//!
//! | mode | marks by | reads |
//! |---|---|---|
//! | `standard` | rate of the class (TSW3CM, RFC 2859) | nothing but lengths |
//! | `seed` | the same, and what a TCP sender fears to lose | TCP, of both directions |
//! | `adaptive` | rate of each flow beside its fair share of the profile | addresses and ports |
//!
//! `adaptive` follows core-stateless fair queueing (Stoica, Shenker and Zhang 1998) for flows and, as CAKE does, for hosts. A flow
//! that begins, has a small window, or sends little, is below its share and keeps DP0, whatever its protocol is. Nothing in
//! a header buys more than that.

mod adaptive;
mod bias;
mod dscp;
mod flows;
mod hosts;
mod lru;
mod meter;
mod seed;
mod tsw3cm;

use std::net::IpAddr;
use std::time::Instant;

use rand_core::Rng;

use adaptive::Adaptive;
pub use bias::RttRule;
pub use dscp::AssuredClass;
pub(crate) use dscp::set_dscp;
use seed::Seed;
use tsw3cm::Tsw3cm;

/// How willingly a packet is dropped (RFC 2597): what is kept longer is less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// Kept longest: green, AFx1.
    #[default]
    Dp0,
    /// In the middle: yellow, AFx2.
    Dp1,
    /// Dropped first: red, AFx3.
    Dp2,
}

impl Precedence {
    /// All of them, what is kept longest first.
    pub const ALL: [Self; 3] = [Self::Dp0, Self::Dp1, Self::Dp2];

    /// 0, 1 or 2, as in the marks of a datagram.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Dp0 => 0,
            Self::Dp1 => 1,
            Self::Dp2 => 2,
        }
    }

    fn index(self) -> usize {
        usize::from(self.number())
    }
}

/// What a class may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The rate that is promised, bits per second; 0 counts as 1.
    pub rate: u64,
    /// Bytes that may exceed it for a moment; 0 counts as 1.
    pub burst: u64,
}

impl Profile {
    /// The promised rate, bytes per second (CTR of RFC 2859).
    fn committed(&self) -> f64 {
        to_f64(self.rate.max(1)) / 8.0
    }

    /// From this rate on what is sent is DP2, bytes per second (PTR of RFC 2859).
    fn peak(&self) -> f64 {
        self.committed() * PEAK
    }

    fn burst(&self) -> f64 {
        to_f64(self.burst.max(1))
    }
}

/// The peak rate in promised rates: between the two packets are DP1. The experiments of RFC 2859's authors have it so.
const PEAK: f64 = 2.0;

/// How a conditioner marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Not at all: every packet is DP0.
    Off,
    /// By the time sliding window three colour marker (RFC 2859).
    Standard,
    /// As the literature's adaptive conditioner does (Habib, Fahmy and Bhargava; seed QoS §4 and figure 3): it protects what a
    /// TCP sender fears to lose, as its header says so.
    Seed(SeedRules),
    /// By the fair share of each flow and host.
    #[default]
    Adaptive,
}

impl Mode {
    /// The name in configuration files and in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Standard => "standard",
            Self::Seed(_) => "seed",
            Self::Adaptive => "adaptive",
        }
    }
}

/// What [`Mode::Seed`] is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedRules {
    /// The flows of which it keeps a state, those that were used last; 1 to 65,536.
    pub flows: usize,
    /// How flows of different round trips are made even.
    pub rtt: RttRule,
}

impl Default for SeedRules {
    fn default() -> Self {
        Self { flows: MAX_SEED_FLOWS, rtt: RttRule::default() }
    }
}

/// The most flows of [`Mode::Seed`]: 9 MiB of state.
pub const MAX_SEED_FLOWS: usize = 1 << 16;

/// How a class is conditioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditioning {
    /// What it may send, to all peers together.
    pub profile: Profile,
    /// How its packets are marked.
    pub mode: Mode,
    /// The code points that say the marks to routers behind the far site; with none, packets keep those that they have.
    pub mark: Option<AssuredClass>,
}

/// What a conditioner reads of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// What tells its flow from others: a hash of addresses, protocol and ports with a secret key, for what collides shares
    /// its fate.
    pub flow: u64,
    /// Who sends it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// Bytes, with the IP header.
    pub len: usize,
    /// Whether its IP header carries the ECN codepoint CE (RFC 3168).
    pub is_ce: bool,
    /// What its TCP header says if it has one; only [`Mode::Seed`] asks, see [`Conditioner::reads_tcp`].
    pub tcp: Option<TcpFacts>,
}

/// What a TCP header says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFacts {
    /// The byte of the flags, CWR to FIN (RFC 9293 §3.1).
    pub flags: u8,
    /// The sequence number of its first byte.
    pub seq: u32,
    /// The next byte that its sender waits for, if the flag ACK is set.
    pub ack: u32,
    /// Bytes behind the header.
    pub payload: u32,
}

impl TcpFacts {
    /// Opens a connection.
    pub const SYN: u8 = 0x02;
    /// `ack` counts.
    pub const ACK: u8 = 0x10;
    /// ECN-Echo: the receiver has seen a mark.
    pub const ECE: u8 = 0x40;
    /// The sender has reduced its window because of ECN.
    pub const CWR: u8 = 0x80;

    fn has(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// Packets and bytes of a precedence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Packets.
    pub packets: u64,
    /// Bytes, with their IP headers.
    pub bytes: u64,
}

/// Marks the packets of a class.
///
/// Call [`mark`](Self::mark) for each packet that the class sends, in order, with the time. [`Mode::Seed`] also wants to
/// hear of the segments of the other direction, [`on_reply`](Self::on_reply); without them it knows no windows and no round
/// trips, and the call is harmless in other modes. Nothing is allocated after the conditioner is made. Memory: 2.4 MiB for
/// `adaptive`, up to 9 MiB for `seed`, less than a kilobyte for others; no number of flows changes that.
#[derive(Debug)]
pub struct Conditioner {
    profile: Profile,
    mode: Mode,
    marker: Marker,
    marked: [Marked; 3],
}

#[derive(Debug)]
enum Marker {
    Off,
    Standard(Tsw3cm),
    Seed(Seed),
    Adaptive(Box<Adaptive>),
}

impl Conditioner {
    /// A conditioner that has seen nothing. The `key` must be a secret of this site: it keeps outsiders from aiming at others' state.
    #[must_use]
    pub fn new(profile: Profile, mode: Mode, key: u64) -> Self {
        let marker = match mode {
            Mode::Off => Marker::Off,
            Mode::Standard => Marker::Standard(Tsw3cm::new(profile)),
            Mode::Seed(rules) => Marker::Seed(Seed::new(profile, rules)),
            Mode::Adaptive => Marker::Adaptive(Box::new(Adaptive::new(profile, key))),
        };
        Self { profile, mode, marker, marked: Default::default() }
    }

    /// The same after another one that has marked so much.
    pub(crate) fn after(self, marked: [Marked; 3]) -> Self {
        Self { marked, ..self }
    }

    /// Says how willingly a packet shall be dropped that passes now.
    pub fn mark(&mut self, packet: &Facts, rng: &mut impl Rng, now: Instant) -> Precedence {
        let precedence = match &mut self.marker {
            Marker::Off => Precedence::Dp0,
            Marker::Standard(tsw) => tsw.mark(packet.len, rng, now),
            Marker::Seed(seed) => seed.mark(packet, rng, now),
            Marker::Adaptive(adaptive) => adaptive.mark(packet, now),
        };
        let marked = &mut self.marked[precedence.index()];
        marked.packets += 1;
        marked.bytes += packet.len as u64;
        precedence
    }

    /// A segment has come that answers those of `flow`.
    pub fn on_reply(&mut self, flow: u64, tcp: &TcpFacts, now: Instant) {
        match &mut self.marker {
            Marker::Off | Marker::Standard(_) | Marker::Adaptive(_) => {}
            Marker::Seed(seed) => seed.on_reply(flow, tcp, now),
        }
    }

    /// Whether it heeds TCP headers and replies.
    #[must_use]
    pub fn reads_tcp(&self) -> bool {
        matches!(self.marker, Marker::Seed(_))
    }

    /// What the class may send.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// How it marks.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What was marked so far, by precedence.
    #[must_use]
    pub fn marked(&self) -> [Marked; 3] {
        self.marked
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates and lengths are far below 2^53")]
fn to_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
