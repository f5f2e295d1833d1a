//! Traffic classes: what goes to a destination, by source, protocol and port.

use std::cmp::Reverse;
use std::fmt::{self, Display};
use std::num::NonZeroU16;

use ipnet::IpNet;
use thiserror::Error;

/// A protocol, by its number in an IP header (IANA's list of protocol numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);

    /// Those that have names, both here and where rules are enforced.
    const NAMED: [(&'static str, Self); 5] = [
        ("tcp", Self::TCP),
        ("udp", Self::UDP),
        ("icmp", Self(1)),
        ("ipv6-icmp", Self(58)),
        ("sctp", Self(132)),
    ];

    /// The protocol of this name, or of this number in decimal.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let named = Self::NAMED.into_iter().find(|(name, _)| *name == text);
        named.map(|(_, protocol)| protocol).or_else(|| text.parse().ok().map(Self))
    }

    /// Whether its packets begin with a source and a destination port.
    #[must_use]
    pub fn has_ports(self) -> bool {
        // DCCP has them as well (RFC 4340 §5.1), UDP-Lite too (RFC 3828 §3.1).
        matches!(self.0, 6 | 17 | 33 | 132 | 136)
    }
}

impl Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMED.into_iter().find(|(_, named)| named == self) {
            Some((name, _)) => f.write_str(name),
            None => self.0.fmt(f),
        }
    }
}

/// Destination ports, from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    first: NonZeroU16,
    last: NonZeroU16,
}

impl Ports {
    /// Ports from `first` to `last`; `None` if there are none.
    #[must_use]
    pub fn new(first: u16, last: u16) -> Option<Self> {
        let (first, last) = (NonZeroU16::new(first)?, NonZeroU16::new(last)?);
        (first <= last).then_some(Self { first, last })
    }

    /// The ports of a text such as `80` or `80-90`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Self::new(first.trim().parse().ok()?, last.trim().parse().ok()?)
    }

    /// The first.
    #[must_use]
    pub fn first(self) -> u16 {
        self.first.get()
    }

    /// The last.
    #[must_use]
    pub fn last(self) -> u16 {
        self.last.get()
    }

    fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { self.first.fmt(f) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

/// Why there is no such class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClassError {
    /// Ports of a protocol that has none, or of none in particular.
    #[error("ports belong to a protocol that has ports, such as tcp or udp")]
    PortsWithoutProtocol,
    /// Packets of one family have no addresses of the other.
    #[error("source and destination are not both of IPv4 or both of IPv6")]
    OtherFamily,
}

/// A class: packets to `destination`, from one prefix or anywhere, of one protocol or any, to some ports or any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    destination: IpNet,
    source: Option<IpNet>,
    protocol: Option<Protocol>,
    ports: Option<Ports>,
}

impl Class {
    /// A class, from anywhere; host bits of `destination` do not count.
    ///
    /// # Errors
    /// [`ClassError`].
    pub fn new(
        destination: IpNet,
        protocol: Option<Protocol>,
        ports: Option<Ports>,
    ) -> Result<Self, ClassError> {
        if ports.is_some() && !protocol.is_some_and(Protocol::has_ports) {
            return Err(ClassError::PortsWithoutProtocol);
        }
        Ok(Self { destination: destination.trunc(), source: None, protocol, ports })
    }

    /// Of its packets those that come from a prefix, if one is given; host bits do not count.
    ///
    /// # Errors
    /// [`ClassError::OtherFamily`].
    pub fn coming_from(self, source: Option<IpNet>) -> Result<Self, ClassError> {
        let is_v4 = self.destination.addr().is_ipv4();
        if source.is_some_and(|source| source.addr().is_ipv4() != is_v4) {
            return Err(ClassError::OtherFamily);
        }
        Ok(Self { source: source.map(|source| source.trunc()), ..self })
    }

    /// Where its packets go.
    #[must_use]
    pub fn destination(&self) -> IpNet {
        self.destination
    }

    /// Where they come from, if it is about one prefix only.
    #[must_use]
    pub fn source(&self) -> Option<IpNet> {
        self.source
    }

    /// Their protocol, if it is one.
    #[must_use]
    pub fn protocol(&self) -> Option<Protocol> {
        self.protocol
    }

    /// Their destination ports, if it is about some only.
    #[must_use]
    pub fn ports(&self) -> Option<Ports> {
        self.ports
    }

