//! Values that only a resolver's file has.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use psmc_toml::{Form, Setting, ValueError};

use crate::upstream::{Transport, UpstreamAddress};
use psmc_routes::setting::Address;

/// The port of DNS over TLS (RFC 7858 §3.1).
const TLS_PORT: u16 = 853;

/// An upstream server.
#[derive(Clone, Debug)]
pub(super) struct Upstream(pub(super) UpstreamAddress);

impl FromStr for Upstream {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let upstream = |address, transport| Ok(Self(UpstreamAddress { address, transport }));
        if let Some(rest) = text.strip_prefix("tls://") {
            let named = rest.split_once('#').filter(|(_, name)| !name.is_empty());
            let (address, name) = named.ok_or_else(|| {
                let remedy =
                    "write the name in its certificate behind it: \"tls://192.0.2.53#dns.example.net\"";
                ValueError::new(format!("{text:?} does not say who the server is"), remedy)
            })?;
            let plain = address.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, TLS_PORT));
            let address = plain.or_else(|_| address.parse::<Address>().map(|address| address.0))?;
            return upstream(address, Transport::Tls(name.to_owned()));
        }
        let (rest, transport) = match text.strip_prefix("tcp://") {
            Some(rest) => (rest, Transport::Tcp),
            None => (text, Transport::Udp),
        };
        upstream(rest.parse::<Address>()?.0, transport)
    }
}

impl Setting for Upstream {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"192.0.2.53\"";
}

/// Where a coordinator is, and others that share its state and its key.
#[derive(Clone, Debug)]
pub(super) struct CoordinatorAddresses(pub(super) Vec<SocketAddr>);

impl FromStr for CoordinatorAddresses {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let address = |one: &str| one.trim().parse().ok().filter(|address: &SocketAddr| address.port() != 0);
        text.split(',').map(address).collect::<Option<_>>().map(Self).ok_or_else(|| {
            let remedy = "write the coordinator's address and port, such as \"192.0.2.10:5117\", and behind commas those of \
                          others that share its state";
            ValueError::new(format!("{text:?} is no address with a port"), remedy)
        })
    }
}

impl Setting for CoordinatorAddresses {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"192.0.2.10:5117\"";
}

/// An address of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ip(pub(super) IpAddr);

impl FromStr for Ip {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().map(Self).map_err(|_| {
            ValueError::new(
                format!("{text:?} is no address"),
                "write one without a port, such as \"10.77.0.1\"",
            )
        })
    }
}

impl Setting for Ip {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"10.77.0.1\"";
}

/// A domain for which systemd-resolved asks here.
#[derive(Clone, Debug)]
pub(super) struct RoutingDomain(pub(super) String);

impl FromStr for RoutingDomain {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let name = text.strip_prefix('~').unwrap_or(text);
        let is_name =
            hickory_proto::rr::Name::from_utf8(name).is_ok() && !name.is_empty() && !name.starts_with('-');
        is_name.then(|| Self(text.to_owned())).ok_or_else(|| {
            let remedy = "write a domain as resolvectl takes it: \"~example.com\", or \"~.\" for all";
            ValueError::new(format!("{text:?} is no domain"), remedy)
        })
    }
}

impl Setting for RoutingDomain {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"~.\"";
}
