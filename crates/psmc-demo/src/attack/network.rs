//! The hosts and the lines between them.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use psmc_testbed::netns::{Namespace, NetnsError, Queue, link_pair};

/// The clients.
pub(super) const CLIENTS: [&str; 2] = ["home", "office"];

/// The relays.
pub(super) const RELAYS: [&str; 4] = ["fra1", "ams1", "lon1", "par1"];

/// The service's lines: the one that everybody knows first.
pub(super) const LINES: [&str; 3] = ["main", "alt1", "alt2"];

/// What each of them carries in either direction, Ethernet headers counted.
pub(super) const LINE_MBPS: u32 = 20;

/// The service's address.
pub(super) const WWW: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 10);

/// The address of the coordinator and the name server.
pub(super) const OPS: Ipv4Addr = Ipv4Addr::new(198, 18, 4, 2);

/// What the packets of the service's site have left to live when it sends them. No other host's have as much: who handed that
/// on would tell who is behind it.
const SITE_TTL: &str = "57";

/// What a line queues: that of a decent modem.
const QUEUE: Queue = Queue::Delay(Duration::from_millis(50));

/// What it may send at once: ten packets.
const BURST: u32 = 16_000;

/// All hosts.
pub(super) struct AttackNetwork {
    inet: Namespace,
    /// The routers at the lines' ends.
    gateways: [Namespace; 3],
    pub(super) site: Namespace,
    pub(super) www: Namespace,
    pub(super) ops: Namespace,
    pub(super) relays: [Namespace; RELAYS.len()],
    pub(super) clients: [Namespace; 2],
    pub(super) attacker: Namespace,
}

impl AttackNetwork {
    /// Makes all hosts and lines.
    pub(super) fn new() -> Result<Self, NetnsError> {
        let host = Namespace::new;
        let network = Self {
            inet: host()?,
            gateways: [host()?, host()?, host()?],
            site: host()?,
            www: host()?,
            ops: host()?,
            relays: [host()?, host()?, host()?, host()?],
            clients: [host()?, host()?],
            attacker: host()?,
        };
        for router in network.gateways.iter().chain([&network.inet, &network.site]) {
            router.sysctl("net/ipv4/ip_forward", "1")?;
        }
        network.site.sysctl("net/ipv4/ip_default_ttl", SITE_TTL)?;
        network.lay_lines()?;
        let relays = RELAYS.into_iter().zip(&network.relays).zip(11..);
        let clients = CLIENTS.into_iter().zip(&network.clients).zip(21..);
        let others = [(("ops", &network.ops), 4), (("attacker", &network.attacker), 31)];
        for ((name, host), number) in relays.chain(clients).chain(others) {
            join((&network.inet, name, net(number, 1)), (host, "wan", net(number, 2)))?;
            host.add_route(DEFAULT, net(number, 1).addr().into())?;
        }
        for client in CLIENTS {
            // All that they are sent is looked at, in frames as a wire has them.
            network.inet.disable_offloads(client)?;
        }
        join((&network.site, "www", inside(1)), (&network.www, "wan", inside(10)))?;
        network.www.add_route(DEFAULT, inside(1).addr().into())?;
        Ok(network)
    }

    /// The host of a relay.
    pub(super) fn relay(&self, name: &str) -> Option<&Namespace> {
        RELAYS.into_iter().zip(&self.relays).find(|(relay, _)| *relay == name).map(|(_, host)| host)
    }

    /// Makes one more host, beside the clients.
    pub(super) fn add_host(&self, name: &str) -> Result<Namespace, NetnsError> {
        let host = Namespace::new()?;
        join((&self.inet, name, net(FURTHER, 1)), (&host, "wan", net(FURTHER, 2)))?;
        host.add_route(DEFAULT, net(FURTHER, 1).addr().into())?;
        Ok(host)
    }

    fn lay_lines(&self) -> Result<(), NetnsError> {
        for ((name, gateway), number) in LINES.into_iter().zip(&self.gateways).zip(1..) {
            join((&self.inet, name, net(number, 1)), (gateway, "wan", net(number, 2)))?;
            join((gateway, "lan", line(number, 1)), (&self.site, name, line(number, 2)))?;
            gateway.add_route(DEFAULT, net(number, 1).addr().into())?;
            let far = IpAddr::from(net(number, 2).addr());
            self.inet.add_route(line(number, 2).trunc().into(), far)?;
            self.site.add_route_with_metric(DEFAULT, line(number, 1).addr().into(), u32::from(number))?;
            let rate = u64::from(LINE_MBPS) * 1_000_000;
            self.inet.shape(name, rate, BURST, QUEUE)?;
            gateway.shape("wan", rate, BURST, QUEUE)?;
        }
        // What is for the service comes by the line that everybody knows.
        let service: IpNet = inside(10).trunc().into();
        self.inet.add_route(service, net(1, 2).addr().into())?;
        self.gateways[0].add_route(service, line(1, 2).addr().into())
    }
}

/// The address of a relay.
pub(super) fn relay_address(place: usize) -> Ipv4Addr {
    net(11 + u8::try_from(place).unwrap_or(0), 2).addr()
}

/// The site's address on a line.
pub(super) fn line_address(place: usize) -> Ipv4Addr {
    line(1 + u8::try_from(place).unwrap_or(0), 2).addr()
}

/// Everywhere.
const DEFAULT: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0));

/// The number of the network of a further host.
const FURTHER: u8 = 41;

/// Between `inet` and the others.
fn net(number: u8, host: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(198, 18, number, host), 24)
}

/// Between a line's gateway and the site.
fn line(number: u8, host: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(198, 19, number, host), 24)
}

/// The network of the service.
fn inside(host: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(203, 0, 113, host), 24)
}

type End<'a> = (&'a Namespace, &'a str, Ipv4Net);

fn join(a: End<'_>, b: End<'_>) -> Result<(), NetnsError> {
    link_pair(a.0, a.1, b.0, b.1)?;
    [a, b].into_iter().try_for_each(|(host, name, address)| host.add_address(name, address.into()))
}