    /// Whether a packet can be in both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let meet = |here: IpNet, there: IpNet| here.contains(&there) || there.contains(&here);
        let is_same = |a: Option<Protocol>, b: Option<Protocol>| a.is_none() || b.is_none() || a == b;
        meet(self.destination, other.destination)
            && self.source.is_none_or(|here| other.source.is_none_or(|there| meet(here, there)))
            && is_same(self.protocol, other.protocol)
            && self.ports.is_none_or(|here| other.ports.is_none_or(|there| here.overlaps(there)))
    }

    /// What classes are ordered by, so that a packet that is in several counts for the most specific one: the longer prefix
    /// of destinations, then of sources, then the one with a protocol, then that with fewer ports. Flowspec has the same order
    /// (RFC 8955 §5.1).
    #[must_use]
    pub fn rank(&self) -> impl Ord + use<> {
        let width = self.ports.map_or(u16::MAX, |ports| ports.last() - ports.first());
        let source = self.source.map(|source| source.prefix_len());
        (Reverse(self.destination.prefix_len()), Reverse(source), self.protocol.is_none(), width, *self)
    }

    /// What nftables matches its packets by, in a table of family `inet` (nft(8)).
    #[must_use]
    pub fn nft_match(&self) -> String {
        let family = if self.destination.addr().is_ipv4() { "ip" } else { "ip6" };
        let mut text = format!("{family} daddr {}", self.destination);
        if let Some(source) = self.source {
            text += &format!(" {family} saddr {source}");
        }
        if let Some(Protocol(number)) = self.protocol {
            text += &format!(" meta l4proto {number}");
        }
        if let Some(ports) = self.ports {
            text += &format!(" th dport {ports}");
        }
        text
    }
}

impl Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.destination.fmt(f)?;
        if let Some(protocol) = self.protocol {
            write!(f, " {protocol}")?;
        }
        if let Some(ports) = self.ports {
            write!(f, " {ports}")?;
        }
        if let Some(source) = self.source {
            write!(f, " from {source}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The class of a text such as `203.0.113.10/32 tcp 80-90 from 192.0.2.0/24`.
    pub(crate) fn class(text: &str) -> Class {
        let (text, source) = match text.split_once(" from ") {
            Some((text, source)) => (text, Some(source.parse().unwrap())),
            None => (text, None),
        };
        let mut words = text.split(' ');
        let destination = words.next().unwrap().parse().unwrap();
        let protocol = words.next().map(|word| Protocol::parse(word).unwrap());
        let ports = words.next().map(|word| Ports::parse(word).unwrap());
        Class::new(destination, protocol, ports).unwrap().coming_from(source).unwrap()
    }

    #[test]
    fn classes_overlap_if_a_packet_can_be_in_both() {
        let web = class("203.0.113.10/32 tcp 80-90");
        for (other, overlaps) in [
            ("203.0.113.0/24", true),
            ("203.0.113.0/24 tcp", true),
            ("203.0.113.10/32 tcp 90-99", true),
            ("203.0.113.10/32 tcp 91-99", false),
            ("203.0.113.10/32 udp", false),
            ("203.0.113.11/32", false),
            ("203.0.113.10/32 tcp from 192.0.2.0/24", true),
            ("::/0", false),
        ] {
            let other = class(other);
            assert_eq!((web.overlaps(&other), other.overlaps(&web)), (overlaps, overlaps), "{other}");
        }
    }

    #[test]
    fn the_most_specific_comes_first() {
        let texts = [
            "203.0.113.10/32 from 192.0.2.1/32",
            "203.0.113.10/32 tcp 443 from 192.0.2.0/24",
            "203.0.113.10/32 tcp 443",
            "203.0.113.10/32 tcp 80-90",
            "203.0.113.10/32 tcp",
            "203.0.113.10/32",
            "203.0.113.0/24 udp 53",
            "203.0.113.0/24",
        ];
        let mut classes: Vec<Class> = texts.iter().rev().map(|text| class(text)).collect();
        classes.sort_by_key(Class::rank);
        assert_eq!(classes.iter().map(ToString::to_string).collect::<Vec<_>>(), texts);
    }

    #[test]
    fn ports_need_a_protocol_that_has_some() {
        let net = "203.0.113.10/32".parse().unwrap();
        let ports = Ports::new(80, 80);
        for protocol in [None, Protocol::parse("icmp"), Protocol::parse("47")] {
            assert_eq!(Class::new(net, protocol, ports), Err(ClassError::PortsWithoutProtocol));
        }
        for bad in ["0", "90-80", "65536", "x", "", "1-", "-1"] {
            assert_eq!(Ports::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn nftables_is_told_all_of_it() {
        let web = class("203.0.113.10/32 tcp 80-90");
        assert_eq!(web.nft_match(), "ip daddr 203.0.113.10/32 meta l4proto 6 th dport 80-90");
        assert_eq!(class("2001:db8::/32").nft_match(), "ip6 daddr 2001:db8::/32");
        let some = class("2001:db8::/32 udp 53 from 2001:db8:7::/48");
        assert_eq!(
            some.nft_match(),
            "ip6 daddr 2001:db8::/32 ip6 saddr 2001:db8:7::/48 meta l4proto 17 th dport 53"
        );
    }

    #[test]
    fn sources_are_of_the_family_of_the_destination_and_may_be_disjoint() {
        let v6 = Some("2001:db8::/32".parse().unwrap());
        assert_eq!(class("203.0.113.10/32").coming_from(v6), Err(ClassError::OtherFamily));
        let (here, there) =
            (class("203.0.113.0/24 from 192.0.2.0/25"), class("203.0.113.0/24 from 192.0.2.128/25"));
        assert!(!here.overlaps(&there) && here.overlaps(&here));
    }
}
