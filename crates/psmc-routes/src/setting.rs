//! What the files of name servers, resolvers and coordinators have alike.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use hickory_proto::rr::Name;
use psmc_toml::{Form, Setting, ValueError};

/// Where the local sockets of name servers and resolvers are, each with the name of its program.
pub const RUN_DIR: &str = "/run/psmc-dns";

/// An address, with the port of DNS where it has none.
#[derive(Clone, Copy, Debug)]
pub struct Address(pub SocketAddr);

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
