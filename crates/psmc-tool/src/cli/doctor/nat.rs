//! What translates the addresses of this site on the way, judged by what far ends see.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde::Serialize;

use super::lifetime::{Found, Memory};

/// How one far end sees one of this site's sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// The name of the uplink that the socket is bound to.
    pub(super) uplink: String,
    /// The interface that it is bound to, if it is to one.
    pub(super) interface: Option<String>,
    /// The socket's own address.
    pub(super) local: SocketAddr,
    /// Where the far end is.
    pub(super) far: SocketAddr,
    /// Where it sees the socket.
    pub(super) seen: SocketAddr,
    /// Whose far end it is.
    pub(super) by: String,
}

impl View {
    /// Whether somebody on the way has given the datagrams another address.
    fn is_translated(&self) -> bool {
        self.seen.ip() != self.local.ip()
    }
}

/// What becomes of the addresses of an uplink; the terms are those of RFC 4787 section 4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mapping {
    /// They arrive as they were sent.
    None,
    /// There is a NAT. Of what its mappings depend cannot be told.
    Unknown,
    /// One mapping for all destinations.
    EndpointIndependent,
    /// The same for all ports of a destination; nobody has asked from several addresses.
    PortIndependent,
    /// One mapping for each address.
    AddressDependent,
    /// One for each address, or for each address and port; nobody has asked from several ports of one.
    Dependent,
    /// One for each address and port.
    AddressAndPortDependent,
}

impl Mapping {
    /// What follows from how a socket is seen from several places.
    fn of_socket(views: &[&View]) -> Self {
        if !views.iter().any(|view| view.is_translated()) {
            return Self::None;
        }
        let pairs =
            || views.iter().enumerate().flat_map(|(at, a)| views[at + 1..].iter().map(move |b| (a, b)));
        let differs = |by_address: bool, differ: bool| {
            pairs().any(|(a, b)| {
                let is_other_address = a.far.ip() != b.far.ip();
                let is_other_port = !is_other_address && a.far.port() != b.far.port();
                let is_asked = if by_address { is_other_address } else { is_other_port };
                is_asked && (a.seen != b.seen) == differ
            })
        };
        match (differs(false, true), differs(true, true)) {
            (true, _) => Self::AddressAndPortDependent,
            (false, true) if differs(false, false) => Self::AddressDependent,
            (false, true) => Self::Dependent,
            (false, false) if differs(true, false) => Self::EndpointIndependent,
            (false, false) if differs(false, false) => Self::PortIndependent,
            (false, false) => Self::Unknown,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::None => "no NAT",
            Self::Unknown => "a NAT",
            Self::EndpointIndependent => "a NAT with endpoint-independent mapping",
            Self::PortIndependent => "a NAT with endpoint-independent or address-dependent mapping",
            Self::AddressDependent => "a NAT with address-dependent mapping",
            Self::Dependent => "a NAT with address-dependent, or address and port-dependent mapping",
            Self::AddressAndPortDependent => "a NAT with address and port-dependent mapping",
        }
    }
}

/// What is known of an uplink.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Nat {
    /// Its name.
    pub(super) uplink: String,
    /// Its address.
    pub(super) local: IpAddr,
    /// What becomes of it.
    pub(super) mapping: Mapping,
    /// Whether all ports arrive as they were sent.
    pub(super) keeps_ports: bool,
    /// What shows that another NAT than one's own is on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) carrier: Option<String>,
    /// How long a socket that rests is remembered, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Memory>,
    /// Who sees it where.
    pub(super) seen: Vec<Seen>,
}

/// How one far end sees an uplink.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Seen {
    pub(super) by: String,
    pub(super) from: SocketAddr,
}

