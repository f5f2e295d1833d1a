//! Hosts and links.

mod build;
mod change;
mod multipath;
mod nat;

use std::sync::{Arc, Mutex};

use ipnet::IpNet;
use psmc_sim::link::LinkCounters;
use psmc_testbed::netns::{Namespace, NamespaceId, NetnsError};

use super::RunError;
use crate::emulator::Emulator;
use crate::scenario::{HostId, LinkId, Scenario};

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
