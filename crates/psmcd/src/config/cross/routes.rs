//! Every address inside the tunnel has one owner, and no endpoint is inside the tunnel.

use std::net::IpAddr;

use psmc_core::Gateway;
use psmc_toml::{Complaint, repeated};
use toml::Spanned;

use super::for_each_repetition;
use crate::config::draft::{Draft, PeerDraft, SiteDraft};
use crate::config::value::{AllowedNet, Endpoint, Host};

pub(super) fn check(draft: &Draft, out: &mut Vec<Complaint>) {
    unique_networks(draft, out);
    let Some(site) = &draft.site else { return };
    unique_addresses(site, out);
    defaults(draft, site, out);
    kill_switch(draft, site, out);
    for peer in &draft.peers {
        own_addresses(site, peer, out);
        endpoints_inside(site, peer, out);
    }
}

fn unique_addresses(site: &SiteDraft, out: &mut Vec<Complaint>) {
    let addresses: Vec<Spanned<IpAddr>> =
        site.addresses.iter().map(|address| Spanned::new(address.span(), address.get_ref().addr())).collect();
    for_each_repetition(&addresses, |address, place, first| {
        let complaint = Complaint::new(format!("duplicate address {address}"), "remove one");
        out.push(complaint.at(place).because_of(first, "here already"));
    });
}

fn unique_networks(draft: &Draft, out: &mut Vec<Complaint>) {
    let first = Gateway::default().priority;
    let comparable = draft.peers.iter().filter(|peer| peer.has_right_priority);
    let networks = comparable.flat_map(|peer| {
        let priority = peer.priority.unwrap_or(first);
        peer.allowed_ips.iter().flatten().map(move |network| (network, priority))
    });
    let invited = draft.invitations.iter().flat_map(|invitation| &invitation.allowed_ips);
    let all: Vec<_> = networks.chain(invited.map(|network| (network, first))).collect();
    for ((network, _), (other, _)) in repeated(&all, |(network, priority)| (network.get_ref(), *priority)) {
        let reason = format!(
            "the network {} belongs to two peers of the same priority, so its route is ambiguous",
            network.get_ref()
        );
        let remedy = "keep it at one peer, or give the one that shall stand by `priority = 2`; a smaller network inside it may be another's";
        out.push(Complaint::new(reason, remedy).at(network.span()).because_of(other.span(), "here already"));
    }
}

/// A peer that names no networks gets those of the tunnel, which works for one peer only.
fn defaults(draft: &Draft, site: &SiteDraft, out: &mut Vec<Complaint>) {
    let has_room = site.addresses.iter().any(|address| {
        let net = address.get_ref();
        net.prefix_len() < net.max_prefix_len()
    });
    let reason = match draft.peers.as_slice() {
        [_] if has_room || site.addresses.is_empty() => return,
        [_] => "[[peer]] has no `allowed_ips`, and the addresses of this site have no network around them",
        _ => "[[peer]] has no `allowed_ips`, which only a file with one peer can leave out",
    };
    for peer in draft.peers.iter().filter(|peer| peer.allowed_ips.is_none()) {
        let remedy = r#"add allowed_ips = ["10.77.0.1/32"], the addresses and networks behind this peer"#;
        out.push(Complaint::new(reason, remedy).at(peer.place.clone()));
    }
}

/// A kill switch where nothing leads into the tunnel would only cut this machine off.
fn kill_switch(draft: &Draft, site: &SiteDraft, out: &mut Vec<Complaint>) {
    let Some(switch) = site.kill_switch.as_ref().filter(|switch| *switch.get_ref()) else { return };
    let mut networks = draft.peers.iter().flat_map(|peer| peer.allowed_ips.iter().flatten());
    if !networks.any(|network| network.get_ref().net().prefix_len() == 0) {
        let reason = "`kill_switch` lets packets leave through the tunnel only, and no peer has the Internet behind it";
        let remedy = r#"add "0.0.0.0/0" and "::/0" to the `allowed_ips` of the peer that has it, or remove `kill_switch`"#;
        out.push(Complaint::new(reason, remedy).at(switch.span()));
    }
}

/// A network that is exactly one of our own addresses would send our packets to ourselves away.
fn own_addresses(site: &SiteDraft, peer: &PeerDraft, out: &mut Vec<Complaint>) {
    let is_host = |network: &AllowedNet| network.net().prefix_len() == network.net().max_prefix_len();
    for network in peer.allowed_ips.iter().flatten().filter(|network| is_host(network.get_ref())) {
        let ip = network.get_ref().net().addr();
        if let Some(own) = site.addresses.iter().find(|address| address.get_ref().addr() == ip) {
            let remedy = "put in the address of the other site";
            let complaint = Complaint::new(format!("{ip} is the address of this site itself"), remedy);
            out.push(complaint.at(network.span()).because_of(own.span(), "given here"));
        }
    }
}

/// An endpoint inside the tunnel's own network would be reached only once it has been reached.
fn endpoints_inside(site: &SiteDraft, peer: &PeerDraft, out: &mut Vec<Complaint>) {
    let paths = peer.paths.iter().filter_map(|path| path.endpoint.as_ref());
    for endpoint in peer.endpoint.iter().chain(paths) {
        let Some(ip) = ip_of(endpoint.get_ref()) else {
            continue;
        };
        if let Some(own) = site.addresses.iter().find(|address| address.get_ref().contains(&ip)) {
            let remedy = "write the address at which the other site is reached without the tunnel";
            let complaint = Complaint::new(format!("the endpoint {ip} is inside the tunnel"), remedy);
            out.push(complaint.at(endpoint.span()).because_of(own.span(), "the network of the tunnel"));
        }
    }
}

fn ip_of(endpoint: &Endpoint) -> Option<IpAddr> {
    match endpoint.host {
        Host::Ip(ip) => Some(ip),
        Host::Dns(_) => None,
    }
}
