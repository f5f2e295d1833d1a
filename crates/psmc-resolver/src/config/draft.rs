//! Reading the file, section by section.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use psmc_net::keys::PrivateKey;
use psmc_toml::{
    Complaint, FilePath, InterfaceName, KeyFile, Name, PublicKeyText, Section, Setting, SocketPath, Source,
    Whole, read_key_file,
};
use toml::Spanned;
use toml::de::DeTable;

use super::value::{CoordinatorAddresses, Ip, RoutingDomain, Upstream};
use super::{Config, CoordinatorConfig};
use crate::service::ServiceConfig;
use crate::system::SystemConfig;
use crate::tunnels::{Policy, Tunnel};
use psmc_routes::setting::{Address, Domain, RUN_DIR};

const RESOLVER_KEYS: &[&str] = &[
    "name",
    "listen",
    "upstream",
    "pass_on",
    "ca_file",
    "cache_mib",
    "wait_ms",
    "state_directory",
    "control_socket",
];

const SERVICE_KEYS: &[&str] =
    &["name", "public_key", "group_key_file", "peer", "socket", "policy", "addresses"];

const COORDINATOR_KEYS: &[&str] = &["address", "public_key", "private_key_file"];

const SYSTEM_KEYS: &[&str] = &["resolv_conf", "resolved_link", "domains"];

/// Upstream servers at most: a question can be put to all of them.
const MAX_UPSTREAM: usize = 8;

/// Services at most: each has a thread of psmcd's time.
const MAX_SERVICES: usize = 256;

/// Memory for answers where the file says nothing, in MiB: some 20,000 names.
const CACHE_MIB: u32 = 32;

/// How long an answer waits for the tunnel where the file says nothing, in milliseconds.
const WAIT_MS: u32 = 1000;

/// The configuration that a file describes; `None` if there are complaints.
pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    const SECTIONS: &[&str] = &["resolver", "service", "coordinator", "system"];
    let file = Section::open("the top of a file", 0..0, root, SECTIONS, out);
    let tables = file.tables("service", "[[service]]", out);
    if tables.len() > MAX_SERVICES {
        let reason = format!("there are {} services", tables.len());
        out.push(Complaint::new(reason, format!("{MAX_SERVICES} are the most that a resolver watches")));
    }
    let services: Vec<_> =
        tables.into_iter().map(|(place, table)| service(place, table, source, out)).collect();
    let coordinator =
        file.table("coordinator", out).map(|(place, table)| coordinator(place, table, source, out));
    let system = file.table("system", out).map(|(place, table)| system(place, table, source, out));
    if !file.has("resolver") {
        let remedy =
            r#"add [resolver] with name = "local", listen = ["127.0.0.54"] and upstream = ["192.0.2.53"]"#;
        out.push(Complaint::new(
            "the file has no [resolver], which says where it listens and whom it asks",
            remedy,
        ));
    }
    let (place, table) = file.table("resolver", out)?;
    let section = Section::open("[resolver]", place, table, RESOLVER_KEYS, out);
    let name = section.required::<Name>("name", "what you call this resolver", out).map(Spanned::into_inner);
    let listen = some_of::<Address>(&section, "listen", "the addresses where it is asked", out);
    let upstream = some_of::<Upstream>(&section, "upstream", "the name servers that it asks", out);
    let passed_on = section.list::<Domain>("pass_on", out).map(Spanned::into_inner).unwrap_or_default();
    let ca_file = section.optional::<FilePath>("ca_file", out).map(|path| existing(&path, source, out));
    let cache = section.optional::<Whole<1, 4096>>("cache_mib", out).map_or(CACHE_MIB, |n| n.into_inner().0);
    let wait = section.optional::<Whole<0, 10_000>>("wait_ms", out).map_or(WAIT_MS, |n| n.into_inner().0);
    let directory = section.optional::<FilePath>("state_directory", out).map(|path| path.into_inner().0);
    let socket = section.optional::<SocketPath>("control_socket", out).map(Spanned::into_inner);
    let (name, listen, upstream) = (name?, listen?, upstream?);
    if upstream.len() > MAX_UPSTREAM {
        out.push(Complaint::new(
            "there are too many upstream servers",
            format!("name {MAX_UPSTREAM} at most"),
        ));
    }
    let directory = directory.unwrap_or_else(|| PathBuf::from(format!("/var/lib/psmc-dns/{name}")));
    let usual: SocketPath = format!("{RUN_DIR}/{name}.sock").parse().ok()?;
    Some(Config {
        control_socket: socket.unwrap_or(usual),
        name,
        listen: listen.into_iter().map(|address| address.0).collect(),
        upstream: upstream.into_iter().map(|upstream| upstream.0).collect(),
        passed_on: passed_on.into_iter().map(|name| name.into_inner().0).collect(),
        ca_file: whole(ca_file)?,
        cache_mib: cache,
        patience: Duration::from_millis(wait.into()),
        state_directory: source.directory().join(directory),
        services: distinct(services, out)?,
        coordinator: whole(coordinator)?,
        system: whole(system)?,
    })
}

