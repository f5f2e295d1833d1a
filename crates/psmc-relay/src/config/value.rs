//! Values that only a relay's file has.

use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net};
use psmc_toml::{Form, Setting, ValueError, parse_net};

/// How many sessions: 1 to a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sessions(pub(super) u32);

impl Sessions {
    /// A million sessions that are in use have a gigabyte of state: more than one machine serves.
    const MAX: u32 = 1_000_000;
}

impl FromStr for Sessions {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|number| (1..=Self::MAX).contains(number)).map(Self).ok_or_else(|| {
            ValueError::new(format!("{text} is no number of sessions"), "write a number from 1 to 1000000")
        })
    }
}

impl Setting for Sessions {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "1000";
}

/// How many workers: 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Workers(pub(super) u8);

impl FromStr for Workers {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|number| (1..=64).contains(number)).map(Self).ok_or_else(|| {
            let remedy = "write a number from 1 to 64: as many as the relay shall use processors";
            ValueError::new(format!("{text} is no number of workers"), remedy)
        })
    }
}

impl Setting for Workers {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "2";
}

/// A time in seconds: 1 s to a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdleSeconds(pub(super) u32);

impl FromStr for IdleSeconds {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|seconds| (1..=86_400).contains(seconds)).map(Self).ok_or_else(|| {
            let remedy = "write seconds, from 1 to 86400, which is a day; a site needs some ten to come back over another uplink";
            ValueError::new(format!("sessions cannot be kept for {text} s"), remedy)
        })
    }
}

impl Setting for IdleSeconds {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "60";
}

/// A network that the relay may lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Network(pub(super) IpNet);

impl FromStr for Network {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        parse_net(text).map(|network| Self(network.trunc()))
    }
}

impl Setting for Network {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"203.0.113.0/24\"";
}

/// The IPv4 address of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostV4(pub(super) Ipv4Addr);

impl FromStr for HostV4 {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let remedy = "write the IPv4 address of a host, such as \"203.0.113.5\"";
        let address =
            text.parse().map_err(|_| ValueError::new(format!("{text:?} is no IPv4 address"), remedy))?;
        if is_no_host(Ipv4Net::from(address)) {
            return Err(ValueError::new(format!("{address} is no host's address"), remedy));
        }
        Ok(Self(address))
    }
}

impl Setting for HostV4 {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"203.0.113.5\"";
}

/// A network of IPv4 hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NetworkV4(pub(super) Ipv4Net);

impl FromStr for NetworkV4 {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let remedy = "write a network of IPv4 hosts, such as \"10.1.0.0/16\"";
        let IpNet::V4(network) = parse_net(text)?.trunc() else {
            return Err(ValueError::new(
                format!("{text} is not of IPv4, and the tunnels carry nothing else"),
                remedy,
            ));
        };
        if is_no_host(network) {
            return Err(ValueError::new(format!("not all of {network} are hosts' addresses"), remedy));
        }
        Ok(Self(network))
    }
}

impl Setting for NetworkV4 {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"10.1.0.0/16\"";
}

/// Whether there are addresses among these that no host sends from over a link: of this network (0.0.0.0/8), loopback,
/// multicast, and those beyond (RFC 6890).
fn is_no_host(network: Ipv4Net) -> bool {
    let first = |net: Ipv4Net| net.network().octets()[0];
    let last = network.broadcast().octets()[0];
    let is_in = |octet: u8| (first(network)..=last).contains(&octet);
    is_in(0) || is_in(127) || last >= 224
}

/// A local address and port for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MetricsAddress(pub(super) SocketAddr);

impl FromStr for MetricsAddress {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().map(Self).map_err(|_| {
            let remedy = "write a local address and a port, such as \"127.0.0.1:9115\" or \"[::1]:9115\"";
            ValueError::new(format!("{text:?} is no address and port"), remedy)
        })
    }
}

impl Setting for MetricsAddress {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"127.0.0.1:9115\"";
}
