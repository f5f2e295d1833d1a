//! Hosts, links and the routes between them, and network address translation.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use psmc_toml::Complaint;

use super::addresses::{Addresses, Pair};
use super::names::{Directory, listed};
use super::reach::Demands;
use super::{directions, routes};
use crate::scenario::draft::{Draft, HostDraft, LinkDraft, NatDraft};
use crate::scenario::model::{Host, HostId, Link, LinkEnd, LinkId, Nat, Route};

/// What packets move on, but for the tunnels.
pub(super) struct Network {
    pub(super) hosts: Vec<Host>,
    pub(super) links: Vec<Link>,
    /// For each host its links, in the order of the file, and which of their ends it is.
    pub(super) ports: Vec<Vec<(LinkId, usize)>>,
    /// Who has an address.
    pub(super) owners: BTreeMap<IpAddr, HostId>,
}

impl Network {
    /// The network of a file. `None` if it lacks something that was complained about.
    pub(super) fn of(
        draft: &Draft,
        directory: &Directory,
        addresses: Option<&Addresses>,
        out: &mut Vec<Complaint>,
    ) -> Option<Self> {
        let configs: Vec<_> = draft.links.iter().map(|link| directions::of_link(link, out)).collect();
        let ends: Vec<_> = draft.links.iter().map(|link| ends(link, directory, out)).collect();
        let nats: Vec<_> = draft.hosts.iter().map(|host| nat(host, draft, directory, &ends, out)).collect();
        has_links(draft, &ends, directory, out);
        let mut links = Vec::new();
        for (((link, config), ends), addresses) in
            draft.links.iter().zip(configs).zip(&ends).zip(&addresses?.links)
        {
            links.push(Link {
                name: link.name.as_ref()?.get_ref().to_string(),
                ends: ends_with(ends.as_ref()?, addresses),
                directions: config,
                capture: link.capture.as_ref().map(|path| path.get_ref().clone()),
            });
        }
        let nat_of = |host: usize| nats.get(host).copied().flatten();
        let hosts = directory.hosts.list().iter().enumerate();
        let hosts =
            hosts.map(|(index, name)| Host { name: name.clone(), routes: Vec::new(), nat: nat_of(index) });
        Some(Self::joined(hosts.collect(), links))
    }

    fn joined(hosts: Vec<Host>, links: Vec<Link>) -> Self {
        let mut ports = vec![Vec::new(); hosts.len()];
        let mut owners = BTreeMap::new();
        for (index, link) in links.iter().enumerate() {
            for (end, at) in link.ends.iter().enumerate() {
                ports[at.host.0].push((LinkId(index), end));
                owners.extend(at.addresses.iter().map(|address| (address.addr(), at.host)));
            }
        }
        Self { hosts, links, ports, owners }
    }

    /// Gives every host the routes of the file, and those that it needs besides. `None` if they are too many.
    pub(super) fn route(&mut self, draft: &Draft, demands: &Demands, out: &mut Vec<Complaint>) -> Option<()> {
        for (index, host) in draft.hosts.iter().enumerate() {
            self.hosts[index].routes = self.given_routes(HostId(index), host, out);
        }
        let found = routes::find(self, demands);
        super::check_routes(found.iter().map(Vec::len).sum(), out)?;
        for (host, found) in self.hosts.iter_mut().zip(found) {
            let given: Vec<IpNet> = host.routes.iter().map(|route| route.to).collect();
            host.routes.extend(found.into_iter().filter(|route| !given.contains(&route.to)));
        }
        Some(())
    }

    /// The link and the end of it by which a host reaches an address on it.
    pub(super) fn on_link(&self, host: HostId, address: IpAddr) -> Option<(LinkId, usize)> {
        let ports = &self.ports[host.0];
        ports.iter().copied().find(|(link, end)| {
            self.links[link.0].ends[*end].addresses.iter().any(|net| net.contains(&address))
        })
    }

    /// Whether a host sends to an address by this port if it is bound to it: there, or by any of its routes. What is on
    /// another link of the host is not looked for by default routes.
    pub(super) fn leads(&self, host: HostId, port: (LinkId, usize), address: IpAddr) -> bool {
        let far = &self.far_end(port).addresses;
        let on_link = far.iter().any(|net| net.contains(&address));
        if !on_link && self.on_link(host, address).is_some() {
            return false;
        }
        let mut routes = self.hosts[host.0].routes.iter().filter(|route| route.to.contains(&address));
        on_link || routes.any(|route| far.iter().any(|net| net.addr() == route.via))
    }

    /// What is at the far end of a port.
    pub(super) fn far_end(&self, (link, end): (LinkId, usize)) -> &LinkEnd {
        &self.links[link.0].ends[1 - end]
    }

    /// The addresses of a host on its links.
    pub(super) fn addresses(&self, host: HostId) -> impl Iterator<Item = IpAddr> {
        let ends = self.ports[host.0].iter().map(|(link, end)| &self.links[link.0].ends[*end]);
        ends.flat_map(|end| end.addresses.iter().map(IpNet::addr))
    }

