//! The hosts and the links between them, and what a tunnel over these could carry at best.

use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv4Net;
use psmc_testbed::netns::{Namespace, NetnsError, Queue, link_pair};
use psmc_wire::hop::HOP_HEADER_LEN;
use psmc_wire::ip::IPV4_HEADER_LEN;

/// How datagrams travel to a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrapping {
    Udp,
    IpIp,
}

/// A link that leaves the van: to the headquarters, or to a relay. At both ends its interface bears its name.
#[derive(Debug)]
pub(super) struct Link {
    /// That of the relay, if there is one at its other end.
    pub(super) name: &'static str,
    /// Its speed in Mbit/s, Ethernet headers counted.
    pub(super) mbps: u32,
    /// The third byte of its addresses, and of those of a relay and the headquarters.
    subnet: u8,
    /// Whether a relay is at its other end, and how datagrams travel there.
    pub(super) to_relay: Option<Wrapping>,
}

/// All links of a demonstration, the fastest first: that is the one that is cut, for it hurts most.
pub(super) type Links = &'static [Link];

/// Links to the headquarters: as uneven as what people have at home, and slow enough for any machine to fill.
pub(super) const DIRECT: Links = &[
    Link { name: "dsl", mbps: 40, subnet: 1, to_relay: None },
    Link { name: "lte", mbps: 30, subnet: 2, to_relay: None },
    Link { name: "wifi", mbps: 20, subnet: 3, to_relay: None },
];

/// Links to relays. There is no other way to the headquarters.
const RELAYED: Links = &[
    Link { name: "fra1", mbps: 40, subnet: 11, to_relay: Some(Wrapping::Udp) },
    Link { name: "ams1", mbps: 30, subnet: 12, to_relay: Some(Wrapping::IpIp) },
    Link { name: "lon1", mbps: 20, subnet: 13, to_relay: Some(Wrapping::Udp) },
];

/// How many relays there can be: one that is cut, and others that stay.
pub(super) const RELAYS: std::ops::RangeInclusive<i64> = 2..=3;

/// Links to so many relays, or straight ones.
pub(super) fn links(relays: Option<u8>) -> Links {
    relays.map_or(DIRECT, |count| &RELAYED[..usize::from(count).min(RELAYED.len())])
}

/// How a link is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// Its interface goes down, as when a plug is pulled: the daemon is told
    #[default]
    Down,
    /// Every packet on it gets lost, as behind a modem without a signal: nobody is told
    Silent,
    /// The relay at its end is killed, and started again: with --relays
    #[value(skip)]
    Killed,
}

/// The hosts, joined by links.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) van: Namespace,
    pub(super) hq: Namespace,
    /// The hosts of the relays, each at the end of the link of the same place.
    relays: Vec<Namespace>,
    pub(super) links: Links,
}

impl Link {
    pub(super) fn bits_per_second(&self) -> u64 {
        u64::from(self.mbps) * 1_000_000
    }

    /// Its address at the van.
    fn van(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 200, self.subnet, 1)
    }

    /// Its address at the other end.
    pub(super) fn far(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 200, self.subnet, 2)
    }

    /// The address of the relay at its end, towards the headquarters.
    fn relay(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 201, self.subnet, 1)
    }

    /// Where the headquarters are reached over this link.
    pub(super) fn hq(&self) -> Ipv4Addr {
        if self.to_relay.is_some() { Ipv4Addr::new(10, 201, self.subnet, 2) } else { self.far() }
    }
}

impl Network {
    /// Makes the hosts and all links.
    pub(super) fn new(links: Links) -> Result<Self, NetnsError> {
        let relays = links.iter().filter(|link| link.to_relay.is_some()).map(|_| Namespace::new());
        let relays = relays.collect::<Result<_, _>>()?;
        let network = Self { van: Namespace::new()?, hq: Namespace::new()?, relays, links };
        network.hosts().try_for_each(|(link, host)| network.lay(link, host))?;
        Ok(network)
    }

