//! Streams of traffic, and programs.

use std::net::IpAddr;

use ipnet::IpNet;
use psmc_toml::Complaint;
use toml::Spanned;

use super::End;
use super::names::{Directory, listed};
use super::reach::{Lost, Map};
use crate::scenario::draft::{Destination, ProgramDraft, TrafficDraft};
use crate::scenario::model::{HostId, Program, Traffic, TrafficKind, Tunnel};

pub(super) fn program(
    draft: &ProgramDraft,
    directory: &Directory,
    end: &End,
    out: &mut Vec<Complaint>,
) -> Option<Program> {
    let host = draft.host.as_ref().and_then(|host| directory.hosts.find(host));
    let [start, stop] = end.span(draft.start.as_ref(), draft.stop.as_ref(), out);
    Some(Program {
        name: draft.name.as_ref()?.get_ref().to_string(),
        host: HostId(host?),
        command: draft.command.clone(),
        start,
        stop: draft.stop.as_ref().map(|_| stop),
        has_output: draft.output,
    })
}

/// A stream of traffic. Without a map its address is not looked for.
pub(super) fn traffic(
    draft: &TrafficDraft,
    name: String,
    directory: &Directory,
    map: Option<&Map<'_>>,
    end: &End,
    out: &mut Vec<Complaint>,
) -> Option<Traffic> {
    let hosts = [draft.from.as_ref(), draft.to.as_ref()]
        .map(|host| host.and_then(|host| directory.hosts.find(host)).map(HostId));
    let [start, stop] = end.span(draft.start.as_ref(), draft.stop.as_ref(), out);
    let target = Target {
        directory,
        hosts: [hosts[0]?, hosts[1]?],
        places: [draft.from.as_ref()?, draft.to.as_ref()?],
    };
    let address = target.address(draft.destination.as_ref(), map, out)?;
    let kind = draft.kind.clone()?;
    if let (TrafficKind::Tcp { multipath: true, .. }, Some(map)) = (&kind, map)
        && !map.network.owners.contains_key(&address)
    {
        let complaint = Complaint::new(
            "MPTCP uses the links directly, but this stream goes through a tunnel",
            "name a link in `via`, or remove `multipath`",
        );
        out.push(complaint.at(draft.place.clone()));
    }
    Some(Traffic { name, kind, from: hosts[0]?, to: hosts[1]?, address, start, stop })
}

/// Who sends to whom.
pub(super) struct Target<'a> {
    pub(super) directory: &'a Directory,
    pub(super) hosts: [HostId; 2],
    pub(super) places: [&'a Spanned<String>; 2],
}

