//! A session: two sides, from each of which datagrams come under a label, and two lanes between them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use psmc_wire::PacketNumber;
use psmc_wire::counts::{LaneCounts, Passed};
use psmc_wire::hop::{HOP_CHALLENGE_LEN, Hop, HopHeader, HopKey, replace_hop_header, strip_hop_header};
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::SessionId;

use super::rio::Lane;
use crate::clock::timestamp_of;
use crate::counted::{Samples, Told, count};
use crate::limiter::Ticket;
use crate::replay::{HOP_WORDS, ReplayWindow};

/// One of the two sides of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Towards the site that has reserved it.
    #[default]
    Near,
    /// Towards the other end.
    Far,
}

impl Side {
    /// The side across.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }

    /// Its place among what there is for each of both: towards the near end first.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Near => 0,
            Self::Far => 1,
        }
    }
}

/// Where a side is, and from which address of ours it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its own.
    pub remote: SocketAddr,
    /// Ours; `None` leaves it to the routes.
    pub local_ip: Option<IpAddr>,
    /// The tunnel in which datagrams travel; then `remote` is the address within it, and `local_ip` that of its end here.
    pub tunnel: Option<Tunnel>,
}

/// A tunnel of IPv4 in IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Its other end.
    pub end: Ipv4Addr,
    /// The address within the tunnel with which the other side speaks: not ours, but that of the far end.
    pub peer: SocketAddrV4,
}

/// Between which addresses the datagrams of a side are within its tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The side's own.
    pub own: Ipv4Addr,
    /// The far end's.
    pub peer: SocketAddrV4,
}

impl Address {
    /// Whether what goes to the other arrives at the same place, whichever address of ours it leaves from.
    pub(super) fn leads_to(self, other: Self) -> bool {
        (self.remote, self.tunnel) == (other.remote, other.tunnel)
    }

    /// Where a side is that is reached by UDP, from whichever address of ours.
    #[must_use]
    pub fn of(remote: SocketAddr) -> Self {
        Self { remote, local_ip: None, tunnel: None }
    }
}

/// In which form datagrams leave towards a side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leg {
    /// Bare: a site takes them.
    Site,
    /// With a hop header: another relay takes them.
    Relay(Hop),
}

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    /// Tells it from an earlier one in the same place.
    pub(super) generation: u32,
    pub(super) ticket: Ticket,
    /// The site at the far end, where that is known.
    pub(super) far_site: Option<KeyBytes>,
    /// What was agreed when it was reserved, in bits per second.
    pub(super) reserved_rate: Option<u64>,
    /// In nanoseconds since the relay's origin.
    pub(super) used_at: u64,
    pub(super) ends: [End; 2],
    /// Makes the tokens of challenges, of which so many were made.
    pub(super) secret: HopKey,
    pub(super) challenges: u64,
    /// By the side that they lead to.
    pub(super) lanes: [Lane; 2],
    /// When datagrams with the delay mark came, in the same order; once somebody has asked.
    pub(super) passages: Option<Box<[Passages; 2]>>,
}

/// When datagrams of one direction that have the delay mark came.
#[derive(Debug, Default)]
pub(super) struct Passages {
    samples: Samples<Passed>,
    told: Told,
}

impl Session {
    /// The site to which what goes to that side belongs, where that is known.
    pub(super) fn owner(&self, to: Side) -> Option<KeyBytes> {
        match to {
            Side::Near => Some(self.ticket.account().key()),
            Side::Far => self.far_site,
        }
    }

    /// Counts a datagram that goes to that side, and has proved to be authentic.
    pub(super) fn note_received(&mut self, to: Side, header: &HopHeader, datagram: &[u8], now: u64) {
        count(&mut self.lanes[to.index()].received, header.marks);
        if header.marks.delay
            && let Some(passages) = &mut self.passages
            && let Some(number) = HopHeader::packet_number(datagram)
        {
            let at_us = timestamp_of(now / NANOS_PER_MICRO);
            passages[to.index()].samples.note(Passed { number, at_us });
        }
    }

    /// What was counted of what goes to that side. Each delay sample is told once, and none is kept before somebody has asked.
    pub(super) fn counts(&mut self, to: Side) -> LaneCounts {
        let passages = &mut self.passages.get_or_insert_default()[to.index()];
        let lane = &self.lanes[to.index()];
        LaneCounts {
            received: lane.received,
            handed_on: lane.handed_on,
            samples: passages.samples.tell(&mut passages.told),
        }
    }
}

/// A relay's clock has nanoseconds, and tells microseconds.
pub(super) const NANOS_PER_MICRO: u64 = 1000;

/// One side of a session.
#[derive(Debug)]
pub(super) struct End {
    /// What datagrams from there must carry.
    pub(super) hop: Hop,
    window: ReplayWindow<HOP_WORDS>,
    pub(super) address: Option<Address>,
    /// Where it may have moved.
    pub(super) elsewhere: Option<Elsewhere>,
    leg: Leg,
    /// What its datagrams say within their tunnel, if they come in one.
    inside: Option<Inside>,
    /// The number of the next datagram to there, if it is a relay.
    next: PacketNumber,
}

