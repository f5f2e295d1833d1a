//! Whether the values of a file fit together.

mod paths;
mod routes;
mod treatment;

use std::ops::Range;

use psmc_core::MAX_CLASSES;
use psmc_toml::{Complaint, Name, repeated};
use toml::Spanned;

use self::paths::known_relays;
use super::draft::{ClassDraft, Draft, PeerDraft};

/// The class of what belongs to no other.
const BEST_EFFORT: &str = "best-effort";

/// The classes that there are without configuration.
const BUILT_IN: [&str; 3] = ["voice", "background", BEST_EFFORT];

/// Complains about everything that is wrong between the values of a draft.
pub(super) fn check(draft: &Draft, out: &mut Vec<Complaint>) {
    unique_names("peers", draft.peers.iter().filter_map(|peer| peer.name.as_ref()), out);
    unique_names("relays", draft.relays.iter().filter_map(|relay| relay.name.as_ref()), out);
    unique_keys(draft, out);
    own_key(draft, out);
    routes::check(draft, out);
    treatment::check(draft, out);
    classes(draft, out);
    gateway(draft, out);
    for peer in &draft.peers {
        paths::check(peer, &draft.relays, out);
    }
}

/// Calls `complain(value, place, first place)` for each value that stood earlier among `values`.
fn for_each_repetition<'a, T: Ord + 'a>(
    values: impl IntoIterator<Item = &'a Spanned<T>>,
    mut complain: impl FnMut(&T, Range<usize>, Range<usize>),
) {
    for (value, first) in repeated(values, Spanned::get_ref) {
        complain(value.get_ref(), value.span(), first.span());
    }
}

/// Complains about names that several `things` have.
fn unique_names<'a>(things: &str, names: impl Iterator<Item = &'a Spanned<Name>>, out: &mut Vec<Complaint>) {
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

/// Classes say which packets are theirs, and there are not too many.
fn classes(draft: &Draft, out: &mut Vec<Complaint>) {
    unique_names("classes", draft.classes.iter().filter_map(|class| class.name.as_ref()), out);
    draft.classes.iter().for_each(|class| takes_some(class, out));
    let most = MAX_CLASSES - BUILT_IN.len();
    let added = draft.classes.iter().filter(|class| !BUILT_IN.contains(&name_of(class)));
    if let Some(surplus) = added.clone().nth(most) {
        let reason = format!("there are {} classes, and {most} are the most", added.count());
        let remedy = "put packets that are treated alike into one class";
        out.push(Complaint::new(reason, remedy).at(surplus.place.clone()));
    }
}

/// Complains about a class that takes every packet, or about best effort if it does not.
fn takes_some(class: &ClassDraft, out: &mut Vec<Complaint>) {
    match (name_of(class), &class.matches) {
        (BEST_EFFORT, Some(place)) => {
            let reason = "best effort is what belongs to no other class";
            let remedy = "remove what this class should match, or give it another name";
            out.push(Complaint::new(reason, remedy).at(place.clone()));
        }
        (name, None) if !BUILT_IN.contains(&name) => {
            let remedy = r#"say which packets are its own: dscp = ["EF"], protocol = ["udp"], ports = [5060], from or to = ["192.168.10.0/24"]"#;
            out.push(Complaint::new("this class would take every packet", remedy).at(class.place.clone()));
        }
        (_, _) => {}
    }
}

fn name_of(class: &ClassDraft) -> &str {
    class.name.as_ref().map_or("", |name| name.get_ref().as_str())
}

/// A site that registers with relays knows them, and shows itself to nobody else unless it is said.
fn gateway(draft: &Draft, out: &mut Vec<Complaint>) {
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
