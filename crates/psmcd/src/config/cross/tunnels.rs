//! IP-in-IP leads through one machine that unwraps it, over IPv4.

use std::ops::Range;

use psmc_toml::Complaint;
use toml::Spanned;

use super::paths::target;
use crate::config::draft::{PathDraft, PeerDraft, RelayDraft};
use crate::config::value::{Encapsulation, Endpoint, Host, Name};

pub(super) fn check(peer: &PeerDraft, path: &PathDraft, relays: &[RelayDraft], out: &mut Vec<Complaint>) {
    let wanted = path.encapsulation.as_ref().filter(|wanted| *wanted.get_ref() == Encapsulation::IpIp);
    match wanted {
        Some(wanted) => one_relay(path, wanted.span(), out),
        None => not_bare(path, relays, out),
    }
    if let Some(wanted) = wanted {
        let address = used(path).next().and_then(|name| find(name, relays)?.address.as_ref());
        for endpoint in [address, target(peer, path)].into_iter().flatten() {
            over_ipv4(endpoint, wanted.span(), out);
        }
        if let Some(local) = path.address.as_ref().filter(|local| local.get_ref().get().is_ipv6()) {
            out.push(no_ipv6().at(local.span()).because_of(wanted.span(), "wrapped here"));
        }
    }
}

/// What takes the place of a relay has to be one.
pub(super) fn no_spares(peer: &PeerDraft, relays: &[RelayDraft], out: &mut Vec<Complaint>) {
    let spares = peer.spare_relays.iter().flat_map(|spares| spares.get_ref());
    for spare in spares.filter(|spare| is_tunnel_end(spare, relays)) {
        let reason = format!("\"{}\" is no relay of PSMC, and cannot take the place of one", spare.get_ref());
        out.push(Complaint::new(reason, "leave it out, or run `psmc-relay` there").at(spare.span()));
    }
}

fn one_relay(path: &PathDraft, wanted: Range<usize>, out: &mut Vec<Complaint>) {
    match used(path).count() {
        0 if path.relays.is_none() => {
            let reason = "IP-in-IP leads to a machine that unwraps it, and this path names none";
            let remedy = r#"add relays = ["…"], the name of a [[relay]]; or leave `encapsulation` out"#;
            out.push(Complaint::new(reason, remedy).at(wanted));
        }
        0 | 1 => {}
        count => {
            let reason = format!("IP-in-IP leads through one relay, and this path through {count}");
            let remedy = r#"keep one of them, or write encapsulation = "udp""#;
            out.push(Complaint::new(reason, remedy).at(wanted));
        }
    }
}

/// A machine that only unwraps has to be sent what is wrapped.
fn not_bare(path: &PathDraft, relays: &[RelayDraft], out: &mut Vec<Complaint>) {
    for name in used(path).filter(|name| is_tunnel_end(name, relays)) {
        let reason = format!("\"{}\" only unwraps IP-in-IP, and this path sends none", name.get_ref());
        let remedy = r#"add encapsulation = "ipip" to the path; or give the [[relay]] its `public_key` in place of `inside`"#;
        out.push(Complaint::new(reason, remedy).at(name.span()));
    }
}

fn over_ipv4(endpoint: &Spanned<Endpoint>, wanted: Range<usize>, out: &mut Vec<Complaint>) {
    if matches!(endpoint.get_ref().host, Host::Ip(ip) if ip.is_ipv6()) {
        out.push(no_ipv6().at(endpoint.span()).because_of(wanted, "wrapped here"));
    }
}

fn no_ipv6() -> Complaint {
    let remedy = r#"give an IPv4 address, or write encapsulation = "udp""#;
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

fn used(path: &PathDraft) -> impl Iterator<Item = &Spanned<Name>> {
    path.relays.iter().flat_map(|relays| relays.get_ref())
}
