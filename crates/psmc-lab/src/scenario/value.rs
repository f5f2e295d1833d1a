//! The values that scenarios are made of: for each a [`Kind`], which refuses what is not legal, and says
//! what is wrong with it.

mod quantity;

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use ipnet::IpNet;
use psmc_sim::link::Probability;
use psmc_toml::{
    Kind, MAX_INTERFACE_LEN, Name, ValueError, choice, host_address, number_and_unit, parse_net, within,
};

pub(crate) use quantity::{LINK_RATE, TIME};
pub(super) use quantity::{QUEUE, SIZE, STREAM_RATE};

/// An address of an interface, with the length of its network's prefix.
pub(super) const HOST_ADDRESS: Kind<IpNet> = Kind::text("\"10.1.0.1/24\"", |text| {
    host_address(text, "choose an address that a host can have, such as \"10.1.0.1/24\"")
});

/// A network; its host bits are zero.
pub(super) const PREFIX: Kind<IpNet> = Kind::text("\"192.168.10.0/24\"", |text| {
    let net = parse_net(text)?;
    if net == net.trunc() {
        return Ok(net);
    }
    let remedy = format!("did you mean \"{}\", or \"{}/{}\"?", net.trunc(), net.addr(), net.max_prefix_len());
    Err(ValueError::new(format!("the network {net} has host bits set"), remedy))
});

/// An address without a prefix.
pub(super) const IP: Kind<IpAddr> = Kind::text("\"10.1.0.1\"", |text| {
    let remedy = "write it like \"10.1.0.1\" or \"fd01::1\"";
    text.parse().map_err(|_| ValueError::new(format!("{text:?} is not an address"), remedy))
});

choice! {
    /// One of the directions of a link.
    pub(super) enum Direction: "direction", such as "forward" {
        /// From the first host of `between` to the second.
        Forward = "forward",
        /// From the second to the first.
        Back = "back",
    }
}

impl Direction {
    /// Its index in `Link::directions`.
    pub(super) fn index(self) -> usize {
        match self {
            Self::Forward => 0,
            Self::Back => 1,
        }
    }
}

choice! {
    /// What a queue drops before it is full.
    pub(super) enum DisciplineName: "queue discipline", such as "codel" {
        DropTail = "drop-tail",
        Red = "red",
        CoDel = "codel",
    }
}

choice! {
    /// A kind of traffic.
    pub(super) enum TrafficKindName: "kind of traffic", such as "tcp" {
        Tcp = "tcp",
        Quic = "quic",
        Udp = "udp",
        Requests = "requests",
        Ping = "ping",
    }
}

choice! {
    /// The congestion control of QUIC.
    pub(super) enum ControllerName: "congestion control of QUIC", such as "cubic" {
        Cubic = "cubic",
        NewReno = "newreno",
        Bbr = "bbr",
    }
}

/// What the kernel has in every namespace, or in every directory of settings of interfaces.
const TAKEN: [&str; 3] = ["lo", "all", "default"];

/// So long that a title still fits into the heading of a table.
const MAX_TITLE_LEN: usize = 64;

/// Longest name of a congestion control: `TCP_CA_NAME_MAX` of the kernel, less the zero at the end.
const MAX_CONTROLLER_LEN: usize = 15;

/// The name of a link or a tunnel, which is that of its interfaces.
pub(super) const LINK_NAME: Kind<Name> = Kind::text("\"dsl\"", |text| {
    let name: Name = text.parse()?;
    if text.len() > MAX_INTERFACE_LEN {
        let reason = format!(
            "{text:?} is {} characters long, and the name of an interface can have {MAX_INTERFACE_LEN}",
            text.len()
        );
        return Err(ValueError::new(reason, "choose a shorter one: interfaces are called like their link"));
    }
    if TAKEN.contains(&text) {
        let reason = format!("no interface can be called {text:?}: Linux uses that name itself");
        return Err(ValueError::new(reason, "choose another one, such as \"dsl\""));
    }
    Ok(name)
});

/// The name of something that another section describes. Whether there is such a thing is seen later.
pub(super) const REFERENCE: Kind<String> = Kind::text("\"…\"", |text| match text {
    "" => Err(ValueError::new("the name is empty", "put in the name of what is meant")),
    _ => Ok(text.to_owned()),
});

/// What a scenario is called: a line for people.
pub(crate) const TITLE: Kind<String> = Kind::text("\"two-uplinks\"", |text| {
    let fits = (1..=MAX_TITLE_LEN).contains(&text.chars().count()) && !text.contains(char::is_control);
    fits.then(|| text.to_owned()).ok_or_else(|| {
        let remedy = format!("choose a line of 1 to {MAX_TITLE_LEN} characters");
        ValueError::new("this is no name for a scenario", remedy)
    })
});

/// A word of a command.
pub(super) const ARGUMENT: Kind<String> = Kind::text("\"iperf3\", \"-s\"", |text| {
    if text.contains('\0') {
        return Err(ValueError::new("no argument has a zero byte in it", "remove it"));
    }
    Ok(text.to_owned())
});

/// The path of a file.
pub(super) const FILE: Kind<PathBuf> = Kind::text("\"lte.trace\"", |text| {
    if text.is_empty() || text.ends_with('/') || text.contains('\0') {
        return Err(ValueError::new(format!("{text:?} is not the path of a file"), "name a file"));
    }
    Ok(text.into())
});