/// A list that must have something in it.
fn some_of<T: Setting>(
    section: &Section<'_>,
    key: &str,
    what: &str,
    out: &mut Vec<Complaint>,
) -> Option<Vec<T>> {
    if !section.has(key) || section.is_empty_list(key) {
        out.push(section.missing(key, &format!("add {key} = [{}], {what}", T::EXAMPLE)));
    }
    let list = section.list::<T>(key, out)?.into_inner();
    Some(list.into_iter().map(Spanned::into_inner).collect())
}

fn service(
    place: Range<usize>,
    table: &DeTable<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<ServiceConfig> {
    let section = Section::open("[[service]]", place, table, SERVICE_KEYS, out);
    let name = section.required::<Domain>("name", "the service's name in DNS", out);
    let key = section.required::<PublicKeyText>(
        "public_key",
        "the key of the service's site, as in psmcd's [[peer]]",
        out,
    );
    let group_key =
        section.optional::<KeyFile>("group_key_file", out).map(|file| private_key(&file, source, out));
    let peer = section.required::<Name>("peer", "what psmcd's configuration calls it", out);
    let socket = section.required::<SocketPath>("socket", "psmcd's control socket", out);
    let policy = section.optional::<Policy>("policy", out).map(Spanned::into_inner);
    let addresses = section.list::<Ip>("addresses", out).map(Spanned::into_inner).unwrap_or_default();
    Some(ServiceConfig {
        name: name?.into_inner().0,
        public_key: key?.into_inner().0,
        group_key: whole(group_key)?,
        tunnel: Tunnel { socket: socket?.get_ref().as_path().to_owned(), peer: peer?.into_inner() },
        policy,
        addresses: addresses.into_iter().map(|ip| ip.into_inner().0).collect(),
    })
}

fn coordinator(
    place: Range<usize>,
    table: &DeTable<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<CoordinatorConfig> {
    let section = Section::open("[coordinator]", place, table, COORDINATOR_KEYS, out);
    let address = section.required::<CoordinatorAddresses>("address", "where it takes connections", out);
    let public_key = section.required::<PublicKeyText>("public_key", "the coordinator's key", out);
    let file = section.required::<KeyFile>("private_key_file", "this client's key", out);
    let private_key = file.map(|file| private_key(&file, source, out));
    Some(CoordinatorConfig {
        addresses: address?.into_inner().0,
        public_key: public_key?.into_inner().0,
        private_key: private_key??,
    })
}

fn system(
    place: Range<usize>,
    table: &DeTable<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<SystemConfig> {
    let section = Section::open("[system]", place, table, SYSTEM_KEYS, out);
    let path = section.optional::<FilePath>("resolv_conf", out);
    let link = section.optional::<InterfaceName>("resolved_link", out);
    let domains = section.list::<RoutingDomain>("domains", out).map(Spanned::into_inner);
    if section.has("resolv_conf") == section.has("resolved_link") {
        let remedy = "write resolved_link = \"psmc0\" where systemd-resolved runs, else resolv_conf = \"/etc/resolv.conf\"";
        out.push(Complaint::new("[system] takes one of two ways", remedy).at(section.place()));
        return None;
    }
    if let Some(path) = path {
        if let Some(place) = section.key_place("domains") {
            out.push(Complaint::new("a resolv.conf serves all domains", "remove `domains`").at(place));
        }
        return Some(SystemConfig::ResolvConf(source.directory().join(path.into_inner().0)));
    }
    let domains = domains.map(|list| list.into_iter().map(|domain| domain.into_inner().0).collect());
    Some(SystemConfig::Resolved {
        link: link?.get_ref().as_str().to_owned(),
        domains: domains.unwrap_or_else(|| vec!["~.".to_owned()]),
        program: "resolvectl".into(),
    })
}

/// The services, if each has a name of its own.
fn distinct(services: Vec<Option<ServiceConfig>>, out: &mut Vec<Complaint>) -> Option<Vec<ServiceConfig>> {
    let services: Vec<ServiceConfig> = services.into_iter().collect::<Option<_>>()?;
    for (index, service) in services.iter().enumerate() {
        if services[..index].iter().any(|other| other.name == service.name) {
            let reason = format!("the service {} is there twice", service.name);
            out.push(Complaint::new(reason, "remove one of them"));
        }
    }
    Some(services)
}

fn private_key(file: &Spanned<KeyFile>, source: &Source, out: &mut Vec<Complaint>) -> Option<PrivateKey> {
    let key = read_key_file(&source.directory().join(&file.get_ref().0));
    key.map_err(|error| out.push(Complaint::of_value(&error, file.span()))).ok()
}

fn existing(file: &Spanned<FilePath>, source: &Source, out: &mut Vec<Complaint>) -> Option<PathBuf> {
    let path = source.directory().join(&file.get_ref().0);
    if !path.is_file() {
        let reason = format!("there is no file {}", path.display());
        out.push(Complaint::new(reason, "correct the path").at(file.span()));
        return None;
    }
    Some(path)
}

/// What may be left out, but not be wrong.
#[expect(clippy::option_option, reason = "it is absent, or wrong, or there")]
fn whole<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        None => Some(None),
        Some(value) => value.map(Some),
    }
}
