//! Values that only a name server's file has.

use std::net::{IpAddr, SocketAddr};

use hickory_proto::rr::Name;
use psmc_toml::{Kind, SocketPath, ValueError, socket_path, within};

/// An address, with the port of DNS where it has none.
pub(crate) const ADDRESS: Kind<SocketAddr> = Kind::text("\"192.0.2.53\"", |text| {
    let plain = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 53));
    let address = text.parse().ok().or_else(plain).filter(|address: &SocketAddr| address.port() != 0);
    let remedy = "write an address, and a port if it is not 53: \"192.0.2.53\" or \"[2001:db8::53]:5353\"";
    address.ok_or_else(|| ValueError::new(format!("{text:?} is no address"), remedy))
});

/// The name of a zone, a service or a key: absolute, in lower case.
pub const DOMAIN: Kind<Name> = Kind::text("\"example.com\"", |text| {
    let parsed = Name::from_utf8(text).ok().filter(|name| !text.is_empty() && !name.is_wildcard());
    let mut name = parsed.map(|name| name.to_lowercase()).ok_or_else(|| {
        ValueError::new(format!("{text:?} is no domain name"), "write a name such as \"example.com\"")
    })?;
    name.set_fqdn(true);
    Ok(name)
});

/// Whoever may fetch a zone: by the name of a key, or by an address.
#[derive(Clone, Debug)]
pub(super) enum KeyOrAddress {
    Key(Name),
    Address(IpAddr),
}

/// A [`KeyOrAddress`].
pub(super) const KEY_OR_ADDRESS: Kind<KeyOrAddress> =
    Kind::text("\"192.0.2.54\"", |text| match text.parse::<IpAddr>() {
        Ok(ip) => Ok(KeyOrAddress::Address(ip.to_canonical())),
        Err(_) => DOMAIN.read(text).map(KeyOrAddress::Key),
    });

/// Responses in a second.
pub(super) const PER_SECOND: Kind<u32> = Kind::number("1000", |text| {
    let reason = format_args!("{text} is no number of responses");
    within(text, 1..=1_000_000, reason, "write a number from 1 to 1000000")
});

/// The path of its control socket.
pub(super) const SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc-dns/ns1.sock\"", |text| socket_path(text, "/run/psmc-dns/ns1.sock"));