/// What follows from how sockets are seen, for each address of each uplink. `routers` are those on the way from an uplink.
pub(super) fn judge(views: &[View], routers: &BTreeMap<String, Vec<IpAddr>>) -> Vec<Nat> {
    let mut uplinks: BTreeMap<(&str, IpAddr), Vec<&View>> = BTreeMap::new();
    for view in views {
        uplinks.entry((&view.uplink, view.local.ip())).or_default().push(view);
    }
    let of_uplink = |((uplink, local), views): ((&str, IpAddr), Vec<&View>)| {
        let routers = routers.get(uplink).map_or(&[][..], Vec::as_slice);
        let mut seen: Vec<_> =
            views.iter().map(|view| Seen { by: view.by.clone(), from: view.seen }).collect();
        seen.sort();
        seen.dedup();
        Nat {
            uplink: uplink.to_owned(),
            local,
            mapping: mapping_of(&views),
            keeps_ports: views.iter().all(|view| view.seen.port() == view.local.port()),
            carrier: carrier(local, &views, routers),
            memory: None,
            seen,
        }
    };
    uplinks.into_iter().map(of_uplink).collect()
}

/// Adds what was found out about how long sockets are remembered.
pub(super) fn remember(nats: &mut [Nat], found: &[Found]) {
    for nat in nats {
        let of_uplink = found.iter().find(|found| found.uplink == (nat.uplink.clone(), nat.local));
        nat.memory = of_uplink.map(|found| found.memory);
    }
}

/// What the sockets of an uplink show together: what one of them shows is so of all.
fn mapping_of(views: &[&View]) -> Mapping {
    let mut sockets: BTreeMap<SocketAddr, Vec<&View>> = BTreeMap::new();
    for view in views {
        sockets.entry(view.local).or_default().push(view);
    }
    sockets.values().map(|views| Mapping::of_socket(views)).max().unwrap_or(Mapping::None)
}

/// Why there is a NAT that is not one's own, if anything shows it.
fn carrier(local: IpAddr, views: &[&View], routers: &[IpAddr]) -> Option<String> {
    if !views.iter().any(|view| view.is_translated()) {
        return None;
    }
    if is_shared(local) {
        return Some(format!(
            "a carrier-grade NAT: {local} is of 100.64.0.0/10, which providers share among customers"
        ));
    }
    let is_inner = |view: &&&View| is_shared(view.seen.ip()) || is_private(view.seen.ip());
    if let Some(view) = views.iter().find(is_inner) {
        let kind = if is_shared(view.seen.ip()) { "of 100.64.0.0/10" } else { "private, too" };
        return Some(format!(
            "{} sees an address that is {kind}: it is in the network of the same provider or site, else there are two NATs",
            view.by
        ));
    }
    let shared = routers.iter().find(|router| is_shared(**router))?;
    Some(format!("a carrier-grade NAT: the router {shared} on the way is of 100.64.0.0/10"))
}

