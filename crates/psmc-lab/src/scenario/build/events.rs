//! Events, in the order of time.

use std::ops::Range;
use std::time::Duration;

use ipnet::IpNet;
use psmc_sim::link::{LinkConfig, Rate};
use psmc_toml::Complaint;
use toml::Spanned;

use super::names::Directory;
use super::network::Network;
use super::reach::Map;
use super::traffic::Target;
use super::{End, directions};
use crate::scenario::draft::{ActionDraft, EventDraft, FloodDraft, LinkSettings};
use crate::scenario::model::{Action, Event, HostId, LinkId, ProgramId, TunnelId};
use crate::scenario::value::Direction;

/// What events refer to, and what they have made of the links so far.
pub(super) struct Timeline<'a> {
    directory: &'a Directory,
    map: Option<&'a Map<'a>>,
    end: &'a End,
    /// The links as they are after the events so far.
    links: Vec<[LinkConfig; 2]>,
}

impl<'a> Timeline<'a> {
    pub(super) fn new(directory: &'a Directory, map: Option<&'a Map<'a>>, end: &'a End) -> Self {
        let links = map.map(|map| map.network.links.iter().map(|link| link.directions.clone()).collect());
        Self { directory, map, end, links: links.unwrap_or_default() }
    }

    /// The events of a file in the order of time; those at the same time in that of the file.
    pub(super) fn events(mut self, drafts: &[EventDraft], out: &mut Vec<Complaint>) -> Option<Vec<Event>> {
        let mut order: Vec<&EventDraft> = drafts.iter().collect();
        order.sort_by_key(|draft| draft.at.as_ref().map(|at| *at.get_ref()));
        let events: Vec<_> = order.into_iter().map(|draft| self.event(draft, out)).collect();
        events.into_iter().collect()
    }

    fn event(&mut self, draft: &EventDraft, out: &mut Vec<Complaint>) -> Option<Event> {
        let at = draft.at.as_ref().map(|at| self.end.within(at, out));
        let action = self.action(draft.action.as_ref()?, at.unwrap_or_default(), out);
        Some(Event { at: at?, action: action? })
    }

    fn action(&mut self, draft: &ActionDraft, at: Duration, out: &mut Vec<Complaint>) -> Option<Action> {
        match draft {
            ActionDraft::Cut(link) => self.link(link).map(Action::Cut),
            ActionDraft::BlackHole(link, direction) => {
                let link = self.link(link)?;
                Some(self.black_hole(link, *direction))
            }
            ActionDraft::Restore(link) => {
                let link = self.link(link)?;
                self.restore(link);
                Some(Action::Restore(link))
            }
            ActionDraft::Change(link, direction, settings) => {
                let place = link.span();
                let link = self.link(link)?;
                self.change(link, *direction, settings, &place, out)
            }
            ActionDraft::Kill(name) => self.running(name, Action::Kill, Action::KillSite),
            ActionDraft::Restart(name) => self.running(name, Action::Restart, Action::RestartSite),
            ActionDraft::Roam { host, link, addresses } => self.roam(host, link, addresses, out),
            ActionDraft::Flood(flood) => self.flood(flood, at, out),
        }
    }

    fn link(&self, name: &Spanned<String>) -> Option<LinkId> {
        self.directory.links.find(name).map(LinkId)
    }

    fn black_hole(&mut self, link: LinkId, direction: Option<Direction>) -> Action {
        let mut holes = [false; 2];
        if let Some(configs) = self.links.get_mut(link.0) {
            for index in directions_of(direction) {
                configs[index].black_hole = true;
            }
            holes = [configs[0].black_hole, configs[1].black_hole];
        }
        Action::BlackHole(link, holes)
    }

    fn restore(&mut self, link: LinkId) {
        let initial = self.map.and_then(|map| map.network.links.get(link.0));
        if let (Some(configs), Some(initial)) = (self.links.get_mut(link.0), initial) {
            configs.clone_from(&initial.directions);
        }
    }

