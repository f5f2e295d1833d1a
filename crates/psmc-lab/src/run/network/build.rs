//! How a network comes to be.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use psmc_net::netlink::NetlinkError;
use psmc_testbed::netns::{Namespace, NetnsError};

use super::{Hosts, Network, allow_multipath, failed, nat};
use crate::emulator::{Emulator, Plan, RouterPlan, Table};
use crate::run::process::NFT;
use crate::run::{RunError, derive_seed};
use crate::scenario::{HostId, Link, LinkId, Route, Router, Scenario};

impl Network {
    /// Joins hosts by links, and gives them addresses, routes and all else. Captures whose paths are relative are
    /// taken from `directory`.
    pub(in crate::run) fn new(
        scenario: Arc<Scenario>,
        hosts: Hosts,
        directory: &Path,
    ) -> Result<Self, RunError> {
        let forwarders = scenario.forwarders();
        for (id, host) in scenario.hosts.iter().enumerate() {
            let forwards = forwarders.contains(&HostId(id));
            prepare(hosts.get(HostId(id)), forwards).map_err(failed(&host.name))?;
        }
        let emulator = emulate(&scenario, &hosts, directory)?;
        let addresses = scenario.links.iter().map(|link| link.ends.clone().map(|end| end.addresses));
        let addresses = Mutex::new(addresses.collect());
        let network = Self { scenario, emulator, hosts, addresses };
        network.configure()?;
        Ok(network)
    }

    /// Names the neighbours at both ends of a link, so that no packet waits for an answer about hardware addresses: on
    /// a lossy link that could be a second.
    pub(super) fn name_neighbours(&self, link: LinkId) -> Result<(), RunError> {
        let name = &self.scenario.links[link.0].name;
        let ends = [0, 1].map(|end| self.end(link, end));
        let all = self.addresses.lock().unwrap_or_else(PoisonError::into_inner)[link.0].clone();
        for ((host, there), addresses) in
            [(ends[0], ends[1]), (ends[1], ends[0])].into_iter().zip([&all[1], &all[0]])
        {
            let hardware = there.1.hardware_address(name).map_err(failed(there.0))?;
            for address in addresses {
                host.1.add_neighbour(name, address.addr(), &hardware).map_err(failed(host.0))?;
            }
        }
        Ok(())
    }

    /// Adds the routes of a host that are not there and can be: it loses them with the link that they need.
    pub(super) fn add_routes(&self, host: HostId) -> Result<(), RunError> {
        let host_plan = &self.scenario.hosts[host.0];
        let mut metrics = BTreeMap::new();
        for Route { to, via } in &host_plan.routes {
            // Of several ways to a prefix the first is taken while it is there.
            let metric = metrics.entry(*to).and_modify(|metric| *metric += 1).or_insert(FIRST_METRIC);
            let added = self.host(host).add_route_with_metric(*to, *via, *metric);
            added.or_else(ignore_needless).map_err(failed(&host_plan.name))?;
        }
        Ok(())
    }

    /// The host at an end of a link.
    pub(super) fn end(&self, link: LinkId, end: usize) -> (&str, &Namespace) {
        let id = self.scenario.links[link.0].ends[end].host;
        (&self.scenario.hosts[id.0].name, self.host(id))
    }

    fn configure(&self) -> Result<(), RunError> {
        for (id, link) in self.scenario.links.iter().enumerate() {
            for (end, plan) in link.ends.iter().enumerate() {
                let (name, host) = self.end(LinkId(id), end);
                plan.addresses
                    .iter()
                    .try_for_each(|address| host.add_address(&link.name, *address))
                    .map_err(failed(name))?;
            }
            self.name_neighbours(LinkId(id))?;
        }
        for (id, host) in self.scenario.hosts.iter().enumerate() {
            self.add_routes(HostId(id))?;
            if let Some(nat) = host.nat {
                let rules = nat::rules(nat.kind, &self.scenario.links[nat.outside.0].name);
                NFT.run((&host.name, self.host(HostId(id))), &["-f", "-"], &rules)?;
            }
        }
        allow_multipath(self, &self.scenario)
    }
}

