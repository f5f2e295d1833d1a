//! Two ends, and what is known of the ways to them.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use psmc_wire::ids::KeyBytes;
use psmc_wire::ip::IPV4_HEADER_LEN;

use crate::relay::lane::Lane;
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

    /// Whether this is the pair that the configuration describes, but for its rate and for what links take.
    pub(super) fn is(&self, config: &PlainPair) -> bool {
        let same = |(end, config): (&End, &PlainEnd)| {
            end.outer == config.outer && end.local == config.local && end.inside == config.inside
        };
        self.name == config.name && self.ends.iter().zip(&config.ends).all(same)
    }

    /// Takes over the rate, and what links take.
    pub(super) fn renew(&mut self, config: &PlainPair) {
        for lane in &self.lanes {
            lane.limiter.set_rate(config.rate);
        }
        for (end, config) in self.ends.iter_mut().zip(&config.ends) {
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
        let PlainEnd { outer, local, inside, mtu } = config;
        Self { outer, local, inside, address, link_mtu: mtu, narrow: None }
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
