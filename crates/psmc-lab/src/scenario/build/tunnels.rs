//! Tunnels: their sites, their paths, and whether `psmcd` would take their settings.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;

use ipnet::IpNet;
use psmc_net::keys::PrivateKey;
use psmc_toml::Complaint;
use psmcd::config::Config;
use toml::{Spanned, Value};

use super::addresses::Pair;
use super::names::{Directory, listed};
use super::network::Network;
use super::reach::{Lost, Map};
use crate::scenario::draft::{PathDraft, SettingDraft, TunnelDraft};
use crate::scenario::model::{Host, HostId, Link, LinkId, Sites, Tunnel, TunnelEnd, TunnelId, TunnelPath};
use crate::site::{CLASS, Text, port};

/// Both sites of a tunnel. `None` if they were complained about.
pub(super) fn sites(
    draft: &TunnelDraft,
    directory: &Directory,
    addresses: Option<&Pair>,
    out: &mut Vec<Complaint>,
) -> Option<Sites> {
    let [first, second] = draft.between.as_ref()?;
    let hosts = [first, second].map(|name| directory.hosts.get(name.get_ref().as_str()).map(HostId));
    if hosts[0].is_some() && hosts[0] == hosts[1] {
        let reason = format!("the tunnel leads from \"{}\" to itself", first.get_ref());
        out.push(Complaint::new(reason, "join two hosts").at(second.span()));
        return None;
    }
    let networks = |end: usize| {
        let networks = draft.networks.iter().flat_map(move |networks| &networks[end]);
        networks.map(|network| *network.get_ref()).collect()
    };
    let addresses = addresses?;
    let end = |end: usize| {
        Some(TunnelEnd { host: hosts[end]?, addresses: addresses[end].clone(), networks: networks(end) })
    };
    Some([end(0)?, end(1)?])
}

/// A tunnel with its paths, over a network that has its routes. Paths that were complained about are left out.
pub(super) fn tunnel(
    draft: &TunnelDraft,
    sites: Sites,
    directory: &Directory,
    network: &Network,
    out: &mut Vec<Complaint>,
) -> Tunnel {
    let router = Router { map: Map { network, tunnels: &[] }, sites: &sites, directory };
    let paths: Vec<TunnelPath> = if draft.has_paths {
        draft.paths.iter().filter_map(|path| router.path(path, out)).collect()
    } else {
        router.every_path(draft, out)
    };
    distinct(draft, out);
    let name = draft.name.as_ref().map(|name| name.get_ref().to_string());
    let settings = draft.settings.iter().map(SettingDraft::pair).collect();
    Tunnel { name: name.unwrap_or_default(), ends: sites, paths, settings }
}

impl SettingDraft {
    fn pair(&self) -> (String, Value) {
        (self.key.get_ref().clone(), self.value.get_ref().clone())
    }
}

/// Finds the paths of a tunnel.
struct Router<'a> {
    map: Map<'a>,
    sites: &'a Sites,
    directory: &'a Directory,
}

