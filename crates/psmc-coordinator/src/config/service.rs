//! Reading services.

use std::ops::Range;
use std::time::Duration;

use hickory_proto::rr::Name as DomainName;
use psmc_net::keys::PublicKey;
use psmc_routes::setting::Domain;
use psmc_routes::update::{Server, TsigKey};
use psmc_toml::{Complaint, FilePath, Name, PublicKeyText, Rate, Section, Source, Switch, Whole};
use toml::Spanned;
use toml::de::DeTable;

use super::draft::private_key;
use super::people::{Found, known_group, no_two_alike};
use super::value::{NameServer, Prefix};
use super::{Group, Service};
use crate::error_chain;

const SERVICE_KEYS: &[&str] = &[
    "name",
    "zone",
    "key_file",
    "gateway",
    "site",
    "addresses",
    "groups",
    "servers",
    "tsig_key_file",
    "relays_per_group",
    "relay_rate",
    "lifetime",
    "ttl",
    "svcb",
    "prepare",
    "hold",
];

/// Relays of a group where the file says nothing: one may fail, and one be slow.
const RELAYS_PER_GROUP: u32 = 3;

/// How long routes count where the file says nothing, in seconds.
const LIFETIME_S: u32 = 600;

/// For how long name servers may cache them where the file says nothing, in seconds.
const TTL_S: u32 = 10;

/// How long an attack must be over where the file says nothing, in seconds: attackers pause to see what happens.
const HOLD_S: u32 = 60;

/// The services; `None` if there are complaints.
pub(super) fn services(
    file: &Section<'_>,
    source: &Source,
    groups: &[Group],
    out: &mut Vec<Complaint>,
) -> Option<Vec<Service>> {
    let tables = file.tables("service", "[[service]]", out);
    let services: Vec<_> =
        tables.into_iter().map(|(place, table)| service(place, table, source, groups, out)).collect();
    if !file.has("service") {
        let remedy = "add [[service]] with name = \"www.example.com\" and key_file = \"www.key\"";
        out.push(Complaint::new("there would be nobody to help: the file has no [[service]]", remedy));
        return None;
    }
    let services: Vec<Found<Service>> = services.into_iter().collect::<Option<_>>()?;
    no_two_alike(&services, "services", "name", |service| service.name.clone(), out);
    Some(services.into_iter().map(|found| found.value).collect())
}

fn service(
    place: Range<usize>,
    table: &DeTable<'_>,
    source: &Source,
    groups: &[Group],
    out: &mut Vec<Complaint>,
) -> Option<Found<Service>> {
    let section = Section::open("[[service]]", place.clone(), table, SERVICE_KEYS, out);
    let name = section.required::<Domain>("name", "the name by which clients know it", out);
    let zone = section.optional::<Domain>("zone", out);
    let key = private_key(&section, "key_file", source, out);
    let (gateway, site) = (public_key(&section, "gateway", out), public_key(&section, "site", out));
    let addresses = section.list::<Prefix>("addresses", out).map(Spanned::into_inner).unwrap_or_default();
    let admitted = admitted(&section, groups, out);
    let (servers, tsig_key) = dns(&section, source, out)?;
    let number = |value: Option<u32>, usual| value.unwrap_or(usual);
    let per_group = section.optional::<Whole<1, 16>>("relays_per_group", out).map(|n| n.into_inner().0);
    let rate = section.optional::<Rate>("relay_rate", out).map(Spanned::into_inner);
    // Shorter ones would have to be renewed all the time; longer ones can be replayed for as long (docs/DNS.md).
    let lifetime = section.optional::<Whole<30, 604_800>>("lifetime", out).map(|n| n.into_inner().0);
    let ttl = section.optional::<Whole<1, 3600>>("ttl", out).map(|n| n.into_inner().0);
    let hold = section.optional::<Whole<1, 86_400>>("hold", out).map(|n| n.into_inner().0);
    let mut switch = |key| section.optional::<Switch>(key, out).is_some_and(|value| value.into_inner().0);
    let (svcb, prepare) = (switch("svcb"), switch("prepare"));
    let name = name?.into_inner().0;
    let value = Service {
        zone: zone_of(&name, zone, out)?,
        key: key?,
        gateway,
        site,
        addresses: addresses.into_iter().map(|prefix| prefix.into_inner().0).collect(),
        groups: admitted?,
        servers,
        tsig_key,
        relays_per_group: number(per_group, RELAYS_PER_GROUP) as usize,
        relay_rate: rate,
        lifetime: Duration::from_secs(number(lifetime, LIFETIME_S).into()),
        ttl_s: number(ttl, TTL_S),
        svcb,
        prepare,
        hold: Duration::from_secs(number(hold, HOLD_S).into()),
        name,
    };
    Some(Found { value, place })
}

fn public_key(section: &Section<'_>, key: &str, out: &mut Vec<Complaint>) -> Option<PublicKey> {
    section.optional::<PublicKeyText>(key, out).map(|key| key.into_inner().0)
}

/// The zone that was named, or the name without its first label.
fn zone_of(name: &DomainName, zone: Option<Spanned<Domain>>, out: &mut Vec<Complaint>) -> Option<DomainName> {
    let Some(zone) = zone else { return Some(name.base_name()) };
    let (place, zone) = (zone.span(), zone.into_inner().0);
    if zone.zone_of(name) {
        return Some(zone);
    }
    let remedy = "name the zone that has the service, or leave `zone` out";
    out.push(Complaint::new(format!("{name} is not in the zone {zone}"), remedy).at(place));
    None
}

/// The groups that are named, or else all that there are.
fn admitted(section: &Section<'_>, groups: &[Group], out: &mut Vec<Complaint>) -> Option<Vec<Group>> {
    if section.is_empty_list("groups") {
        let remedy = "name groups in it, or leave `groups` out for all of them";
        out.push(Complaint::new("nobody would be told of the service's relays", remedy).at(section.place()));
        return None;
    }
    let Some(named) = section.list::<Name>("groups", out) else { return Some(groups.to_vec()) };
    let named: Vec<_> = named.into_inner().iter().map(|group| known_group(group, groups, out)).collect();
    let named: Vec<String> = named.into_iter().collect::<Option<_>>()?;
    Some(groups.iter().filter(|group| named.contains(&group.name)).cloned().collect())
}

/// The name servers and their key; `None` if there are complaints.
fn dns(
    section: &Section<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<(Vec<Server>, Option<TsigKey>)> {
    let servers = section.list::<NameServer>("servers", out).map(Spanned::into_inner).unwrap_or_default();
    let servers: Vec<Server> = servers.into_iter().map(|server| server.into_inner().0).collect();
    let key = match section.optional::<FilePath>("tsig_key_file", out) {
        None => None,
        Some(file) => {
            let complain = |error| {
                let remedy = "make it with `tsig-keygen -a hmac-sha256 NAME`";
                Complaint::new(error_chain(&error), remedy).at(file.span())
            };
            let key = TsigKey::read(&source.directory().join(&file.get_ref().0));
            Some(key.map_err(|error| out.push(complain(error))).ok()?)
        }
    };
    if !servers.is_empty() && key.is_none() {
        let remedy = "add tsig_key_file = \"up.key\", what `tsig-keygen -a hmac-sha256 NAME` prints";
        out.push(section.missing("tsig_key_file", remedy));
        return None;
    }
    Some((servers, key))
}