impl Target<'_> {
    /// The address by which the sender reaches the receiver.
    pub(super) fn address(
        &self,
        destination: Option<&Destination>,
        map: Option<&Map<'_>>,
        out: &mut Vec<Complaint>,
    ) -> Option<IpAddr> {
        if self.hosts[0] == self.hosts[1] {
            let complaint =
                Complaint::new(format!("{} would send to itself", self.name(0)), "name two hosts");
            out.push(complaint.at(self.places[1].span()).because_of(self.places[0].span(), "the same host"));
            return None;
        }
        match destination? {
            Destination::Via(name) => self.via(name, map, out),
            Destination::Address(address) => {
                let (ip, map) = (*address.get_ref(), map?);
                if !self.own(map).contains(&ip) {
                    let reason = format!("{ip} is no address of {}", self.name(1));
                    let remedy = format!("its addresses are {}", listed(self.own(map).iter()));
                    out.push(Complaint::new(reason, remedy).at(address.span()));
                    return None;
                }
                self.reached(ip, address, map, out)
            }
            Destination::Any => self.any(map?, out),
        }
    }

    /// The receiver's address in a tunnel, or on a link.
    fn via(&self, name: &Spanned<String>, map: Option<&Map<'_>>, out: &mut Vec<Complaint>) -> Option<IpAddr> {
        let text = name.get_ref();
        let (tunnel, link) = (self.directory.tunnels.get(text), self.directory.links.get(text));
        let map = map?;
        let address = match (tunnel, link) {
            (Some(tunnel), _) => inside(map.tunnels.get(tunnel)?, self.hosts[1]),
            (None, link) => {
                let mut ends = map.network.links.get(link?)?.ends.iter();
                ends.find(|end| end.host == self.hosts[1])
                    .and_then(|end| end.addresses.first())
                    .map(IpNet::addr)
            }
        };
        let Some(address) = address else {
            let reason = format!("{} is at no end of \"{text}\"", self.name(1));
            let remedy = "name a tunnel or a link that leads to it, or leave `via` out";
            out.push(
                Complaint::new(reason, remedy)
                    .at(name.span())
                    .because_of(self.places[1].span(), "who receives"),
            );
            return None;
        };
        self.reached(address, name, map, out)
    }

    /// In the only tunnel between both; else on the first link between both; else the first address that is reached.
    fn any(&self, map: &Map<'_>, out: &mut Vec<Complaint>) -> Option<IpAddr> {
        let both = |hosts: [HostId; 2]| self.hosts.iter().all(|host| hosts.contains(host));
        let tunnels: Vec<&Tunnel> =
            map.tunnels.iter().filter(|tunnel| both([tunnel.ends[0].host, tunnel.ends[1].host])).collect();
        if let [_, _, ..] = tunnels.as_slice() {
            let names = listed(tunnels.iter().map(|tunnel| format!("via = \"{}\"", tunnel.name)));
            let reason = format!("there are several tunnels between {} and {}", self.name(0), self.name(1));
            out.push(Complaint::new(reason, format!("say which: {names}")).at(self.places[1].span()));
            return None;
        }
        let in_tunnel = tunnels.first().and_then(|tunnel| inside(tunnel, self.hosts[1]));
        let mut links = map.network.links.iter().filter(|link| both([link.ends[0].host, link.ends[1].host]));
        let on_link = || {
            let ends = &links.next()?.ends;
            ends.iter().find(|end| end.host == self.hosts[1])?.addresses.first().map(IpNet::addr)
        };
        let found = in_tunnel.or_else(on_link).or_else(|| {
            map.network
                .addresses(self.hosts[1])
                .find(|address| map.both_ways(self.hosts[0], *address).is_ok())
        });
        if found.is_none() {
            out.push(
                self.unreachable(map)
                    .at(self.places[1].span())
                    .because_of(self.places[0].span(), "who sends"),
            );
        }
        found
    }

    /// The address, or a complaint that nothing sent to it arrives.
    fn reached(
        &self,
        address: IpAddr,
        place: &Spanned<impl Sized>,
        map: &Map<'_>,
        out: &mut Vec<Complaint>,
    ) -> Option<IpAddr> {
        let Err(lost) = map.both_ways(self.hosts[0], address) else { return Some(address) };
        let name = |host: HostId| self.directory.hosts.list()[host.0].as_str();
        let reason = match lost {
            Lost::NoSuchAddress => format!("no host has the address {address}"),
            Lost::NoRoute(host) => {
                format!("{} does not reach {address}: {} has no route", self.name(0), name(host))
            }
            Lost::Loop => {
                format!("{} does not reach {address}: its packets go round in circles", self.name(0))
            }
        };
        out.push(Complaint::new(reason, self.way_out(map)).at(place.span()));
        None
    }

    fn unreachable(&self, map: &Map<'_>) -> Complaint {
        Complaint::new(
            format!("no way leads from {} to {} and back", self.name(0), self.name(1)),
            self.way_out(map),
        )
    }

    fn way_out(&self, map: &Map<'_>) -> String {
        if map.network.hosts.iter().any(|host| host.nat.is_some()) {
            return "a NAT accepts no incoming connections: swap `from` and `to`, or join both by a tunnel that the one behind it dials".to_owned();
        }
        "add a link or a tunnel between them, or `routes` to the hosts on the way".to_owned()
    }

    /// Every address of the receiver.
    fn own(&self, map: &Map<'_>) -> Vec<IpAddr> {
        let ends = map.tunnels.iter().flat_map(|tunnel| &tunnel.ends).filter(|end| end.host == self.hosts[1]);
        let inside = ends.flat_map(|end| end.addresses.iter().map(IpNet::addr));
        map.network.addresses(self.hosts[1]).chain(inside).collect()
    }

    fn name(&self, index: usize) -> &str {
        self.places[index].get_ref()
    }
}

fn inside(tunnel: &Tunnel, host: HostId) -> Option<IpAddr> {
    tunnel.ends.iter().find(|end| end.host == host)?.addresses.first().map(IpNet::addr)
}
