//! Plain tunnels of IP-in-IP: `[[tunnel]]`.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Range;

use ipnet::Ipv4Net;
use psmc_core::relay::{PlainEnd, PlainPair};
use psmc_net::udp::route_mtu;
use psmc_toml::{Complaint, Name, Rate, Section};
use toml::Spanned;
use toml::de::DeTable;

use super::value::{HostV4, NetworkV4};

const KEYS: &[&str] =
    &["name", "left", "left_inside", "left_local", "right", "right_inside", "right_local", "max_rate"];

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

/// The end of a tunnel that goes to the relay.
#[derive(Clone, Debug)]
pub struct TunnelEnd {
    /// Its outer address.
    pub address: Ipv4Addr,
    /// The relay's address towards it; `None` for any.
    pub local: Option<Ipv4Addr>,
    /// The inner addresses behind it.
    pub inside: Vec<Ipv4Net>,
}

impl Tunnel {
    /// As the engine takes it, by the routes of this moment.
    pub(crate) fn pair(&self) -> PlainPair {
        let rate = self.max_rate.map(Rate::bits_per_second);
        PlainPair { rate, ends: self.ends.each_ref().map(TunnelEnd::to_plain) }
    }

    /// Whether a packet from one of its ends could also be one of another tunnel's.
    fn is_confused_with(&self, other: &Self) -> bool {
        let same_way = |[from, to]: [&TunnelEnd; 2], [other_from, other_to]: [&TunnelEnd; 2]| {
            from.address == other_from.address && from.overlaps(other_from) && to.overlaps(other_to)
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
        PlainEnd {
            address: self.address,
            local: self.local.unwrap_or(Ipv4Addr::UNSPECIFIED),
            inside: self.inside.clone(),
            mtu: route_mtu(self.address).unwrap_or(USUAL_MTU),
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.inside.iter().any(|one| other.inside.iter().any(|two| one.contains(two) || two.contains(one)))
    }
}

impl fmt::Display for TunnelEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let networks: Vec<String> = self.inside.iter().map(ToString::to_string).collect();
        write!(f, "{} (for {})", self.address, networks.join(", "))
    }
}

/// A tunnel, and where it stands.
struct Draft {
    tunnel: Tunnel,
    place: Range<usize>,
}

/// The tunnels that a file describes.
pub(super) fn read(file: &Section<'_>, out: &mut Vec<Complaint>) -> Vec<Tunnel> {
    let sections = file.tables("tunnel", "[[tunnel]]", out);
    let drafts: Vec<Option<Draft>> =
        sections.into_iter().map(|(place, table)| tunnel(place, table, out)).collect();
    let drafts: Vec<Draft> = drafts.into_iter().flatten().collect();
    check_each(&drafts, out);
    check_pairs(&drafts, out);
    drafts.into_iter().map(|draft| draft.tunnel).collect()
}

fn tunnel(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Option<Draft> {
    let section = Section::open("[[tunnel]]", place.clone(), table, KEYS, out);
    let name = section.required::<Name>("name", "what you call this tunnel", out).map(Spanned::into_inner);
    let left = end(&section, ["left", "left_inside", "left_local"], out);
    let right = end(&section, ["right", "right_inside", "right_local"], out);
    let max_rate = section.optional::<Rate>("max_rate", out).map(Spanned::into_inner);
    Some(Draft { tunnel: Tunnel { name: name?, max_rate, ends: [left?, right?] }, place })
}

fn end(
    section: &Section<'_>,
    [address, inside, local]: [&str; 3],
    out: &mut Vec<Complaint>,
) -> Option<TunnelEnd> {
    let end = section.required::<HostV4>(address, "the outer address of that end", out);
    let local = section.optional::<HostV4>(local, out).map(|local| local.into_inner().0);
    if !section.has(inside) || section.is_empty_list(inside) {
        let remedy = format!("add {inside} = [\"10.1.0.0/16\"], the addresses behind that end");
        let reason = format!("nothing could pass: `{inside}` is missing");
        out.push(Complaint::new(reason, remedy).at(section.key_place(inside).unwrap_or(section.place())));
    }
    let networks = section.list::<NetworkV4>(inside, out)?.into_inner();
    let inside = networks.into_iter().map(|network| network.into_inner().0).collect();
    Some(TunnelEnd { address: end?.into_inner().0, local, inside })
}

fn check_each(drafts: &[Draft], out: &mut Vec<Complaint>) {
    let outer: Vec<Ipv4Addr> = drafts
        .iter()
        .flat_map(|draft| &draft.tunnel.ends)
        .flat_map(|end| [Some(end.address), end.local])
        .flatten()
        .collect();
    for Draft { tunnel: Tunnel { name, ends: [left, right], .. }, place } in drafts {
        let mut complain = |reason: String, remedy: &str| {
            out.push(Complaint::new(reason, remedy).at(place.clone()));
        };
        if left.address == right.address {
            complain(format!("tunnel {name} has two ends at {}", left.address), "name two ends");
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
