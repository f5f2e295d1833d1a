//! Names and keys stand for one thing each.

use psmc_toml::Complaint;
use toml::Spanned;

use super::for_each_repetition;
use crate::config::draft::Draft;
use crate::config::value::Name;

pub(super) fn check(draft: &Draft, out: &mut Vec<Complaint>) {
    unique_names("peers", draft.peers.iter().filter_map(|peer| peer.name.as_ref()), out);
    unique_names("relays", draft.relays.iter().filter_map(|relay| relay.name.as_ref()), out);
    unique_keys(draft, out);
    own_key(draft, out);
}

/// Complains about names that several `things` have.
pub(super) fn unique_names<'a>(
    things: &str,
    names: impl Iterator<Item = &'a Spanned<Name>>,
    out: &mut Vec<Complaint>,
) {
    for_each_repetition(names, |name, place, first| {
        let complaint =
            Complaint::new(format!("two {things} are called \"{name}\""), "give one of them another name");
        out.push(complaint.at(place).because_of(first, "the other one"));
    });
}

fn unique_keys(draft: &Draft, out: &mut Vec<Complaint>) {
    let peers = draft.peers.iter().filter_map(|peer| peer.public_key.as_ref());
    let relays = draft.relays.iter().filter_map(|relay| relay.public_key.as_ref());
    for_each_repetition(peers.chain(relays), |_, place, first| {
        let reason = "this public key is given twice, so its owners could not be told apart";
        let remedy = "each site has a key of its own: make one there with `psmc genkey`, and copy what `psmc pubkey` prints";
        out.push(Complaint::new(reason, remedy).at(place).because_of(first, "given here"));
    });
}

/// No key of somebody else is this site's own, or its private key.
fn own_key(draft: &Draft, out: &mut Vec<Complaint>) {
    let Some(private) = draft.site.as_ref().and_then(|site| site.private_key.as_ref()) else { return };
    let own = private.public();
    let peers = draft.peers.iter().filter_map(|peer| peer.public_key.as_ref());
    for key in peers.clone().filter(|key| *key.get_ref() == own) {
        let remedy = "run `psmc pubkey` on the other site, with the private key of that site";
        out.push(Complaint::new("this is the public key of this site itself", remedy).at(key.span()));
    }
    let relays = draft.relays.iter().filter_map(|relay| relay.public_key.as_ref());
    for key in peers.chain(relays).filter(|key| private.is_bytes_of(key.get_ref())) {
        let reason =
            "this is also given as the private key of this site: one of the two is in the wrong place";
        let remedy = "the private key is what `psmc genkey` has printed here, this one what `psmc pubkey` prints there";
        out.push(Complaint::new(reason, remedy).at(key.span()).about_secret());
    }
}
