//! Values that only a name server's file has.

use std::net::IpAddr;
use std::str::FromStr;

use hickory_proto::rr::Name;
use psmc_routes::setting::Domain;
use psmc_toml::{Form, Setting, ValueError};

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