/// Shared address space (RFC 6598).
fn is_shared(ip: IpAddr) -> bool {
    let IpAddr::V4(v4) = ip else { return false };
    v4.to_bits() & Ipv4Addr::new(255, 192, 0, 0).to_bits() == Ipv4Addr::new(100, 64, 0, 0).to_bits()
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_private(),
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

impl fmt::Display for Nat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen: Vec<_> = self.seen.iter().map(|Seen { by, from }| format!("as {from} by {by}")).collect();
        write!(f, "{} ({}): {}; seen {}", self.uplink, self.local, self.mapping.words(), seen.join(", "))?;
        if let Some(Memory { reached_s, lost_s }) = self.memory {
            write!(f, "; a socket that rests is reached for {reached_s:.0} s")?;
            lost_s.map_or(Ok(()), |lost_s| write!(f, ", and no longer after {lost_s:.0} s"))?;
        }
        if self.mapping == Mapping::None {
            return Ok(());
        }
        f.write_str(if self.keeps_ports { "; it keeps ports" } else { "; it changes ports" })?;
        if let Some(carrier) = &self.carrier {
            write!(f, "; {carrier}")?;
        }
        match self.mapping {
            Mapping::Unknown => f.write_str("; its kind shows only where several far ends see one socket, which `psmc doctor --nat` tries"),
            Mapping::None
            | Mapping::EndpointIndependent
            | Mapping::PortIndependent
            | Mapping::AddressDependent
            | Mapping::Dependent
            | Mapping::AddressAndPortDependent => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(local: &str, far: &str, seen: &str) -> View {
        let [local, far, seen] = [local, far, seen].map(|text| text.parse().unwrap());
        View { uplink: "wan0".to_owned(), interface: None, local, far, seen, by: "hq".to_owned() }
    }

    /// A socket at a private address that is seen by far ends, each with where it sees it.
    fn of_socket(seen: &[(&str, &str)]) -> Nat {
        let views: Vec<_> = seen.iter().map(|(far, seen)| view("192.168.1.7:5000", far, seen)).collect();
        let mut nats = judge(&views, &BTreeMap::new());
        assert_eq!(nats.len(), 1);
        nats.remove(0)
    }

    #[test]
    fn the_kind_follows_from_what_several_far_ends_see() {
        let (a, b, a_again) = ("203.0.113.1:5115", "203.0.113.2:5115", "203.0.113.1:5116");
        let (one, other) = ("198.51.100.7:5000", "198.51.100.7:61000");
        let cases: [(Mapping, &[(&str, &str)]); 8] = [
            (Mapping::None, &[(a, "192.168.1.7:5000"), (b, "192.168.1.7:5000")]),
            (Mapping::Unknown, &[(a, one)]),
            (Mapping::Unknown, &[(a, one), (a, one)]),
            (Mapping::EndpointIndependent, &[(a, one), (b, one)]),
            (Mapping::PortIndependent, &[(a, one), (a_again, one)]),
            (Mapping::Dependent, &[(a, one), (b, other)]),
            (Mapping::AddressDependent, &[(a, one), (a_again, one), (b, other)]),
            (Mapping::AddressAndPortDependent, &[(a, one), (a_again, other), (b, one)]),
        ];
        for (mapping, seen) in cases {
            assert_eq!(of_socket(seen).mapping, mapping, "{seen:?}");
        }
    }

    #[test]
    fn sockets_with_ports_of_their_own_say_nothing_about_each_other() {
        let views = [
            view("192.168.1.7:5000", "203.0.113.1:5115", "198.51.100.7:61000"),
            view("192.168.1.7:5001", "203.0.113.2:5115", "198.51.100.7:61001"),
        ];
        let nats = judge(&views, &BTreeMap::new());
        let [nat] = nats.as_slice() else { panic!("one uplink: {nats:?}") };
        assert_eq!((nat.mapping, nat.keeps_ports), (Mapping::Unknown, false));
    }

    #[test]
    fn a_nat_of_the_provider_is_told_by_the_addresses_on_the_way() {
        let far = "203.0.113.1:5115";
        let of = |local: &str, seen: &str, router: &str| {
            let routers = BTreeMap::from([("wan0".to_owned(), vec![router.parse().unwrap()])]);
            judge(&[view(local, far, seen)], &routers).remove(0).carrier
        };
        let home = "192.168.1.1";
        assert_eq!(of("192.168.1.7:1", "198.51.100.7:1", home), None);
        assert_eq!(of("203.0.113.9:1", "203.0.113.9:1", "100.64.0.1"), None, "nothing is translated");
        for (local, seen, router, word) in [
            ("100.127.3.4:1", "198.51.100.7:1", home, "carrier-grade"),
            ("192.168.1.7:1", "198.51.100.7:1", "100.64.0.1", "the router 100.64.0.1"),
            ("192.168.1.7:1", "100.99.0.3:1", home, "of 100.64.0.0/10"),
            ("192.168.1.7:1", "10.9.0.3:1", home, "private, too"),
        ] {
            let carrier = of(local, seen, router).unwrap_or_default();
            assert!(carrier.contains(word), "{carrier}");
        }
        assert_eq!(of("192.168.1.7:1", "198.51.100.7:1", "100.128.0.1"), None);
    }

    #[test]
    fn people_are_told_in_a_line() {
        let nat = of_socket(&[("203.0.113.1:5115", "198.51.100.7:61000")]);
        assert_eq!(
            nat.to_string(),
            "wan0 (192.168.1.7): a NAT; seen as 198.51.100.7:61000 by hq; it changes ports; its kind shows only where several far \
             ends see one socket, which `psmc doctor --nat` tries"
        );
        let nat = of_socket(&[("203.0.113.1:5115", "192.168.1.7:5000")]);
        assert_eq!(nat.to_string(), "wan0 (192.168.1.7): no NAT; seen as 192.168.1.7:5000 by hq");
    }
}
