//! A kernel with links, addresses, routes and rules that change in any order, and what a site knows of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ipnet::IpNet;
use proptest::prelude::*;
use psmc_net::keys::PublicKey;
use psmc_net::netlink::{LinkState, MAIN_TABLE, Uplink};

use super::super::uplinks::{Fate, reached_by};
use super::*;
use crate::config::{Name, PathSettings};
use crate::daemon::paths::uplink_settings;

/// Within this time after the last change the paths are those of a site that is started then.
const KNOWN_WITHIN: u64 = 1000;

/// Where the peer is.
const REMOTE: &str = "203.0.113.5:5115";

#[derive(Clone, Copy, Debug)]
enum Change {
    LinkUp(u32, bool),
    LinkGone(u32),
    LinkNew(u32),
    Renamed(u32, u8),
    Address(u32),
    Default {
        link: u32,
        is_v6: bool,
        is_there: bool,
    },
    /// A route to somewhere else.
    Route,
    /// A route to the peer itself.
    RouteToPeer,
    Rule,
    /// There was more than the kernel's buffer for this process holds.
    Overrun,
}

/// What there is.
#[derive(Clone, Debug, Default)]
struct Kernel {
    /// Names, and whether they are up.
    links: BTreeMap<u32, (String, bool)>,
    defaults: BTreeSet<(u32, bool)>,
    /// What was not told yet, and when it is.
    untold: VecDeque<(u64, NetworkEvent)>,
}

impl Kernel {
    fn change(&mut self, change: Change, told_at: u64) {
        let event = match change {
            Change::LinkUp(link, up) => {
                let Some((_, is_up)) = self.links.get_mut(&link) else { return };
                *is_up = up;
                // IPv4 loses its routes without a word; so does IPv6 with its addresses.
                self.defaults.retain(|(index, _)| up || *index != link);
                self.state(link)
            }
            Change::LinkGone(link) => {
                let Some((name, _)) = self.links.remove(&link) else { return };
                self.defaults.retain(|(index, _)| *index != link);
                NetworkEvent::Link(LinkState { index: link, name, up: false })
            }
            Change::LinkNew(link) => {
                self.links.entry(link).or_insert((format!("v{link}"), false));
                self.state(link)
            }
            Change::Renamed(link, number) => {
                let name = format!("w{link}-{number}");
                let Some((called, _)) = self.links.get_mut(&link) else { return };
                *called = name;
                self.state(link)
            }
            Change::Address(link) => NetworkEvent::AddressChanged { index: link },
            Change::Default { link, is_v6, is_there } => {
                let is_up = self.links.get(&link).is_some_and(|(_, up)| *up);
                if is_there && is_up {
                    self.defaults.insert((link, is_v6));
                } else {
                    self.defaults.remove(&(link, is_v6));
                }
                route(if is_v6 { "::/0" } else { "0.0.0.0/0" })
            }
            Change::Route => route("192.0.2.0/24"),
            Change::RouteToPeer => route("203.0.113.0/24"),
            Change::Rule => NetworkEvent::RoutingChanged,
            Change::Overrun => {
                self.untold.clear();
                NetworkEvent::RoutingChanged
            }
        };
        let told_at = self.untold.back().map_or(told_at, |(last, _)| told_at.max(*last));
        self.untold.push_back((told_at, event));
    }

    fn state(&self, link: u32) -> NetworkEvent {
        let (name, up) = self.links[&link].clone();
        NetworkEvent::Link(LinkState { index: link, name, up })
    }
}

fn route(destination: &str) -> NetworkEvent {
    let destination: IpNet = destination.parse().unwrap();
    NetworkEvent::RouteChanged { table: MAIN_TABLE, destination }
}

/// What a site makes of a dump of the links and one of the routes.
fn wanted(links: &Kernel, routes: &Kernel) -> Vec<PathSettings> {
    let uplinks: Vec<Uplink> = links
        .links
        .iter()
        .filter(|(_, (_, up))| *up)
        .map(|(&index, (name, _))| {
            let has = |is_v6| routes.defaults.contains(&(index, is_v6));
            Uplink { name: name.clone(), index, v4: has(false), v6: has(true), metric: 0 }
        })
        .collect();
    let remotes = [REMOTE.parse().unwrap()];
    uplink_settings(uplinks.iter().filter(|uplink| reached_by(uplink, &remotes).is_some()))
}

