//! The values that scenarios are made of: for each a [`Kind`], which refuses what is not legal, and says
//! what is wrong with it.

mod name;
mod number;
mod quantity;

use std::net::IpAddr;

use ipnet::IpNet;
use psmc_toml::{Kind, ValueError, choice, host_address, parse_net};

pub(super) use name::{ARGUMENT, CONTROLLER, FILE, LINK_NAME, REFERENCE, TITLE};
pub(super) use number::{
    EXIT_STATUS, FLOWS, FREQUENCY, MTU, PERCENT, PING_PAYLOAD, SEED, UDP_PAYLOAD, WEIGHT,
};
pub(super) use quantity::{LINK_RATE, QUEUE, SIZE, STREAM_RATE, TIME};

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
}