impl Router<'_> {
    /// One by every link of the first site that leads to the second.
    fn every_path(&self, draft: &TunnelDraft, out: &mut Vec<Complaint>) -> Vec<TunnelPath> {
        let links = self.map.network.ports[self.sites[0].host.0].iter().map(|port| port.0);
        let paths: Vec<TunnelPath> = links
            .filter_map(|link| {
                let endpoint = self.endpoint(link)?;
                Some(TunnelPath { name: self.name(link).to_owned(), link, endpoint, settings: Vec::new() })
            })
            .collect();
        if paths.is_empty() {
            let [first, second] =
                [0, 1].map(|end| self.directory.hosts.list()[self.sites[end].host.0].as_str());
            let reason = format!("no link of \"{first}\" leads to \"{second}\", so the tunnel has no path");
            let has_nat = self.map.network.hosts.iter().any(|host| host.nat.is_some());
            let remedy = if has_nat {
                "a NAT accepts no incoming connections: put the host behind it first in `between`, or join them by links"
            } else {
                "join them by links, over routers or without"
            };
            out.push(Complaint::new(reason, remedy).at(draft.place.clone()));
        }
        paths
    }

    fn path(&self, draft: &PathDraft, out: &mut Vec<Complaint>) -> Option<TunnelPath> {
        let link = LinkId(self.directory.links.find(&draft.link)?);
        let host = self.sites[0].host;
        if !self.map.network.ports[host.0].iter().any(|port| port.0 == link) {
            let own = self.map.network.ports[host.0].iter().map(|port| self.name(port.0));
            let reason = format!(
                "the link \"{}\" is not one of \"{}\", where the paths begin",
                self.name(link),
                self.host(0)
            );
            let remedy = format!("put in one that is: {}", listed(own));
            out.push(Complaint::new(reason, remedy).at(draft.link.span()));
            return None;
        }
        let endpoint = match &draft.endpoint {
            Some(given) => self.given_endpoint(link, *given.get_ref(), given, out)?,
            None => self.endpoint(link).or_else(|| {
                let reason =
                    format!("the link \"{}\" does not lead to \"{}\"", self.name(link), self.host(1));
                out.push(
                    Complaint::new(reason, "remove the path, or add what is missing between them")
                        .at(draft.link.span()),
                );
                None
            })?,
        };
        let name =
            draft.name.as_ref().map_or_else(|| self.name(link).to_owned(), |name| name.get_ref().to_string());
        Some(TunnelPath {
            name,
            link,
            endpoint,
            settings: draft.settings.iter().map(SettingDraft::pair).collect(),
        })
    }

    fn given_endpoint(
        &self,
        link: LinkId,
        address: IpAddr,
        place: &Spanned<impl Sized>,
        out: &mut Vec<Complaint>,
    ) -> Option<IpAddr> {
        let found = self.map.both_ways_by(self.sites[0].host, link, address);
        let (reason, remedy) = match found {
            Ok(host) if host == self.sites[1].host => return Some(address),
            Ok(_) | Err(Lost::NoSuchAddress) => {
                let own = self.map.network.addresses(self.sites[1].host).collect::<Vec<_>>();
                (
                    format!("{address} is no address of \"{}\"", self.host(1)),
                    format!("its addresses are {}", listed(own.iter())),
                )
            }
            Err(Lost::NoRoute(_) | Lost::Loop) => (
                format!("the link \"{}\" does not lead to {address}", self.name(link)),
                "leave `endpoint` out for an address that it leads to".to_owned(),
            ),
        };
        out.push(Complaint::new(reason, remedy).at(place.span()));
        None
    }

    /// The address of the second site by which it is reached over a link: its own on that link, or else another one,
    /// best one that needs that link anyway.
    fn endpoint(&self, link: LinkId) -> Option<IpAddr> {
        let [first, second] = [self.sites[0].host, self.sites[1].host];
        let ends = &self.map.network.links[link.0].ends;
        let direct = ends.iter().find(|end| end.host == second).and_then(|end| end.addresses.first());
        if let Some(direct) = direct.map(IpNet::addr) {
            return Some(direct);
        }
        let leads = |address: &IpAddr| self.map.both_ways_by(first, link, *address).is_ok();
        let addresses: Vec<IpAddr> = self.map.network.addresses(second).filter(leads).collect();
        let best = addresses.iter().find(|address| self.map.next_link(first, **address) == Some(link));
        best.or(addresses.first()).copied()
    }

    fn name(&self, link: LinkId) -> &str {
        &self.map.network.links[link.0].name
    }

    fn host(&self, end: usize) -> &str {
        &self.directory.hosts.list()[self.sites[end].host.0]
    }
}

