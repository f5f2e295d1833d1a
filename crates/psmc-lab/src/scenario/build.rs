//! From drafts to the scenario: names become indices, and what the file leaves out is filled in.

mod addresses;
mod checks;
mod directions;
mod events;
mod limits;
mod names;
mod network;
mod reach;
mod routes;
mod traffic;
mod tunnels;
mod uplinks;

use std::path::Path;

use psmc_toml::{Complaint, Source};

use self::addresses::Addresses;
use self::events::Timeline;
use self::limits::End;
use self::names::Directory;
use self::network::Network;
use self::reach::Map;
use self::uplinks::Demands;
use super::draft::Draft;
use super::model::{Check, Scenario, Sites, Traffic, Tunnel, TunnelId};

/// The scenario, unless a draft lacks what was complained about.
pub(super) fn scenario(draft: &Draft, source: &Source, out: &mut Vec<Complaint>) -> Option<Scenario> {
    limits::check(draft, out)?;
    let directory = Directory::of(draft, out);
    names::check_references(draft, &directory, out);
    let end = End::of(&draft.header);
    let addresses = Addresses::of(draft, out);
    let network = Network::of(draft, &directory, addresses.as_ref(), out);
    let sites = sites(draft, &directory, addresses.as_ref(), out);
    let mut world = network
        .zip(sites)
        .filter(|_| directory.is_sound)
        .and_then(|(network, sites)| world(draft, &directory, network, sites, out));
    let map = world.as_ref().map(|(network, tunnels)| Map { network, tunnels });

    let programs: Vec<_> =
        draft.programs.iter().map(|program| traffic::program(program, &directory, &end, out)).collect();
    let streams = streams(draft, &directory, map.as_ref(), &end, out);
    let events = Timeline::new(&directory, map.as_ref(), &end).events(&draft.events, out);
    let checks = checks(draft, &directory, &end, out);
    let (network, tunnels) = world.take()?;
    Some(Scenario {
        name: draft.header.name.clone().unwrap_or_else(|| name_of(source)),
        duration: draft.header.duration,
        seed: draft.header.seed,
        sample_interval: draft.header.sample,
        hosts: network.hosts,
        links: network.links,
        tunnels,
        programs: programs.into_iter().collect::<Option<_>>()?,
        traffic: streams?,
        events: events?,
        checks: checks?,
    })
}

/// A scenario without a name is called like its file.
fn name_of(source: &Source) -> String {
    Path::new(source.path())
        .file_stem()
        .map_or_else(|| "scenario".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// The sites of all tunnels.
fn sites(
    draft: &Draft,
    directory: &Directory,
    addresses: Option<&Addresses>,
    out: &mut Vec<Complaint>,
) -> Option<Vec<Sites>> {
    let tunnels = draft.tunnels.iter().enumerate();
    let sites: Vec<_> = tunnels
        .map(|(index, tunnel)| {
            tunnels::sites(tunnel, directory, addresses.map(|all| &all.tunnels[index]), out)
        })
        .collect();
    sites.into_iter().collect()
}

/// The network with its routes, and the tunnels over it. `None` if the routes are too many.
fn world(
    draft: &Draft,
    directory: &Directory,
    mut network: Network,
    sites: Vec<Sites>,
    out: &mut Vec<Complaint>,
) -> Option<(Network, Vec<Tunnel>)> {
    network.route(draft, &Demands::of(draft, &sites, directory), out)?;
    let mut tunnels = Vec::new();
    for (index, (draft, sites)) in draft.tunnels.iter().zip(sites).enumerate() {
        let before = out.len();
        let tunnel = tunnels::tunnel(draft, sites, directory, &network, out);
        if out.len() == before {
            tunnels::check_settings(draft, TunnelId(index), &tunnel, &network.hosts, &network.links, out);
        }
        tunnels.push(tunnel);
    }
    Some((network, tunnels))
}

fn streams(
    draft: &Draft,
    directory: &Directory,
    map: Option<&Map<'_>>,
    end: &End,
    out: &mut Vec<Complaint>,
) -> Option<Vec<Traffic>> {
    let streams: Vec<_> = draft
        .traffic
        .iter()
        .enumerate()
        .map(|(index, stream)| {
            traffic::traffic(stream, directory.traffic.list()[index].clone(), directory, map, end, out)
        })
        .collect();
    streams.into_iter().collect()
}

fn checks(draft: &Draft, directory: &Directory, end: &End, out: &mut Vec<Complaint>) -> Option<Vec<Check>> {
    let checks: Vec<_> =
        draft.checks.iter().map(|check| checks::checks(check, &draft.traffic, directory, end, out)).collect();
    checks.into_iter().collect::<Option<Vec<_>>>().map(|checks| checks.into_iter().flatten().collect())
}
