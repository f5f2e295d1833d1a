//! Changes of links, addresses, routes and rules, as they happen.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::pin::Pin;

use futures_util::{Stream, StreamExt, TryStreamExt};
use ipnet::IpNet;
use rtnetlink::MulticastGroup;
use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use rtnetlink::packet_route::link::LinkMessage;
use rtnetlink::packet_route::route::{RouteFlags, RouteMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use tokio::task::AbortHandle;

use super::links::Known;
use super::links::{is_operational, name_of};
use super::tables::{destination_of, table_of};
use super::{Netlink, NetlinkError, network_of, refused};

/// What we hear about.
const GROUPS: [MulticastGroup; 7] = [
    MulticastGroup::Link,
    MulticastGroup::Ipv4Ifaddr,
    MulticastGroup::Ipv6Ifaddr,
    MulticastGroup::Ipv4Route,
    MulticastGroup::Ipv6Route,
    MulticastGroup::Ipv4Rule,
    MulticastGroup::Ipv6Rule,
];

/// The table of what is for this host itself (`RT_TABLE_LOCAL`).
const LOCAL_TABLE: u32 = 255;

/// A link, and whether packets can leave through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkState {
    /// The index of the interface.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is up, has a carrier, and is operational (RFC 2863).
    pub up: bool,
}

/// Something changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkEvent {
    /// A link appeared, disappeared (which shows as down), went up or down, or has another name.
    Link(LinkState),
    /// An interface has an address more, or less, that can be used.
    AddressChanged {
        /// The index of the interface.
        index: u32,
    },
    /// A route has come, gone or changed.
    RouteChanged {
        /// The table that it is in.
        table: u32,
        /// Where it leads.
        destination: IpNet,
    },
    /// Routing rules, or a number of routes, may be others than before.
    RoutingChanged,
}

/// The changes of links, addresses, routes and rules since it was opened.
#[derive(Debug)]
pub struct LinkEvents {
    netlink: Netlink,
    subscription: Subscription,
    known: Known,
    /// Whether messages were lost, so that `known` must be compared with what is.
    is_stale: bool,
    /// What is to be returned next.
    found: VecDeque<NetworkEvent>,
}

impl LinkEvents {
    /// Begins to listen. What [`Netlink`] says of links and addresses later than this is at least as new as what
    /// [`next`](Self::next) builds upon.
    ///
    /// # Errors
    /// [`NetlinkError::Open`], or what the kernel says.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn open() -> Result<Self, NetlinkError> {
        let subscription = Subscription::open()?;
        let (netlink, known, found) = (Netlink::new()?, Known::default(), VecDeque::new());
        let mut events = Self { netlink, subscription, known, is_stale: true, found };
        events.look().await?;
        events.found.clear();
        Ok(events)
    }

    /// Waits for the next change. Changes that are undone before they are seen may be left out.
    ///
    /// It can be cancelled: what was not returned is returned by the next call.
    ///
    /// # Errors
    /// What the kernel says when, after more changes than its buffer holds, we ask it for the outcome.
    pub async fn next(&mut self) -> Result<NetworkEvent, NetlinkError> {
        loop {
            if let Some(event) = self.found.pop_front() {
                return Ok(event);
            }
            if self.is_stale {
                self.look().await?;
                continue;
            }
            let message = self.subscription.messages.next().await;
            self.take_in(message)?;
        }
    }

    fn take_in(&mut self, message: Option<Message>) -> Result<(), NetlinkError> {
        let found = match message {
            Some(Message::Link(link)) => self.known.link(state_of(&link)),
            Some(Message::LinkGone(index)) => self.known.link_gone(index),
            Some(Message::Address { index, address, usable }) => self.known.address(index, address, usable),
            Some(Message::Route { table, destination }) => {
                Some(NetworkEvent::RouteChanged { table, destination })
            }
            Some(Message::Rule) => Some(NetworkEvent::RoutingChanged),
            Some(Message::Lost) => {
                self.is_stale = true;
                None
            }
            None => {
                self.subscription = Subscription::open()?;
                self.is_stale = true;
                None
            }
        };
        // A daemon for routing tells of many at once.
        self.found.extend(found.filter(|event| self.found.back() != Some(event)));
        Ok(())
    }

    /// Compares what is with what is known.
    async fn look(&mut self) -> Result<(), NetlinkError> {
        let links = self.netlink.dump_links().await?.iter().map(state_of).collect();
        let addresses = self.netlink.usable_addresses().await?;
        self.found.extend(self.known.replace(links, addresses));
        self.found.push_back(NetworkEvent::RoutingChanged);
        self.is_stale = false;
        Ok(())
    }
}

