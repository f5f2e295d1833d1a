//! The two hosts and the links between them.

use std::net::Ipv4Addr;
use std::time::Duration;

use ipnet::Ipv4Net;
use psmc_net::netns::{Namespace, NetnsError, Queue, link_pair};

/// A link between the hosts. At both ends its interface bears its name.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) name: &'static str,
    /// Its speed in Mbit/s, Ethernet headers counted.
    pub(super) mbps: u32,
    /// The third byte of its addresses.
    subnet: u8,
}

/// All links: as uneven as what people have at home, and slow enough for any machine to fill.
pub(super) const LINKS: [Link; 3] = [
    Link { name: "dsl", mbps: 40, subnet: 1 },
    Link { name: "lte", mbps: 30, subnet: 2 },
    Link { name: "wifi", mbps: 20, subnet: 3 },
];

/// The link that is cut, and the fastest one: what hurts most.
pub(super) const FASTEST: &Link = &LINKS[0];

/// The links that stay.
pub(super) fn rest() -> impl Iterator<Item = &'static Link> {
    LINKS.iter().filter(|link| link.name != FASTEST.name)
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
}

/// The hosts, joined by [`LINKS`].
#[derive(Debug)]
pub(super) struct Network {
    pub(super) van: Namespace,
    pub(super) hq: Namespace,
}

impl Link {
    pub(super) fn bits_per_second(&self) -> u64 {
        u64::from(self.mbps) * 1_000_000
    }

    /// Its address at the van.
    pub(super) fn van(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 200, self.subnet, 1)
    }

    /// Its address at the headquarters.
    pub(super) fn hq(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 200, self.subnet, 2)
    }
}

impl Network {
    /// Makes the hosts and all links.
    pub(super) fn new() -> Result<Self, NetnsError> {
        let network = Self { van: Namespace::new()?, hq: Namespace::new()? };
        LINKS.iter().try_for_each(|link| network.lay(link))?;
        Ok(network)
    }

    /// Cuts a link.
    pub(super) fn cut(&self, link: &Link, how: Cut) -> Result<(), NetnsError> {
        match how {
            Cut::Down => self.van.set_link(link.name, false),
            Cut::Silent => self.shape(link, Queue::Bytes(NO_PACKET_FITS)),
        }
    }

    /// Mends a link that was cut.
    pub(super) fn mend(&self, link: &Link, how: Cut) -> Result<(), NetnsError> {
        match how {
            Cut::Down => self.van.set_link(link.name, true),
            Cut::Silent => self.shape(link, QUEUE),
        }
    }

    fn lay(&self, link: &Link) -> Result<(), NetnsError> {
        link_pair(&self.van, link.name, &self.hq, link.name)?;
        for (host, address) in [(&self.van, link.van()), (&self.hq, link.hq())] {
            host.add_address(link.name, Ipv4Net::new_assert(address, 24).into())?;
        }
        self.shape(link, QUEUE)
    }

    /// Limits the link in both directions.
    fn shape(&self, link: &Link, queue: Queue) -> Result<(), NetnsError> {
        [&self.van, &self.hq]
            .into_iter()
            .try_for_each(|host| host.shape(link.name, link.bits_per_second(), BURST, queue))
    }
}

/// How much a link may send at once: ten packets, so that it is a link and not a sluice, and enough for the kernel's timer.
const BURST: u32 = 16_000;

/// What a link queues: that of a decent modem.
const QUEUE: Queue = Queue::Delay(Duration::from_millis(50));

/// A queue in bytes that loses every packet.
const NO_PACKET_FITS: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_link_is_cut() {
        assert!(LINKS.iter().all(|link| link.mbps <= FASTEST.mbps));
    }
}
