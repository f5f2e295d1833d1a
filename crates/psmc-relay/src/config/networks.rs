//! Where a relay may lead.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::LazyLock;

use ipnet::IpNet;

/// Addresses that a relay may send to for others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Networks {
    /// All that are reached over the Internet.
    #[default]
    Public,
    /// Those in one of these.
    Listed(Vec<IpNet>),
}

impl Networks {
    /// Whether an address is one of them.
    ///
    /// This machine's own addresses are none of the public ones: what a firewall keeps from others must not be reached
    /// by way of the relay.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        match self {
            Self::Public => is_public(ip) && !is_own(ip),
            Self::Listed(networks) => networks.iter().any(|network| network.contains(&ip)),
        }
    }
}

impl fmt::Display for Networks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("every public address"),
            Self::Listed(networks) => {
                let names: Vec<String> = networks.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(", "))
            }
        }
    }
}

/// Whether an address is one host's anywhere in the Internet: not of a private, local, shared, multicast or reserved
/// network (RFC 6890 and the registries that it founded).
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => !NOT_PUBLIC_V4.iter().any(|network| network.contains(&ip)),
        IpAddr::V6(_) => {
            GLOBAL_V6.contains(&ip) && !NOT_PUBLIC_V6.iter().any(|network| network.contains(&ip))
        }
    }
}

/// Whether this machine has an address: then the kernel would send to it from itself.
fn is_own(ip: IpAddr) -> bool {
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    // Nothing is sent. Where there is no route to an address, it is not our own.
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((ip, ANY_PORT))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == ip)
}

/// The port matters to no route.
const ANY_PORT: u16 = 9;

static NOT_PUBLIC_V4: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    networks(&[
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
    ])
});

/// All that is routed globally (RFC 4291 §2.4).
static GLOBAL_V6: LazyLock<IpNet> = LazyLock::new(|| network("2000::/3"));

static NOT_PUBLIC_V6: LazyLock<Vec<IpNet>> =
    LazyLock::new(|| networks(&["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"]));

fn networks(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| network(text)).collect()
}

fn network(text: &str) -> IpNet {
    text.parse().expect("the networks above are well-formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_public_is_what_the_internet_routes() {
        for public in ["1.1.1.1", "9.255.255.255", "223.255.255.254", "2606:4700::1", "2a00::1"] {
            assert!(Networks::Public.contains(ip(public)), "{public}");
        }
        for other in [
            "0.0.0.0",
            "10.1.2.3",
            "100.100.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.31.0.1",
            "192.168.1.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "2001:db8::1",
        ] {
            assert!(!Networks::Public.contains(ip(other)), "{other}");
        }
    }

    #[test]
    fn this_machines_own_addresses_are_known() {
        assert!(is_own(ip("127.0.0.1")));
        assert!(!is_own(ip("192.0.2.1")) && !is_own(ip("2001:db8::1")));
    }

    #[test]
    fn a_list_means_itself() {
        let networks = Networks::Listed(networks(&["10.200.0.0/16", "fd00::/8"]));
        assert!(networks.contains(ip("10.200.1.2")) && networks.contains(ip("fd00:200::1")));
        assert!(networks.contains(ip("::ffff:10.200.1.2")));
        assert!(!networks.contains(ip("1.1.1.1")) && !networks.contains(ip("10.201.0.1")));
    }
}