impl Netlink {
    async fn usable_addresses(&self) -> Result<BTreeSet<(u32, IpNet)>, NetlinkError> {
        let stream = self.handle.address().get().execute();
        let messages: Vec<AddressMessage> =
            stream.try_collect().await.map_err(refused(|| "list the addresses".to_owned()))?;
        let usable = messages.iter().filter(|message| is_usable(message));
        Ok(usable.filter_map(|message| Some((message.header.index, network_of(message)?))).collect())
    }
}

/// What the kernel tells, as far as it concerns us.
enum Message {
    Link(LinkMessage),
    LinkGone(u32),
    Address {
        index: u32,
        address: IpNet,
        /// Whether it is there, and nobody else has it.
        usable: bool,
    },
    Route {
        table: u32,
        destination: IpNet,
    },
    Rule,
    /// There was more than the socket's buffer holds (`ENOBUFS`).
    Lost,
}

/// A netlink socket that is told, and the task that reads it.
struct Subscription {
    messages: Pin<Box<dyn Stream<Item = Message> + Send>>,
    connection: AbortHandle,
}

impl Subscription {
    fn open() -> Result<Self, NetlinkError> {
        let opened: io::Result<_> = rtnetlink::new_multicast_connection(&GROUPS);
        let (connection, _handle, messages) = opened.map_err(NetlinkError::Open)?;
        let connection = tokio::spawn(connection).abort_handle();
        let messages = messages.filter_map(async |(message, _)| concerning_us(message.payload));
        Ok(Self { messages: Box::pin(messages), connection })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

fn concerning_us(payload: NetlinkPayload<RouteNetlinkMessage>) -> Option<Message> {
    if let NetlinkPayload::Overrun(_) = payload {
        return Some(Message::Lost);
    }
    let NetlinkPayload::InnerMessage(message) = payload else {
        return None;
    };
    if let RouteNetlinkMessage::NewLink(link) = message {
        // A bridge tells of its ports in messages of its own family: one that leaves is not gone.
        (link.header.interface_family == AddressFamily::Unspec).then_some(Message::Link(link))
    } else if let RouteNetlinkMessage::DelLink(link) = message {
        let is_gone = link.header.interface_family == AddressFamily::Unspec;
        is_gone.then_some(Message::LinkGone(link.header.index))
    } else if let RouteNetlinkMessage::NewAddress(address) = message {
        about_address(&address, is_usable(&address))
    } else if let RouteNetlinkMessage::DelAddress(address) = message {
        about_address(&address, false)
    } else if let RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) = message {
        about_route(&route)
    } else {
        matches!(message, RouteNetlinkMessage::NewRule(_) | RouteNetlinkMessage::DelRule(_))
            .then_some(Message::Rule)
    }
}

/// The local table follows the addresses, of which other messages tell; what the kernel only remembers is no route.
fn about_route(route: &RouteMessage) -> Option<Message> {
    let table = table_of(route);
    let counts = table != LOCAL_TABLE && !route.header.flags.contains(RouteFlags::Cloned);
    Some(Message::Route { table, destination: destination_of(route)? }).filter(|_| counts)
}

fn about_address(message: &AddressMessage, usable: bool) -> Option<Message> {
    Some(Message::Address { index: message.header.index, address: network_of(message)?, usable })
}

pub(super) fn state_of(link: &LinkMessage) -> LinkState {
    LinkState { index: link.header.index, name: name_of(link), up: is_operational(link) }
}

/// Whether an address can be used: IPv6 first looks whether somebody else has it (RFC 4862, section 5.4).
fn is_usable(message: &AddressMessage) -> bool {
    let unusable = AddressFlags::Tentative | AddressFlags::Dadfailed;
    !message
        .attributes
        .iter()
        .any(|it| matches!(it, AddressAttribute::Flags(flags) if flags.intersects(unusable)))
}
