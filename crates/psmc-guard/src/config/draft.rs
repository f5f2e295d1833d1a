//! Reading the file, section by section.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use psmc_net::keys::PrivateKey;
use psmc_toml::{
    Complaint, InterfaceName, KeyFile, Name, PublicKeyText, Section, SocketPath, Source, Switch,
    read_key_file,
};
use toml::Spanned;
use toml::de::DeTable;

use super::value::{
    Bits, Endpoint, Factor, FilePath, LocalAddress, PerSecond, Seconds, ServiceName, ServicePort, Share,
    Target,
};
use super::{Config, Coordinator, Defence, Line, Service};
use crate::detect::{Policy, Sample, Signal};

const SECTIONS: &[&str] = &["guard", "coordinator", "service", "line", "defence"];

const GUARD_KEYS: &[&str] = &[
    "name",
    "private_key_file",
    "interfaces",
    "gateway",
    "signal_interface",
    "signal_address",
    "learning",
    "calm",
    "factor",
    "state_file",
    "control_socket",
    "metrics",
];

const LIMIT_KEYS: &[&str] = &["packets", "bits", "syns", "new_sources", "loss"];

/// Where the state of guards is kept that have no place of their own.
const STATE_DIR: &str = "/var/lib/psmc-guard";

/// Where their sockets are.
pub(crate) const RUN_DIR: &str = "/run/psmc-guard";

/// Services at most: each has a quarter of a megabyte of sources, and a look at every packet.
const MAX_SERVICES: usize = 256;

/// The configuration that a file describes; `None` if there are complaints.
pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    let file = Section::open("the top of a file", 0..0, root, SECTIONS, out);
    let coordinators = each(file.tables("coordinator", "[[coordinator]]", out), out, coordinator);
    let lines = each(file.tables("line", "[[line]]", out), out, line);
    let services = file.tables("service", "[[service]]", out);
    if !file.has("service") {
        let remedy = r#"add [[service]] with name = "www.example.com" and targets = ["203.0.113.10"]"#;
        out.push(Complaint::new("the guard would protect nothing: the file has no [[service]]", remedy));
    }
    if services.len() > MAX_SERVICES {
        let reason =
            format!("{} services are more than the {MAX_SERVICES} that one guard watches", services.len());
        out.push(Complaint::new(reason, "let several guards share them, or join services to prefixes"));
    }
    let defence = match file.table("defence", out) {
        Some((place, table)) => defence(place, table, &lines, out),
        None => Defence::default(),
    };
    let Some((place, table)) = file.table("guard", out) else {
        if !file.has("guard") {
            let remedy = r#"add [guard] with name = "hq", private_key_file and interfaces = ["eth0"]"#;
            out.push(Complaint::new("the file has no [guard], which says who this is", remedy));
        }
        return None;
    };
    let section = Section::open("[guard]", place, table, GUARD_KEYS, out);
    let policy = policy(&section, out);
    let services = each(services, out, |place, table, out| service(place, table, &policy, out));
    no_two_alike(&services, out);
    let services = services.into_iter().map(Spanned::into_inner).collect();
    guard(&section, source, out).map(|config| Config { coordinators, services, lines, defence, ..config })
}

fn each<'a, T>(
    tables: Vec<(Range<usize>, &'a DeTable<'a>)>,
    out: &mut Vec<Complaint>,
    read: impl Fn(Range<usize>, &'a DeTable<'a>, &mut Vec<Complaint>) -> Option<T>,
) -> Vec<T> {
    tables.into_iter().filter_map(|(place, table)| read(place, table, out)).collect()
}

/// All that `[guard]` says; the other sections are empty.
fn guard(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    let name = plain(section.required::<Name>("name", "what you call this guard", out));
    let private_key = private_key(section, source, out);
    let interfaces = section.list::<InterfaceName>("interfaces", out);
    if !section.has("interfaces") || section.is_empty_list("interfaces") {
        let remedy = r#"add interfaces = ["eth0"], those by which the services are reached"#;
        out.push(section.missing("interfaces", remedy));
    }
    let gateway = plain(section.optional::<SocketPath>("gateway", out));
    let signal_interface = plain(section.optional::<InterfaceName>("signal_interface", out));
    let signal_address = plain(section.optional::<LocalAddress>("signal_address", out));
    let state_file = plain(section.optional::<FilePath>("state_file", out));
    let control_socket = plain(section.optional::<SocketPath>("control_socket", out));
    let metrics = plain(section.optional::<Endpoint>("metrics", out));
    let name = name?;
    let state_file = state_file.map(|file| source.directory().join(file.0));
    Some(Config {
        state_file: state_file.unwrap_or_else(|| PathBuf::from(STATE_DIR).join(format!("{name}.json"))),
        control_socket: match control_socket {
            Some(path) => path,
            // A name has 32 characters at most, and no slash.
            None => format!("{RUN_DIR}/{name}.sock").parse().expect("a name fits into the path of a socket"),
        },
        name,
        private_key: private_key?,
        interfaces: interfaces?.into_inner().into_iter().map(Spanned::into_inner).collect(),
        gateway,
        signal_interface,
        signal_address: signal_address.map(|address| address.0),
        metrics: metrics.map(|address| address.0),
        coordinators: Vec::new(),
        services: Vec::new(),
        lines: Vec::new(),
        defence: Defence::default(),
    })
}

