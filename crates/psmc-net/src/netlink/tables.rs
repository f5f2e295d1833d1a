//! Routes of any table, and which of them the kernel takes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::pin;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use nix::errno::Errno;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteNextHop, RouteProtocol,
    RouteScope, RouteType,
};

use super::rules::towards;
use super::{MAIN_TABLE, Netlink, NetlinkError, is_errno, refused};

/// How many rules or routes were not as they should be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// How many were missing.
    pub made: usize,
    /// How many should not have been there.
    pub removed: usize,
}

/// Where a route of a table leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteWay {
    /// Into the interface of this index, without a next hop.
    Into(u32),
    /// Nowhere: the next rule is asked.
    Throw,
    /// To any of these next hops.
    Hops(BTreeSet<Hop>),
}

/// A next hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    /// The index of the interface that it is at.
    pub interface: u32,
    /// Its address; without one the destination is on the link.
    pub gateway: Option<Ipv4Addr>,
}

/// The way that the kernel sends packets to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelWay {
    /// The index of the interface by which they leave.
    pub interface: u32,
    /// The next hop, if there is one.
    pub gateway: Option<IpAddr>,
    /// The address from which they are sent.
    pub source: Option<IpAddr>,
    /// Whether they do not leave this host.
    pub is_local: bool,
}

/// A route of the main table that leads out of this host, and is no default route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MainRoute {
    /// Where it leads.
    pub destination: IpNet,
    /// The index of the interface.
    pub interface: u32,
}

impl Netlink {
    /// Has a table of our own hold exactly the routes of `wanted`.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn match_table(
        &self,
        table: u32,
        wanted: &BTreeMap<IpNet, RouteWay>,
    ) -> Result<Changes, NetlinkError> {
        let mut missing = wanted.clone();
        let mut changes = Changes::default();
        for route in self.dump_routes().await?.iter().filter(|route| table_of(route) == table) {
            let Some(destination) = destination_of(route) else { continue };
            if missing.get(&destination).is_some_and(|way| Some(way) == way_of(route).as_ref()) {
                missing.remove(&destination);
            } else {
                self.delete(table, route).await?;
                changes.removed += 1;
            }
        }
        for (destination, way) in missing {
            let request = self.handle.route().add(message_of(table, destination, &way));
            let action = || format!("route {destination} in table {table}");
            request.execute().await.map_err(refused(action))?;
            changes.made += 1;
        }
        Ok(changes)
    }

    /// Has whatever comes in through an interface be for this host, wherever it should go, by a rule for packets from there and the
    /// routes of a table of our own, which is below 256.
    ///
    /// # Errors
    /// What the kernel says: that the rule is there already, or that it has no IPv6.
    pub async fn take_all_from(&self, interface: &str, table: u8) -> Result<(), NetlinkError> {
        let loopback = self.link_index("lo").await?;
        for any in [IpAddr::from([0; 4]), IpAddr::from([0u16; 8])] {
            let mut route = towards(IpNet::new_assert(any, 0));
            route.header.table = table;
            route.header.kind = RouteType::Local;
            route.header.scope = RouteScope::Host;
            route.attributes.push(RouteAttribute::Oif(loopback));
            let request = self.handle.route().add(route);
            request.execute().await.map_err(refused(|| format!("have {any}/0 be local in table {table}")))?;
            self.ask_for_those_from(interface, any.is_ipv6(), table).await?;
        }
        Ok(())
    }

    /// The routes of the main table that lead out of this host, without default routes.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn main_routes(&self) -> Result<BTreeSet<MainRoute>, NetlinkError> {
        let routes = self.dump_routes().await?;
        let counts = |route: &&RouteMessage| {
            let header = &route.header;
            table_of(route) == MAIN_TABLE
                && header.kind == RouteType::Unicast
                && header.destination_prefix_length > 0
                && !header.flags.contains(RouteFlags::Cloned)
        };
        let each = |route: &RouteMessage| {
            let destination = destination_of(route);
            let exits = super::links::exits(route);
            exits
                .into_iter()
                .filter_map(move |(interface, _)| Some(MainRoute { destination: destination?, interface }))
        };
        Ok(routes.iter().filter(counts).flat_map(each).collect())
    }

    /// The way of packets to `address` with this mark, through the interface of that index if there is one. `None` if there is
    /// none.
    pub async fn way_to(&self, address: IpAddr, mark: u32, interface: Option<u32>) -> Option<KernelWay> {
        let mut question = towards(IpNet::from(address));
        question.attributes.push(RouteAttribute::Mark(mark));
        question.attributes.extend(interface.map(RouteAttribute::Oif));
        let mut answers = pin!(self.handle.route().get(question).execute());
        // That there is no way is an error of the kernel's.
        let route = answers.try_next().await.ok().flatten()?;
        let is_local = route.header.kind == RouteType::Local;
        if !is_local && route.header.kind != RouteType::Unicast {
            return None;
        }
        let mut way = KernelWay { interface: 0, gateway: None, source: None, is_local };
        for attribute in &route.attributes {
            if let RouteAttribute::Oif(index) = attribute {
                way.interface = *index;
            } else if let RouteAttribute::Gateway(address) = attribute {
                way.gateway = ip_of(address);
            } else if let RouteAttribute::PrefSource(address) = attribute {
                way.source = ip_of(address);
            }
        }
        Some(way)
    }

    async fn dump_routes(&self) -> Result<Vec<RouteMessage>, NetlinkError> {
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut filter = RouteMessageBuilder::<IpAddr>::new().build();
            filter.header.address_family = family;
            let stream = self.handle.route().get(filter).execute();
            let dump: Vec<RouteMessage> =
                stream.try_collect().await.map_err(refused(|| "list the routes".to_owned()))?;
            routes.extend(dump);
        }
        Ok(routes)
    }

    async fn delete(&self, table: u32, route: &RouteMessage) -> Result<(), NetlinkError> {
        match self.handle.route().del(route.clone()).execute().await {
            // It has gone by itself, say with its interface.
            Err(error) if is_errno(&error, Errno::ESRCH) || is_errno(&error, Errno::ENODEV) => Ok(()),
            outcome => outcome.map_err(refused(|| format!("remove a route of table {table}"))),
        }
    }
}

