//! Routers that are like measured devices.

use std::collections::BTreeMap;

use psmc_toml::Complaint;

use super::names::Directory;
use super::network::Network;
use crate::scenario::draft::{Draft, RouterDraft};
use crate::scenario::model::{HostId, Router};

/// The routers of a file. `None` if one lacks something that was complained about.
pub(super) fn of(
    draft: &Draft,
    directory: &Directory,
    network: Option<&Network>,
    out: &mut Vec<Complaint>,
) -> Option<Vec<Router>> {
    complain_of_two(draft, out);
    let network = network?;
    let routers: Vec<_> = draft.routers.iter().map(|draft| router(draft, directory, network, out)).collect();
    routers.into_iter().collect()
}

fn router(
    draft: &RouterDraft,
    directory: &Directory,
    network: &Network,
    out: &mut Vec<Complaint>,
) -> Option<Router> {
    let host = HostId(directory.hosts.find(draft.host.as_ref()?)?);
    let profile = draft.profile.as_ref()?;
    let links: Vec<_> = network.ports.get(host.0)?.iter().map(|(link, _)| *link).collect();
    match profile.get_ref().config(links.len()) {
        Ok(config) => Some(Router { host, profile: profile.get_ref().name.clone(), config, links }),
        Err(error) => {
            let complaint = Complaint::new(
                format!("a device with {} ports is not like this: {error}", links.len()),
                "give the host another profile, or fewer links",
            );
            out.push(complaint.at(profile.span()));
            None
        }
    }
}

/// A host is one device.
fn complain_of_two(draft: &Draft, out: &mut Vec<Complaint>) {
    let mut seen = BTreeMap::new();
    for host in draft.routers.iter().filter_map(|router| router.host.as_ref()) {
        if let Some(first) = seen.insert(host.get_ref(), host.span()) {
            let reason = format!("\"{}\" is two routers", host.get_ref());
            let complaint = Complaint::new(reason, "remove one of them").at(host.span());
            out.push(complaint.because_of(first, "the other one"));
        }
    }
}