/// Where a side may have moved: its newest datagram has come from there, which whoever is on the way can bring about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elsewhere {
    pub(super) address: Address,
    /// What it was asked to send back.
    token: Option<[u8; 8]>,
    /// When it is to be asked, and how long after that again.
    ask_at: u64,
    interval: u64,
    /// Bytes that have come from there, and gone there.
    received: usize,
    sent: usize,
}

/// So many times the bytes that have come from an address may go there before it has answered (RFC 9000 §8.1).
const AMPLIFICATION: usize = 3;

/// The shortest and the longest time between two challenges, in nanoseconds, as between those of sites.
const INTERVAL: (u64, u64) = (100_000_000, 500_000_000);

impl Elsewhere {
    fn new(address: Address, now: u64) -> Self {
        Self { address, token: None, ask_at: now, interval: INTERVAL.0, received: 0, sent: 0 }
    }

    /// Whether it may be asked now.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.ask_at <= now && self.has_room_for(HOP_CHALLENGE_LEN)
    }

    /// It is asked, and always to send back the same, which is made by `token` the first time.
    pub(super) fn ask(&mut self, token: impl FnOnce() -> [u8; 8], now: u64) -> [u8; 8] {
        self.ask_at = now + self.interval;
        self.interval = (2 * self.interval).min(INTERVAL.1);
        self.sent += HOP_CHALLENGE_LEN;
        *self.token.get_or_insert_with(token)
    }

    /// Whether a datagram of `bytes` may go there as well; it counts then.
    pub(super) fn takes(&mut self, bytes: usize) -> bool {
        let takes = self.has_room_for(bytes);
        self.sent += if takes { bytes } else { 0 };
        takes
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.sent + bytes <= AMPLIFICATION * self.received
    }
}

/// Why a datagram is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disbelief {
    /// The number is not new.
    Replayed,
    /// The tag is wrong.
    Forged,
    /// It has come in another way than was agreed, or for somebody else.
    Misaddressed,
}

impl End {
    pub(super) fn new(hop: Hop, leg: Leg, address: Option<Address>) -> Self {
        let (window, next) = (ReplayWindow::default(), PacketNumber(0));
        Self { hop, window, address, elsewhere: None, leg, inside: None, next }
    }

    /// The same, with datagrams that travel in a tunnel, if that is said.
    pub(super) fn inside(self, inside: Option<Inside>) -> Self {
        Self { inside, ..self }
    }

    /// Takes in a datagram that claims to come from this side; nothing changes unless it does.
    pub(super) fn accept(
        &mut self,
        header: &HopHeader,
        datagram: &[u8],
        from: Address,
        now: u64,
    ) -> Result<(), Disbelief> {
        let number = PacketNumber::expand(header.number, self.window.expected());
        if !self.window.is_new(number) {
            return Err(Disbelief::Replayed);
        }
        if !header.is_authentic(datagram, number, &self.hop.key) {
            return Err(Disbelief::Forged);
        }
        if !self.is_agreed(from) {
            return Err(Disbelief::Misaddressed);
        }
        // Whoever is on the way may have held an older one back.
        if number >= self.window.expected() {
            self.follow(from, header.answers, datagram.len(), now);
        }
        self.window.record(number);
        Ok(())
    }

    /// The newest datagram has come `from` there. Unless this side cannot say whether it is there, it stays where it is until it has.
    fn follow(&mut self, from: Address, answers: bool, bytes: usize, now: u64) {
        if !answers || self.address.is_none_or(|address| address.leads_to(from)) {
            (self.address, self.elsewhere) = (Some(from), None);
            return;
        }
        let known = self.elsewhere.take().filter(|known| known.address.leads_to(from));
        self.elsewhere.insert(known.unwrap_or_else(|| Elsewhere::new(from, now))).received += bytes;
    }

    /// An answer to a challenge has come `from` there; it is authentic. Says whether it was waited for, and has moved this side.
    pub(super) fn on_response(&mut self, token: [u8; 8], from: Address) -> bool {
        let moved =
            self.elsewhere.take_if(|known| known.address.leads_to(from) && known.token == Some(token));
        self.address = moved.map(|_| from).or(self.address);
        moved.is_some()
    }

    /// Whether datagrams may come by this way: bare or in a tunnel, as was agreed, and within that between the addresses
    /// for which it was made. Whoever may use the label could otherwise send to others, or as others.
    fn is_agreed(&self, from: Address) -> bool {
        match (self.inside, from.tunnel) {
            (None, None) => true,
            (Some(inside), Some(tunnel)) => inside.peer == tunnel.peer && inside.own == from.remote.ip(),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// Sets the form in which datagrams leave to this side.
    pub(super) fn set_leg(&mut self, leg: Leg) {
        if self.leg != leg {
            self.leg = leg;
            self.next = PacketNumber(0);
        }
    }

    /// Whether what goes there passes one more relay.
    pub(super) fn is_relay(&self) -> bool {
        matches!(self.leg, Leg::Relay(_))
    }

    /// Gives a datagram the form in which it leaves towards this side.
    pub(super) fn dress<'d>(&mut self, datagram: &'d mut [u8]) -> &'d [u8] {
        match &self.leg {
            Leg::Site => strip_hop_header(datagram),
            Leg::Relay(hop) => {
                replace_hop_header(datagram, hop, self.next);
                self.next = self.next.next();
                datagram
            }
        }
    }
}
