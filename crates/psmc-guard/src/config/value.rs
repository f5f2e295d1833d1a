//! Values that only a guard's file has.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;
use psmc_toml::{Form, Port, Setting, ValueError, bits_per_second, parse_net};

/// A name of DNS, in lower case and without the dot at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceName(pub(super) String);

impl FromStr for ServiceName {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let name = text.trim_end_matches('.').to_ascii_lowercase();
        let is_label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        // RFC 1035 §2.3.4.
        if name.len() <= 253 && name.split('.').all(is_label) {
            return Ok(Self(name));
        }
        let remedy = "write the name by which the service is reached, such as \"www.example.com\"";
        Err(ValueError::new(format!("{text:?} is no name of DNS"), remedy))
    }
}

impl Setting for ServiceName {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"www.example.com\"";
}

/// An address, or a prefix of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target(pub(super) IpNet);

impl FromStr for Target {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let net = text.parse::<IpAddr>().map(IpNet::from);
        net.or_else(|_| parse_net(text)).map(|net| Self(net.trunc()))
    }
}

impl Setting for Target {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"203.0.113.10\"";
}

/// A port of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServicePort(pub(super) u16);

impl FromStr for ServicePort {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse::<Port>().map(|port| Self(port.get()))
    }
}

impl Setting for ServicePort {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "443";
}

/// An address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Endpoint(pub(super) SocketAddr);

impl FromStr for Endpoint {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let address = text.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
        let remedy =
            "write address and port, such as \"198.51.100.9:5117\": names may not resolve in an attack";
        address.map(Self).ok_or_else(|| ValueError::new(format!("{text:?} is no address and port"), remedy))
    }
}

impl Setting for Endpoint {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"198.51.100.9:5117\"";
}

/// An address of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalAddress(pub(super) IpAddr);

impl FromStr for LocalAddress {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().map(Self).map_err(|_| {
            let remedy = "write an address of this machine, such as \"192.0.2.7\", without a length";
            ValueError::new(format!("{text:?} is no address"), remedy)
        })
    }
}

impl Setting for LocalAddress {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"192.0.2.7\"";
}

/// The path of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilePath(pub(super) PathBuf);

impl FromStr for FilePath {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.is_empty() || text.ends_with('/') || text.contains('\0') {
            let remedy = "name a file, such as \"/var/lib/psmc-guard/hq.json\"";
            return Err(ValueError::new(format!("{text:?} is not the path of a file"), remedy));
        }
        Ok(Self(text.into()))
    }
}

impl Setting for FilePath {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"/var/lib/psmc-guard/hq.json\"";
}

/// A time in seconds: 1 s to a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seconds(pub(super) u32);

impl FromStr for Seconds {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|seconds| (1..=86_400).contains(seconds)).map(Self).ok_or_else(|| {
            ValueError::new(
                format!("{text} s is no time for this"),
                "write seconds, from 1 to 86400, which is a day",
            )
        })
    }
}

impl Setting for Seconds {
    const FORM: Form = Form::Number;
    const EXAMPLE: &'static str = "60";
}

/// How many times what is usual is too much: 1.2 to 1000.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Factor(pub(super) f64);

impl FromStr for Factor {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|factor| (1.2..=1000.0).contains(factor)).map(Self).ok_or_else(|| {
            let remedy = "write a number from 1.2 to 1000; 3 lets a service have twice its visitors";
            ValueError::new(format!("{text} is no factor for this"), remedy)
        })
    }
}

impl Setting for Factor {
    const FORM: Form = Form::Decimal;
    const EXAMPLE: &'static str = "3";
}

/// So many per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PerSecond(pub(super) f64);

impl FromStr for PerSecond {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|count| (1.0..=1e12).contains(count)).map(Self).ok_or_else(|| {
            ValueError::new(
                format!("{text} per second is no limit"),
                "write a number from 1 on, such as 20000",
            )
        })
    }
}

impl Setting for PerSecond {
    const FORM: Form = Form::Decimal;
    const EXAMPLE: &'static str = "20000";
}

/// So many bits per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bits(pub(super) f64);

impl FromStr for Bits {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let bits = bits_per_second(text)?;
        if bits == 0 {
            return Err(ValueError::new("every bit would be an attack", "write a rate, such as \"80mbit\""));
        }
        #[expect(clippy::cast_precision_loss, reason = "nobody measures rates to sixteen digits")]
        Ok(Self(bits as f64))
    }
}

impl Setting for Bits {
    const FORM: Form = Form::Text;
    const EXAMPLE: &'static str = "\"80mbit\"";
}

/// A share of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share(pub(super) f64);

impl FromStr for Share {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse().ok().filter(|share| *share > 0.0 && *share < 1.0).map(Self).ok_or_else(|| {
            ValueError::new(
                format!("{text} is no share of packets"),
                "write a number between 0 and 1, such as 0.2",
            )
        })
    }
}

impl Setting for Share {
    const FORM: Form = Form::Decimal;
    const EXAMPLE: &'static str = "0.2";
}
