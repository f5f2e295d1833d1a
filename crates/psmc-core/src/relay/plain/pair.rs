//! Two ends, and what is known of the ways to them.
//!
//! Which tunnels there are, and where their ends are: both may change while packets pass.
//!
//! What plain tunnels have seen, for people and tools.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Instant;

use ipnet::Ipv4Net;
use psmc_wire::ids::KeyBytes;
use psmc_wire::ip::IPV4_HEADER_LEN;

use super::{Direction, PlainTunnels};
use crate::relay::rio::{Lane, PRECEDENCES};
use crate::relay::session::Side;

/// How long a router's word counts that a link is narrow: then larger packets are tried again, "10 minutes or so" (RFC
/// 1191, section 6.3).
const NARROW_NS: u64 = 600_000_000_000;

/// No router is believed that its link takes less: forged errors would have the relay cut everything to shreds. Links
/// of the Internet take more, and kernels have the same bound.
const MIN_MTU: u16 = 552;

/// What links take according to RFC 1191, table 7-1: for routers that do not say. The lowest ones are below
/// [`MIN_MTU`].
const PLATEAUS: [u16; 7] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006];

/// Where the outer packets of an end come from and go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainOuter {
    /// Always this address.
    Fixed(Ipv4Addr),
    /// Wherever this site registers from.
    Site(KeyBytes),
}

/// One end of a tunnel that ends at the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainEnd {
    /// Where it is.
    pub outer: PlainOuter,
    /// The relay's address towards it; [`Ipv4Addr::UNSPECIFIED`] for any that it has.
    pub local: Ipv4Addr,
    /// The inner addresses behind it.
    pub inside: Vec<Ipv4Net>,
    /// The site that may have dropped what goes to it.
    pub owner: Option<KeyBytes>,
    /// What the first link to it takes, in bytes with the outer header, unless that depends on where a site is.
    pub mtu: u16,
}

/// Two ends between which packets pass. [`Side::Near`] is the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainPair {
    /// What it is called; no other pair is.
    pub name: String,
    /// What may pass to each side, in bits per second.
    pub rate: Option<u64>,
    /// Both ends.
    pub ends: [PlainEnd; 2],
}

/// A pair at work.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) ends: [End; 2],
    /// By the side that they lead to.
    pub(super) lanes: [Lane; 2],
}

/// An end, and the way to it.
#[derive(Debug)]
pub(super) struct End {
    pub(super) outer: PlainOuter,
    pub(super) local: Ipv4Addr,
    inside: Vec<Ipv4Net>,
    /// The site that may have dropped what goes to it.
    pub(super) owner: Option<KeyBytes>,
    /// Its outer address, if it is anywhere.
    pub(super) address: Option<Ipv4Addr>,
    link_mtu: u16,
    /// What a router on the way has said that its link takes, and until when that counts.
    narrow: Option<(u16, u64)>,
}

impl Pair {
    pub(super) fn new(config: PlainPair, now: u64) -> Self {
        let lane = || Lane::new(config.rate, now);
        Self { name: config.name, lanes: [lane(), lane()], ends: config.ends.map(End::new) }
    }

    /// Whether this is the pair that the configuration describes, but for its rate, the owners of its ends and what links take.
    pub(super) fn is(&self, config: &PlainPair) -> bool {
        let same = |(end, config): (&End, &PlainEnd)| {
            end.outer == config.outer && end.local == config.local && end.inside == config.inside
        };
        self.name == config.name && self.ends.iter().zip(&config.ends).all(same)
    }

    /// Takes over the rate, the owners, and what links take.
    pub(super) fn renew(&mut self, config: &PlainPair) {
        for lane in &self.lanes {
            lane.limiter.set_rate(config.rate);
        }
        for (end, config) in self.ends.iter_mut().zip(&config.ends) {
            end.owner = config.owner;
            if let PlainOuter::Fixed(_) = config.outer {
                end.link_mtu = config.mtu;
            }
        }
    }

    /// Whether a packet with these inner addresses may pass from one side to the other.
    pub(super) fn admits(&self, from: Side, source: Ipv4Addr, destination: Ipv4Addr) -> bool {
        self.end(from).is_inside(source) && self.end(from.other()).is_inside(destination)
    }

    pub(super) fn end(&self, side: Side) -> &End {
        &self.ends[side.index()]
    }
}

