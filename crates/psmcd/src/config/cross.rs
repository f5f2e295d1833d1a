//! Whether the values of a file fit together.

mod paths;
mod quotas;
mod routes;
mod ways;

use std::ops::Range;

use psmc_core::MAX_CLASSES;
use psmc_toml::{Complaint, Name, repeated};
use toml::Spanned;

use self::paths::known_relays;
use super::draft::{ClassDraft, Draft, PeerDraft, SlaDraft, TreatmentDraft};
use super::value::Reorder;

/// Targets of SLAs: each is judged four times a second, and may have its own probes. Sites have a promise for each peer or uplink.
const MAX_TARGETS: usize = 16;

/// The class of what belongs to no other.
const BEST_EFFORT: &str = "best-effort";

/// The classes that there are without configuration.
const BUILT_IN: [&str; 3] = ["voice", "background", BEST_EFFORT];

/// Complains about everything that is wrong between the values of a draft.
pub(super) fn check(draft: &Draft, out: &mut Vec<Complaint>) {
    let invited = draft.invitations.iter().filter_map(|invitation| invitation.name.as_ref());
    unique_names("peers", draft.peers.iter().filter_map(|peer| peer.name.as_ref()).chain(invited), out);
    unique_names("relays", draft.relays.iter().filter_map(|relay| relay.name.as_ref()), out);
    unique_keys(draft, out);
    own_key(draft, out);
    routes::check(draft, out);
    treatment(draft, out);
    classes(draft, out);
    gateway(draft, out);
    listen_tls(draft, out);
    sla(draft, out);
    web(draft, out);
    for peer in &draft.peers {
        paths::check(peer, &draft.relays, out);
    }
    quotas::check(draft, out);
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
    let invited = draft.invitations.iter().filter_map(|invitation| invitation.public_key.as_ref());
    for_each_repetition(peers.chain(relays).chain(invited), |_, place, first| {
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
    ways::check(draft, out);
    let most = MAX_CLASSES - BUILT_IN.len();
    let added = draft.classes.iter().filter(|class| !BUILT_IN.contains(&name_of(class)));
    if let Some(surplus) = added.clone().nth(most) {
        let reason = format!("{} classes are configured; the limit is {most}", added.count());
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

/// A port for streams is another one, and a hidden site has none.
fn listen_tls(draft: &Draft, out: &mut Vec<Complaint>) {
    let Some((site, listen)) = draft.site.as_ref().and_then(|site| Some((site, site.listen_tls.as_ref()?)))
    else {
        return;
    };
    if site.register.is_some() && !site.has_listen {
        let reason = "this site is hidden behind its relays, and would listen for TLS";
        let remedy = "remove `listen_tls`; or add `listen`, if anybody may know where this site is";
        out.push(Complaint::new(reason, remedy).at(listen.span()));
    } else if listen.get_ref().port == site.listen.port {
        let reason = "`listen` has this port already, and takes streams of TLS as well";
        out.push(Complaint::new(reason, "remove `listen_tls`, or give it another port").at(listen.span()));
    }
}

/// What is said of the reflector or of IPFIX needs one.
fn sla(draft: &Draft, out: &mut Vec<Complaint>) {
    let Some(sla) = &draft.sla else { return };
    targets(draft, sla, out);
    if let Some(place) = &sla.unused_coordinator {
        let remedy = r#"add [[sla.target]] with peer = "hq" and loss = "0.5%", or remove it"#;
        let reason = "a coordinator is told of what breaks a promise about a peer, and there is none";
        out.push(Complaint::new(reason, remedy).at(place.clone()));
    }
    let Some(useless) = &sla.useless else { return };
    let reason = format!("`{}` is of no use without `{}`", useless.key, useless.without);
    out.push(Complaint::new(reason, useless.remedy).at(useless.place.clone()));
}

/// Names of targets are unique, few enough, and their peers known.
fn targets(draft: &Draft, sla: &SlaDraft, out: &mut Vec<Complaint>) {
    unique_names("targets", sla.targets.iter().filter_map(|target| target.name.as_ref()), out);
    if let Some(name) = sla.targets.get(MAX_TARGETS).and_then(|target| target.name.as_ref()) {
        let reason = format!("there are {} targets", sla.targets.len());
        out.push(Complaint::new(reason, format!("{MAX_TARGETS} can be watched")).at(name.span()));
    }
    let invited = draft.invitations.iter().filter_map(|invitation| invitation.name.as_ref());
    let peers: Vec<_> = draft.peers.iter().filter_map(|peer| peer.name.as_ref()).chain(invited).collect();
    for class in sla.targets.iter().filter_map(|target| target.class.as_ref()) {
        let named = draft.classes.iter().map(name_of).chain(BUILT_IN);
        if !named.into_iter().any(|known| known == class.get_ref().as_str()) {
            let reason = format!("there is no class \"{}\"", class.get_ref());
            out.push(
                Complaint::new(
                    reason,
                    "name a [[class]] of this file, or one of voice, background and best-effort",
                )
                .at(class.span()),
            );
        }
    }
    for peer in sla.targets.iter().filter_map(|target| target.peer.as_ref()) {
        if !peers.iter().any(|known| known.get_ref() == peer.get_ref()) {
            let reason = format!("there is no peer \"{}\"", peer.get_ref());
            out.push(Complaint::new(reason, "name a [[peer]] of this file").at(peer.span()));
        }
    }
}

/// Whoever reaches the web page from elsewhere, or changes a path there, shows a token.
fn web(draft: &Draft, out: &mut Vec<Complaint>) {
    let Some(web) = draft.web.as_ref().filter(|web| !web.has_token) else { return };
    if let Some(orders) = web.orders.as_ref().filter(|orders| *orders.get_ref()) {
        let reason = "without a token, every user and every program of this machine could change paths by the web page";
        let remedy = r#"add token_file = "/etc/psmc/van.token", a file that `umask 077; openssl rand -hex 32 > FILE` makes; or remove `orders`"#;
        out.push(Complaint::new(reason, remedy).at(orders.span()));
    }
    let Some(listen) = &web.listen else { return };
    let address = listen.get_ref().ip();
    if !address.is_loopback() {
        let reason = format!("other machines can reach the web page at {address}, and it has no token");
        let remedy = r#"add token_file = "/etc/psmc/van.token", a file that `umask 077; openssl rand -hex 32 > FILE` makes; or listen on 127.0.0.1"#;
        out.push(Complaint::new(reason, remedy).at(listen.span()));
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

/// The keys of a buffer stand where there is such a buffer.
fn treatment(draft: &Draft, out: &mut Vec<Complaint>) {
    let site = draft.site.as_ref().map(|site| site.treatment.clone()).unwrap_or_default();
    useful(&site, &site, out);
    comparable(&site, &site, out);
    limits(&site, out);
    for peer in &draft.peers {
        let whole = peer.whole_treatment(&site);
        useful(&peer.treatment, &whole, out);
        comparable(&peer.treatment, &whole, out);
        if peer.treatment.reorder_least.is_some() || peer.treatment.reorder_most.is_some() {
            limits(&whole, out);
        }
    }
}

/// Complains about keys of `own` that mean nothing to the policy of `whole`.
fn useful(own: &TreatmentDraft, whole: &TreatmentDraft, out: &mut Vec<Complaint>) {
    let policy = whole.reorder.unwrap_or_default();
    let keys = [
        ("reorder_timeout", place(&own.reorder_timeout), Reorder::Fixed),
        ("reorder_packets", place(&own.reorder_packets), Reorder::Fixed),
        ("reorder_factor", place(&own.reorder_factor), Reorder::Adaptive),
        ("reorder_least", place(&own.reorder_least), Reorder::Adaptive),
        ("reorder_most", place(&own.reorder_most), Reorder::Adaptive),
    ];
    for (key, place, owner) in keys {
        let Some(place) = place.filter(|_| policy != owner) else {
            continue;
        };
        let reason = format!("`{key}` means nothing with reorder = \"{}\"", policy.as_str());
        let remedy = format!("remove it, or set reorder = \"{}\" in the same section", owner.as_str());
        out.push(Complaint::new(reason, remedy).at(place));
    }
}

/// Complains if `own` asks for a rule that the scheduler of `whole` cannot heed.
fn comparable(own: &TreatmentDraft, whole: &TreatmentDraft, out: &mut Vec<Complaint>) {
    let scheduler = whole.scheduler.unwrap_or_default();
    let Some(rule) = own.bad_path_rule.as_ref().filter(|switch| *switch.get_ref()) else {
        return;
    };
    if !scheduler.heeds_bad_path_rule() {
        let reason =
            format!("with scheduler = \"{}\" bad paths cannot be told from good ones", scheduler.name());
        let remedy = "remove it, or choose the scheduler \"wrr-adaptive\" or \"earliest\"";
        out.push(Complaint::new(reason, remedy).at(rule.span()));
    }
}

fn limits(whole: &TreatmentDraft, out: &mut Vec<Complaint>) {
    let (Some(least), Some(most)) = (&whole.reorder_least, &whole.reorder_most) else {
        return;
    };
    if least.get_ref() > most.get_ref() {
        let reason = "the least size of the buffer is more than the most";
        let complaint = Complaint::new(reason, "exchange the two, or remove one");
        out.push(complaint.at(least.span()).because_of(most.span(), "the most"));
    }
}

fn place<T>(value: &Option<Spanned<T>>) -> Option<Range<usize>> {
    value.as_ref().map(Spanned::span)
}
