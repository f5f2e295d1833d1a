//! The paths of a peer differ, lead somewhere, and use only what this version has.

use std::net::IpAddr;

use psmc_toml::Complaint;
use toml::Spanned;

use super::{for_each_repetition, names};
use crate::config::MAX_PATHS;
use crate::config::draft::{PathDraft, PeerDraft, RelayDraft};
use crate::config::value::{BindAddress, Congestion, Encapsulation, Endpoint, Host, InterfaceName};

pub(super) fn check(peer: &PeerDraft, relays: &[RelayDraft], out: &mut Vec<Complaint>) {
    names::unique_names("paths of this peer", peer.paths.iter().filter_map(|path| path.name.as_ref()), out);
    number(peer, out);
    distinct(peer, out);
    for path in &peer.paths {
        endpoint(peer, path, out);
        family(peer, path, out);
        fixed_rate(path, out);
        known_relays(path, relays, out);
        no_relays_yet(path, out);
    }
}

/// A fixed rate is given by `max_rate`.
fn fixed_rate(path: &PathDraft, out: &mut Vec<Complaint>) {
    let fixed = path.congestion.as_ref().filter(|congestion| *congestion.get_ref() == Congestion::Fixed);
    if let Some(fixed) = fixed.filter(|_| !path.has_max_rate) {
        let reason = "a fixed rate, and `max_rate` does not say which";
        let remedy = r#"add max_rate = "20mbit", at which the path then always sends"#;
        out.push(Complaint::new(reason, remedy).at(fixed.span()));
    }
}

fn number(peer: &PeerDraft, out: &mut Vec<Complaint>) {
    if let Some(path) = peer.paths.get(MAX_PATHS) {
        let reason = format!("this peer has {} paths, and {MAX_PATHS} is the most", peer.paths.len());
        out.push(Complaint::new(reason, "remove the paths from here on").at(path.place.clone()));
    }
}

fn endpoint(peer: &PeerDraft, path: &PathDraft, out: &mut Vec<Complaint>) {
    if !peer.has_endpoint && !path.has_endpoint {
        let reason = "this path leads nowhere: neither it nor its peer has an `endpoint`";
        let remedy =
            r#"add endpoint = "203.0.113.5:5115" to the [[peer]], or to the path if it has one of its own"#;
        out.push(
            Complaint::new(reason, remedy).at(path.place.clone()).because_of(peer.place.clone(), "its peer"),
        );
    }
}

/// What makes two paths the same way.
type Way<'a> = (Option<&'a InterfaceName>, Option<BindAddress>, &'a Endpoint);

fn distinct(peer: &PeerDraft, out: &mut Vec<Complaint>) {
    let ways: Vec<Spanned<Way<'_>>> = peer.paths.iter().filter_map(|path| way(peer, path)).collect();
    for_each_repetition(&ways, |_, place, first| {
        let reason = "two paths have the same interface, address and endpoint: they are the same way";
        let remedy = "remove one, or give it another `interface`, `address` or `endpoint`";
        out.push(Complaint::new(reason, remedy).at(place).because_of(first, "the other one"));
    });
}

fn way<'a>(peer: &'a PeerDraft, path: &'a PathDraft) -> Option<Spanned<Way<'a>>> {
    let goes_over_relay = path.relays.as_ref().is_some_and(|relays| !relays.get_ref().is_empty());
    if goes_over_relay || !path.is_comparable {
        return None;
    }
    let address = path.address.as_ref().map(|address| *address.get_ref());
    Some(Spanned::new(path.place.clone(), (path.interface.as_ref(), address, target(peer, path)?.get_ref())))
}

/// Where a path leads. `None` also if the file gives an endpoint that is wrong.
fn target<'a>(peer: &'a PeerDraft, path: &'a PathDraft) -> Option<&'a Spanned<Endpoint>> {
    if path.has_endpoint { path.endpoint.as_ref() } else { peer.endpoint.as_ref() }
}

/// A packet cannot have an IPv4 source and an IPv6 destination.
fn family(peer: &PeerDraft, path: &PathDraft, out: &mut Vec<Complaint>) {
    let (Some(address), Some(endpoint)) = (&path.address, target(peer, path)) else {
        return;
    };
    let Host::Ip(remote) = endpoint.get_ref().host else {
        return;
    };
    let local = address.get_ref().get();
    if local.is_ipv4() != remote.is_ipv4() {
        let reason =
            format!("the path sends from an {} address to an {} endpoint", version(local), version(remote));
        let complaint = Complaint::new(reason, "give both the same version, or leave `address` out");
        out.push(complaint.at(address.span()).because_of(endpoint.span(), "its endpoint"));
    }
}

fn version(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn known_relays(path: &PathDraft, relays: &[RelayDraft], out: &mut Vec<Complaint>) {
    let Some(used) = &path.relays else { return };
    for_each_repetition(used.get_ref(), |name, place, first| {
        let complaint =
            Complaint::new(format!("the path goes over the relay \"{name}\" twice"), "remove one of the two");
        out.push(complaint.at(place).because_of(first, "here already"));
    });
    let known =
        |name| relays.iter().filter_map(|relay| relay.name.as_ref()).any(|relay| relay.get_ref() == name);
    for name in used.get_ref().iter().filter(|name| !known(name.get_ref())) {
        let remedy = format!("add a [[relay]] with name = \"{0}\", or correct the name", name.get_ref());
        let complaint = Complaint::new(format!("there is no relay called \"{}\"", name.get_ref()), remedy);
        out.push(complaint.at(name.span()));
    }
}

/// Nobody shall believe that his traffic goes over a relay when it does not.
fn no_relays_yet(path: &PathDraft, out: &mut Vec<Complaint>) {
    if let Some(relays) = path.relays.as_ref().filter(|relays| !relays.get_ref().is_empty()) {
        let reason = "this version of PSMC has no relays yet, so this path cannot work";
        let remedy =
            "remove `relays` to send straight to the peer, which then sees where you are; or remove the path";
        out.push(Complaint::new(reason, remedy).at(relays.span()));
    }
    if let Some(ipip) = path.encapsulation.as_ref().filter(|e| *e.get_ref() == Encapsulation::IpIp) {
        let reason = "this version of PSMC has no IP-in-IP yet, so this path cannot work";
        out.push(Complaint::new(reason, r#"write "udp", or leave `encapsulation` out"#).at(ipip.span()));
    }
}