impl End {
    fn new(config: PlainEnd) -> Self {
        let address = match config.outer {
            PlainOuter::Fixed(address) => Some(address),
            PlainOuter::Site(_) => None,
        };
        let PlainEnd { outer, local, inside, owner, mtu } = config;
        Self { outer, local, inside, owner, address, link_mtu: mtu, narrow: None }
    }

    /// Whether an inner address is behind it.
    pub(super) fn is_inside(&self, ip: Ipv4Addr) -> bool {
        self.inside.iter().any(|network| network.contains(&ip))
    }

    /// The end is elsewhere, with a first link that takes so many bytes; or nowhere.
    pub(super) fn move_to(&mut self, place: Option<(Ipv4Addr, u16)>) {
        let address = place.map(|(address, _)| address);
        if address != self.address {
            // What is known of the way there is of another way.
            (self.address, self.narrow) = (address, None);
        }
        if let Some((_, mtu)) = place {
            self.link_mtu = mtu;
        }
    }

    /// The first link to it takes so many bytes.
    pub(super) fn set_link_mtu(&mut self, mtu: u16) {
        self.link_mtu = mtu;
    }

    /// Whether the end speaks with the relay by this address of the relay's.
    pub(super) fn knows_as(&self, local: Ipv4Addr) -> bool {
        self.local.is_unspecified() || self.local == local
    }

    /// What the way to the end takes, in bytes with the outer header.
    pub(super) fn path_mtu(&self, now: u64) -> u16 {
        match self.narrow {
            Some((mtu, until)) if now < until => mtu.min(self.link_mtu),
            Some(_) | None => self.link_mtu,
        }
    }

    /// The longest inner packet that the way to the end takes.
    pub(super) fn max_inner(&self, now: u64) -> u16 {
        // The lowest way takes more than a header.
        self.path_mtu(now).saturating_sub(HEADER)
    }

    /// A router has said what its link takes, 0 if it did not know, of a packet of so many bytes. False if that cannot
    /// be: the packet would have fitted.
    pub(super) fn learn(&mut self, mtu: u16, packet: usize, now: u64) -> bool {
        let fits = |mtu: &u16| usize::from(*mtu) < packet;
        let said = if mtu == 0 { PLATEAUS.into_iter().find(fits).unwrap_or(MIN_MTU) } else { mtu };
        if !fits(&said) {
            return false;
        }
        self.narrow = Some((said.max(MIN_MTU).min(self.path_mtu(now)), now.saturating_add(NARROW_NS)));
        true
    }
}

/// The outer header.
#[expect(clippy::cast_possible_truncation, reason = "20 bytes")]
const HEADER: u16 = IPV4_HEADER_LEN as u16;

impl PlainTunnels {
    /// Serves these pairs from now on, no two of which can mean the same packet. A pair that there is already, by its
    /// name and its ends, goes on with all that waits, and with what is counted of it; only its rate may be another. The sites
    /// of new ones have to be [placed](Self::place_site).
    pub fn reconfigure(&mut self, pairs: Vec<PlainPair>, now: Instant) {
        let now = self.clock(now);
        let mut before = std::mem::take(&mut self.pairs);
        self.order.clear();
        for config in pairs {
            let goes_on = before.iter().find(|(_, pair)| pair.is(&config)).map(|(number, _)| *number);
            let number = goes_on.unwrap_or(self.next_pair);
            let pair = match before.remove(&number) {
                Some(mut pair) => {
                    pair.renew(&config);
                    pair
                }
                None => {
                    self.next_pair += 1;
                    Pair::new(config, now)
                }
            };
            self.pairs.insert(number, pair);
            self.order.push(number);
        }
        for lane in before.into_values().flat_map(|pair| pair.lanes) {
            self.forget(lane, now);
        }
        self.find_ends();
    }

    /// A site has registered from an address, the first link to which takes so many bytes; or it is not registered any more.
    /// The ends that are left to it are there from now on. False, and they are nowhere, if a tunnel would lead into
    /// itself: "the router MUST NOT tunnel the datagram" to its own end (RFC 2003, section 5).
    pub fn place_site(&mut self, site: KeyBytes, place: Option<(Ipv4Addr, u16)>) -> bool {
        let mut inside = self.pairs.values().flat_map(|pair| &pair.ends);
        let leads_into_itself = place.is_some_and(|(ip, _)| inside.any(|end| end.is_inside(ip)));
        let place = place.filter(|_| !leads_into_itself);
        for end in self.ends().filter(|end| end.outer == PlainOuter::Site(site)) {
            end.move_to(place);
        }
        self.find_ends();
        !leads_into_itself
    }

