//! Values that only a name server's file has.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use hickory_proto::rr::Name;
use psmc_toml::{Form, Setting, ValueError};

/// An address, with the port of DNS where it has none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(pub(crate) SocketAddr);

impl FromStr for Address {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let plain = || text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, 53));
        let address = text.parse().ok().or_else(plain).filter(|address: &SocketAddr| address.port() != 0);
        address.map(Self).ok_or_else(|| {
            let remedy =
                "write an address, and a port if it is not 53: \"192.0.2.53\" or \"[2001:db8::53]:5353\"";
            ValueError::new(format!("{text:?} is no address"), remedy)
        })
    }
}

impl Setting for Address {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"192.0.2.53\"";
}

/// The name of a zone, a service or a key: absolute, in lower case.
#[derive(Clone, Debug)]
pub struct Domain(pub Name);

impl FromStr for Domain {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let parsed = Name::from_utf8(text).ok().filter(|name| !text.is_empty() && !name.is_wildcard());
        let mut name = parsed.map(|name| name.to_lowercase()).ok_or_else(|| {
            ValueError::new(format!("{text:?} is no domain name"), "write a name such as \"example.com\"")
        })?;
        name.set_fqdn(true);
        Ok(Self(name))
    }
}

impl Setting for Domain {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"example.com\"";
}

/// Whoever may fetch a zone: by the name of a key, or by an address.
#[derive(Clone, Debug)]
pub(super) enum KeyOrAddress {
    Key(Name),
    Address(IpAddr),
}

impl FromStr for KeyOrAddress {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match text.parse::<IpAddr>() {
            Ok(ip) => Ok(Self::Address(ip.to_canonical())),
            Err(_) => text.parse::<Domain>().map(|name| Self::Key(name.0)),
        }
    }
}

impl Setting for KeyOrAddress {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"192.0.2.54\"";
}

/// Responses in a second: 1 to a million.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerSecond(pub(super) u32);

impl FromStr for PerSecond {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|number| (1..=1_000_000).contains(number)).map(Self).ok_or_else(|| {
            ValueError::new(format!("{text} is no number of responses"), "write a number from 1 to 1000000")
        })
    }
}

impl Setting for PerSecond {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "1000";
}
