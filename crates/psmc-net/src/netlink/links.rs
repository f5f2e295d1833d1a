//! Which interfaces lead out of this host.
//!
//! What is known of the links and addresses, so that only changes are told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use rtnetlink::packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteType};

use super::{LinkState, Netlink, NetlinkError, NetworkEvent, refused};

/// An interface that has a default route and is operational.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uplink {
    /// The name of the interface.
    pub name: String,
    /// The index of the interface.
    pub index: u32,
    /// Whether an IPv4 default route leads through it.
    pub v4: bool,
    /// Whether an IPv6 default route leads through it.
    pub v6: bool,
    /// The metric of its best default route; the kernel prefers the lowest.
    pub metric: u32,
}

impl Netlink {
    /// The interfaces with a default route in the main table, the best metric first, without those in `exclude`
    /// (the tunnel's own, which must not carry itself).
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn uplinks(&self, exclude: &[u32]) -> Result<Vec<Uplink>, NetlinkError> {
        let links = self.links().await?;
        let mut uplinks: BTreeMap<u32, Uplink> = BTreeMap::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            for (index, metric) in self.default_routes(family).await? {
                let Some(name) = links.get(&index).filter(|_| !exclude.contains(&index)) else {
                    continue;
                };
                let uplink = uplinks.entry(index).or_insert_with(|| Uplink::new(name, index));
                uplink.add(family, metric);
            }
        }
        let mut uplinks: Vec<Uplink> = uplinks.into_values().collect();
        uplinks.sort_by_key(|uplink| (uplink.metric, uplink.index));
        Ok(uplinks)
    }

    /// The names of all links.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn link_names(&self) -> Result<BTreeSet<String>, NetlinkError> {
        Ok(self.dump_links().await?.iter().map(name_of).collect())
    }

    /// Every link there is.
    pub(super) async fn dump_links(&self) -> Result<Vec<LinkMessage>, NetlinkError> {
        let stream = self.handle.link().get().execute();
        stream.try_collect().await.map_err(refused(|| "list the interfaces".to_owned()))
    }

    /// The names of the operational links, by index.
    async fn links(&self) -> Result<BTreeMap<u32, String>, NetlinkError> {
        let links = self.dump_links().await?;
        Ok(links
            .iter()
            .filter(|link| is_operational(link))
            .map(|link| (link.header.index, name_of(link)))
            .collect())
    }

    /// Pairs of interface index and metric.
    async fn default_routes(&self, family: AddressFamily) -> Result<Vec<(u32, u32)>, NetlinkError> {
        let mut filter = RouteMessageBuilder::<IpAddr>::new().build();
        filter.header.address_family = family;
        let stream = self.handle.route().get(filter).execute();
        let routes: Vec<RouteMessage> =
            stream.try_collect().await.map_err(refused(|| "list the routes".to_owned()))?;
        Ok(routes.iter().filter(|route| is_default(route)).flat_map(exits).collect())
    }
}

impl Uplink {
    fn new(name: &str, index: u32) -> Self {
        Self { name: name.to_owned(), index, v4: false, v6: false, metric: u32::MAX }
    }

    fn add(&mut self, family: AddressFamily, metric: u32) {
        self.v4 |= family == AddressFamily::Inet;
        self.v6 |= family == AddressFamily::Inet6;
        self.metric = self.metric.min(metric);
    }
}

/// Whether packets can leave through the link: it is administratively up, has a carrier, and its operational state
/// (RFC 2863) is up or unknown, which is what `IFF_RUNNING` says.
pub(super) fn is_operational(link: &LinkMessage) -> bool {
    link.header.flags.contains(LinkFlags::Up | LinkFlags::Running | LinkFlags::LowerUp)
}

/// The name of the link; empty when the kernel does not say, which it always does.
pub(super) fn name_of(link: &LinkMessage) -> String {
    let name = |it: &LinkAttribute| {
        if let LinkAttribute::IfName(name) = it { Some(name.clone()) } else { None }
    };
    link.attributes.iter().find_map(name).unwrap_or_default()
}

fn is_default(route: &RouteMessage) -> bool {
    let header = &route.header;
    header.destination_prefix_length == 0
        && header.table == RouteHeader::RT_TABLE_MAIN
        && header.kind == RouteType::Unicast
}

