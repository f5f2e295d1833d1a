//! Quotas of uplinks: one for each, which changes something when it is used up.

use std::collections::BTreeMap;

use psmc_toml::Complaint;
use toml::Spanned;

use crate::config::draft::{Draft, PathDraft};
use crate::config::model::uplink_of;
use crate::quota::Quota;

pub(super) fn check(draft: &Draft, out: &mut Vec<Complaint>) {
    let paths = draft.peers.iter().flat_map(|peer| &peer.paths);
    let mut first: BTreeMap<String, &Spanned<Quota>> = BTreeMap::new();
    for (path, quota) in paths.filter_map(|path| Some((path, path.quota.as_ref()?))) {
        changes_something(path, quota, out);
        // What cannot be read has been complained about.
        if !path.is_comparable {
            continue;
        }
        let uplink = uplink_of(path.interface.as_ref(), path.address.as_ref().map(|at| at.get_ref()));
        match first.get(&uplink) {
            None => {
                first.insert(uplink, quota);
            }
            Some(other) if other.get_ref() == quota.get_ref() => {}
            Some(other) => {
                let reason = format!("two paths of the uplink {uplink} have different quotas, and share one");
                let remedy = "give both the same quota, or only one of them";
                out.push(
                    Complaint::new(reason, remedy).at(quota.span()).because_of(other.span(), "the other one"),
                );
            }
        }
    }
}

/// The path is worse off when its quota is used up.
fn changes_something(path: &PathDraft, quota: &Spanned<Quota>, out: &mut Vec<Complaint>) {
    let Some(tier) = &path.tier else { return };
    if let Err(error) = quota.get_ref().check_tier(*tier.get_ref()) {
        let complaint = Complaint::new(error.reason(), error.remedy());
        out.push(complaint.at(quota.span()).because_of(tier.span(), "its tier"));
    }
}