    /// Says what the first link to an end takes.
    pub fn set_link_mtu(&mut self, end: Ipv4Addr, mtu: u16) {
        self.ends_at(end).for_each(|end| end.set_link_mtu(mtu));
    }

    pub(super) fn ends_at(&mut self, address: Ipv4Addr) -> impl Iterator<Item = &mut End> {
        self.ends().filter(move |end| end.address == Some(address))
    }

    fn ends(&mut self) -> impl Iterator<Item = &mut End> {
        self.pairs.values_mut().flat_map(|pair| &mut pair.ends)
    }

    /// Finds anew what may come from where.
    fn find_ends(&mut self) {
        let mut from: BTreeMap<Ipv4Addr, Vec<Direction>> = BTreeMap::new();
        for (pair, it) in &self.pairs {
            for side in [Side::Near, Side::Far] {
                if let Some(address) = it.end(side).address {
                    from.entry(address).or_default().push(Direction { pair: *pair, to: side.other() });
                }
            }
        }
        self.from = from;
    }

    /// Drops what waits in a lane.
    fn forget(&mut self, mut lane: Lane, now: u64) {
        while let Some(buffer) = lane.pop(now, &mut self.queues.slab) {
            self.queues.recycle(buffer);
        }
    }
}

/// Packets that went no further, by reason, and what was said about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlainCounters {
    /// No IPv4 in IPv4.
    pub malformed: u64,
    /// Between inner addresses that are not behind the ends: spoofed, or for others.
    pub misaddressed: u64,
    /// Marked by a congested router, though their senders know no such marks (RFC 6040).
    pub congested: u64,
    /// They had passed as many routers as they may.
    pub expired: u64,
    /// To an end whose site is not registered.
    pub no_end: u64,
    /// Longer than the way on takes, and not to be cut.
    pub too_big: u64,
    /// There was no room for them among all that waits, or they are too long to wait.
    pub queue_full: u64,
    /// The owner of the end to which they go has asked that they be dropped.
    pub shed: u64,
    /// Packets that were cut for a narrower way.
    pub cut: u64,
    /// ICMP errors that were sent to inner hosts, the relay's own and those passed on.
    pub errors_sent: u64,
    /// ICMP errors by which routers on the ways between ends have said that packets were too long.
    pub heard_too_big: u64,
    /// Those by which they, or the ends, have said anything else.
    pub heard_unreachable: u64,
}

/// A pair as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainStatus {
    /// What it is called.
    pub name: String,
    /// What may pass to each side, in bits per second.
    pub rate: Option<u64>,
    /// The ways to both sides.
    pub ways: [PlainWay; 2],
}

/// The way to one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainWay {
    /// The end, if it is anywhere.
    pub address: Option<Ipv4Addr>,
    /// Who has to register for it to be anywhere.
    pub site: Option<KeyBytes>,
    /// What the way takes, in bytes with the outer header.
    pub path_mtu: u16,
    /// Packets that were passed on to it.
    pub packets: u64,
    /// Their bytes, without outer headers.
    pub bytes: u64,
    /// Packets that wait.
    pub waiting: u32,
    /// Packets that were dropped so that the queue did not grow, by drop precedence.
    pub dropped: [u64; PRECEDENCES],
}

impl PlainTunnels {
    /// All pairs, in the order in which they were configured.
    pub fn status(&self, now: Instant) -> impl Iterator<Item = PlainStatus> + '_ {
        let now = self.clock(now);
        self.order.iter().map(move |number| status_of(&self.pairs[number], now))
    }
}

fn status_of(pair: &Pair, now: u64) -> PlainStatus {
    let ways = [Side::Near, Side::Far].map(|to| {
        let (end, lane) = (pair.end(to), &pair.lanes[to.index()]);
        PlainWay {
            address: end.address,
            site: match end.outer {
                PlainOuter::Fixed(_) => None,
                PlainOuter::Site(site) => Some(site),
            },
            path_mtu: end.path_mtu(now),
            packets: lane.datagrams,
            bytes: lane.bytes,
            waiting: lane.len().into(),
            dropped: lane.dropped,
        }
    });
    PlainStatus { name: pair.name.clone(), rate: pair.lanes[0].limiter.rate(), ways }
}
