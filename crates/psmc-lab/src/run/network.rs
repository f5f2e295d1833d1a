//! Hosts and links, how they change while they are in use, and what MPTCP may use of them.

mod build;
mod nat;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::IpNet;
use psmc_sim::link::{LinkConfig, LinkCounters};
use psmc_testbed::netns::{Namespace, NamespaceId, NetnsError};

use super::RunError;
use super::process::IP;
use crate::emulator::Emulator;
use crate::scenario::{HostId, LinkEnd, LinkId, Scenario, Traffic, TrafficKind};

/// All hosts and links of a scenario, joined. Its methods block.
#[derive(Debug)]
pub(super) struct Network {
    scenario: Arc<Scenario>,
    /// Ends before the hosts do.
    emulator: Emulator,
    hosts: Hosts,
    /// The addresses that the ends of each link have by now, for hosts roam.
    addresses: Mutex<Vec<[Vec<IpNet>; 2]>>,
}

/// All hosts of a scenario.
#[derive(Clone, Debug)]
pub(super) struct Hosts(Vec<Arc<Namespace>>);

impl Hosts {
    /// Makes them, not joined yet.
    pub(super) fn new(scenario: &Scenario) -> Result<Self, RunError> {
        let make = |host: &crate::scenario::Host| Namespace::new().map(Arc::new).map_err(failed(&host.name));
        scenario.hosts.iter().map(make).collect::<Result<_, _>>().map(Self)
    }

    /// The namespace of one.
    pub(super) fn get(&self, id: HostId) -> &Arc<Namespace> {
        &self.0[id.0]
    }

    /// What tells their namespaces from all others.
    pub(super) fn ids(&self) -> Result<Vec<NamespaceId>, RunError> {
        self.0.iter().map(|namespace| namespace.id().map_err(RunError::Identity)).collect()
    }
}

impl Network {
    /// The namespace of a host.
    pub(super) fn host(&self, id: HostId) -> &Arc<Namespace> {
        self.hosts.get(id)
    }

    /// What a link has done so far.
    pub(super) fn counters(&self, link: LinkId) -> [LinkCounters; 2] {
        self.emulator.counters(link)
    }

    /// Why the links may not have been what the scenario says, in whole sentences.
    pub(super) fn warnings(&self) -> Vec<String> {
        let of_link = |(id, link): (usize, &crate::scenario::Link)| {
            let warnings = self.emulator.health(LinkId(id)).warnings();
            warnings.into_iter().map(|warning| format!("link {}: {warning}", link.name)).collect::<Vec<_>>()
        };
        self.scenario.links.iter().enumerate().flat_map(of_link).collect()
    }
}

fn failed(host: &str) -> impl FnOnce(NetnsError) -> RunError {
    let host = host.to_owned();
    |source| RunError::Host { host, source }
}

impl Network {
    /// Takes the interfaces of a link down.
    pub(in crate::run) fn cut(&self, link: LinkId) -> Result<(), RunError> {
        self.set_link(link, false)
    }

    /// Makes a link what it was at the beginning, but for the addresses of hosts that have roamed.
    pub(in crate::run) fn restore(&self, link: LinkId) -> Result<(), RunError> {
        self.change(link, &self.scenario.links[link.0].directions);
        self.set_link(link, true)?;
        self.name_neighbours(link)?;
        self.scenario.links[link.0].ends.iter().try_for_each(|end| self.add_routes(end.host))
    }

    /// Makes a link be like this.
    pub(in crate::run) fn change(&self, link: LinkId, directions: &[LinkConfig; 2]) {
        for (direction, config) in directions.iter().enumerate() {
            self.emulator.change(link, direction, config.clone());
        }
    }

    /// Drops every packet in the directions that are true. Otherwise the link is what it was at the beginning.
    pub(in crate::run) fn black_hole(&self, link: LinkId, directions: [bool; 2]) {
        let plan = &self.scenario.links[link.0].directions;
        for (direction, _) in directions.iter().enumerate().filter(|(_, black)| **black) {
            let config = LinkConfig { black_hole: true, ..plan[direction].clone() };
            self.emulator.change(link, direction, config);
        }
    }

    /// Gives the interface of a host on a link these addresses instead of those it has.
    pub(in crate::run) fn roam(
        &self,
        host: HostId,
        link: LinkId,
        addresses: &[IpNet],
    ) -> Result<(), RunError> {
        let plan = &self.scenario.links[link.0];
        let roamed = self.host(host).replace_addresses(&plan.name, addresses);
        roamed.map_err(failed(&self.scenario.hosts[host.0].name))?;
        if let Some(end) = plan.ends.iter().position(|end| end.host == host) {
            let mut all = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
            all[link.0][end] = addresses.to_vec();
        }
        self.name_neighbours(link)?;
        self.add_routes(host)
    }

    fn set_link(&self, link: LinkId, up: bool) -> Result<(), RunError> {
        let name = &self.scenario.links[link.0].name;
        [0, 1].into_iter().try_for_each(|end| {
            let (host, namespace) = self.end(link, end);
            namespace.set_link(name, up).map_err(failed(host))
        })
    }
}

/// The most subflows of a connection that the kernel allows.
const SUBFLOWS: &str = "8";

/// Makes the kernel open a subflow from each link of every host that sends by MPTCP, and has the receivers take them.
fn allow_multipath(network: &Network, scenario: &Scenario) -> Result<(), RunError> {
    let streams = scenario.traffic.iter().filter(|traffic| is_multipath(traffic));
    let hosts: BTreeSet<_> = streams.clone().flat_map(|traffic| [traffic.from, traffic.to]).collect();
    for host in hosts {
        tell(network, host, &["limits", "set", "subflows", SUBFLOWS, "add_addr_accepted", SUBFLOWS])?;
    }
    let senders: BTreeSet<_> = streams.map(|traffic| traffic.from).collect();
    senders.into_iter().try_for_each(|host| add_endpoints(network, scenario, host))
}

fn is_multipath(traffic: &Traffic) -> bool {
    matches!(traffic.kind, TrafficKind::Tcp { multipath: true, .. })
}

/// The interface of an endpoint decides by which link its subflow goes, whatever the routes say. The kernel does not use
/// the endpoint of the link by which the connection was made a second time.
fn add_endpoints(network: &Network, scenario: &Scenario, host: HostId) -> Result<(), RunError> {
    for link in &scenario.links {
        for end in link.ends.iter().filter(|end| end.host == host) {
            for address in [first(end, IpAddr::is_ipv4), first(end, IpAddr::is_ipv6)].into_iter().flatten() {
                let address = address.to_string();
                tell(network, host, &["endpoint", "add", &address, "dev", &link.name, "subflow"])?;
            }
        }
    }
    Ok(())
}

/// The first address of a family.
fn first(end: &LinkEnd, family: fn(&IpAddr) -> bool) -> Option<IpAddr> {
    end.addresses.iter().map(IpNet::addr).find(family)
}

fn tell(network: &Network, host: HostId, arguments: &[&str]) -> Result<(), RunError> {
    let arguments = [&["mptcp"], arguments].concat();
    IP.run((&network.scenario.hosts[host.0].name, network.host(host)), &arguments, "")
}
