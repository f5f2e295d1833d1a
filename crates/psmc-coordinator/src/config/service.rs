//! Reading services.

use std::path::Path;
use std::time::Duration;

use hickory_proto::rr::Name as DomainName;
use ipnet::IpNet;
use psmc_net::keys::PublicKey;
use psmc_routes::setting::DOMAIN;
use psmc_routes::update::{Server, TsigKey};
use psmc_toml::{Complaint, FILE, Kind, NAME, PUBLIC_KEY, RATE, SWITCH, Section, Source, ValueError, whole};
use toml::Spanned;

use super::people::{all, known_group, no_two_alike, values};
use super::value::{NAME_SERVER, PREFIX};
use super::{Group, Service};
use crate::error_chain;

const SERVICE_KEYS: &[&str] = &[
    "name",
    "zone",
    "key_file",
    "gateway",
    "watchers",
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

const PER_GROUP: Kind<u32> = Kind::number("10", |text| whole(text, 1..=16));

/// Shorter ones would have to be renewed all the time; longer ones can be replayed for as long (docs/DNS.md).
const LIFETIME: Kind<u32> = Kind::number("10", |text| whole(text, 30..=604_800));

const TTL: Kind<u32> = Kind::number("10", |text| whole(text, 1..=3600));

const HOLD: Kind<u32> = Kind::number("10", |text| whole(text, 1..=86_400));

/// The services; `None` if there are complaints.
pub(super) fn services(
    file: &Section<'_>,
    source: &Source,
    groups: &[Group],
    out: &mut Vec<Complaint>,
) -> Option<Vec<Service>> {
    let sections = file.sections("service", "[[service]]", SERVICE_KEYS, out);
    let services = all(&sections, |section| service(section, source, groups, out));
    if !file.has("service") {
        let remedy = "add [[service]] with name = \"www.example.com\" and key_file = \"www.key\"";
        out.push(Complaint::new("the file has no [[service]], so there is nothing to protect", remedy));
        return None;
    }
    let services = services?;
    no_two_alike(&services, "services", "name", |service| &service.name, out);
    Some(values(services))
}

fn service(
    section: &Section<'_>,
    source: &Source,
    groups: &[Group],
    out: &mut Vec<Complaint>,
) -> Option<Service> {
    let name = section.required("name", DOMAIN, "the name by which clients know it", out);
    let zone = section.optional_at("zone", DOMAIN, out);
    let key = section.private_key("key_file", "\"/etc/psmc-coordinator/www.key\"", source, out);
    let gateway = section.optional("gateway", PUBLIC_KEY, out);
    let site = section.optional("site", PUBLIC_KEY, out);
    let addresses = section.list("addresses", PREFIX, out).unwrap_or_default();
    let watchers = watchers(section, &addresses, out);
    let admitted = admitted(section, groups, out);
    let (servers, tsig_key) = dns(section, source, out)?;
    let relays_per_group = section.optional("relays_per_group", PER_GROUP, out).unwrap_or(RELAYS_PER_GROUP);
    let relay_rate = section.optional("relay_rate", RATE, out);
    let lifetime = section.optional("lifetime", LIFETIME, out).unwrap_or(LIFETIME_S);
    let ttl_s = section.optional("ttl", TTL, out).unwrap_or(TTL_S);
    let hold = section.optional("hold", HOLD, out).unwrap_or(HOLD_S);
    let svcb = section.optional("svcb", SWITCH, out).unwrap_or(false);
    let prepare = section.optional("prepare", SWITCH, out).unwrap_or(false);
    let name = name?;
    Some(Service {
        zone: zone_of(&name, zone, out)?,
        key: key?,
        gateway,
        watchers,
        site,
        addresses,
        groups: admitted?,
        servers,
        tsig_key,
        relays_per_group: relays_per_group as usize,
        relay_rate,
        lifetime: Duration::from_secs(lifetime.into()),
        ttl_s,
        svcb,
        prepare,
        hold: Duration::from_secs(hold.into()),
        name,
    })
}

/// The sites that may speak of it. They know it by its addresses.
fn watchers(section: &Section<'_>, addresses: &[IpNet], out: &mut Vec<Complaint>) -> Vec<PublicKey> {
    let watchers = section.list("watchers", PUBLIC_KEY, out).unwrap_or_default();
    if let Some(place) = section.key_place("watchers").filter(|_| addresses.is_empty()) {
        let remedy = r#"add addresses = ["203.0.113.5"], of which watchers may say that they are flooded"#;
        out.push(
            Complaint::new("watchers know services by their addresses, and this one has none", remedy)
                .at(place),
        );
    }
    watchers
}

/// The zone that was named, or the name without its first label.
fn zone_of(
    name: &DomainName,
    zone: Option<Spanned<DomainName>>,
    out: &mut Vec<Complaint>,
) -> Option<DomainName> {
    let Some(zone) = zone else { return Some(name.base_name()) };
    let (place, zone) = (zone.span(), zone.into_inner());
    if zone.zone_of(name) {
        return Some(zone);
    }
    let remedy = "name the zone that has the service, or leave `zone` out";
    out.push(Complaint::new(format!("{name} is not in the zone {zone}"), remedy).at(place));
    None
}

/// The groups that are named, or else all that there are.
fn admitted(section: &Section<'_>, groups: &[Group], out: &mut Vec<Complaint>) -> Option<Vec<Group>> {
    if section.empty_list("groups").is_some() {
        let remedy = "name groups in it, or leave `groups` out for all of them";
        out.push(Complaint::new("no group would receive the service's relays", remedy).at(section.place()));
        return None;
    }
    let Some(named) = section.list_at("groups", NAME, out) else { return Some(groups.to_vec()) };
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
    let servers = section.list("servers", NAME_SERVER, out).unwrap_or_default();
    let key = match section.optional_at("tsig_key_file", FILE.like("\"/etc/psmc-coordinator/up.key\""), out) {
        None => None,
        Some(file) => Some(source.read_beside(&file, read_tsig_key, out)?),
    };
    if !servers.is_empty() && key.is_none() {
        let remedy = "add tsig_key_file = \"up.key\", what `tsig-keygen -a hmac-sha256 NAME` prints";
        out.push(section.missing("tsig_key_file", remedy));
        return None;
    }
    Some((servers, key))
}

fn read_tsig_key(path: &Path) -> Result<TsigKey, ValueError> {
    let remedy = "make it with `tsig-keygen -a hmac-sha256 NAME`";
    TsigKey::read(path).map_err(|error| ValueError::new(error_chain(&error), remedy))
}
