//! Where peers are reached.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use psmc_toml::{Kind, ValueError};

use super::Port;

/// Longest name that DNS carries (RFC 1035 §2.3.4), as text without the final dot.
const MAX_DNS_NAME_LEN: usize = 253;

/// Longest part of a name between two dots (RFC 1035 §2.3.4).
const MAX_LABEL_LEN: usize = 63;

/// Where a peer is reached: UDP for data, TCP for control.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Its address, or the name that has it.
    pub host: Host,
    /// Its port.
    pub port: Port,
}

/// The host of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A unicast address.
    Ip(IpAddr),
    /// A name, to be resolved when it is used.
    Dns(DnsName),
}

/// A name that can stand in DNS: dot-separated labels of letters, digits, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DnsName(String);

impl Endpoint {
    /// The address and port, unless a name has to be resolved first.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match &self.host {
            Host::Ip(ip) => Some(SocketAddr::new(*ip, self.port.get())),
            Host::Dns(_) => None,
        }
    }
}

impl DnsName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
            Self::Ip(IpAddr::V4(ip)) => ip.fmt(f),
            Self::Dns(name) => f.write_str(&name.0),
        }
    }
}

impl FromStr for Endpoint {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.is_empty() {
            return Err(ValueError::new(
                "the endpoint is empty",
                "write where the other site is reached, such as \"203.0.113.5:5115\"",
            ));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            let rest = rest.trim_end_matches('/');
            return Err(ValueError::new(
                format!("an endpoint has no scheme, but {text:?} begins with {scheme}://"),
                format!("write just host and port, \"{rest}\""),
            ));
        }
        if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
            return Err(no_port(text, &SocketAddr::new(ip, Port::DEFAULT.get()).to_string()));
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(no_port(text, &format!("{text}:{}", Port::DEFAULT)));
        };
        Ok(Self { host: host.parse()?, port: port.parse()? })
    }
}

/// An [`Endpoint`].
pub(in crate::config) const ENDPOINT: Kind<Endpoint> = Kind::text("\"203.0.113.5:5115\"", str::parse);

/// Where a relay is reached: an endpoint whose port may be left out.
pub(in crate::config) const RELAY_ADDRESS: Kind<Endpoint> = Kind::text("\"198.51.100.7:5115\"", |text| {
    text.parse().or_else(|error| format!("{text}:{}", Port::DEFAULT).parse().map_err(|_| error))
});

fn no_port(text: &str, with_port: &str) -> ValueError {
    let remedy = format!("add the port that is listened on there, such as \"{with_port}\"");
    ValueError::new(format!("the endpoint {text:?} has no port"), remedy)
}

impl FromStr for Host {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let ip = match bracketed {
            Some(inside) => inside.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| {
                let remedy = "write it like \"[2001:db8::5]:5115\"";
                ValueError::new(format!("{inside:?} is not an IPv6 address"), remedy)
            })?,
            None => match text.parse::<IpAddr>() {
                Ok(ip) => ip,
                Err(_) => return text.parse().map(Self::Dns),
            },
        };
        reachable(ip).map(Self::Ip)
    }
}

/// Refuses the addresses at which no peer can be.
fn reachable(ip: IpAddr) -> Result<IpAddr, ValueError> {
    let kind = match ip {
        _ if ip.is_unspecified() => "the unspecified address",
        _ if ip.is_multicast() => "a multicast address",
        IpAddr::V4(v4) if v4.is_broadcast() => "the broadcast address",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            "a link-local address, which needs an interface to mean anything"
        }
        IpAddr::V4(_) | IpAddr::V6(_) => return Ok(ip),
    };
    Err(ValueError::new(format!("{ip} is {kind}"), "write the address at which the other site is reached"))
}

impl FromStr for DnsName {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let labels: Vec<&str> = text.strip_suffix('.').unwrap_or(text).split('.').collect();
        let numeric = |label: &str| !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit());
        if labels.last().is_some_and(|last| numeric(last)) {
            let remedy = "write four numbers from 0 to 255 and a port, such as \"203.0.113.5:5115\"";
            return Err(ValueError::new(format!("{text:?} is not an IPv4 address"), remedy));
        }
        if text.len() > MAX_DNS_NAME_LEN || !labels.iter().all(|label| is_label(label)) {
            let remedy = "write an address or a DNS name, and a port, such as \"hq.example.org:5115\"";
            return Err(ValueError::new(format!("{text:?} is neither an address nor a DNS name"), remedy));
        }
        Ok(Self(text.to_owned()))
    }
}

fn is_label(label: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    (1..=MAX_LABEL_LEN).contains(&label.len()) && label.bytes().all(allowed) && !label.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_read_back() {
        for text in
            ["203.0.113.5:5115", "[2001:db8::5]:1", "hq.example.org:65535", "hq:5115", "_x.example.:9"]
        {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn endpoints_that_cannot_be() {
        for bad in [
            "",
            ":",
            ":5115",
            "hq",
            "hq:",
            "hq:0",
            "hq:65536",
            "hq:x",
            "udp://hq:5115",
            "203.0.113.5",
            "2001:db8::5",
            "[2001:db8::5]",
            "[hq]:5115",
            "1.2.3.400:5115",
            "0.0.0.0:5115",
            "[::]:5115",
            "224.0.0.1:5115",
            "[fe80::1]:5115",
            "a..b:1",
            "-a:1",
            "a b:1",
            "ü:1",
        ] {
            assert!(bad.parse::<Endpoint>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_missing_port_is_supplied_in_the_remedy() {
        let remedy = |text: &str| text.parse::<Endpoint>().unwrap_err().remedy().to_owned();
        assert!(remedy("2001:db8::5").contains("\"[2001:db8::5]:5115\""));
        assert!(remedy("hq.example.org").contains("\"hq.example.org:5115\""));
    }
}