/// The congestion control of TCP, as the kernel calls it. Whether it has it turns out when the scenario runs.
pub(super) const CONTROLLER: Kind<String> = Kind::text("\"cubic\"", |text| {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    let is_name = (1..=MAX_CONTROLLER_LEN).contains(&text.len()) && text.bytes().all(allowed);
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        let remedy = "write \"cubic\", \"reno\", \"bbr\" or what else /proc/sys/net/ipv4/tcp_available_congestion_control lists";
        ValueError::new(format!("{text:?} is no congestion control"), remedy)
    })
});

/// A whole number in a range.
fn bounded<T: FromStr + PartialOrd + Display>(text: &str, range: RangeInclusive<T>) -> Result<T, ValueError> {
    let remedy = format!("choose {} to {}", range.start(), range.end());
    within(text, range, format_args!("{text} is out of range"), remedy)
}

/// Where all chance comes from.
pub(super) const SEED: Kind<u64> = Kind::number("4", |text| bounded(text, 0..=i64::MAX.unsigned_abs()));

/// Bytes of an IP packet: from the datagram that every host must accept (RFC 791 §3.1) to the usual jumbo frame.
pub(super) const MTU: Kind<usize> = Kind::number("4", |text| bounded(text, 576..=9000));

/// More connections between two hosts than a thousand measure the kernel instead of the network.
pub(super) const FLOWS: Kind<usize> = Kind::number("4", |text| bounded(text, 1..=1000));

/// Bytes of a UDP datagram over IPv4, after the number and the time that the generator puts first.
pub(super) const UDP_PAYLOAD: Kind<usize> = Kind::number("4", |text| bounded(text, 16..=65_507));

/// Bytes of an echo request over IPv4, after the time that the generator puts first.
pub(super) const PING_PAYLOAD: Kind<usize> = Kind::number("4", |text| bounded(text, 8..=65_507));

/// What a program says when it ends.
pub(super) const EXIT_STATUS: Kind<i32> = Kind::number("0", |text| {
    let remedy = "a program ends with a number from 0 to 255";
    text.parse().map_err(|_| ValueError::new(format!("{text} is no exit status"), remedy))
});

/// How many a second: more than 0, up to a million.
pub(super) const FREQUENCY: Kind<f64> = Kind::decimal("20", |text| {
    let remedy = "choose how many a second, up to 1000000";
    positive(text, 1e6).ok_or_else(|| ValueError::new(format!("{text} is out of range"), remedy))
});

/// A weight: more than 0, up to 1.
pub(super) const WEIGHT: Kind<f64> = Kind::decimal("0.002", |text| {
    let remedy = "choose more than 0 and at most 1: the smaller, the longer the time it averages over";
    positive(text, 1.0).ok_or_else(|| ValueError::new(format!("{text} is no weight of an average"), remedy))
});

fn positive(text: &str, most: f64) -> Option<f64> {
    text.parse().ok().filter(|number| *number > 0.0 && *number <= most)
}

/// A chance, written in percent.
pub(super) const PERCENT: Kind<Probability> = Kind::text("\"0.5%\"", |text| {
    let (number, unit) = number_and_unit(text);
    let chance = number.parse().ok().and_then(|percent: f64| Probability::new(percent / 100.0));
    chance.filter(|_| unit == "%").ok_or_else(|| {
        let remedy = "write 0 to 100 and a percent sign, such as \"0.5%\"";
        ValueError::new(format!("{text:?} is not a chance in percent"), remedy)
    })
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::model::NatKind;

    #[test]
    fn a_near_miss_is_recognised() {
        assert_eq!(DisciplineName::KIND.read("codel"), Ok(DisciplineName::CoDel));
        let error = NatKind::KIND.read("symetric").unwrap_err();
        assert_eq!(error.remedy(), "did you mean \"symmetric\"?");
    }

    #[test]
    fn addresses_and_networks() {
        assert!(HOST_ADDRESS.read("10.1.0.1/24").is_ok() && HOST_ADDRESS.read("10.1.0.0/24").is_err());
        assert!(PREFIX.read("10.1.0.0/24").is_ok() && PREFIX.read("10.1.0.1/24").is_err());
        assert!(IP.read("fd01::1").is_ok() && IP.read("10.1.0.1/24").is_err());
    }

    #[test]
    fn links_are_called_like_interfaces() {
        assert!(LINK_NAME.read("dsl").is_ok() && LINK_NAME.read("exactly-15-long").is_ok());
        for bad in ["", "lo", "all", "sixteen-letters-", "a/b"] {
            assert!(LINK_NAME.read(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        assert!(TITLE.read("").is_err() && TITLE.read("a\nb").is_err());
        assert!(CONTROLLER.read("Cubic").is_err() && CONTROLLER.read("bbr").is_ok());
        assert!(FILE.read("").is_err() && FILE.read("a/").is_err());
    }

    #[test]
    fn bounds_hold() {
        assert_eq!(bounded("1", 1..=4), Ok(1));
        assert!(bounded("0", 1..=4_u64).is_err() && bounded("5", 1..=4_u64).is_err());
        assert!(bounded("-1", 0..=4_u64).is_err());
        for bad in ["0", "-1", "NaN", "inf", "1e7"] {
            assert!(FREQUENCY.read(bad).is_err(), "{bad}");
            assert!(WEIGHT.read(bad).is_err(), "{bad}");
        }
        assert_eq!(FREQUENCY.read("0.5"), Ok(0.5));
        assert!(WEIGHT.read("1.5").is_err());
    }

    #[test]
    fn chances_are_in_percent() {
        assert_eq!(PERCENT.read("0.5%").unwrap().get(), 0.005);
        assert_eq!(PERCENT.read("100 %").unwrap().get(), 1.0);
        for bad in ["", "%", "1", "101%", "-1%", "1.2.3%", "1percent"] {
            assert!(PERCENT.read(bad).is_err(), "{bad:?}");
        }
    }
}
