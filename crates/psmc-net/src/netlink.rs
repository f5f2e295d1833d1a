//! Interfaces, addresses and routes of the network namespace that a process (or thread) is in.
//!
//! Everything goes through `rtnetlink`; its error and message types stay inside this module.

mod events;
mod links;
mod rules;
mod tables;

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use nix::errno::Errno;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope,
};
use rtnetlink::packet_route::link::{LinkAttribute, LinkMessage};
use rtnetlink::packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use rtnetlink::{Handle, LinkUnspec};
use tokio::task::AbortHandle;
use tokio::time::sleep;

pub use events::{LinkEvents, LinkState, NetworkEvent};
pub use links::Uplink;
pub use rules::{AnyRule, MAIN_TABLE, Packets, Rule};
pub use tables::{Changes, Hop, KernelWay, MainRoute, RouteWay};

/// How often we look whether a new address is in use, and how long we wait in between: a work queue needs
/// microseconds, on a busy machine some milliseconds.
const LOCAL_TRIES: u32 = 100;
const LOCAL_PAUSE: Duration = Duration::from_millis(1);

/// A request that the kernel, or its netlink socket, did not grant.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// No netlink socket could be had.
    #[error("cannot open a netlink socket")]
    Open(#[source] io::Error),
    /// The name is that of no interface in this namespace.
    #[error("no interface {name}: `ip link` lists the interfaces")]
    NoSuchLink {
        /// The name asked for.
        name: String,
    },
    /// The process may not change the network.
    #[error("not allowed to {action}: CAP_NET_ADMIN is needed, run as root")]
    Denied {
        /// What was asked of the kernel.
        action: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The kernel refused; the source says why.
    #[error("cannot {action}")]
    Refused {
        /// What was asked of the kernel.
        action: String,
        /// What the kernel answered.
        source: io::Error,
    },
}

/// The index of an interface of this network namespace; another one of the same name has another.
#[must_use]
pub fn interface_index(name: &str) -> Option<u32> {
    nix::net::if_::if_nametoindex(name).ok()
}

/// A netlink connection to the network namespace in which it was made.
///
/// Its task runs on the runtime that was current in [`new`](Self::new), and ends when this is dropped.
#[derive(Debug)]
pub struct Netlink {
    handle: Handle,
    connection: AbortHandle,
}

impl Netlink {
    /// Opens a connection and spawns its task.
    ///
    /// # Errors
    /// [`NetlinkError::Open`] when the kernel has no netlink socket for us.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new() -> Result<Self, NetlinkError> {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(NetlinkError::Open)?;
        let connection = tokio::spawn(connection).abort_handle();
        Ok(Self { handle, connection })
    }

    /// The index of the interface called `name`.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`], or what the kernel says.
    pub async fn link_index(&self, name: &str) -> Result<u32, NetlinkError> {
        Ok(self.link(name).await?.header.index)
    }

    /// The state of the interface with this index; `None` if there is none.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn link_state(&self, index: u32) -> Result<Option<LinkState>, NetlinkError> {
        match self.handle.link().get().match_index(index).execute().try_next().await {
            Ok(link) => Ok(link.as_ref().map(events::state_of)),
            Err(error) if is_errno(&error, Errno::ENODEV) => Ok(None),
            Err(error) => Err(refused(|| format!("look up interface {index}"))(error)),
        }
    }

    /// The MTU in bytes of the interface called `name`; 0 when the kernel does not say.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`], or what the kernel says.
    pub async fn link_mtu(&self, name: &str) -> Result<u32, NetlinkError> {
        let link = self.link(name).await?;
        Ok(link.attributes.iter().find_map(mtu_of).unwrap_or(0))
    }

    /// The hardware address of the interface called `name`; empty where there is none.
    ///
    /// # Errors
    /// [`NetlinkError::NoSuchLink`], or what the kernel says.
    pub async fn hardware_address(&self, name: &str) -> Result<Vec<u8>, NetlinkError> {
        let link = self.link(name).await?;
        let of = |attribute: &LinkAttribute| {
            if let LinkAttribute::Address(bytes) = attribute { Some(bytes.clone()) } else { None }
        };
        Ok(link.attributes.iter().find_map(of).unwrap_or_default())
    }

    /// Adds a permanent neighbour entry: interface `index` reaches `address` at `hardware_address` without asking, until it goes down.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn add_neighbour(
        &self,
        index: u32,
        address: IpAddr,
        hardware_address: &[u8],
    ) -> Result<(), NetlinkError> {
        let request = self.handle.neighbours().add(index, address).link_layer_address(hardware_address);
        request.replace().execute().await.map_err(refused(|| format!("name the neighbour {address}")))
    }

    /// Whether the neighbour with this address has said where it is on interface `index`; `None` if nobody has asked it.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn has_answered(&self, index: u32, address: IpAddr) -> Result<Option<bool>, NetlinkError> {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let stream = self.handle.neighbours().get().set_address_family(family).execute();
        let neighbours: Vec<NeighbourMessage> =
            stream.try_collect().await.map_err(refused(|| "list the neighbours".to_owned()))?;
        let is_it = |neighbour: &&NeighbourMessage| {
            neighbour.header.ifindex == index && neighbour.attributes.iter().any(|it| is_at(it, address))
        };
        let unanswered = [NeighbourState::Incomplete, NeighbourState::Failed];
        Ok(neighbours.iter().find(is_it).map(|neighbour| !unanswered.contains(&neighbour.header.state)))
    }

    /// The addresses of interface `index`, with their prefix lengths.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn addresses(&self, index: u32) -> Result<Vec<IpNet>, NetlinkError> {
        let stream = self.handle.address().get().set_link_index_filter(index).execute();
        let messages: Vec<AddressMessage> = stream
            .try_collect()
            .await
            .map_err(refused(|| format!("list the addresses of interface {index}")))?;
        Ok(messages.iter().filter_map(network_of).collect())
    }

    /// Sets interface `index` administratively up or down.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn set_up(&self, index: u32, up: bool) -> Result<(), NetlinkError> {
        let builder = LinkUnspec::new_with_index(index);
        let message = if up { builder.up() } else { builder.down() }.build();
        self.set_link(message, || format!("set interface {index} {}", if up { "up" } else { "down" })).await
    }

    /// Sets the MTU, in bytes, of interface `index`.
    ///
    /// # Errors
    /// What the kernel says: each driver has its own bounds.
    pub async fn set_mtu(&self, index: u32, mtu: u32) -> Result<(), NetlinkError> {
        let message = LinkUnspec::new_with_index(index).mtu(mtu).build();
        self.set_link(message, || format!("set the MTU of interface {index} to {mtu}")).await
    }

    /// Disables ARP on interface `index`.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn disable_arp(&self, index: u32) -> Result<(), NetlinkError> {
        let message = LinkUnspec::new_with_index(index).arp(false).build();
        self.set_link(message, || format!("turn off ARP on interface {index}")).await
    }

    /// Sets the length of the transmit queue of interface `index`.
    pub(crate) async fn set_tx_queue_len(&self, index: u32, packets: u32) -> Result<(), NetlinkError> {
        let length = LinkAttribute::TxQueueLen(packets);
        let message = LinkUnspec::new_with_index(index).append_extra_attribute(length).build();
        self.set_link(message, || format!("give interface {index} a queue of {packets} packets")).await
    }

    /// Limits GSO packets handed to interface `index` to `segments` segments.
    pub(crate) async fn limit_segments(&self, index: u32, segments: usize) -> Result<(), NetlinkError> {
        let segments = u32::try_from(segments).unwrap_or(u32::MAX);
        let limit = LinkAttribute::GsoMaxSegs(segments);
        let message = LinkUnspec::new_with_index(index).append_extra_attribute(limit).build();
        self.set_link(message, || format!("limit interface {index} to {segments} segments at once")).await
    }

    /// Gives interface `index` an address, and waits until packets to it are accepted. IPv6 duplicate detection is
    /// skipped. An interface that is down makes this take longer, a tenth of a second at most.
    ///
    /// # Errors
    /// What the kernel says; an address that is there already is refused.
    pub async fn add_address(&self, index: u32, address: IpNet) -> Result<(), NetlinkError> {
        let mut request = self.handle.address().add(index, address.addr(), address.prefix_len());
        request.message_mut().header.flags |= AddressHeaderFlags::Nodad;
        request.execute().await.map_err(refused(|| format!("give {address} to interface {index}")))?;
        self.wait_until_local(address.addr()).await;
        Ok(())
    }

    /// The same without the route to its network that comes with an address: who gives it makes the routes.
    ///
    /// # Errors
    /// As [`add_address`](Self::add_address).
    pub async fn add_address_alone(&self, index: u32, address: IpNet) -> Result<(), NetlinkError> {
        let mut request = self.handle.address().add(index, address.addr(), address.prefix_len());
        let flags = AddressFlags::Nodad | AddressFlags::Noprefixroute;
        request.message_mut().attributes.push(AddressAttribute::Flags(flags));
        request.execute().await.map_err(refused(|| format!("give {address} to interface {index}")))?;
        self.wait_until_local(address.addr()).await;
        Ok(())
    }

    /// Takes all addresses from interface `index` but those of the link (`fe80::/10`).
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn remove_addresses(&self, index: u32) -> Result<(), NetlinkError> {
        let action = || format!("take the addresses of interface {index}");
        let stream = self.handle.address().get().set_link_index_filter(index).execute();
        let messages: Vec<AddressMessage> = stream.try_collect().await.map_err(refused(action))?;
        for message in messages.into_iter().filter(|message| message.header.scope != AddressScope::Link) {
            match self.handle.address().del(message).execute().await {
                // A secondary address goes with the first one of its network.
                Err(error) if is_errno(&error, Errno::EADDRNOTAVAIL) => {}
                outcome => outcome.map_err(refused(action))?,
            }
        }
        Ok(())
    }

    /// The kernel grants an IPv6 address at once, but the route by which it knows it for its own comes later, from a
    /// work queue.
    async fn wait_until_local(&self, address: IpAddr) {
        for _ in 0..LOCAL_TRIES {
            if self.is_local(address).await {
                return;
            }
            sleep(LOCAL_PAUSE).await;
        }
    }

    /// The underlying handle, for requests that have no method here.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    async fn link(&self, name: &str) -> Result<LinkMessage, NetlinkError> {
        let no_such_link = || NetlinkError::NoSuchLink { name: name.to_owned() };
        match self.handle.link().get().match_name(name).execute().try_next().await {
            Ok(link) => link.ok_or_else(no_such_link),
            Err(error) if is_errno(&error, Errno::ENODEV) => Err(no_such_link()),
            Err(error) => Err(refused(|| format!("look up interface {name}"))(error)),
        }
    }

    async fn set_link(
        &self,
        message: LinkMessage,
        action: impl FnOnce() -> String,
    ) -> Result<(), NetlinkError> {
        self.handle.link().set(message).execute().await.map_err(refused(action))
    }
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Turns an error of `rtnetlink` into ours, saying what was attempted.
pub fn refused(action: impl FnOnce() -> String) -> impl FnOnce(rtnetlink::Error) -> NetlinkError {
    move |error| {
        let (action, source) = (action(), into_io(error));
        if source.kind() == io::ErrorKind::PermissionDenied {
            NetlinkError::Denied { action, source }
        } else {
            NetlinkError::Refused { action, source }
        }
    }
}