    /// The links, each with the host at its other end.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (&'static Link, &Namespace)> {
        let others = self.relays.iter().chain(std::iter::repeat(&self.hq));
        self.links.iter().zip(others)
    }

    /// The host at the other end of a link.
    pub(super) fn far(&self, link: &Link) -> &Namespace {
        self.hosts().find(|(other, _)| other.name == link.name).map_or(&self.hq, |(_, host)| host)
    }

    /// The link that is cut.
    pub(super) fn fastest(&self) -> &'static Link {
        &self.links[0]
    }

    /// Cuts a link, unless it is its relay that is killed.
    pub(super) fn cut(&self, link: &Link, how: Cut) -> Result<(), NetnsError> {
        match how {
            Cut::Down => self.van.set_link(link.name, false),
            Cut::Silent => self.shape(link, Queue::Bytes(NO_PACKET_FITS)),
            Cut::Killed => Ok(()),
        }
    }

    /// Mends a link that was cut.
    pub(super) fn mend(&self, link: &Link, how: Cut) -> Result<(), NetnsError> {
        match how {
            Cut::Down => self.van.set_link(link.name, true),
            Cut::Silent => self.shape(link, QUEUE),
            Cut::Killed => Ok(()),
        }
    }

    fn lay(&self, link: &Link, far: &Namespace) -> Result<(), NetnsError> {
        join((&self.van, link.van()), (far, link.far()), link.name)?;
        if link.to_relay.is_some() {
            // As fast as the machine: what limits is the link in front of the relay.
            let name = format!("{}-hq", link.name);
            join((far, link.relay()), (&self.hq, link.hq()), &name)?;
        }
        self.shape(link, QUEUE)
    }

    /// Limits the link in both directions.
    fn shape(&self, link: &Link, queue: Queue) -> Result<(), NetnsError> {
        [&self.van, self.far(link)]
            .into_iter()
            .try_for_each(|host| host.shape(link.name, link.bits_per_second(), BURST, queue))
    }
}

/// Joins two hosts by a link of this name, with these addresses.
fn join(a: (&Namespace, Ipv4Addr), b: (&Namespace, Ipv4Addr), name: &str) -> Result<(), NetnsError> {
    link_pair(a.0, name, b.0, name)?;
    [a, b]
        .into_iter()
        .try_for_each(|(host, address)| host.add_address(name, Ipv4Net::new_assert(address, 24).into()))
}

/// What one TCP flow gets through the tunnel, in bit/s, if it fills all these links with packets as large as each of them
/// carries in one piece.
pub(super) fn best_goodput<'a>(links: impl IntoIterator<Item = &'a Link> + Clone) -> u64 {
    let around = |link: &Link| TUNNEL + to_relay(link) + DATAGRAM_HEADERS;
    let Some(packet) = links.clone().into_iter().map(|link| LINK_MTU - around(link)).min() else { return 0 };
    let goodput = |link: &Link| {
        link.bits_per_second() * (packet - INNER_HEADERS) / (packet + around(link) + ETHERNET_HEADER)
    };
    links.into_iter().map(goodput).sum()
}

/// What is added for a relay at the other end.
fn to_relay(link: &Link) -> u64 {
    let wrapping = match link.to_relay {
        None => 0,
        Some(Wrapping::Udp) => HOP_HEADER_LEN,
        Some(Wrapping::IpIp) => HOP_HEADER_LEN + IPV4_HEADER_LEN,
    };
    wrapping as u64
}

/// How much a link may send at once: ten packets, so that it is a link and not a sluice, and enough for the kernel's timer.
const BURST: u32 = 16_000;

/// What a link queues: that of a decent modem.
const QUEUE: Queue = Queue::Delay(Duration::from_millis(50));

/// A queue in bytes that loses every packet.
const NO_PACKET_FITS: u32 = 1;

/// Headers of an inner TCP segment: IPv4, TCP and its time stamps (RFC 7323), which Linux always sends.
const INNER_HEADERS: u64 = 20 + 20 + 12;

/// What the tunnel adds to a packet of full size: its header and the AEAD tag.
const TUNNEL: u64 = 39;

/// Headers of the tunnel's datagrams: UDP and IPv4.
const DATAGRAM_HEADERS: u64 = 8 + 20;

/// The Ethernet header, which a token bucket counts as well.
const ETHERNET_HEADER: u64 = 14;

/// The longest packet on a link.
const LINK_MTU: u64 = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_link_is_cut() {
        for links in [DIRECT, RELAYED] {
            assert!(links.iter().all(|link| link.mbps <= links[0].mbps));
        }
    }

    #[test]
    fn headers_take_nine_per_cent() {
        // Each link is rounded down by itself.
        assert_eq!(best_goodput(DIRECT), 90_000_000 * 1381 / 1514 - 1);
    }

    #[test]
    fn a_relay_takes_twenty_bytes_more_and_ip_in_ip_as_many() {
        assert_eq!(best_goodput(&links(Some(3))[..1]), 40_000_000 * 1361 / 1514);
        assert_eq!(best_goodput(&links(Some(3))[1..2]), 30_000_000 * 1341 / 1514);
    }
}
