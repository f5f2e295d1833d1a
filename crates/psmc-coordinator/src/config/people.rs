//! Reading relays, groups and clients.

use std::ops::Range;
use std::sync::Arc;

use psmc_routes::GroupKey;
use psmc_toml::{
    Complaint, FILE, Kind, NAME, Name, PUBLIC_KEY, RATE, Rate, Section, Source, read_key_file, repeated,
    whole,
};
use toml::Spanned;

use super::value::{ENDPOINT, PREFIX};
use super::{Client, Group, Relay};

const RELAY_KEYS: &[&str] = &["name", "address", "public_key", "capacity", "latency_ms"];

const GROUP_KEYS: &[&str] = &["name", "key_file"];

const CLIENT_KEYS: &[&str] = &["name", "public_key", "group", "allowed_ips"];

/// What a relay carries where the file says nothing: a small rented machine's line.
const CAPACITY_BITS: u64 = 100_000_000;

/// Clients of a coordinator at most: the lists that gateways get of them fit into what waits to be sent.
const MAX_CLIENTS: usize = 2048;

/// How far a relay is from clients.
const LATENCY_MS: Kind<u32> = Kind::number("10", |text| whole(text, 0..=10_000));

/// The relays; `None` if there are complaints.
pub(super) fn relays(file: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Vec<Relay>> {
    let sections = file.sections("relay", "[[relay]]", RELAY_KEYS, out);
    let relays = all(&sections, |section| relay(section, out));
    if !file.has("relay") {
        let reason = "there would be nothing to lead clients through: the file has no [[relay]]";
        let remedy = "add [[relay]] with name, address and public_key, one for each";
        out.push(Complaint::new(reason, remedy));
        return None;
    }
    let relays = relays?;
    no_two_alike(&relays, "relays", "name", |relay| &relay.name, out);
    no_two_alike(&relays, "relays", "public key", |relay| relay.public_key, out);
    no_two_alike(&relays, "relays", "address", |relay| relay.address, out);
    Some(values(relays))
}

fn relay(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Relay> {
    let name = section.required("name", NAME, "what you call this relay", out);
    let address = section.required("address", ENDPOINT, "where it takes UDP and TCP", out);
    let key = section.required("public_key", PUBLIC_KEY, "what `psmc pubkey` prints there", out);
    let capacity = section.optional("capacity", RATE, out);
    let latency_ms = section.optional("latency_ms", LATENCY_MS, out);
    Some(Relay {
        name: name?.to_string(),
        address: address?,
        public_key: key?,
        capacity: capacity.or_else(|| Rate::from_bits_per_second(CAPACITY_BITS).ok())?,
        latency_ms,
    })
}

/// The groups; `None` if there are complaints.
pub(super) fn groups(file: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Vec<Group>> {
    let sections = file.sections("group", "[[group]]", GROUP_KEYS, out);
    let groups = all(&sections, |section| group(section, source, out))?;
    no_two_alike(&groups, "groups", "name", |group| &group.name, out);
    let open = groups.iter().filter(|group| group.value.key.is_none());
    for second in open.skip(1) {
        let remedy = "give it a key_file: a secret of `psmc genkey` that its clients have as well";
        let reason = "only one group may have no key_file: unsealed routes are readable by everyone";
        out.push(Complaint::new(reason, remedy).at(second.place.clone()));
    }
    Some(values(groups))
}

fn group(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Group> {
    let name = section.required("name", NAME, "what you call this group", out);
    let key = match section.optional_at("key_file", FILE.like("\"/etc/psmc-coordinator/staff.key\""), out) {
        None => None,
        Some(file) => Some(Arc::new(GroupKey::new(&source.read_beside(&file, read_key_file, out)?))),
    };
    Some(Group { name: name?.to_string(), key })
}

/// The clients; `None` if there are complaints.
pub(super) fn clients(file: &Section<'_>, groups: &[Group], out: &mut Vec<Complaint>) -> Option<Vec<Client>> {
    let sections = file.sections("client", "[[client]]", CLIENT_KEYS, out);
    let clients = all(&sections, |section| client(section, groups, out))?;
    no_two_alike(&clients, "clients", "name", |client| &client.name, out);
    no_two_alike(&clients, "clients", "public key", |client| client.public_key, out);
    if let Some(beyond) = clients.get(MAX_CLIENTS) {
        let remedy = "let sites share a client's tunnel, or run a second coordinator for the others";
        let reason = format!("{} clients are configured; the limit is {MAX_CLIENTS}", clients.len());
        out.push(Complaint::new(reason, remedy).at(beyond.place.clone()));
    }
    Some(values(clients))
}

fn client(section: &Section<'_>, groups: &[Group], out: &mut Vec<Complaint>) -> Option<Client> {
    let name = section.required("name", NAME, "what you call this client", out);
    let key = section.required("public_key", PUBLIC_KEY, "what `psmc pubkey` prints there", out);
    let ips = section.list("allowed_ips", PREFIX, out);
    if !section.has("allowed_ips") {
        let remedy = "add allowed_ips = [\"10.77.0.2/32\"], its addresses in the tunnel";
        out.push(section.missing("allowed_ips", remedy));
    }
    let group = match (section.has("group"), groups) {
        (false, [only]) => Some(only.name.clone()),
        (false, _) => {
            out.push(section.missing("group", "say in which [[group]] it is"));
            None
        }
        (true, _) => {
            section.optional_at("group", NAME, out).and_then(|group| known_group(&group, groups, out))
        }
    };
    Some(Client { name: name?.to_string(), public_key: key?, group: group?, allowed_ips: ips? })
}

/// The name of a group, if there is one of that name.
pub(super) fn known_group(
    group: &Spanned<Name>,
    groups: &[Group],
    out: &mut Vec<Complaint>,
) -> Option<String> {
    let name = group.get_ref().to_string();
    if groups.iter().any(|group| group.name == name) {
        return Some(name);
    }
    let remedy = format!("add [[group]] with name = \"{name}\", or correct the name");
    out.push(Complaint::new(format!("there is no group {name}"), remedy).at(group.span()));
    None
}

/// Something, and where it stands.
pub(super) struct Found<T> {
    pub(super) value: T,
    pub(super) place: Range<usize>,
}

/// What `read` makes of all of them, with their places; `None` if there are complaints about one.
pub(super) fn all<T>(
    sections: &[Section<'_>],
    mut read: impl FnMut(&Section<'_>) -> Option<T>,
) -> Option<Vec<Found<T>>> {
    let found = |section: &Section<'_>| Some(Found { value: read(section)?, place: section.place() });
    let all: Vec<_> = sections.iter().map(found).collect();
    all.into_iter().collect()
}

pub(super) fn values<T>(all: Vec<Found<T>>) -> Vec<T> {
    all.into_iter().map(|found| found.value).collect()
}

/// Complains about each of which an earlier one has the same.
pub(super) fn no_two_alike<'a, T, K: Ord>(
    all: &'a [Found<T>],
    kind: &str,
    what: &str,
    key: impl Fn(&'a T) -> K,
    out: &mut Vec<Complaint>,
) {
    for (this, first) in repeated(all, |found| key(&found.value)) {
        let complaint =
            Complaint::new(format!("two {kind} have the same {what}"), "correct one, or remove it");
        out.push(complaint.at(this.place.clone()).because_of(first.place.clone(), "the first"));
    }
}
