//! Reading relays, groups and clients.

use std::ops::Range;
use std::sync::Arc;

use psmc_routes::GroupKey;
use psmc_toml::{Complaint, FilePath, Name, PublicKeyText, Rate, Section, Source, Whole};
use toml::Spanned;
use toml::de::DeTable;

use super::value::{Endpoint, Prefix};
use super::{Client, Group, Relay};
use psmc_toml::read_key_file;

const RELAY_KEYS: &[&str] = &["name", "address", "public_key", "capacity", "latency_ms"];

const GROUP_KEYS: &[&str] = &["name", "key_file"];

const CLIENT_KEYS: &[&str] = &["name", "public_key", "group", "allowed_ips"];

/// What a relay carries where the file says nothing: a small rented machine's line.
const CAPACITY_BITS: u64 = 100_000_000;

/// Clients of a coordinator at most: the lists that gateways get of them fit into what waits to be sent.
const MAX_CLIENTS: usize = 2048;

/// The relays; `None` if there are complaints.
pub(super) fn relays(file: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Vec<Relay>> {
    let tables = file.tables("relay", "[[relay]]", out);
    let relays: Vec<_> = tables.into_iter().map(|(place, table)| relay(place, table, out)).collect();
    if !file.has("relay") {
        let remedy = "add [[relay]] with name, address and public_key, one for each";
        out.push(Complaint::new(
            "there would be nothing to lead clients through: the file has no [[relay]]",
            remedy,
        ));
        return None;
    }
    let relays: Vec<Found<Relay>> = relays.into_iter().collect::<Option<_>>()?;
    no_two_alike(&relays, "relays", "name", |relay| relay.name.clone(), out);
    no_two_alike(&relays, "relays", "public key", |relay| relay.public_key, out);
    no_two_alike(&relays, "relays", "address", |relay| relay.address, out);
    Some(relays.into_iter().map(|found| found.value).collect())
}

fn relay(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Option<Found<Relay>> {
    let section = Section::open("[[relay]]", place.clone(), table, RELAY_KEYS, out);
    let name = section.required::<Name>("name", "what you call this relay", out);
    let address = section.required::<Endpoint>("address", "where it takes UDP and TCP", out);
    let key = section.required::<PublicKeyText>("public_key", "what `psmc pubkey` prints there", out);
    let capacity = section.optional::<Rate>("capacity", out).map(Spanned::into_inner);
    let latency = section.optional::<Whole<0, 10_000>>("latency_ms", out);
    let value = Relay {
        name: name?.into_inner().to_string(),
        address: address?.into_inner().0,
        public_key: key?.into_inner().0,
        capacity: capacity.or_else(|| Rate::from_bits_per_second(CAPACITY_BITS).ok())?,
        latency_ms: latency.map(|latency| latency.into_inner().0),
    };
    Some(Found { value, place })
}

/// The groups; `None` if there are complaints.
pub(super) fn groups(file: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Vec<Group>> {
    let tables = file.tables("group", "[[group]]", out);
    let groups: Vec<_> = tables.into_iter().map(|(place, table)| group(place, table, source, out)).collect();
    let groups: Vec<Found<Group>> = groups.into_iter().collect::<Option<_>>()?;
    no_two_alike(&groups, "groups", "name", |group| group.name.clone(), out);
    let open = groups.iter().filter(|group| group.value.key.is_none());
    for second in open.skip(1) {
        let remedy = "give it a key_file: a secret of `psmc genkey` that its clients have as well";
        let reason = "only one group can do without a key: everyone reads what is not sealed";
        out.push(Complaint::new(reason, remedy).at(second.place.clone()));
    }
    Some(groups.into_iter().map(|found| found.value).collect())
}

fn group(
    place: Range<usize>,
    table: &DeTable<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<Found<Group>> {
    let section = Section::open("[[group]]", place.clone(), table, GROUP_KEYS, out);
    let name = section.required::<Name>("name", "what you call this group", out);
    let key = match section.optional::<FilePath>("key_file", out) {
        None => None,
        Some(file) => {
            let key = read_key_file(&source.directory().join(&file.get_ref().0));
            let key = key.map_err(|error| out.push(Complaint::of_value(&error, file.span()))).ok()?;
            Some(Arc::new(GroupKey::new(&key)))
        }
    };
    Some(Found { value: Group { name: name?.into_inner().to_string(), key }, place })
}

/// The clients; `None` if there are complaints.
pub(super) fn clients(file: &Section<'_>, groups: &[Group], out: &mut Vec<Complaint>) -> Option<Vec<Client>> {
    let tables = file.tables("client", "[[client]]", out);
    let clients: Vec<_> =
        tables.into_iter().map(|(place, table)| client(place, table, groups, out)).collect();
    let clients: Vec<Found<Client>> = clients.into_iter().collect::<Option<_>>()?;
    no_two_alike(&clients, "clients", "name", |client| client.name.clone(), out);
    no_two_alike(&clients, "clients", "public key", |client| client.public_key, out);
    if let Some(beyond) = clients.get(MAX_CLIENTS) {
        let remedy = "let sites share a client's tunnel, or run a second coordinator for the others";
        let reason = format!("there are {} clients, more than {MAX_CLIENTS}", clients.len());
        out.push(Complaint::new(reason, remedy).at(beyond.place.clone()));
    }
    Some(clients.into_iter().map(|found| found.value).collect())
}

fn client(
    place: Range<usize>,
    table: &DeTable<'_>,
    groups: &[Group],
    out: &mut Vec<Complaint>,
) -> Option<Found<Client>> {
    let section = Section::open("[[client]]", place.clone(), table, CLIENT_KEYS, out);
    let name = section.required::<Name>("name", "what you call this client", out);
    let key = section.required::<PublicKeyText>("public_key", "what `psmc pubkey` prints there", out);
    let ips = section.list::<Prefix>("allowed_ips", out);
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
            section.optional::<Name>("group", out).and_then(|group| known_group(&group, groups, out))
        }
    };
    let value = Client {
        name: name?.into_inner().to_string(),
        public_key: key?.into_inner().0,
        group: group?,
        allowed_ips: ips?.into_inner().into_iter().map(|prefix| prefix.into_inner().0).collect(),
    };
    Some(Found { value, place })
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

/// Complains about each of which an earlier one has the same.
pub(super) fn no_two_alike<T, K: PartialEq>(
    all: &[Found<T>],
    kind: &str,
    what: &str,
    key: impl Fn(&T) -> K,
    out: &mut Vec<Complaint>,
) {
    for (index, this) in all.iter().enumerate() {
        if let Some(other) = all[..index].iter().find(|other| key(&other.value) == key(&this.value)) {
            let complaint =
                Complaint::new(format!("two {kind} have the same {what}"), "correct one, or remove it");
            out.push(complaint.at(this.place.clone()).because_of(other.place.clone(), "the first"));
        }
    }
}
