//! Plain tunnels of IP-in-IP: `[[tunnel]]`.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Range;

use ipnet::Ipv4Net;
use psmc_core::relay::{PlainEnd, PlainOuter, PlainPair};
use psmc_net::keys::PublicKey;
use psmc_net::udp::route_mtu;
use psmc_toml::{Complaint, NAME, Name, RATE, Rate, Section};
use psmc_wire::ids::KeyBytes;

use super::Site;
use super::draft::{HOST_V4, NETWORK_V4};

const KEYS: &[&str] = &[
    "name",
    "left",
    "left_site",
    "left_inside",
    "left_owner",
    "left_local",
    "right",
    "right_site",
    "right_inside",
    "right_owner",
    "right_local",
    "max_rate",
];

/// What links take where there is no route to ask: that of Ethernet.
const USUAL_MTU: u16 = 1500;

/// Two ends between which packets pass.
#[derive(Clone, Debug)]
pub struct Tunnel {
    /// Its name.
    pub name: Name,
    /// What may pass to each end.
    pub max_rate: Option<Rate>,
    /// The left and the right one.
    pub ends: [TunnelEnd; 2],
}

/// Where an end is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outer {
    /// At this address.
    Address(Ipv4Addr),
    /// Wherever this site registers from.
    Site(Name, PublicKey),
}

/// The end of a tunnel that goes to the relay.
#[derive(Clone, Debug)]
pub struct TunnelEnd {
    /// Where it is.
    pub outer: Outer,
    /// The relay's address towards it; `None` for any.
    pub local: Option<Ipv4Addr>,
    /// The inner addresses behind it.
    pub inside: Vec<Ipv4Net>,
    /// The site that may have dropped what goes to it: that to which it is left, or another one that is listed.
    pub owner: Option<PublicKey>,
}

impl Tunnel {
    /// As the engine takes it, by the routes of this moment.
    pub(crate) fn pair(&self) -> PlainPair {
        let rate = self.max_rate.map(Rate::bits_per_second);
        let name = self.name.to_string();
        PlainPair { name, rate, ends: self.ends.each_ref().map(TunnelEnd::to_plain) }
    }

    /// Whether a packet from one of its ends could also be one of another tunnel's.
    fn is_confused_with(&self, other: &Self) -> bool {
        let same_way = |[from, to]: [&TunnelEnd; 2], [other_from, other_to]: [&TunnelEnd; 2]| {
            from.outer == other_from.outer && from.overlaps(other_from) && to.overlaps(other_to)
        };
        self.ways().into_iter().any(|way| other.ways().into_iter().any(|another| same_way(way, another)))
    }

    /// From where to where.
    fn ways(&self) -> [[&TunnelEnd; 2]; 2] {
        let [left, right] = &self.ends;
        [[left, right], [right, left]]
    }
}

impl TunnelEnd {
    fn to_plain(&self) -> PlainEnd {
        let (outer, mtu) = match &self.outer {
            Outer::Address(address) => (PlainOuter::Fixed(*address), link_mtu(*address)),
            Outer::Site(_, key) => (PlainOuter::Site(KeyBytes(*key.as_bytes())), USUAL_MTU),
        };
        PlainEnd {
            outer,
            local: self.local.unwrap_or(Ipv4Addr::UNSPECIFIED),
            inside: self.inside.clone(),
            owner: self.owner.map(|key| KeyBytes(*key.as_bytes())),
            mtu,
        }
    }

    fn address(&self) -> Option<Ipv4Addr> {
        match self.outer {
            Outer::Address(address) => Some(address),
            Outer::Site(..) => None,
        }
    }

    /// The site that it is left to, by its key.
    pub(crate) fn site(&self) -> Option<PublicKey> {
        match self.outer {
            Outer::Address(_) => None,
            Outer::Site(_, key) => Some(key),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.inside.iter().any(|one| other.inside.iter().any(|two| one.contains(two) || two.contains(one)))
    }
}

impl fmt::Display for TunnelEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let networks: Vec<String> = self.inside.iter().map(ToString::to_string).collect();
        write!(f, "{} (for {})", self.outer, networks.join(", "))
    }
}

impl fmt::Display for Outer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Site(name, _) => write!(f, "wherever {name} registers from"),
        }
    }
}

/// What the first link to an address takes.
pub(crate) fn link_mtu(address: Ipv4Addr) -> u16 {
    route_mtu(address).unwrap_or(USUAL_MTU)
}

/// A tunnel, and where it stands.
struct Draft {
    tunnel: Tunnel,
    place: Range<usize>,
}

/// The tunnels that a file describes, which lists these sites.
pub(super) fn read(file: &Section<'_>, sites: &[Site], out: &mut Vec<Complaint>) -> Vec<Tunnel> {
    let sections = file.sections("tunnel", "[[tunnel]]", KEYS, out);
    let drafts: Vec<Draft> = sections.iter().filter_map(|section| tunnel(section, sites, out)).collect();
    check_each(&drafts, out);
    check_pairs(&drafts, out);
    drafts.into_iter().map(|draft| draft.tunnel).collect()
}

