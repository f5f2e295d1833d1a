//! Three hosts in a row: near, the forwarder's, far.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use ipnet::{IpNet, Ipv4Net};
use psmc_net::netns::{Namespace, link_pair};

use crate::kit::programs;

/// Where the hosts reach each other.
pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
pub(crate) const MIDDLE_NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
pub(crate) const MIDDLE_FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 1);

/// Three hosts in a row.
pub(crate) struct Network {
    pub(crate) near: Namespace,
    pub(crate) middle: Namespace,
    pub(crate) far: Namespace,
}

impl Network {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let network = Self { near: Namespace::new()?, middle: Namespace::new()?, far: Namespace::new()? };
        let Self { near, middle, far } = &network;
        link_pair(near, "uplink", middle, "near")?;
        link_pair(far, "uplink", middle, "far")?;
        let ends = [
            (near, "uplink", NEAR),
            (middle, "near", MIDDLE_NEAR),
            (middle, "far", MIDDLE_FAR),
            (far, "uplink", FAR),
        ];
        for (host, interface, address) in ends {
            host.add_address(interface, IpNet::V4(Ipv4Net::new(address, 24)?))?;
            like_a_card(host, interface)?;
        }
        let anywhere = IpNet::V4(Ipv4Net::default());
        near.add_route(anywhere, IpAddr::V4(MIDDLE_NEAR))?;
        far.add_route(anywhere, IpAddr::V4(MIDDLE_FAR))?;
        Ok(network)
    }

    /// Has the far host receive on this core, by receive packet steering, as a machine of its own would; with none the core
    /// that sends to it does that in the same system call.
    pub(crate) fn far_receives_on(&self, core: Option<usize>) -> Result<(), Box<dyn Error>> {
        // What is in /sys belongs to the namespace that it was mounted in.
        let steer = format!(
            "mount -t sysfs sysfs /sys && printf %x {} > /sys/class/net/uplink/queues/rx-0/rps_cpus",
            core.map_or(0, |core| 1_u64 << core)
        );
        programs::output(&self.far, Command::new("unshare").args(["--mount", "sh", "-c", &steer])).map(drop)
    }
}

/// Has datagrams cross a link one by one, as they cross every wire, and be joined where they arrive, as cards and their
/// drivers do. A veth would hand whole runs over, which no network does.
fn like_a_card(host: &Namespace, interface: &str) -> Result<(), Box<dyn Error>> {
    let mut ethtool = Command::new("ethtool");
    // A veth joins only what comes from one that does not segment TCP either.
    ethtool.args(["-K", interface, "tx-udp-segmentation", "off", "tso", "off", "gro", "on"]);
    programs::output(host, &mut ethtool).map(drop)
}
