//! Reading the file, section by section.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use psmc_toml::{
    Complaint, FILE, INTERFACE, KEY_FILE, Kind, NAME, PUBLIC_KEY, SOCKET, Section, SocketPath, Source,
    ValueError, parse_net, read_key_file, socket_path,
};
use toml::Spanned;
use toml::de::DeTable;

use super::{Config, CoordinatorConfig};
use crate::service::ServiceConfig;
use crate::tunnels::{POLICY, Tunnel};
use crate::upstream::{Transport, UpstreamAddress};
use psmc_routes::setting::{ADDRESS, DOMAIN, RUN_DIR};
use psmc_service::name_servers::Place;

const RESOLVER_KEYS: &[&str] = &[
    "name",
    "listen",
    "upstream",
    "pass_on",
    "clients",
    "private",
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

const MY_KEY_FILE: Kind<PathBuf> = KEY_FILE.like("\"/etc/psmc-dns/my.key\"");

/// Upstream servers at most: a question can be put to all of them.
const MAX_UPSTREAM: usize = 8;

/// Services at most: each has a thread of psmcd's time.
const MAX_SERVICES: usize = 256;

/// Memory for answers where the file says nothing, in MiB: some 20,000 names.
const USUAL_MIB: u32 = 32;

/// How long an answer waits for the tunnel where the file says nothing, in milliseconds.
const USUAL_WAIT_MS: u32 = 1000;

/// The configuration that a file describes; `None` if there are complaints.
pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    const SECTIONS: &[&str] = &["resolver", "service", "coordinator", "system"];
    let file = Section::open("the top of a file", 0..0, root, SECTIONS, out);
    let services = file.sections("service", "[[service]]", SERVICE_KEYS, out);
    if services.len() > MAX_SERVICES {
        let reason = format!("there are {} services", services.len());
        out.push(Complaint::new(reason, format!("the limit is {MAX_SERVICES}")));
    }
    let services: Vec<_> = services.iter().map(|section| service(section, source, out)).collect();
    let coordinator = file.section("coordinator", "[coordinator]", COORDINATOR_KEYS, out);
    let coordinator = coordinator.map(|section| self::coordinator(&section, source, out));
    let system = file.section("system", "[system]", SYSTEM_KEYS, out);
    let system = system.map(|section| self::system(&section, source, out));
    if !file.has("resolver") {
        let remedy =
            r#"add [resolver] with name = "local", listen = ["127.0.0.54"] and upstream = ["192.0.2.53"]"#;
        let reason = "the file has no [resolver], which says where it listens and whom it asks";
        out.push(Complaint::new(reason, remedy));
    }
    let section = file.section("resolver", "[resolver]", RESOLVER_KEYS, out)?;
    let name = section.required("name", NAME, "what you call this resolver", out);
    let listen = some_of(&section, "listen", ADDRESS, "the addresses where it is asked", out);
    let upstream = some_of(&section, "upstream", UPSTREAM, "the name servers that it asks", out);
    let passed_on = section.list("pass_on", DOMAIN, out).unwrap_or_default();
    let clients = section.list("clients", CLIENTS, out).unwrap_or_default();
    let private = section.list("private", DOMAIN, out).unwrap_or_default();
    let ca_file = section
        .optional_at("ca_file", FILE.like("\"/etc/psmc-dns/ca.pem\""), out)
        .map(|path| existing(&path, source, out));
    let cache_mib = section.optional("cache_mib", MIB, out).unwrap_or(USUAL_MIB);
    let wait = section.optional("wait_ms", WAIT_MS, out).unwrap_or(USUAL_WAIT_MS);
    let directory = section.optional("state_directory", FILE.like("\"/var/lib/psmc-dns/local\""), out);
    let socket = section.optional("control_socket", OWN_SOCKET, out);
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
        listen,
        upstream,
        passed_on,
        clients,
        private,
        ca_file: whole(ca_file)?,
        cache_mib,
        patience: Duration::from_millis(wait.into()),
        state_directory: source.beside(directory),
        services: distinct(services, out)?,
        coordinator: whole(coordinator)?,
        system: whole(system)?,
    })
}

/// A list that must have something in it.
fn some_of<T>(
    section: &Section<'_>,
    key: &str,
    kind: Kind<T>,
    what: &str,
    out: &mut Vec<Complaint>,
) -> Option<Vec<T>> {
    section.some_of(key, kind, &format!("add {key} = [{}], {what}", kind.example), out)
}

