//! The paths of a peer differ, lead somewhere, and use only what this version has.

use std::net::IpAddr;
use std::ops::Range;

use psmc_core::{Direction, Tier};
use psmc_toml::Complaint;
use toml::Spanned;

use super::{for_each_repetition, unique_names};
use crate::config::draft::{PathDraft, PeerDraft, RelayDraft};
use crate::config::value::{BindAddress, Congestion, Endpoint, Host, InterfaceName, Name, Transport};
use crate::config::{MAX_CHAIN, MAX_PATHS, STREAM_SUFFIX};

pub(super) fn check(peer: &PeerDraft, relays: &[RelayDraft], out: &mut Vec<Complaint>) {
    unique_names("paths of this peer", peer.paths.iter().filter_map(|path| path.name.as_ref()), out);
    number(peer, out);
    distinct(peer, out);
    for path in &peer.paths {
        endpoint(peer, path, out);
        family(peer, path, relays, out);
        fixed_rate(path, out);
        known_relays("the path goes over the relay", path.relays.as_ref(), relays, out);
        chain(path, out);
        tunnel(peer, path, relays, out);
        flows(peer, path, out);
    }
    tiers(peer, out);
    other_names(peer, out);
    peer_transport(peer, out);
    known_relays("the peer has the spare relay", peer.spare_relays.as_ref(), relays, out);
    no_spares(peer, relays, out);
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

/// Some path carries data.
fn tiers(peer: &PeerDraft, out: &mut Vec<Complaint>) {
    let is_never = |path: &PathDraft| path.tier.as_ref().is_some_and(|tier| *tier.get_ref() == Tier::Never);
    let last = peer.paths.last().and_then(|path| path.tier.as_ref());
    if let Some(last) = last.filter(|_| peer.paths.iter().all(is_never)) {
        let reason = "every path of this peer has the tier \"never\": none would carry data";
        let remedy = "give at least one of them tier = \"primary\", \"secondary\" or \"backup\"";
        out.push(Complaint::new(reason, remedy).at(last.span()));
        return;
    }
    let direction = |path: &PathDraft| path.direction.as_ref().map(|direction| *direction.get_ref());
    let last = peer.paths.iter().rev().find_map(|path| path.direction.as_ref());
    for (one, missing) in [(Direction::Up, "from"), (Direction::Down, "to")] {
        let carries = |path: &PathDraft| !is_never(path) && direction(path) != Some(one);
        if let Some(last) = last.filter(|_| !peer.paths.iter().any(carries)) {
            let reason = format!("no path of this peer would carry data {missing} it");
            let remedy = "leave `direction` out of at least one of them";
            out.push(Complaint::new(reason, remedy).at(last.span()));
        }
    }
}

/// No path has the name of one that is opened beside another, and those names are not too long.
fn other_names(peer: &PeerDraft, out: &mut Vec<Complaint>) {
    let transport = peer.transport.as_ref().map(|transport| *transport.get_ref());
    let names: Vec<_> = peer.paths.iter().filter_map(|path| Some((path, path.name.as_ref()?))).collect();
    for (path, name) in &names {
        for opened in path.other_names(transport) {
            let taken = names.iter().find(|(_, other)| other.get_ref().as_str() == opened);
            let (when, key) = if opened.ends_with(STREAM_SUFFIX) {
                ("where no UDP gets through ", "transport = \"auto\"".to_owned())
            } else {
                ("", format!("ports = {}", path.flows()))
            };
            let reason =
                format!("{when}a path {opened} is opened beside {}, which has {key}", name.get_ref());
            if let Some((_, taken)) = taken {
                let complaint = Complaint::new(reason, "give this path another name").at(taken.span());
                out.push(complaint.because_of(name.span(), "beside this one"));
            } else if opened.parse::<Name>().is_err() {
                let reason = format!("{reason}, and that name is too long");
                out.push(Complaint::new(reason, "choose a shorter name").at(name.span()));
            }
        }
    }
}

/// Only a path by UDP has several flows, and each of them some of its greatest rate.
fn flows(peer: &PeerDraft, path: &PathDraft, out: &mut Vec<Complaint>) {
    let Some(ports) = path.ports.as_ref().filter(|_| path.flows() > 1) else { return };
    let transport = path.transport.as_ref().or(peer.transport.as_ref());
    let alone = transport.filter(|it| matches!(it.get_ref(), Transport::Tls | Transport::IpIp));
    if let Some(transport) = alone {
        let reason = "`ports` spreads a path over several flows of UDP, and this one does not go by UDP";
        let remedy = r#"leave `ports` out, or write transport = "udp" or "auto" into the path"#;
        let complaint = Complaint::new(reason, remedy).at(ports.span());
        out.push(complaint.because_of(transport.span(), "it goes like this"));
    }
    if path.rate_of_flow().is_none() {
        let reason = format!("each of the {} flows would have too little of `max_rate`", ports.get_ref());
        out.push(Complaint::new(reason, "choose fewer, or a greater `max_rate`").at(ports.span()));
    }
}

/// IP-in-IP leads to a relay, which paths have.
fn peer_transport(peer: &PeerDraft, out: &mut Vec<Complaint>) {
    if let Some(transport) =
        peer.transport.as_ref().filter(|transport| *transport.get_ref() == Transport::IpIp)
    {
        let reason = "IP-in-IP leads to one relay, and a peer has paths over others";
        let remedy = r#"write transport = "ipip" into the [[peer.path]] that leads through the relay"#;
        out.push(Complaint::new(reason, remedy).at(transport.span()));
    }
}

fn number(peer: &PeerDraft, out: &mut Vec<Complaint>) {
    let flows = |path: &PathDraft| usize::from(path.flows());
    let all: usize = peer.paths.iter().map(flows).sum();
    let mut before = 0;
    let first = peer.paths.iter().find(|path| {
        before += flows(path);
        before > MAX_PATHS
    });
    if let Some(path) = first {
        let reason = format!("this peer has {all} paths, and {MAX_PATHS} is the most");
        out.push(Complaint::new(reason, "remove the paths from here on").at(path.place.clone()));
    }
}

fn endpoint(peer: &PeerDraft, path: &PathDraft, out: &mut Vec<Complaint>) {
    if !peer.has_endpoint && !path.has_endpoint && path.relays.is_none() {
        let reason = "this path leads nowhere: neither it nor its peer has an `endpoint`";
        let remedy = r#"add endpoint = "203.0.113.5:5115" to the [[peer]], or to the path if it has one of its own; `relays`, if the peer registers with them"#;
        out.push(
            Complaint::new(reason, remedy).at(path.place.clone()).because_of(peer.place.clone(), "its peer"),
        );
    }
}

/// What makes two paths the same way.
type Way<'a> = (Option<&'a InterfaceName>, Option<BindAddress>, Vec<&'a Name>, Option<&'a Endpoint>);

