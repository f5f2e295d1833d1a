//! Names and keys stand for one thing each.

use psmc_net::keys::PublicKey;
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

fn own_key(draft: &Draft, out: &mut Vec<Complaint>) {
    let Some(own) = draft.site.as_ref().and_then(|site| site.private_key.as_ref()).map(|key| key.public())
    else {
        return;
    };
    let same = |key: &&Spanned<PublicKey>| *key.get_ref() == own;
    for key in draft.peers.iter().filter_map(|peer| peer.public_key.as_ref()).filter(same) {
        let remedy = "run `psmc pubkey` on the other site, with the private key of that site";
        out.push(Complaint::new("this is the public key of this site itself", remedy).at(key.span()));
    }
}