/// The site, and a look that is under way: what it has asked for already, and when it is over.
#[derive(Default)]
struct Site {
    watch: Watch,
    look: Option<(Kernel, u64)>,
    /// Its paths, and whether they are used.
    paths: BTreeMap<Name, (PathSettings, bool)>,
}

impl Site {
    fn settle(&mut self, links: &Kernel, routes: &Kernel) {
        let settings = wanted(links, routes);
        let names: BTreeSet<Name> = settings.iter().map(|path| path.name.clone()).collect();
        let present = routes.links.values().map(|(name, _)| name.clone()).collect();
        self.paths.retain(|_, (path, is_used)| {
            let fate = Fate::of(path, &names, &present);
            *is_used = fate == Fate::Used;
            fate != Fate::Closed
        });
        for path in settings {
            self.paths.entry(path.name.clone()).or_insert((path, true));
        }
    }

    fn used(&self) -> BTreeSet<&Name> {
        self.paths.iter().filter(|(_, (_, is_used))| *is_used).map(|(name, _)| name).collect()
    }
}

fn change() -> impl Strategy<Value = Change> {
    let link = || 1..4_u32;
    prop_oneof![
        3 => (link(), any::<bool>()).prop_map(|(link, up)| Change::LinkUp(link, up)),
        1 => link().prop_map(Change::LinkGone),
        2 => link().prop_map(Change::LinkNew),
        1 => (link(), 0..2_u8).prop_map(|(link, number)| Change::Renamed(link, number)),
        1 => link().prop_map(Change::Address),
        6 => (link(), any::<bool>(), any::<bool>())
            .prop_map(|(link, is_v6, is_there)| Change::Default { link, is_v6, is_there }),
        1 => Just(Change::Route),
        1 => Just(Change::RouteToPeer),
        1 => Just(Change::Rule),
        1 => Just(Change::Overrun),
    ]
}

proptest! {
    /// In whatever order things happen, are told, and are asked for.
    #[test]
    fn the_paths_are_soon_those_of_a_site_that_is_started_now(
        changes in prop::collection::vec((0..150_u64, change(), 0..30_u64), 0..30),
        dumps in prop::collection::vec(0..60_u64, 1..8),
    ) {
        let (start, numbers) = (Instant::now(), Numbers::of(PublicKey::from_bytes([7; 32])));
        let at = |ms: u64| start + Duration::from_millis(ms);
        let (mut kernel, mut site) = (Kernel::default(), Site::default());
        let remote: std::net::SocketAddr = REMOTE.parse().unwrap();
        let mut dumps = dumps.iter().cycle();
        let mut changes = changes.into_iter().scan(0, |time, (pause, change, delay)| {
            *time += pause;
            Some((*time, change, *time + delay))
        }).peekable();
        let mut last = 0;
        let mut now = 0;
        while changes.peek().is_some() || now <= last + KNOWN_WITHIN {
            while let Some((time, change, told_at)) = changes.next_if(|(time, ..)| *time <= now) {
                kernel.change(change, told_at);
                last = time;
            }
            // Links were asked for when the look began, routes only now.
            if let Some((links, _)) = site.look.take_if(|(_, over)| *over <= now) {
                site.settle(&links, &kernel);
            }
            while site.look.is_none() && kernel.untold.front().is_some_and(|(told_at, _)| *told_at <= now) {
                let Some((_, event)) = kernel.untold.pop_front() else { break };
                if is_concerned(&event, numbers, &View::default(), [remote.ip()].into_iter()) {
                    site.watch.note_change(at(now));
                }
            }
            if site.look.is_none() && site.watch.look_at().is_some_and(|due| due <= at(now)) {
                site.watch.begin(at(now));
                site.look = Some((kernel.clone(), now + dumps.next().unwrap()));
            }
            now += 1;
        }
        let fresh = wanted(&kernel, &kernel);
        let fresh: BTreeSet<&Name> = fresh.iter().map(|path| &path.name).collect();
        prop_assert_eq!(site.used(), fresh);
    }
}