/// The table of a route.
pub(super) fn table_of(route: &RouteMessage) -> u32 {
    let listed = route
        .attributes
        .iter()
        .find_map(|it| if let RouteAttribute::Table(table) = it { Some(*table) } else { None });
    listed.unwrap_or_else(|| route.header.table.into())
}

/// Where a route leads: everywhere if it does not say.
pub(super) fn destination_of(route: &RouteMessage) -> Option<IpNet> {
    let any: IpAddr = if is_v4(route) {
        [0; 4].into()
    } else if route.header.address_family == AddressFamily::Inet6 {
        [0u16; 8].into()
    } else {
        return None;
    };
    let listed = route
        .attributes
        .iter()
        .find_map(|it| if let RouteAttribute::Destination(address) = it { ip_of(address) } else { None });
    IpNet::new(listed.unwrap_or(any), route.header.destination_prefix_length).ok()
}

fn ip_of(address: &RouteAddress) -> Option<IpAddr> {
    if let RouteAddress::Inet(v4) = address {
        Some((*v4).into())
    } else if let RouteAddress::Inet6(v6) = address {
        Some((*v6).into())
    } else {
        None
    }
}

fn way_of(route: &RouteMessage) -> Option<RouteWay> {
    if route.header.kind == RouteType::Throw {
        return Some(RouteWay::Throw);
    }
    if route.header.kind != RouteType::Unicast {
        return None;
    }
    let (mut single, mut gateway, mut hops) = (None, None, BTreeSet::new());
    for attribute in &route.attributes {
        if let RouteAttribute::Oif(index) = attribute {
            single = Some(*index);
        } else if let RouteAttribute::Gateway(address) = attribute {
            gateway = v4_of(address);
        } else if let RouteAttribute::MultiPath(listed) = attribute {
            hops.extend(listed.iter().map(hop_of));
        }
    }
    match (single, gateway) {
        (Some(interface), None) if route.header.scope == RouteScope::Link || !is_v4(route) => {
            Some(RouteWay::Into(interface))
        }
        (Some(interface), gateway) => Some(RouteWay::Hops(BTreeSet::from([Hop { interface, gateway }]))),
        (None, _) => Some(RouteWay::Hops(hops)),
    }
}

fn is_v4(route: &RouteMessage) -> bool {
    route.header.address_family == AddressFamily::Inet
}

fn hop_of(hop: &RouteNextHop) -> Hop {
    let gateway = |it: &RouteAttribute| {
        if let RouteAttribute::Gateway(address) = it { v4_of(address) } else { None }
    };
    Hop { interface: hop.interface_index, gateway: hop.attributes.iter().find_map(gateway) }
}

fn v4_of(address: &RouteAddress) -> Option<Ipv4Addr> {
    if let RouteAddress::Inet(v4) = address { Some(*v4) } else { None }
}

fn message_of(table: u32, destination: IpNet, way: &RouteWay) -> RouteMessage {
    let mut route = towards(destination);
    route.header.table = u8::try_from(table).unwrap_or(RouteHeader::RT_TABLE_UNSPEC);
    route.header.protocol = RouteProtocol::Static;
    route.attributes.push(RouteAttribute::Table(table));
    match way {
        RouteWay::Into(index) => {
            route.header.scope = RouteScope::Link;
            route.attributes.push(RouteAttribute::Oif(*index));
        }
        RouteWay::Throw => route.header.kind = RouteType::Throw,
        RouteWay::Hops(hops) => {
            let next_hop = |hop: &Hop| {
                let mut next = RouteNextHop::default();
                next.interface_index = hop.interface;
                next.attributes
                    .extend(hop.gateway.map(|gateway| RouteAttribute::Gateway(RouteAddress::Inet(gateway))));
                next
            };
            route.attributes.push(RouteAttribute::MultiPath(hops.iter().map(next_hop).collect()));
        }
    }
    route
}