    fn given_routes(&self, id: HostId, host: &HostDraft, out: &mut Vec<Complaint>) -> Vec<Route> {
        let mut routes = Vec::new();
        for route in &host.routes {
            let (to, via) = (*route.to.get_ref(), *route.via.get_ref());
            let neighbours = self.ports[id.0].iter().flat_map(|port| &self.far_end(*port).addresses);
            let neighbours: Vec<IpAddr> = neighbours.map(IpNet::addr).collect();
            if !neighbours.contains(&via) {
                let reason = format!("{via} is not at the far end of a link of this host");
                let remedy = format!("a route leads to a neighbour: {}", listed(neighbours.iter()));
                out.push(Complaint::new(reason, remedy).at(route.via.span()));
            } else if via.is_ipv4() != to.network().is_ipv4() {
                let complaint = Complaint::new(
                    "a route to IPv4 goes by IPv4, and one to IPv6 by IPv6",
                    "give both the same version",
                );
                out.push(complaint.at(route.via.span()).because_of(route.to.span(), "it leads here"));
            }
            routes.push(Route { to, via });
        }
        routes
    }
}

fn ends_with(hosts: &[HostId; 2], addresses: &Pair) -> [LinkEnd; 2] {
    [0, 1].map(|end| LinkEnd { host: hosts[end], addresses: addresses[end].clone() })
}

/// The hosts of a link.
fn ends(link: &LinkDraft, directory: &Directory, out: &mut Vec<Complaint>) -> Option<[HostId; 2]> {
    let [first, second] = link.between.as_ref()?;
    if first.get_ref() == second.get_ref() {
        let reason = format!("the link leads from \"{}\" to itself", first.get_ref());
        out.push(Complaint::new(reason, "join two hosts").at(second.span()));
        return None;
    }
    let id = |name: &str| directory.hosts.get(name).map(HostId);
    Some([id(first.get_ref().as_str())?, id(second.get_ref().as_str())?])
}

/// A host that no link names is most likely one that is misspelt.
fn has_links(draft: &Draft, ends: &[Option<[HostId; 2]>], directory: &Directory, out: &mut Vec<Complaint>) {
    if ends.iter().any(Option::is_none) || !directory.is_sound {
        return;
    }
    let linked = |index: usize| ends.iter().flatten().flatten().any(|host| host.0 == index);
    for (index, host) in draft.hosts.iter().enumerate().filter(|(index, _)| !linked(*index)) {
        let Some(name) = &host.name else { continue };
        let names =
            directory.hosts.list().iter().enumerate().filter(|(other, _)| *other != index && linked(*other));
        let names: Vec<&str> = names.map(|(_, name)| name.as_str()).collect();
        let remedy = match psmc_toml::nearest(name.get_ref().as_str(), &names) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => "add a [[link]] that leads to it, or remove it".to_owned(),
        };
        out.push(
            Complaint::new(format!("no link leads to the host \"{}\"", name.get_ref()), remedy)
                .at(name.span()),
        );
    }
}

/// The NAT of a host; `None` if it has none, or one that was complained about.
fn nat(
    host: &HostDraft,
    draft: &Draft,
    directory: &Directory,
    ends: &[Option<[HostId; 2]>],
    out: &mut Vec<Complaint>,
) -> Option<Nat> {
    let nat = host.nat.as_ref()?;
    let name = host.name.as_ref()?.get_ref();
    let outside = LinkId(directory.links.find(&nat.outside)?);
    let id = HostId(directory.hosts.get(name.as_str())?);
    let has_links = ends.iter().flatten().flatten().any(|end| *end == id);
    if has_links && ends.get(outside.0).copied().flatten().is_some_and(|ends| !ends.contains(&id)) {
        let reason = format!("the link \"{}\" does not lead to \"{name}\"", nat.outside.get_ref());
        let remedy = "name the link of this host that leads to the outside";
        out.push(Complaint::new(reason, remedy).at(nat.outside.span()));
    }
    ipv4_only(nat, &draft.links[outside.0], out);
    Some(Nat { kind: nat.kind, outside })
}

/// Hardly anybody translates IPv6, and neither does the lab.
fn ipv4_only(nat: &NatDraft, outside: &LinkDraft, out: &mut Vec<Complaint>) {
    let mut addresses = outside.addresses.iter().flatten().flatten();
    if let Some(v6) = addresses.find(|address| address.get_ref().addr().is_ipv6()) {
        let complaint = Complaint::new(
            format!("a NAT translates IPv4 only, and the link \"{}\" has IPv6", nat.outside.get_ref()),
            "give both ends of that link IPv4 addresses only, or leave the NAT out",
        );
        out.push(complaint.at(nat.outside.span()).because_of(v6.span(), "an IPv6 address"));
    }
}
