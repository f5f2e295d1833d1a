//! Addresses and networks.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use super::{Form, Setting, ValueError};

/// An address of the site inside the tunnel, with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TunnelAddress(IpNet);

impl TunnelAddress {
    /// The address and its prefix length; the host bits are those of the address.
    pub fn net(self) -> IpNet {
        self.0
    }

    /// The address alone.
    pub fn addr(self) -> IpAddr {
        self.0.addr()
    }
}

impl fmt::Display for TunnelAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TunnelAddress {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
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
            IpAddr::V4(_) | IpAddr::V6(_) => return Ok(Self(net)),
        };
        let remedy = "choose an address for this site from a private network, such as \"10.77.0.2/24\"";
        Err(ValueError::new(format!("{} is {kind}", net.addr()), remedy))
    }
}

impl Setting for TunnelAddress {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"10.77.0.2/24\"";
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

/// A network whose addresses a peer may use inside the tunnel; its host bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllowedNet(IpNet);

impl AllowedNet {
    /// The network.
    pub fn net(self) -> IpNet {
        self.0
    }

    /// The network that an address of the tunnel lies in.
    pub(in crate::config) fn around(address: TunnelAddress) -> Self {
        Self(address.0.trunc())
    }
}

impl fmt::Display for AllowedNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for AllowedNet {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let net = parse_net(text)?;
        if net == net.trunc() {
            return Ok(Self(net));
        }
        let host = net.max_prefix_len();
        let reason = format!("the network {net} has host bits set");
        Err(ValueError::new(
            reason,
            format!("did you mean \"{}\", or \"{}/{host}\"?", net.trunc(), net.addr()),
        ))
    }
}

impl Setting for AllowedNet {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"192.168.10.0/24\"";
}

fn parse_net(text: &str) -> Result<IpNet, ValueError> {
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

/// A local address to send from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindAddress(IpAddr);

impl BindAddress {
    /// The address; neither unspecified nor multicast.
    pub fn get(self) -> IpAddr {
        self.0
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for BindAddress {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        const REMEDY: &str =
            "write one address of this machine, such as \"192.0.2.7\", or leave `address` out";
        let ip = text
            .parse::<IpAddr>()
            .map_err(|_| ValueError::new(format!("{text:?} is not an IP address"), REMEDY))?;
        if ip.is_unspecified() || ip.is_multicast() {
            return Err(ValueError::new(format!("a path cannot send from {ip}"), REMEDY));
        }
        Ok(Self(ip))
    }
}

impl Setting for BindAddress {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"192.0.2.7\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnel_addresses_are_hosts() {
        for good in ["10.77.0.2/24", "10.77.0.0/31", "10.77.0.1/32", "fd77::2/64", "fd77::/127", "fd77::/128"]
        {
            assert_eq!(good.parse::<TunnelAddress>().unwrap().to_string(), good);
        }
        for bad in [
            "",
            "10.77.0.2",
            "10.77.0.0/24",
            "10.77.0.255/24",
            "fd77::/64",
            "0.0.0.0/0",
            "224.0.0.1/24",
            "::1/128",
        ] {
            assert!(bad.parse::<TunnelAddress>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn allowed_networks_have_no_host_bits() {
        for good in ["0.0.0.0/0", "::/0", "192.168.10.0/24", "10.0.0.1/32", "fd77::/64"] {
            assert_eq!(good.parse::<AllowedNet>().unwrap().to_string(), good);
        }
        let error = "10.0.0.1/24".parse::<AllowedNet>().unwrap_err();
        assert_eq!(error.remedy(), "did you mean \"10.0.0.0/24\", or \"10.0.0.1/32\"?");
    }

    #[test]
    fn bind_addresses_are_of_one_host() {
        assert!("127.0.0.1".parse::<BindAddress>().is_ok());
        for bad in ["", "0.0.0.0", "::", "ff02::1", "192.0.2.7/24", "192.0.2.7:80"] {
            assert!(bad.parse::<BindAddress>().is_err(), "{bad:?}");
        }
    }
}
