//! Links, addresses, routes and kernel parameters of a namespace.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::path::Path;

use ipnet::IpNet;
use rtnetlink::packet_route::link::{InfoData, InfoVeth};
use rtnetlink::{LinkUnspec, LinkVeth};

use super::{Namespace, NetnsError};
use psmc_net::netlink::{Netlink, NetlinkError, refused};

/// IPv6 duplicate address detection keeps an address unusable for a second; nobody else is in a namespace of ours.
const NO_DUPLICATE_DETECTION: [&str; 2] =
    ["net.ipv6.conf.all.accept_dad", "net.ipv6.conf.default.accept_dad"];

const NO_IPV6: [&str; 2] = ["net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.default.disable_ipv6"];

/// Connects two namespaces by a pair of virtual Ethernet devices, `name_a` in `a` and `name_b` in `b`, both up.
///
/// # Errors
/// [`NetnsError::Netlink`]: most often, that a name is taken.
pub fn link_pair(a: &Namespace, name_a: &str, b: &Namespace, name_b: &str) -> Result<(), NetnsError> {
    let far_end = LinkUnspec::new_with_name(name_b).setns_by_fd(b.fd().as_raw_fd()).build();
    let pair = LinkVeth::new(name_a, name_b).set_info_data(InfoData::Veth(InfoVeth::Peer(far_end))).build();
    a.with_netlink(async |netlink| {
        let request = netlink.handle().link().add(pair);
        request.execute().await.map_err(refused(|| format!("make the link from {name_a} to {name_b}")))
    })?;
    // Not with the request above: the kernel refuses to open one end before it knows the other.
    a.set_link(name_a, true)?;
    b.set_link(name_b, true)
}

impl Namespace {
    /// Gives the interface called `name` an address, usable at once.
    ///
    /// # Errors
    /// [`NetnsError::Netlink`].
    pub fn add_address(&self, name: &str, address: IpNet) -> Result<(), NetnsError> {
        self.with_netlink(async |netlink| netlink.add_address(netlink.link_index(name).await?, address).await)
    }

    /// Gives the interface called `name` these addresses, usable at once, instead of those it has; the one that IPv6
    /// makes by itself stays. Routes that need an address that goes are gone with it.
    ///
    /// # Errors
    /// [`NetnsError::Netlink`].
    pub fn replace_addresses(&self, name: &str, addresses: &[IpNet]) -> Result<(), NetnsError> {
        self.with_netlink(async |netlink| {
            let index = netlink.link_index(name).await?;
            netlink.remove_addresses(index).await?;
            for address in addresses {
                netlink.add_address(index, *address).await?;
            }
            Ok(())
        })
    }

    /// The hardware address of the interface called `name`; empty where there is none.
    ///
    /// # Errors
    /// [`NetnsError::Netlink`].
    pub fn hardware_address(&self, name: &str) -> Result<Vec<u8>, NetnsError> {
        self.with_netlink(async |netlink| netlink.hardware_address(name).await)
    }

    /// Adds a permanent neighbour entry: the interface called `name` reaches `address` at `hardware_address` without asking, until the
    /// interface goes down.
    ///
    /// # Errors
    /// [`NetnsError::Netlink`].
    pub fn add_neighbour(
        &self,
        name: &str,
        address: IpAddr,
        hardware_address: &[u8],
    ) -> Result<(), NetnsError> {
        self.with_netlink(async |netlink| {
            netlink.add_neighbour(netlink.link_index(name).await?, address, hardware_address).await
        })
    }

    /// Routes `destination` via the next hop `gateway`.
    ///
    /// # Errors
    /// [`NetnsError::Netlink`].
    pub fn add_route(&self, destination: IpNet, gateway: IpAddr) -> Result<(), NetnsError> {
        self.with_netlink(async |netlink| netlink.add_gateway_route(destination, gateway, None).await)
    }

    /// The same with a metric: of several routes to a destination the one with the smallest is taken.
    ///
    /// # Errors
    /// [`NetnsError::Netlink`].
    pub fn add_route_with_metric(
        &self,
        destination: IpNet,
        gateway: IpAddr,
        metric: u32,
    ) -> Result<(), NetnsError> {
        self.with_netlink(async |netlink| netlink.add_gateway_route(destination, gateway, Some(metric)).await)
    }

    /// Routes `destination` into the interface called `name`, without a next hop.
    ///
    /// # Errors
    /// [`NetnsError::Netlink`].
    pub fn add_device_route(&self, destination: IpNet, name: &str) -> Result<(), NetnsError> {
        self.with_netlink(async |netlink| {
            netlink.add_route(destination, netlink.link_index(name).await?).await
        })
    }

    /// Sets the interface called `name` up or down. The far end of a pair loses its carrier with it.
    ///
    /// # Errors
    /// [`NetnsError::Netlink`].
    pub fn set_link(&self, name: &str, up: bool) -> Result<(), NetnsError> {
        self.with_netlink(async |netlink| netlink.set_up(netlink.link_index(name).await?, up).await)
    }

    /// Sets the MTU, in bytes, of the interface called `name`.
    ///
    /// # Errors
    /// [`NetnsError::Netlink`].
    pub fn set_mtu(&self, name: &str, mtu: u32) -> Result<(), NetnsError> {
        self.with_netlink(async |netlink| netlink.set_mtu(netlink.link_index(name).await?, mtu).await)
    }

    /// Disables ARP on the interface called `name`.
    ///
    /// # Errors
    /// [`NetnsError::Netlink`].
    pub fn disable_arp(&self, name: &str) -> Result<(), NetnsError> {
        self.with_netlink(async |netlink| netlink.disable_arp(netlink.link_index(name).await?).await)
    }

    /// Takes IPv6 from all interfaces, those to come included; without it they announce themselves.
    ///
    /// # Errors
    /// [`NetnsError::Sysctl`].
    pub fn disable_ipv6(&self) -> Result<(), NetnsError> {
        self.sysctl_if_there(&NO_IPV6, "1")
    }

    /// Sets a kernel parameter of this namespace, written as `sysctl` does: `net.ipv4.ip_forward`.
    ///
    /// # Errors
    /// [`NetnsError::Sysctl`].
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), NetnsError> {
        // The kernel shows each thread the parameters of its own namespace.
        let path = Path::new("/proc/sys").join(key.replace('.', "/"));
        let failed = |source| NetnsError::Sysctl { key: key.to_owned(), value: value.to_owned(), source };
        self.run(|| fs::write(path, value)).map_err(failed)
    }

    /// Brings a new namespace into the state its documentation promises.
    pub(super) fn prepare(&self) -> Result<(), NetnsError> {
        self.sysctl_if_there(&NO_DUPLICATE_DETECTION, "0")?;
        self.set_link("lo", true)
    }

    /// Sets kernel parameters that a kernel without IPv6 does not have, and that a container may forbid to write.
    fn sysctl_if_there(&self, keys: &[&str], value: &str) -> Result<(), NetnsError> {
        for key in keys {
            match self.sysctl(key, value) {
                Err(NetnsError::Sysctl { source, .. }) if may_be_missing(&source) => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn with_netlink<T: Send>(
        &self,
        operate: impl AsyncFnOnce(&Netlink) -> Result<T, NetlinkError> + Send,
    ) -> Result<T, NetnsError> {
        let outcome = self.block_on(|| async { operate(&Netlink::new()?).await });
        Ok(outcome.map_err(NetnsError::Runtime)??)
    }
}

fn may_be_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ReadOnlyFilesystem)
}