fn service(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<ServiceConfig> {
    let name = section.required("name", DOMAIN, "the service's name in DNS", out);
    let remedy = "the key of the service's site, as in psmcd's [[peer]]";
    let key = section.required("public_key", PUBLIC_KEY, remedy, out);
    let group_key = section.optional_at("group_key_file", MY_KEY_FILE, out);
    let group_key = group_key.map(|file| source.read_beside(&file, read_key_file, out));
    let peer = section.required("peer", NAME, "what psmcd's configuration calls it", out);
    let socket = section.required("socket", SOCKET, "psmcd's control socket", out);
    let policy = section.optional("policy", POLICY, out);
    let addresses = section.list("addresses", IP, out).unwrap_or_default();
    Some(ServiceConfig {
        name: name?,
        public_key: key?,
        group_key: whole(group_key)?,
        tunnel: Tunnel { socket: socket?.as_path().to_owned(), peer: peer? },
        policy,
        addresses,
    })
}

fn coordinator(
    section: &Section<'_>,
    source: &Source,
    out: &mut Vec<Complaint>,
) -> Option<CoordinatorConfig> {
    let addresses = section.required("address", COORDINATOR_ADDRESSES, "where it takes connections", out);
    let public_key = section.required("public_key", PUBLIC_KEY, "the coordinator's key", out);
    let file = section.required_at("private_key_file", MY_KEY_FILE, "this client's key", out);
    let private_key = file.and_then(|file| source.read_beside(&file, read_key_file, out));
    Some(CoordinatorConfig { addresses: addresses?, public_key: public_key?, private_key: private_key? })
}

fn system(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Place> {
    let path = section.optional("resolv_conf", FILE.like("\"/etc/resolv.conf\""), out);
    let link = section.optional("resolved_link", INTERFACE, out);
    let domains = section.list("domains", ROUTING_DOMAIN, out);
    if section.has("resolv_conf") == section.has("resolved_link") {
        let remedy = "write resolved_link = \"psmc0\" where systemd-resolved runs, else resolv_conf = \"/etc/resolv.conf\"";
        out.push(Complaint::new("[system] takes one of two ways", remedy).at(section.place()));
        return None;
    }
    if let Some(path) = path {
        if let Some(place) = section.key_place("domains") {
            out.push(Complaint::new("a resolv.conf serves all domains", "remove `domains`").at(place));
        }
        return Some(Place::ResolvConf(source.beside(path)));
    }
    Some(Place::Resolved {
        link: link?.as_str().to_owned(),
        domains: domains.unwrap_or_else(|| vec!["~.".to_owned()]),
        program: "resolvectl".into(),
    })
}

/// The services, if each has a name of its own.
fn distinct(services: Vec<Option<ServiceConfig>>, out: &mut Vec<Complaint>) -> Option<Vec<ServiceConfig>> {
    let services: Vec<ServiceConfig> = services.into_iter().collect::<Option<_>>()?;
    for (index, service) in services.iter().enumerate() {
        if services[..index].iter().any(|other| other.name == service.name) {
            let reason = format!("duplicate service {}", service.name);
            out.push(Complaint::new(reason, "remove one of them"));
        }
    }
    Some(services)
}

fn existing(file: &Spanned<PathBuf>, source: &Source, out: &mut Vec<Complaint>) -> Option<PathBuf> {
    let path = source.beside(file.get_ref());
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

/// Networks from which questions are answered.
const CLIENTS: Kind<IpNet> = Kind::text("\"192.168.1.0/24\"", |text| parse_net(text).map(|net| net.trunc()));

/// The port of DNS over TLS (RFC 7858 §3.1).
const TLS_PORT: u16 = 853;

/// An upstream server.
const UPSTREAM: Kind<UpstreamAddress> = Kind::text("\"192.0.2.53\"", |text| {
    if let Some(rest) = text.strip_prefix("tls://") {
        let named = rest.split_once('#').filter(|(_, name)| !name.is_empty());
        let (address, name) = named.ok_or_else(|| {
            let remedy = "write the name in its certificate behind it: \"tls://192.0.2.53#dns.example.net\"";
            ValueError::new(format!("{text:?} does not say who the server is"), remedy)
        })?;
        let plain = address.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, TLS_PORT));
        let address = plain.or_else(|_| ADDRESS.read(address))?;
        return Ok(UpstreamAddress { address, transport: Transport::Tls(name.to_owned()) });
    }
    let (rest, transport) = match text.strip_prefix("tcp://") {
        Some(rest) => (rest, Transport::Tcp),
        None => (text, Transport::Udp),
    };
    Ok(UpstreamAddress { address: ADDRESS.read(rest)?, transport })
});

/// Where a coordinator is, and others that share its state and its key.
const COORDINATOR_ADDRESSES: Kind<Vec<SocketAddr>> = Kind::text("\"192.0.2.10:5117\"", |text| {
    let address = |one: &str| one.trim().parse().ok().filter(|address: &SocketAddr| address.port() != 0);
    text.split(',').map(address).collect::<Option<_>>().ok_or_else(|| {
        let remedy = "write the coordinator's address and port, such as \"192.0.2.10:5117\", and behind commas those of \
                      others that share its state";
        ValueError::new(format!("{text:?} is no address with a port"), remedy)
    })
});

/// An address of a host.
const IP: Kind<IpAddr> = Kind::text("\"10.77.0.1\"", |text| {
    let remedy = "write one without a port, such as \"10.77.0.1\"";
    text.parse().map_err(|_| ValueError::new(format!("{text:?} is no address"), remedy))
});

/// A domain for which systemd-resolved asks here.
const ROUTING_DOMAIN: Kind<String> = Kind::text("\"~.\"", |text| {
    let name = text.strip_prefix('~').unwrap_or(text);
    let is_name =
        hickory_proto::rr::Name::from_utf8(name).is_ok() && !name.is_empty() && !name.starts_with('-');
    is_name.then(|| text.to_owned()).ok_or_else(|| {
        let remedy = "write a domain as resolvectl takes it: \"~example.com\", or \"~.\" for all";
        ValueError::new(format!("{text:?} is no domain"), remedy)
    })
});

/// Memory for answers, in MiB.
const MIB: Kind<u32> = Kind::number("10", |text| psmc_toml::whole(text, 1..=4096));

/// How long an answer waits for the tunnel, in milliseconds.
const WAIT_MS: Kind<u32> = Kind::number("10", |text| psmc_toml::whole(text, 0..=10_000));

/// The path of its control socket.
const OWN_SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc-dns/local.sock\"", |text| socket_path(text, "/run/psmc-dns/local.sock"));
