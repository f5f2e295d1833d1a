//! Three hosts in a row: near, the forwarder's, far.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use ipnet::{IpNet, Ipv4Net};
use nix::unistd::Pid;
use psmc_testbed::netns::{Namespace, link_pair};

use crate::cpu;
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
    /// The thread of the kernel that receives for the far host, if one does.
    receiver: Pid,
}

impl Network {
    pub(crate) fn new() -> Result<Self, Box<dyn Error>> {
        let [near, middle, far] = [Namespace::new()?, Namespace::new()?, Namespace::new()?];
        link_pair(&near, "uplink", &middle, "near")?;
        link_pair(&far, "uplink", &middle, "far")?;
        let ends = [
            (&near, "uplink", NEAR),
            (&middle, "near", MIDDLE_NEAR),
            (&middle, "far", MIDDLE_FAR),
            (&far, "uplink", FAR),
        ];
        for (host, interface, address) in ends {
            host.add_address(interface, IpNet::V4(Ipv4Net::new(address, 24)?))?;
            like_a_card(host, interface)?;
        }
        let anywhere = IpNet::V4(Ipv4Net::default());
        near.add_route(anywhere, IpAddr::V4(MIDDLE_NEAR))?;
        far.add_route(anywhere, IpAddr::V4(MIDDLE_FAR))?;
        let before = receivers()?;
        receive_by_thread(&far, true)?;
        let receiver = receivers()?.difference(&before).next().copied();
        let receiver = receiver.ok_or("the kernel has no thread that receives for the far host")?;
        Ok(Self { near, middle, far, receiver })
    }

    /// Makes the far host receive on this core, by a thread, as a machine of its own would.
    pub(crate) fn far_receives_on(&self, core: usize) -> Result<(), Box<dyn Error>> {
        cpu::pin_thread(self.receiver, core)
    }

    /// From now on whoever sends to the far host receives for it, in the same system call.
    pub(crate) fn far_receives_in_the_call(&self) -> Result<(), Box<dyn Error>> {
        receive_by_thread(&self.far, false)
    }
}

/// Says whether a thread of the kernel receives what comes to a host.
fn receive_by_thread(host: &Namespace, by_thread: bool) -> Result<(), Box<dyn Error>> {
    // What is in /sys belongs to the namespace that it was mounted in.
    let switch =
        format!("mount -t sysfs sysfs /sys && echo {} > /sys/class/net/uplink/threaded", u8::from(by_thread));
    programs::output(host, Command::new("unshare").args(["--mount", "sh", "-c", &switch])).map(drop)
}

/// The threads of the kernel that receive for hosts.
fn receivers() -> Result<BTreeSet<Pid>, Box<dyn Error>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended meanwhile.
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.starts_with("napi/uplink") {
            found.insert(Pid::from_raw(process));
        }
    }
    Ok(found)
}

/// Makes datagrams cross a link one by one, as they cross every wire, and be joined where they arrive, as cards and their
/// drivers do. A veth would hand whole runs over, which no network does.
fn like_a_card(host: &Namespace, interface: &str) -> Result<(), Box<dyn Error>> {
    let mut ethtool = Command::new("ethtool");
    // A veth joins only what comes from one that does not segment TCP either.
    ethtool.args(["-K", interface, "tx-udp-segmentation", "off", "tso", "off", "gro", "on"]);
    programs::output(host, &mut ethtool).map(drop)
}
