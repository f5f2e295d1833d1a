//! What MPTCP may use.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::Network;
use crate::run::RunError;
use crate::run::tool::IP;
use crate::scenario::{HostId, LinkEnd, Scenario, Traffic, TrafficKind};

/// The most subflows of a connection that the kernel allows.
const SUBFLOWS: &str = "8";

/// Makes the kernel open a subflow from each link of every host that sends by MPTCP, and has the receivers take them.
pub(super) fn allow(network: &Network, scenario: &Scenario) -> Result<(), RunError> {
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