fn tunnel(section: &Section<'_>, sites: &[Site], out: &mut Vec<Complaint>) -> Option<Draft> {
    let name = section.required("name", NAME, "what you call this tunnel", out);
    let left = end(section, ["left", "left_site", "left_inside", "left_local", "left_owner"], sites, out);
    let right =
        end(section, ["right", "right_site", "right_inside", "right_local", "right_owner"], sites, out);
    let max_rate = section.optional("max_rate", RATE, out);
    let tunnel = Tunnel { name: name?, max_rate, ends: [left?, right?] };
    Some(Draft { tunnel, place: section.place() })
}

fn end(
    section: &Section<'_>,
    [address, site, inside, local, owner]: [&'static str; 5],
    sites: &[Site],
    out: &mut Vec<Complaint>,
) -> Option<TunnelEnd> {
    let outer = outer(section, [address, site], sites, out);
    let owner = listed(section, owner, sites, out).map(|listed| listed.public_key);
    let local = section.optional(local, HOST_V4, out);
    if !section.has(inside) || section.empty_list(inside).is_some() {
        let remedy = format!("add {inside} = [\"10.1.0.0/16\"], the addresses behind that end");
        let reason = format!("nothing could pass: `{inside}` is missing");
        out.push(Complaint::new(reason, remedy).at(section.key_place(inside).unwrap_or(section.place())));
    }
    let inside = section.list(inside, NETWORK_V4, out)?;
    let outer = outer?;
    let owner = owner.or(match &outer {
        Outer::Address(_) => None,
        Outer::Site(_, key) => Some(*key),
    });
    Some(TunnelEnd { outer, local, inside, owner })
}

/// Where an end is: at an address, or wherever one of the sites that are listed is.
fn outer(
    section: &Section<'_>,
    [address, site]: [&'static str; 2],
    sites: &[Site],
    out: &mut Vec<Complaint>,
) -> Option<Outer> {
    if !section.has(site) {
        let what = format!("the outer address of that end; or `{site}`, a site that registers from there");
        return section.required(address, HOST_V4, &what, out).map(Outer::Address);
    }
    if section.has(address) {
        let reason =
            format!("an end is at an address or left to a site: `{address}` and `{site}` exclude each other");
        let complaint = Complaint::new(reason, format!("remove `{address}` or `{site}`"));
        out.push(complaint.at(section.key_place(site).unwrap_or(section.place())));
        return None;
    }
    listed(section, site, sites, out).map(|listed| Outer::Site(listed.name.clone(), listed.public_key))
}

/// One of the sites that are listed, if a key names one.
fn listed<'s>(
    section: &Section<'_>,
    key: &'static str,
    sites: &'s [Site],
    out: &mut Vec<Complaint>,
) -> Option<&'s Site> {
    let name = section.optional_at(key, NAME, out)?;
    let found = sites.iter().find(|listed| listed.name == *name.get_ref());
    if found.is_none() {
        let remedy = format!(
            "add [[allow]] with name = \"{}\" and its public_key, or correct the name",
            name.get_ref()
        );
        out.push(Complaint::new(format!("there is no site {}", name.get_ref()), remedy).at(name.span()));
    }
    found
}

fn check_each(drafts: &[Draft], out: &mut Vec<Complaint>) {
    let outer: Vec<Ipv4Addr> = drafts
        .iter()
        .flat_map(|draft| &draft.tunnel.ends)
        .flat_map(|end| [end.address(), end.local])
        .flatten()
        .collect();
    for Draft { tunnel: Tunnel { name, ends: [left, right], .. }, place } in drafts {
        let mut complain = |reason: String, remedy: &str| {
            out.push(Complaint::new(reason, remedy).at(place.clone()));
        };
        if left.outer == right.outer {
            let remedy = "name two ends that are not the same";
            complain(format!("tunnel {name} has two ends at {}", left.outer), remedy);
        }
        if left.overlaps(right) {
            let remedy = "give each address to one side only";
            complain(format!("tunnel {name} has the same addresses behind both ends"), remedy);
        }
        // "The router MUST NOT tunnel the datagram" whose source is the tunnel's own end (RFC 2003, section 5).
        let within = |ip: &&Ipv4Addr| left.inside.iter().chain(&right.inside).any(|net| net.contains(*ip));
        if let Some(ip) = outer.iter().find(within) {
            let remedy = "leave the ends' own addresses out of `left_inside` and `right_inside`";
            complain(format!("tunnel {name} would lead into itself: {ip} is an end, and inside"), remedy);
        }
    }
}

fn check_pairs(drafts: &[Draft], out: &mut Vec<Complaint>) {
    for (index, this) in drafts.iter().enumerate() {
        for other in &drafts[..index] {
            let (name, first) = (&this.tunnel.name, other.place.clone());
            if *name == other.tunnel.name {
                let complaint =
                    Complaint::new(format!("there are two tunnels {name}"), "give one of them another name");
                out.push(complaint.at(this.place.clone()).because_of(first.clone(), "the first"));
            }
            if this.tunnel.is_confused_with(&other.tunnel) {
                let reason = format!("packets of tunnel {name} could also be of {}", other.tunnel.name);
                let complaint =
                    Complaint::new(reason, "give each pair of inner addresses to one tunnel only");
                out.push(complaint.at(this.place.clone()).because_of(first, "the other"));
            }
        }
    }
}