fn private_key(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<PrivateKey> {
    let remedy = "and make that file with `umask 077; psmc genkey > FILE`";
    let file = section.required::<KeyFile>("private_key_file", remedy, out)?;
    let path = source.directory().join(&file.get_ref().0);
    read_key_file(&path).map_err(|error| out.push(Complaint::of_value(&error, file.span()))).ok()
}

/// How all services are judged that say nothing else.
fn policy(section: &Section<'_>, out: &mut Vec<Complaint>) -> Policy {
    let default = Policy::default();
    let seconds = |value: Option<Spanned<Seconds>>, default| {
        plain(value).map_or(default, |seconds| Duration::from_secs(seconds.0.into()))
    };
    Policy {
        factor: plain(section.optional::<Factor>("factor", out)).map_or(default.factor, |factor| factor.0),
        learning: seconds(section.optional("learning", out), default.learning),
        calm: seconds(section.optional("calm", out), default.calm),
        fixed: default.fixed,
    }
}

fn coordinator(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Option<Coordinator> {
    let section = Section::open("[[coordinator]]", place, table, &["address", "public_key"], out);
    let address = section.required::<Endpoint>("address", "where it takes guards", out);
    let public_key = section.required::<PublicKeyText>("public_key", "what `psmc pubkey` prints there", out);
    Some(Coordinator { address: plain(address)?.0, public_key: plain(public_key)?.0 })
}

fn line(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Option<Line> {
    let section = Section::open("[[line]]", place, table, &["interface", "address"], out);
    let interface = section.required::<InterfaceName>("interface", "that of the hidden line", out);
    let address = plain(section.optional::<LocalAddress>("address", out));
    Some(Line { interface: plain(interface)?, address: address.map(|address| address.0) })
}

fn service(
    place: Range<usize>,
    table: &DeTable<'_>,
    policy: &Policy,
    out: &mut Vec<Complaint>,
) -> Option<Spanned<Service>> {
    let section = Section::open("[[service]]", place, table, &["name", "targets", "ports", "limit"], out);
    let name = section.required::<ServiceName>("name", "as DNS has it", out);
    let targets = section.list::<Target>("targets", out);
    if !section.has("targets") || section.is_empty_list("targets") {
        out.push(section.missing("targets", r#"add targets = ["203.0.113.10"], its addresses"#));
    }
    let ports = section.list::<ServicePort>("ports", out);
    let fixed =
        section.table("limit", out).map_or_else(Sample::default, |(place, table)| limits(place, table, out));
    let name = name?;
    let span = name.span();
    let service = Service {
        name: name.into_inner().0,
        targets: targets?.into_inner().into_iter().map(|target| target.into_inner().0).collect(),
        ports: ports.map_or_else(Vec::new, |ports| {
            ports.into_inner().into_iter().map(|port| port.into_inner().0).collect()
        }),
        policy: Policy { fixed, ..policy.clone() },
    };
    Some(Spanned::new(span, service))
}

fn limits(place: Range<usize>, table: &DeTable<'_>, out: &mut Vec<Complaint>) -> Sample {
    let section = Section::open("`limit`", place, table, LIMIT_KEYS, out);
    let limits = Signal::ALL.into_iter().filter_map(|signal| {
        let key = signal.name();
        let limit = match signal {
            Signal::Packets | Signal::Syns | Signal::NewSources => {
                plain(section.optional::<PerSecond>(key, out))?.0
            }
            Signal::Bits => plain(section.optional::<Bits>(key, out))?.0,
            Signal::Loss => plain(section.optional::<Share>(key, out))?.0,
        };
        Some((signal, limit))
    });
    limits.collect()
}

fn defence(place: Range<usize>, table: &DeTable<'_>, lines: &[Line], out: &mut Vec<Complaint>) -> Defence {
    let section = Section::open("[defence]", place, table, &["nftables", "relays"], out);
    let nftables = plain(section.optional::<Switch>("nftables", out)).is_some_and(|switch| switch.0);
    if nftables && lines.is_empty() {
        let remedy = r#"add [[line]] with interface = "eth1", by which nothing but relays may come"#;
        out.push(Complaint::new("there is no hidden line to be defended", remedy).at(section.place()));
    }
    let relays = section.list::<Target>("relays", out).map_or_else(Vec::new, Spanned::into_inner);
    Defence { nftables, relays: relays.into_iter().map(|relay| relay.into_inner().0).collect() }
}

fn no_two_alike(services: &[Spanned<Service>], out: &mut Vec<Complaint>) {
    for (index, this) in services.iter().enumerate() {
        if let Some(other) =
            services[..index].iter().find(|other| other.get_ref().name == this.get_ref().name)
        {
            let reason = format!("there are two services {}", this.get_ref().name);
            let complaint = Complaint::new(reason, "list all targets in one of them").at(this.span());
            out.push(complaint.because_of(other.span(), "the first"));
        }
    }
}

fn plain<T>(value: Option<Spanned<T>>) -> Option<T> {
    value.map(Spanned::into_inner)
}
