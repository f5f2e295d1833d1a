//! The TUN device: where inner packets leave the kernel for the tunnel, and come back.
//!
//! Segmentation offload is on in both directions, so that one system call moves up to 64 KiB of a flow.

mod coalesce;
mod cut;
mod header;
mod recv;
mod send;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use ipnet::IpNet;
use nix::libc::{EACCES, EBUSY, ENODEV, ENOENT, ENXIO, EPERM};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::netlink::{Netlink, NetlinkError};
use crate::watched::Watched;
use coalesce::Coalescer;
use psmc_wire::PacketBuf;
use recv::Reader;

pub use send::SendReport;

/// The name asked for when the configuration has none; the kernel puts the first free number for `%d`.
const DEFAULT_NAME: &str = "psmc%d";

/// How many packets one read of the device can become. The kernel is told, and cuts what would be more beforehand.
const MAX_SEGMENTS: usize = 128;

/// How many packets the kernel keeps while nobody reads. On a busy machine the reader is without a processor for milliseconds, and
/// the usual 500 are 3 ms of small packets. A queue stands in it only if the processor is too slow for what comes.
const TX_QUEUE_LEN: u32 = 2048;

/// What a [`Tun`] should be.
#[derive(Debug, Clone)]
pub struct TunConfig {
    /// The name of the interface, at most 15 bytes; `None` leaves it to the kernel: `psmc0`, `psmc1`, …
    pub name: Option<String>,
    /// The size in bytes of the largest packet through it; at least 1280 for IPv6.
    pub mtu: u16,
    /// Its addresses, with the lengths of their prefixes.
    pub addresses: Vec<IpNet>,
    /// Whether the networks of these addresses are routed into it, in the main table.
    pub routes_networks: bool,
}

/// Why there is no TUN device.
#[derive(Debug, thiserror::Error)]
pub enum TunError {
    /// The kernel has no TUN driver, or this container cannot see it.
    #[error("/dev/net/tun not found: run `modprobe tun`, or pass the device to the container")]
    NoDriver(#[source] io::Error),
    /// This process may not make one.
    #[error(
        "not permitted to create a TUN device: run as root, or give the program CAP_NET_ADMIN \
         (`setcap cap_net_admin+ep`) and the container /dev/net/tun"
    )]
    Denied(#[source] io::Error),
    /// Another process has a device of that name open.
    #[error("the TUN device {name} is in use by another process: stop that one, or choose another name")]
    NameTaken {
        /// The name asked for.
        name: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The kernel refused for another reason, such as a name that is too long.
    #[error("cannot make a TUN device called {name}")]
    Refused {
        /// The name asked for.
        name: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The device was made, but its MTU, its addresses or its state could not be set.
    #[error("cannot set up the TUN device")]
    SetUp(#[from] NetlinkError),
    /// The device does not say its name, or would block.
    #[error("cannot use the TUN device")]
    Unusable(#[source] io::Error),
}

/// A TUN device. The kernel removes it, with its addresses and routes, when this is dropped.
///
/// A single task should own it: with several readers packets of one flow would overtake each other.
pub struct Tun {
    device: Watched<SyncDevice>,
    name: String,
    index: u32,
    reader: Reader,
    coalescer: Coalescer,
    /// Packets on their way from one batch to the next. Empty between calls.
    carried: Vec<PacketBuf>,
}

impl Tun {
    /// Makes a device, gives it its MTU and addresses, and sets it up.
    ///
    /// It belongs to the network namespace of the thread that polls this future first.
    ///
    /// # Errors
    /// [`TunError`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn create(config: TunConfig) -> Result<Self, TunError> {
        let device = open(config.name.as_deref().unwrap_or(DEFAULT_NAME))?;
        let name = device.name().map_err(TunError::Unusable)?;
        let index = set_up(&name, &config).await?;
        let coalescer = Coalescer::new(device.udp_gso());
        Ok(Self {
            device: Watched::new(device),
            name,
            index,
            reader: Reader::new(),
            coalescer,
            carried: Vec::new(),
        })
    }

    /// The name of the interface.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The index of the interface.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl std::fmt::Debug for Tun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tun").field("name", &self.name).field("index", &self.index).finish_non_exhaustive()
    }
}

/// Opens a device with offload of TCP segments and, where the kernel can (Linux 6.2), of UDP.
fn open(name: &str) -> Result<SyncDevice, TunError> {
    let device = DeviceBuilder::new().name(name).offload(true).inherit_enable_state().build_sync();
    let device = device.map_err(|error| why(name, error))?;
    device.set_nonblocking(true).map_err(TunError::Unusable)?;
    Ok(device)
}

fn why(name: &str, source: io::Error) -> TunError {
    let name = name.to_owned();
    match source.raw_os_error() {
        Some(ENOENT | ENODEV | ENXIO) => TunError::NoDriver(source),
        Some(EPERM | EACCES) => TunError::Denied(source),
        Some(EBUSY) => TunError::NameTaken { name, source },
        _ => TunError::Refused { name, source },
    }
}

/// Returns the index of the interface.
async fn set_up(name: &str, config: &TunConfig) -> Result<u32, NetlinkError> {
    let netlink = Netlink::new()?;
    let index = netlink.link_index(name).await?;
    netlink.set_mtu(index, config.mtu.into()).await?;
    netlink.limit_segments(index, MAX_SEGMENTS).await?;
    netlink.set_tx_queue_len(index, TX_QUEUE_LEN).await?;
    netlink.set_up(index, true).await?;
    for address in &config.addresses {
        add_address(&netlink, index, *address, config).await?;
    }
    Ok(index)
}

async fn add_address(
    netlink: &Netlink,
    index: u32,
    address: IpNet,
    config: &TunConfig,
) -> Result<(), NetlinkError> {
    if config.routes_networks {
        netlink.add_address(index, address).await
    } else {
        netlink.add_address_alone(index, address).await
    }
}

/// Sets the device of that index up again, and gives it the addresses that it should have, where somebody has undone that.
/// Returns what was undone, in words.
///
/// # Errors
/// What the kernel says.
pub async fn mend(
    netlink: &Netlink,
    index: u32,
    config: &TunConfig,
) -> Result<Option<&'static str>, NetlinkError> {
    let is_up = netlink.link_state(index).await?.is_some_and(|state| state.up);
    if !is_up {
        netlink.set_up(index, true).await?;
    }
    let present = netlink.addresses(index).await?;
    let missing: Vec<_> = config.addresses.iter().filter(|address| !present.contains(address)).collect();
    for &address in &missing {
        add_address(netlink, index, *address, config).await?;
    }
    Ok(match (is_up, missing.is_empty()) {
        (false, _) => Some("it was set down"),
        (true, false) => Some("its addresses were taken away"),
        (true, true) => None,
    })
}

#[cfg(test)]
mod tests;