fn into_io(error: rtnetlink::Error) -> io::Error {
    if let rtnetlink::Error::NetlinkError(message) = &error {
        message.to_io()
    } else {
        io::Error::other(error)
    }
}

fn is_errno(error: &rtnetlink::Error, errno: Errno) -> bool {
    matches!(error, rtnetlink::Error::NetlinkError(message) if message.raw_code() == -(errno as i32))
}

fn is_at(attribute: &NeighbourAttribute, address: IpAddr) -> bool {
    let NeighbourAttribute::Destination(destination) = attribute else { return false };
    if let NeighbourAddress::Inet(v4) = destination {
        IpAddr::from(*v4) == address
    } else if let NeighbourAddress::Inet6(v6) = destination {
        IpAddr::from(*v6) == address
    } else {
        false
    }
}

fn mtu_of(attribute: &LinkAttribute) -> Option<u32> {
    if let LinkAttribute::Mtu(mtu) = attribute { Some(*mtu) } else { None }
}

/// The address of an interface: `Local` where there is one, for `Address` is the far end of a point-to-point link.
fn network_of(message: &AddressMessage) -> Option<IpNet> {
    let attributes = || message.attributes.iter();
    let local =
        attributes().find_map(|it| if let AddressAttribute::Local(ip) = it { Some(*ip) } else { None });
    let remote =
        attributes().find_map(|it| if let AddressAttribute::Address(ip) = it { Some(*ip) } else { None });
    IpNet::new(local.or(remote)?, message.header.prefix_len).ok()
}

#[cfg(test)]
mod tests;
