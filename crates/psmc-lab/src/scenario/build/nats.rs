//! Network address translation.

use psmc_toml::Complaint;

use super::names::Directory;
use crate::scenario::draft::{Draft, HostDraft, LinkDraft, NatDraft};
use crate::scenario::model::{HostId, LinkId, Nat};

/// The NAT of a host; `None` if it has none, or one that was complained about.
pub(super) fn nat(
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