/// No two paths have the same name, by which results tell them apart.
fn distinct(draft: &TunnelDraft, out: &mut Vec<Complaint>) {
    let mut seen = BTreeMap::new();
    for path in &draft.paths {
        let (name, place) = match &path.name {
            Some(name) => (name.get_ref().as_str(), name.span()),
            None => (path.link.get_ref().as_str(), path.link.span()),
        };
        if let Some(first) = seen.insert(name, place.clone()) {
            let reason = format!("two paths of this tunnel are called \"{name}\"");
            let remedy = "remove one, or give it a `name` of its own in [[tunnel.path]]";
            out.push(Complaint::new(reason, remedy).at(place).because_of(first, "the other one"));
        }
    }
}

/// What the lab puts into the configurations itself.
const OURS: [&str; 8] = [
    "name",
    "private_key",
    "private_key_file",
    "addresses",
    "listen",
    "interface",
    "control_socket",
    "state_file",
];

/// Complains about everything that `psmcd` would complain of, at the places of this file.
pub(super) fn check_settings(
    draft: &TunnelDraft,
    id: TunnelId,
    tunnel: &Tunnel,
    hosts: &[Host],
    links: &[Link],
    out: &mut Vec<Complaint>,
) {
    if set_what_is_ours(draft, out) {
        return;
    }
    for end in [0, 1] {
        let names = [0, 1].map(|end| hosts[tunnel.ends[end].host.0].name.as_str());
        let links: Vec<&str> = tunnel.paths.iter().map(|path| links[path.link.0].name.as_str()).collect();
        let text = Text { tunnel, end, names, links: &links, port: port(id) };
        let (own, peer) = (PrivateKey::generate(), PrivateKey::generate().public());
        let text = text.write(&own, &peer, Path::new("/run/psmc/lab.sock"));
        let Err(error) = Config::parse(&text, Path::new("site.toml")) else { continue };
        out.extend(error.complaints().iter().map(|complaint| translated(complaint, &text, draft)));
        // The other end would say the same again.
        return;
    }
}

fn set_what_is_ours(draft: &TunnelDraft, out: &mut Vec<Complaint>) -> bool {
    let ours = |setting: &&SettingDraft| OURS.contains(&setting.key.get_ref().as_str());
    let mut found = false;
    for setting in draft.settings.iter().filter(ours) {
        let reason = format!("the lab sets `{}` of psmcd itself", setting.key.get_ref());
        out.push(Complaint::new(reason, "remove it").at(setting.key.span()));
        found = true;
    }
    found
}

/// A complaint about the configuration as one about the scenario.
fn translated(complaint: &Complaint, text: &str, draft: &TunnelDraft) -> Complaint {
    let place = complaint.span().and_then(|span| place(&span, text, draft));
    let words = |text: &str| text.replace("[site]", "`settings`").replace("[[peer.path]]", "[[tunnel.path]]");
    match place {
        Some(place) => Complaint::new(words(complaint.reason()), words(complaint.remedy())).at(place),
        None => {
            let reason = format!("psmcd rejects this tunnel: {}", complaint.reason());
            Complaint::new(reason, complaint.remedy()).at(draft.place.clone())
        }
    }
}

/// Where the scenario has the setting that stands at `span` in the configuration.
fn place(span: &Range<usize>, text: &str, draft: &TunnelDraft) -> Option<Range<usize>> {
    let before = text.get(..span.start)?;
    if before.rfind("[[class]]") > before.rfind("[[peer]]") {
        let classes = draft.settings.iter().find(|setting| setting.key.get_ref() == CLASS)?;
        return Some(classes.value.span());
    }
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    let key = text[line..].split('=').next()?.trim().trim_matches('"');
    let settings = match before.matches("[[peer.path]]").count() {
        0 => &draft.settings,
        number => &draft.paths.get(number - 1)?.settings,
    };
    let setting = settings.iter().find(|setting| setting.key.get_ref() == key)?;
    Some(if span.start == line { setting.key.span() } else { setting.value.span() })
}