/// Brings a host into a state that does not depend on the machine's.
fn prepare(host: &Namespace, forwards: bool) -> Result<(), NetnsError> {
    let forward = if forwards { "1" } else { "0" };
    let settings = [
        ("net.ipv4.ip_forward", forward),
        ("net.ipv6.conf.all.forwarding", forward),
        // What comes in by one link may go back by another.
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        // An address outlives a cut, as with IPv4.
        ("net.ipv6.conf.all.keep_addr_on_down", "1"),
        ("net.ipv6.conf.default.keep_addr_on_down", "1"),
        // There is nobody to ask, and links are not to be charged for it.
        ("net.ipv6.conf.default.router_solicitations", "0"),
    ];
    settings.into_iter().try_for_each(|(key, value)| match host.sysctl(key, value) {
        // A kernel without IPv6.
        Err(NetnsError::Sysctl { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    })
}

fn emulate(scenario: &Scenario, hosts: &Hosts, directory: &Path) -> Result<Emulator, RunError> {
    let mut builder = Emulator::builder().map_err(RunError::Emulator)?;
    for (link, number) in scenario.links.iter().zip(0..) {
        let plan = Plan {
            ends: [0, 1].map(|end| (&**hosts.get(link.ends[end].host), link.name.as_str())),
            directions: link.directions.clone(),
            seeds: [0, 1].map(|direction| derive_seed(scenario.seed, 2 * number + direction)),
            captures: link.capture.as_ref().map(|path| captures(&directory.join(path), scenario, link)),
        };
        builder.link(plan).map_err(|source| RunError::Link { link: link.name.clone(), source })?;
    }
    for (router, number) in scenario.routers.iter().zip(0..) {
        builder.router(router_plan(scenario, router, derive_seed(!scenario.seed, number)));
    }
    builder.start().map_err(RunError::Emulator)
}

/// A router as the emulator takes it. Its table is that of the beginning: routes do not change while a scenario runs.
fn router_plan(scenario: &Scenario, router: &Router, seed: u64) -> RouterPlan {
    let end_of = |link: LinkId| scenario.links[link.0].ends.iter().position(|end| end.host == router.host);
    let ports: Vec<_> = router.links.iter().filter_map(|link| Some((*link, end_of(*link)?))).collect();
    let mut table = Table::default();
    for (port, (link, end)) in ports.iter().enumerate() {
        for address in &scenario.links[link.0].ends[*end].addresses {
            table.own.push(address.addr());
            table.routes.push((address.trunc(), port));
        }
    }
    let far = |port: &(LinkId, usize)| &scenario.links[port.0.0].ends[1 - port.1].addresses;
    for Route { to, via } in &scenario.hosts[router.host.0].routes {
        let port = ports.iter().position(|port| far(port).iter().any(|net| net.addr() == *via));
        table.routes.extend(port.map(|port| (*to, port)));
    }
    RouterPlan { config: router.config.clone(), seed, ports, table }
}

/// The log of each end: `uplink.pcap` becomes `uplink-van.pcap` and `uplink-hq.pcap`.
fn captures(path: &Path, scenario: &Scenario, link: &Link) -> [PathBuf; 2] {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map_or("pcap".into(), |extension| extension.to_string_lossy());
    let name = |end: usize| format!("{stem}-{}.{extension}", scenario.hosts[link.ends[end].host.0].name);
    [0, 1].map(|end| path.with_file_name(name(end)))
}

/// A route may be there already, or have no use now, as its next hop is on a link that is down: it comes back with it.
fn ignore_needless(error: NetnsError) -> Result<(), NetnsError> {
    let is_needless = matches!(
        &error,
        NetnsError::Netlink(NetlinkError::Refused { source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::AlreadyExists | io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable
            )
    );
    if is_needless { Ok(()) } else { Err(error) }
}

/// The metric of the first route to a prefix. 0 would mean another one with IPv6.
const FIRST_METRIC: u32 = 1;
