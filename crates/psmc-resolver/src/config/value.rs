//! Values that only a resolver's file has.

use std::net::{IpAddr, SocketAddr};

use psmc_toml::{Kind, SocketPath, ValueError, socket_path, whole};

use crate::upstream::{Transport, UpstreamAddress};
use psmc_routes::setting::ADDRESS;

/// The port of DNS over TLS (RFC 7858 §3.1).
const TLS_PORT: u16 = 853;

/// An upstream server.
pub(super) const UPSTREAM: Kind<UpstreamAddress> = Kind::text("\"192.0.2.53\"", |text| {
    if let Some(rest) = text.strip_prefix("tls://") {
        let named = rest.split_once('#').filter(|(_, name)| !name.is_empty());
        let (address, name) = named.ok_or_else(|| {
            let remedy = "write the name in its certificate behind it: \"tls://192.0.2.53#dns.example.net\"";
            ValueError::new(format!("{text:?} does not say who the server is"), remedy)
        })?;
        let plain = address.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, TLS_PORT));
        let address = plain.or_else(|_| ADDRESS.read(address))?;
        return Ok(UpstreamAddress { address, transport: Transport::Tls(name.to_owned()) });
    }
    let (rest, transport) = match text.strip_prefix("tcp://") {
        Some(rest) => (rest, Transport::Tcp),
        None => (text, Transport::Udp),
    };
    Ok(UpstreamAddress { address: ADDRESS.read(rest)?, transport })
});

/// Where a coordinator is, and others that share its state and its key.
pub(super) const COORDINATOR_ADDRESSES: Kind<Vec<SocketAddr>> = Kind::text("\"192.0.2.10:5117\"", |text| {
    let address = |one: &str| one.trim().parse().ok().filter(|address: &SocketAddr| address.port() != 0);
    text.split(',').map(address).collect::<Option<_>>().ok_or_else(|| {
        let remedy = "write the coordinator's address and port, such as \"192.0.2.10:5117\", and behind commas those of \
                      others that share its state";
        ValueError::new(format!("{text:?} is no address with a port"), remedy)
    })
});

/// An address of a host.
pub(super) const IP: Kind<IpAddr> = Kind::text("\"10.77.0.1\"", |text| {
    let remedy = "write one without a port, such as \"10.77.0.1\"";
    text.parse().map_err(|_| ValueError::new(format!("{text:?} is no address"), remedy))
});

/// A domain for which systemd-resolved asks here.
pub(super) const ROUTING_DOMAIN: Kind<String> = Kind::text("\"~.\"", |text| {
    let name = text.strip_prefix('~').unwrap_or(text);
    let is_name =
        hickory_proto::rr::Name::from_utf8(name).is_ok() && !name.is_empty() && !name.starts_with('-');
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        let remedy = "write a domain as resolvectl takes it: \"~example.com\", or \"~.\" for all";
        ValueError::new(format!("{text:?} is no domain"), remedy)
    })
});

/// Memory for answers, in MiB.
pub(super) const MIB: Kind<u32> = Kind::number("10", |text| whole(text, 1..=4096));

/// How long an answer waits for the tunnel, in milliseconds.
pub(super) const WAIT_MS: Kind<u32> = Kind::number("10", |text| whole(text, 0..=10_000));

/// The path of its control socket.
pub(super) const OWN_SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc-dns/local.sock\"", |text| socket_path(text, "/run/psmc-dns/local.sock"));
