//! Addresses and networks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use ipnet::IpNet;
use psmc_toml::{Kind, ValueError, host_address, parse_net};

/// An address of the site inside the tunnel, with the length of its network's prefix.
pub(in crate::config) const TUNNEL_ADDRESS: Kind<IpNet> = Kind::text("\"10.77.0.2/24\"", |text| {
    let remedy = "choose an address for this site from a private network, such as \"10.77.0.2/24\"";
    host_address(text, remedy)
});

/// A network whose addresses a peer may use inside the tunnel; its host bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AllowedNet(IpNet);

/// An [`AllowedNet`].
pub(in crate::config) const ALLOWED_NET: Kind<AllowedNet> = Kind::text("\"192.168.10.0/24\"", str::parse);

impl AllowedNet {
    /// The network.
    pub fn net(self) -> IpNet {
        self.0
    }

    /// The network that an address of the tunnel lies in.
    pub(in crate::config) fn around(address: IpNet) -> Self {
        Self(address.trunc())
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

/// A local address to send from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindAddress(IpAddr);

/// A [`BindAddress`].
pub(in crate::config) const BIND_ADDRESS: Kind<BindAddress> = Kind::text("\"192.0.2.7\"", str::parse);

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

/// The address that a machine which unwraps IP-in-IP knows this site by.
pub(in crate::config) const INSIDE_ADDRESS: Kind<Ipv4Addr> = Kind::text("\"10.9.0.2\"", |text| {
    let remedy =
        "write the IPv4 address for which that machine has a tunnel to this site, such as \"10.9.0.2\"";
    let ip: Ipv4Addr =
        text.parse().map_err(|_| ValueError::new(format!("{text:?} is not an IPv4 address"), remedy))?;
    if ip.is_unspecified() || ip.is_multicast() || ip.is_broadcast() {
        return Err(ValueError::new(format!("no site has the address {ip}"), remedy));
    }
    Ok(ip)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnel_addresses_are_hosts() {
        for good in ["10.77.0.2/24", "10.77.0.0/31", "10.77.0.1/32", "fd77::2/64", "fd77::/127", "fd77::/128"]
        {
            assert_eq!(TUNNEL_ADDRESS.read(good).unwrap().to_string(), good);
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
            assert!(TUNNEL_ADDRESS.read(bad).is_err(), "{bad:?}");
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
