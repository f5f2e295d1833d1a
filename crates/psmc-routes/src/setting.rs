//! What the files and arguments of name servers, resolvers and coordinators have alike.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use hickory_proto::rr::Name;
use psmc_toml::{Kind, ValueError};
use thiserror::Error;

/// Where the local sockets of name servers and resolvers are, each with the name of its program.
pub const RUN_DIR: &str = "/run/psmc-dns";

/// An address, with the port of DNS where it has none.
pub const ADDRESS: Kind<SocketAddr> = Kind::text("\"192.0.2.53\"", |text| {
    let remedy = "write an address, and a port if it is not 53: \"192.0.2.53\" or \"[2001:db8::53]:5353\"";
    address(text).ok_or_else(|| ValueError::new(format!("{text:?} is no address"), remedy))
});

fn address(text: &str) -> Option<SocketAddr> {
    let plain = || text.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, DNS_PORT));
    text.parse().ok().or_else(plain).filter(|address: &SocketAddr| address.port() != 0)
}

/// The name of a zone, a service or a key: absolute, in lower case.
pub const DOMAIN: Kind<Name> = Kind::text("\"example.com\"", |text| {
    let parsed = Name::from_utf8(text).ok().filter(|name| !text.is_empty() && !name.is_wildcard());
    let mut name = parsed.map(|name| name.to_lowercase()).ok_or_else(|| {
        ValueError::new(format!("{text:?} is no domain name"), "write a name such as \"example.com\"")
    })?;
    name.set_fqdn(true);
    Ok(name)
});

/// A text that names no server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not the address of a name server: write an address, with a port if it is not 53, such as 192.0.2.53 or \
     [2001:db8::53]:5353; for a second way to the same server, a comma and its address there"
)]
pub struct ServerError(String);

/// A name server: its address, and others by which the same server is reached, such as one through a tunnel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server(Vec<SocketAddr>);

impl Server {
    /// The addresses, the direct one first; never empty.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.0
    }
}

impl From<SocketAddr> for Server {
    fn from(address: SocketAddr) -> Self {
        Self(vec![address])
    }
}

impl FromStr for Server {
    type Err = ServerError;

    fn from_str(text: &str) -> Result<Self, ServerError> {
        let addresses = text.split(',').map(address).collect::<Option<_>>();
        addresses.map(Self).ok_or_else(|| ServerError(text.to_owned()))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[0].fmt(f)
    }
}

/// The port of DNS.
const DNS_PORT: u16 = 53;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_a_port() {
        let addresses = |text: &str| text.parse::<Server>().map(|server| server.0);
        let socket = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert_eq!(addresses("192.0.2.53"), Ok(vec![socket("192.0.2.53:53")]));
        assert_eq!(addresses("2001:db8::53"), Ok(vec![socket("[2001:db8::53]:53")]));
        assert_eq!(
            addresses("192.0.2.53:5353,10.77.0.53"),
            Ok(vec![socket("192.0.2.53:5353"), socket("10.77.0.53:53")])
        );
        for bad in ["", "ns1.example.com", "192.0.2.53,", "192.0.2.53:0"] {
            assert_eq!(addresses(bad), Err(ServerError(bad.to_owned())), "{bad:?}");
        }
    }
}
