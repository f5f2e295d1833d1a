//! A site that registers with relays knows them, and shows itself to nobody else unless it is said.

use psmc_toml::Complaint;

use super::paths::known_relays;
use crate::config::draft::{Draft, PeerDraft};

pub(super) fn check(draft: &Draft, out: &mut Vec<Complaint>) {
    let Some(site) = &draft.site else { return };
    known_relays("the site registers with the relay", site.register.as_ref(), &draft.relays, out);
    if site.register.is_some() && !site.has_listen {
        draft.peers.iter().for_each(|peer| unseen(peer, out));
    }
}

/// A path that leads straight to a peer would show it where this site is.
fn unseen(peer: &PeerDraft, out: &mut Vec<Complaint>) {
    const REMEDY: &str =
        "lead it through `relays`, or give [site] a `listen`, if peers may know where this site is";
    if peer.paths.is_empty() && peer.has_endpoint {
        let reason = "this site is hidden behind its relays, and would dial this peer straight";
        out.push(
            Complaint::new(reason, "leave its `endpoint` out: the peer calls, through a relay")
                .at(peer.place.clone()),
        );
    }
    for path in peer.paths.iter().filter(|path| path.relays.is_none()) {
        let reason = "this site is hidden behind its relays, and the path leads straight to the peer";
        out.push(Complaint::new(reason, REMEDY).at(path.place.clone()));
    }
}