fn distinct(peer: &PeerDraft, out: &mut Vec<Complaint>) {
    let ways: Vec<Spanned<Way<'_>>> = peer.paths.iter().filter_map(|path| way(peer, path)).collect();
    for_each_repetition(&ways, |_, place, first| {
        let reason = "two paths have the same interface, address, relays and endpoint: they are the same way";
        let remedy = "remove one, or give it another `interface`, `address` or `endpoint`, or other `relays`";
        out.push(Complaint::new(reason, remedy).at(place).because_of(first, "the other one"));
    });
}

fn way<'a>(peer: &'a PeerDraft, path: &'a PathDraft) -> Option<Spanned<Way<'a>>> {
    if !path.is_comparable {
        return None;
    }
    let address = path.address.as_ref().map(|address| *address.get_ref());
    let says_nothing = !peer.has_endpoint && !path.has_endpoint;
    let target = target(peer, path).map(Spanned::get_ref);
    if target.is_none() && !(says_nothing && path.relays.is_some()) {
        return None;
    }
    Some(Spanned::new(
        path.place.clone(),
        (path.interface.as_ref(), address, used_relays(path).map(Spanned::get_ref).collect(), target),
    ))
}

/// Where a path leads. `None` also if the file gives an endpoint that is wrong.
fn target<'a>(peer: &'a PeerDraft, path: &'a PathDraft) -> Option<&'a Spanned<Endpoint>> {
    if path.has_endpoint { path.endpoint.as_ref() } else { peer.endpoint.as_ref() }
}

fn used_relays(path: &PathDraft) -> impl Iterator<Item = &Spanned<Name>> {
    path.relays.iter().flat_map(|relays| relays.get_ref())
}

/// What the datagrams of a path are sent to first.
fn first_hop<'a>(
    peer: &'a PeerDraft,
    path: &'a PathDraft,
    relays: &'a [RelayDraft],
) -> Option<&'a Spanned<Endpoint>> {
    let Some(first) = used_relays(path).next() else {
        return target(peer, path);
    };
    find(first, relays)?.address.as_ref()
}