    fn change(
        &mut self,
        link: LinkId,
        direction: Option<Direction>,
        settings: &LinkSettings,
        place: &Range<usize>,
        out: &mut Vec<Complaint>,
    ) -> Option<Action> {
        let configs = self.links.get_mut(link.0)?;
        let before = configs.clone();
        for index in directions_of(direction) {
            configs[index] = directions::changed(&configs[index], settings);
        }
        if configs.iter().all(|config| config.rate == Rate::Unlimited) {
            directions::complain_of_idle_queue(settings, out);
        }
        if *configs == before {
            let remedy = r#"add what becomes different, such as rate = "5mbit""#;
            out.push(Complaint::new("the link already has these settings", remedy).at(place.clone()));
        }
        Some(Action::Change(link, Box::new(configs.clone())))
    }

    /// A program, or the site of a tunnel at a host, `vpn.van`.
    fn running(
        &self,
        name: &Spanned<String>,
        program: fn(ProgramId) -> Action,
        site: fn(TunnelId, usize) -> Action,
    ) -> Option<Action> {
        if let Some(id) = self.directory.programs.find(name) {
            return Some(program(ProgramId(id)));
        }
        self.directory.sites.find(name).map(|id| site(TunnelId(id / 2), id % 2))
    }

    fn roam(
        &self,
        host: &Spanned<String>,
        link: &Spanned<String>,
        addresses: &[Spanned<IpNet>],
        out: &mut Vec<Complaint>,
    ) -> Option<Action> {
        let id = self.directory.hosts.find(host).map(HostId);
        let (link_id, id) = (self.link(link)?, id?);
        let network = self.map?.network;
        let ends = &network.links.get(link_id.0)?.ends;
        let Some(end) = ends.iter().position(|end| end.host == id) else {
            let reason = format!("\"{}\" is at no end of \"{}\"", host.get_ref(), link.get_ref());
            out.push(Complaint::new(reason, "name the host and a link of its own").at(link.span()));
            return None;
        };
        for address in addresses {
            fits(address, network, link_id, end, out);
        }
        Some(Action::Roam(id, link_id, addresses.iter().map(|address| *address.get_ref()).collect()))
    }

    fn flood(&self, draft: &FloodDraft, at: Duration, out: &mut Vec<Complaint>) -> Option<Action> {
        let hosts = [&draft.from, &draft.to].map(|host| self.directory.hosts.find(host).map(HostId));
        if let Some(duration) =
            draft.duration.as_ref().filter(|duration| at + *duration.get_ref() > self.end.at)
        {
            let complaint = Complaint::new(
                "the flood outlasts the scenario",
                "leave `duration` out to flood until the end",
            );
            out.push(complaint.at(duration.span()));
        }
        let target = Target {
            directory: self.directory,
            hosts: [hosts[0]?, hosts[1]?],
            places: [&draft.from, &draft.to],
        };
        Some(Action::Flood {
            from: hosts[0]?,
            to: target.address(Some(&draft.destination), self.map, out)?,
            rate: draft.rate,
            payload: draft.payload,
            duration: draft.duration(at, self.end.at),
        })
    }
}

/// One direction, or both.
fn directions_of(direction: Option<Direction>) -> std::ops::Range<usize> {
    direction.map_or(0..2, |direction| direction.index()..direction.index() + 1)
}

/// A new address is in a network of the link, and nobody's.
fn fits(address: &Spanned<IpNet>, network: &Network, link: LinkId, end: usize, out: &mut Vec<Complaint>) {
    let net = *address.get_ref();
    let far = &network.links[link.0].ends[1 - end];
    let shared = far.addresses.iter().find(|other| other.trunc() == net.trunc());
    let complaint = match shared {
        None => {
            let remedy = match far.addresses.first() {
                Some(known) => format!("choose one in {}, where the far end is", known.trunc()),
                None => "choose one in a network of the link".to_owned(),
            };
            Complaint::new(format!("the far end of the link has no address in the network of {net}"), remedy)
        }
        Some(other) if other.addr() == net.addr() => {
            Complaint::new(format!("{} is the address of the far end", net.addr()), "choose another one")
        }
        Some(_) => return,
    };
    out.push(complaint.at(address.span()));
}
