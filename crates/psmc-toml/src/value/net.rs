//! Addresses, networks, and ports.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::str::FromStr;

use ipnet::IpNet;

use super::{Kind, ValueError};

/// An address that a host can have, with the length of its network's prefix. `remedy` is for one that none can have.
pub fn host_address(text: &str, remedy: &str) -> Result<IpNet, ValueError> {
    let net = parse_net(text)?;
    let kind = match net.addr() {
        ip if ip.is_unspecified() => "the unspecified address",
        ip if ip.is_multicast() => "a multicast address",
        ip if ip.is_loopback() => "a loopback address",
        ip if is_network_address(net) => {
            return Err(no_host(net, ip, "the network itself, not a host in it"));
        }
        ip if is_broadcast_address(net) => {
            return Err(no_host(net, ip, "the broadcast address of its network"));
        }
        IpAddr::V4(_) | IpAddr::V6(_) => return Ok(net),
    };
    Err(ValueError::new(format!("{} is {kind}", net.addr()), remedy))
}

/// An address with the length of a prefix, whatever its host bits.
pub fn parse_net(text: &str) -> Result<IpNet, ValueError> {
    if let Ok(net) = text.parse() {
        return Ok(net);
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        let reason = format!("{text:?} has no prefix length");
        let (net, host) = if ip.is_ipv4() { (24, 32) } else { (64, 128) };
        let remedy =
            format!("write \"{ip}/{host}\" for this address alone, or a length such as /{net} for a network");
        return Err(ValueError::new(reason, remedy));
    }
    let remedy = "write an address and a prefix length, such as \"10.77.0.2/24\" or \"fd77::2/64\"";
    Err(ValueError::new(format!("{text:?} is not an address with a prefix length"), remedy))
}

fn no_host(net: IpNet, ip: IpAddr, kind: &str) -> ValueError {
    let remedy = match net.hosts().find(|host| *host != ip) {
        Some(host) => format!("choose a host's address, such as \"{host}/{}\"", net.prefix_len()),
        None => "choose a host's address".to_owned(),
    };
    ValueError::new(format!("{ip} is {kind}"), remedy)
}

/// In a network of two addresses or one, every address is a host's (RFC 3021, RFC 6164).
fn has_network_address(net: IpNet) -> bool {
    net.max_prefix_len() - net.prefix_len() > 1
}

fn is_network_address(net: IpNet) -> bool {
    has_network_address(net) && net.addr() == net.network()
}

fn is_broadcast_address(net: IpNet) -> bool {
    matches!(net, IpNet::V4(_)) && has_network_address(net) && net.addr() == net.broadcast()
}

/// A UDP or TCP port; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(NonZeroU16);

impl Port {
    /// The port on which a site listens unless it is told another.
    pub const DEFAULT: Self = Self(NonZeroU16::new(5115).expect("5115 is not 0"));

    /// A port.
    pub const fn new(number: NonZeroU16) -> Self {
        Self(number)
    }

    /// The number.
    pub fn get(self) -> u16 {
        self.0.get()
    }

    /// Reads one where `own` is the usual one.
    fn parse(text: &str, own: Self) -> Result<Self, ValueError> {
        text.parse().map(Self).map_err(|_| {
            let remedy = format!("a port is a number from 1 to 65535; PSMC's own is {own}");
            ValueError::new(format!("{text:?} is not a port"), remedy)
        })
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Port {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Self::parse(text, Self::DEFAULT)
    }
}

/// A local address and port for metrics.
pub const METRICS_ADDRESS: Kind<SocketAddr> = Kind::text("\"127.0.0.1:9115\"", |text| {
    let remedy = "write a local address and a port, such as \"127.0.0.1:9115\" or \"[::1]:9115\"";
    text.parse().map_err(|_| ValueError::new(format!("{text:?} is no address and port"), remedy))
});

/// A [`Listen`].
pub const LISTEN: Kind<Listen> = Kind::text_or_number("5115", str::parse);

/// Where a site listens: UDP for data, TCP for control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The local address; `None` is every one, of both families.
    pub address: Option<IpAddr>,
    /// The port.
    pub port: Port,
}

impl Listen {
    /// Reads it where `own` is the usual port.
    ///
    /// # Errors
    /// [`ValueError`].
    pub fn parse(text: &str, own: Port) -> Result<Self, ValueError> {
        if text.bytes().all(|b| b.is_ascii_digit()) {
            return Ok(Self { address: None, port: Port::parse(text, own)? });
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            let remedy = format!(
                "write a port, {own}, or a local address and a port, \"192.0.2.7:{own}\" or \"[2001:db8::7]:{own}\""
            );
            ValueError::new(format!("{text:?} is nothing to listen on"), remedy)
        })?;
        let port = Port::parse(&address.port().to_string(), own)?;
        let ip = address.ip();
        Ok(Self { address: (ip != IpAddr::V6(Ipv6Addr::UNSPECIFIED)).then_some(ip), port })
    }

    /// The address to bind: `[::]` for every one, which takes IPv4 as well on a dual-stack socket.
    pub fn socket_addr(self) -> SocketAddr {
        SocketAddr::new(self.address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), self.port.get())
    }
}

impl Default for Listen {
    fn default() -> Self {
        Self { address: None, port: Port::DEFAULT }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            None => write!(f, "port {} of every address", self.port),
            Some(_) => self.socket_addr().fmt(f),
        }
    }
}

impl FromStr for Listen {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Self::parse(text, Port::DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold() {
        assert!("0".parse::<Port>().is_err() && "65536".parse::<Port>().is_err());
        assert_eq!("65535".parse::<Port>().unwrap().get(), 65535);
    }

    #[test]
    fn listening_on_one_or_every_address() {
        assert_eq!("5115".parse::<Listen>().unwrap(), Listen::default());
        assert_eq!("[::]:5115".parse::<Listen>().unwrap(), Listen::default());
        let one = "192.0.2.7:99".parse::<Listen>().unwrap();
        assert_eq!(one.socket_addr().to_string(), "192.0.2.7:99");
        for bad in ["", "0", "65536", ":5115", "192.0.2.7", "192.0.2.7:0", "hq:5115"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad:?}");
        }
    }
}