/// The interfaces by which a route leaves, each with the route's metric: one, or those of a multipath route.
pub(super) fn exits(route: &RouteMessage) -> Vec<(u32, u32)> {
    let mut metric = 0;
    let mut exits = Vec::new();
    for attribute in &route.attributes {
        if let RouteAttribute::Priority(priority) = attribute {
            metric = *priority;
        } else if let RouteAttribute::Oif(index) = attribute {
            exits.push(*index);
        } else if let RouteAttribute::MultiPath(hops) = attribute {
            exits.extend(hops.iter().map(|hop| hop.interface_index));
        }
    }
    exits.into_iter().map(|index| (index, metric)).collect()
}

/// The links and the usable addresses.
#[derive(Debug, Default)]
pub(super) struct Known {
    links: BTreeMap<u32, LinkState>,
    addresses: BTreeSet<(u32, IpNet)>,
}

impl Known {
    /// A link is in this state.
    pub(super) fn link(&mut self, state: LinkState) -> Option<NetworkEvent> {
        let before = self.links.insert(state.index, state.clone());
        (before.as_ref() != Some(&state)).then_some(NetworkEvent::Link(state))
    }

    /// A link is gone, and with it its addresses.
    pub(super) fn link_gone(&mut self, index: u32) -> Option<NetworkEvent> {
        self.addresses.retain(|(owner, _)| *owner != index);
        let before = self.links.remove(&index)?;
        Some(NetworkEvent::Link(LinkState { up: false, ..before }))
    }

    /// A link has, or has no more, a usable address.
    pub(super) fn address(&mut self, index: u32, address: IpNet, usable: bool) -> Option<NetworkEvent> {
        let key = (index, address);
        let changed = if usable { self.addresses.insert(key) } else { self.addresses.remove(&key) };
        changed.then_some(NetworkEvent::AddressChanged { index })
    }

    /// All that there is, after what happened in between was lost.
    pub(super) fn replace(
        &mut self,
        links: Vec<LinkState>,
        addresses: BTreeSet<(u32, IpNet)>,
    ) -> Vec<NetworkEvent> {
        let present: BTreeSet<u32> = links.iter().map(|state| state.index).collect();
        let gone: Vec<u32> = self.links.keys().copied().filter(|index| !present.contains(index)).collect();
        let mut events: Vec<_> = gone.into_iter().filter_map(|index| self.link_gone(index)).collect();
        events.extend(links.into_iter().filter_map(|state| self.link(state)));
        let changed: BTreeSet<u32> =
            self.addresses.symmetric_difference(&addresses).map(|(index, _)| *index).collect();
        events.extend(changed.into_iter().map(|index| NetworkEvent::AddressChanged { index }));
        self.addresses = addresses;
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(index: u32, up: bool) -> LinkState {
        LinkState { index, name: format!("eth{index}"), up }
    }

    fn address() -> IpNet {
        "10.0.0.1/24".parse().unwrap()
    }

    #[test]
    fn only_changes_of_links_are_told() {
        let mut known = Known::default();
        assert_eq!(known.link(state(1, false)), Some(NetworkEvent::Link(state(1, false))));
        assert_eq!(known.link(state(1, false)), None);
        assert_eq!(known.link(state(1, true)), Some(NetworkEvent::Link(state(1, true))));
        assert_eq!(known.link(state(1, true)), None);
        assert_eq!(known.link_gone(1), Some(NetworkEvent::Link(state(1, false))));
        assert_eq!(known.link_gone(1), None);
    }

    #[test]
    fn only_changes_of_addresses_are_told() {
        let mut known = Known::default();
        let changed = Some(NetworkEvent::AddressChanged { index: 1 });
        assert_eq!(known.address(1, address(), true), changed);
        assert_eq!(known.address(1, address(), true), None);
        assert_eq!(known.address(1, address(), false), changed);
        assert_eq!(known.address(1, address(), false), None);
    }

    #[test]
    fn what_was_lost_is_told_late() {
        let mut known = Known::default();
        known.replace(vec![state(1, true), state(2, true)], BTreeSet::from([(2, address())]));
        let events = known.replace(vec![state(2, false), state(3, true)], BTreeSet::from([(3, address())]));
        let expected = [
            NetworkEvent::Link(state(1, false)),
            NetworkEvent::Link(state(2, false)),
            NetworkEvent::Link(state(3, true)),
            NetworkEvent::AddressChanged { index: 2 },
            NetworkEvent::AddressChanged { index: 3 },
        ];
        assert_eq!(events, expected);
    }
}
