//! What the files of name servers, resolvers and coordinators have alike.

use std::net::{IpAddr, SocketAddr};

use hickory_proto::rr::Name;
use psmc_toml::{Kind, ValueError};

/// Where the local sockets of name servers and resolvers are, each with the name of its program.
pub const RUN_DIR: &str = "/run/psmc-dns";

/// An address, with the port of DNS where it has none.
pub const ADDRESS: Kind<SocketAddr> = Kind::text("\"192.0.2.53\"", |text| {
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
