//! Values that only a relay's file has.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net};
use psmc_toml::{Kind, SocketPath, ValueError, parse_net, socket_path, within};

/// How many sessions. A million that are in use have a gigabyte of state: more than one machine serves.
pub(super) const SESSIONS: Kind<u32> = Kind::number("1000", |text| {
    let reason = format_args!("{text} is no number of sessions");
    within(text, 1..=1_000_000, reason, "write a number from 1 to 1000000")
});

/// How many workers.
pub(super) const WORKERS: Kind<u8> = Kind::number("2", |text| {
    let remedy = "write a number from 1 to 64: as many as the relay shall use processors";
    within(text, 1..=64, format_args!("{text} is no number of workers"), remedy)
});

/// After what time an unused session is forgotten, in seconds: up to a day.
pub(super) const IDLE: Kind<Duration> = Kind::number("60", |text| {
    let reason = format_args!("sessions cannot be kept for {text} s");
    let remedy = "write seconds, from 1 to 86400, which is a day; a site needs some ten to come back over another uplink";
    within(text, 1..=86_400, reason, remedy).map(Duration::from_secs)
});

/// A network that the relay may lead to.
pub(super) const NETWORK: Kind<IpNet> =
    Kind::text("\"203.0.113.0/24\"", |text| parse_net(text).map(|network| network.trunc()));

/// The IPv4 address of one host.
pub(super) const HOST_V4: Kind<Ipv4Addr> = Kind::text("\"203.0.113.5\"", |text| {
    let remedy = "write the IPv4 address of a host, such as \"203.0.113.5\"";
    let address =
        text.parse().map_err(|_| ValueError::new(format!("{text:?} is no IPv4 address"), remedy))?;
    if is_no_host(Ipv4Net::from(address)) {
        return Err(ValueError::new(format!("{address} is no host's address"), remedy));
    }
    Ok(address)
});

/// A network of IPv4 hosts.
pub(super) const NETWORK_V4: Kind<Ipv4Net> = Kind::text("\"10.1.0.0/16\"", |text| {
    let remedy = "write a network of IPv4 hosts, such as \"10.1.0.0/16\"";
    let IpNet::V4(network) = parse_net(text)?.trunc() else {
        let reason = format!("{text} is not of IPv4, and the tunnels carry nothing else");
        return Err(ValueError::new(reason, remedy));
    };
    if is_no_host(network) {
        return Err(ValueError::new(format!("not all of {network} are hosts' addresses"), remedy));
    }
    Ok(network)
});

/// Whether there are addresses among these that no host sends from over a link: of this network (0.0.0.0/8), loopback,
/// multicast, and those beyond (RFC 6890).
fn is_no_host(network: Ipv4Net) -> bool {
    let first = |net: Ipv4Net| net.network().octets()[0];
    let last = network.broadcast().octets()[0];
    let is_in = |octet: u8| (first(network)..=last).contains(&octet);
    is_in(0) || is_in(127) || last >= 224
}

/// A local address and port for metrics.
pub(super) const METRICS_ADDRESS: Kind<SocketAddr> = Kind::text("\"127.0.0.1:9115\"", |text| {
    let remedy = "write a local address and a port, such as \"127.0.0.1:9115\" or \"[::1]:9115\"";
    text.parse().map_err(|_| ValueError::new(format!("{text:?} is no address and port"), remedy))
});

/// The path of its control socket.
pub(super) const SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc-relay/fra1.sock\"", |text| socket_path(text, "/run/psmc-relay/fra1.sock"));
