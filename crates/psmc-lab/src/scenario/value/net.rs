//! Addresses and networks.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use psmc_toml::{Form, Setting, ValueError, host_address, parse_net};

/// An address of an interface, with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scenario) struct HostAddress(pub(in crate::scenario) IpNet);

impl FromStr for HostAddress {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        host_address(text, "choose an address that a host can have, such as \"10.1.0.1/24\"").map(Self)
    }
}

impl Setting for HostAddress {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"10.1.0.1/24\"";
}

/// A network; its host bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scenario) struct Prefix(pub(in crate::scenario) IpNet);

impl FromStr for Prefix {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let net = parse_net(text)?;
        if net == net.trunc() {
            return Ok(Self(net));
        }
        let remedy =
            format!("did you mean \"{}\", or \"{}/{}\"?", net.trunc(), net.addr(), net.max_prefix_len());
        Err(ValueError::new(format!("the network {net} has host bits set"), remedy))
    }
}

impl Setting for Prefix {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"192.168.10.0/24\"";
}

/// An address without a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::scenario) struct Ip(pub(in crate::scenario) IpAddr);

impl FromStr for Ip {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().map(Self).map_err(|_| {
            ValueError::new(
                format!("{text:?} is not an address"),
                "write it like \"10.1.0.1\" or \"fd01::1\"",
            )
        })
    }
}

impl Setting for Ip {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"10.1.0.1\"";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_networks() {
        assert!(
            "10.1.0.1/24".parse::<HostAddress>().is_ok() && "10.1.0.0/24".parse::<HostAddress>().is_err()
        );
        assert!("10.1.0.0/24".parse::<Prefix>().is_ok() && "10.1.0.1/24".parse::<Prefix>().is_err());
        assert!("fd01::1".parse::<Ip>().is_ok() && "10.1.0.1/24".parse::<Ip>().is_err());
    }
}
