//! How a network changes while it is in use.

use std::sync::PoisonError;

use ipnet::IpNet;
use psmc_sim::link::LinkConfig;

use super::{Network, failed};
use crate::run::RunError;
use crate::scenario::{HostId, LinkId};

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