/// A packet cannot have an IPv4 source and an IPv6 destination.
fn family(peer: &PeerDraft, path: &PathDraft, relays: &[RelayDraft], out: &mut Vec<Complaint>) {
    let (Some(address), Some(endpoint)) = (&path.address, first_hop(peer, path, relays)) else {
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

pub(super) fn known_relays(
    user: &str,
    used: Option<&Spanned<Vec<Spanned<Name>>>>,
    relays: &[RelayDraft],
    out: &mut Vec<Complaint>,
) {
    let Some(used) = used else { return };
    for_each_repetition(used.get_ref(), |name, place, first| {
        let complaint = Complaint::new(format!("{user} \"{name}\" twice"), "remove one of the two");
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

fn chain(path: &PathDraft, out: &mut Vec<Complaint>) {
    let Some(relays) = path.relays.as_ref().filter(|relays| relays.get_ref().len() > MAX_CHAIN) else {
        return;
    };
    let count = relays.get_ref().len();
    let reason = format!("this path leads through {count} relays, and {MAX_CHAIN} is the most");
    out.push(
        Complaint::new(reason, "leave some out: two already hide each end from the other's relay")
            .at(relays.span()),
    );
}

/// IP-in-IP leads through one machine that unwraps it, over IPv4.
fn tunnel(peer: &PeerDraft, path: &PathDraft, relays: &[RelayDraft], out: &mut Vec<Complaint>) {
    let wanted = path.transport.as_ref().filter(|wanted| *wanted.get_ref() == Transport::IpIp);
    match wanted {
        Some(wanted) => one_relay(path, wanted.span(), out),
        None => not_bare(path, relays, out),
    }
    if let Some(wanted) = wanted {
        let address = used_relays(path).next().and_then(|name| find(name, relays)?.address.as_ref());
        for endpoint in [address, target(peer, path)].into_iter().flatten() {
            over_ipv4(endpoint, wanted.span(), out);
        }
        if let Some(local) = path.address.as_ref().filter(|local| local.get_ref().get().is_ipv6()) {
            out.push(no_ipv6().at(local.span()).because_of(wanted.span(), "wrapped here"));
        }
    }
}

/// What takes the place of a relay has to be one.
fn no_spares(peer: &PeerDraft, relays: &[RelayDraft], out: &mut Vec<Complaint>) {
    let spares = peer.spare_relays.iter().flat_map(|spares| spares.get_ref());
    for spare in spares.filter(|spare| is_tunnel_end(spare, relays)) {
        let reason = format!("\"{}\" is no relay of PSMC, and cannot take the place of one", spare.get_ref());
        out.push(Complaint::new(reason, "leave it out, or run `psmc-relay` there").at(spare.span()));
    }
}

fn one_relay(path: &PathDraft, wanted: Range<usize>, out: &mut Vec<Complaint>) {
    match used_relays(path).count() {
        0 if path.relays.is_none() => {
            let reason = "IP-in-IP leads to a machine that unwraps it, and this path names none";
            let remedy = r#"add relays = ["…"], the name of a [[relay]]; or leave `transport` out"#;
            out.push(Complaint::new(reason, remedy).at(wanted));
        }
        0 | 1 => {}
        count => {
            let reason = format!("IP-in-IP leads through one relay, and this path through {count}");
            let remedy = r#"keep one of them, or write transport = "udp""#;
            out.push(Complaint::new(reason, remedy).at(wanted));
        }
    }
}

/// A machine that only unwraps has to be sent what is wrapped.
fn not_bare(path: &PathDraft, relays: &[RelayDraft], out: &mut Vec<Complaint>) {
    for name in used_relays(path).filter(|name| is_tunnel_end(name, relays)) {
        let reason = format!("\"{}\" only unwraps IP-in-IP, and this path sends none", name.get_ref());
        let remedy = r#"add transport = "ipip" to the path; or give the [[relay]] its `public_key` in place of `inside`"#;
        out.push(Complaint::new(reason, remedy).at(name.span()));
    }
}

fn over_ipv4(endpoint: &Spanned<Endpoint>, wanted: Range<usize>, out: &mut Vec<Complaint>) {
    if matches!(endpoint.get_ref().host, Host::Ip(ip) if ip.is_ipv6()) {
        out.push(no_ipv6().at(endpoint.span()).because_of(wanted, "wrapped here"));
    }
}

fn no_ipv6() -> Complaint {
    let remedy = r#"give an IPv4 address, or write transport = "udp""#;
    Complaint::new("IP-in-IP is IPv4 in IPv4, and this is an address of IPv6", remedy)
}

fn is_tunnel_end(name: &Spanned<Name>, relays: &[RelayDraft]) -> bool {
    find(name, relays).is_some_and(|relay| relay.is_tunnel_end)
}

fn find<'a>(name: &Spanned<Name>, relays: &'a [RelayDraft]) -> Option<&'a RelayDraft> {
    let called =
        |relay: &&RelayDraft| relay.name.as_ref().is_some_and(|other| other.get_ref() == name.get_ref());
    relays.iter().find(called)
}
