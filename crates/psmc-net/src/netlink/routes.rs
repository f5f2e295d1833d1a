//! Routes of the main table.

use std::net::IpAddr;
use std::pin::pin;

use futures_util::TryStreamExt;
use ipnet::IpNet;
use nix::errno::Errno;
use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{RouteAttribute, RouteMessage, RouteScope, RouteType};

use super::{Netlink, NetlinkError, is_errno, refused};

impl Netlink {
    /// Routes `destination` into interface `index`, without a next hop, in the main table.
    ///
    /// # Errors
    /// What the kernel says; another route to the same destination and with the same metric is never replaced.
    pub async fn add_route(&self, destination: IpNet, index: u32) -> Result<(), NetlinkError> {
        let request = self.handle.route().add(on_link(destination, index));
        request.execute().await.map_err(refused(|| format!("route {destination} into interface {index}")))
    }

    /// Routes `destination` to the next hop `gateway`, in the main table, with the kernel's metric if none is given.
    ///
    /// # Errors
    /// What the kernel says: most often, that no route leads to the gateway.
    pub async fn add_gateway_route(
        &self,
        destination: IpNet,
        gateway: IpAddr,
        metric: Option<u32>,
    ) -> Result<(), NetlinkError> {
        let mut route = towards(destination);
        route.attributes.extend(metric.map(RouteAttribute::Priority));
        route.attributes.push(RouteAttribute::Gateway(gateway.into()));
        let request = self.handle.route().add(route);
        request.execute().await.map_err(refused(|| format!("route {destination} via {gateway}")))
    }

    /// Takes back [`add_route`](Self::add_route). A route that is gone, say with its interface, is no error.
    ///
    /// # Errors
    /// What the kernel says.
    pub async fn remove_route(&self, destination: IpNet, index: u32) -> Result<(), NetlinkError> {
        match self.handle.route().del(on_link(destination, index)).execute().await {
            Err(error) if is_errno(&error, Errno::ESRCH) || is_errno(&error, Errno::ENODEV) => Ok(()),
            outcome => {
                outcome.map_err(refused(|| format!("remove the route {destination} from interface {index}")))
            }
        }
    }

    /// Whether packets to `address` are for this host.
    pub(super) async fn is_local(&self, address: IpAddr) -> bool {
        let request = self.handle.route().get(towards(IpNet::from(address)));
        let mut routes = pin!(request.execute());
        matches!(routes.try_next().await, Ok(Some(route)) if route.header.kind == RouteType::Local)
    }
}

fn on_link(destination: IpNet, index: u32) -> RouteMessage {
    let mut route = towards(destination);
    route.header.scope = RouteScope::Link;
    route.attributes.push(RouteAttribute::Oif(index));
    route
}

pub(super) fn towards(destination: IpNet) -> RouteMessage {
    let mut route = RouteMessageBuilder::<IpAddr>::new().build();
    route.header.address_family = match destination {
        IpNet::V4(_) => AddressFamily::Inet,
        IpNet::V6(_) => AddressFamily::Inet6,
    };
    route.header.destination_prefix_length = destination.prefix_len();
    route.attributes.push(RouteAttribute::Destination(destination.network().into()));
    route
}
