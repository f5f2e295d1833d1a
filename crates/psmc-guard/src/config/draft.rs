//! Reading the file, section by section, and the values that only a guard's file has.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use psmc_toml::{
    Complaint, INTERFACE, Kind, NAME, PUBLIC_KEY, SOCKET, SWITCH, Section, SocketPath, Source, ValueError,
    bits_per_second, parse_net, repeated, socket_path, within,
};
use toml::Spanned;
use toml::de::DeTable;

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

const SERVICE_KEYS: &[&str] = &["name", "targets", "ports", "limit"];

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
    let coordinators = file.sections("coordinator", "[[coordinator]]", &["address", "public_key"], out);
    let coordinators = coordinators.iter().filter_map(|section| coordinator(section, out)).collect();
    let lines = file.sections("line", "[[line]]", &["interface", "address"], out);
    let lines: Vec<Line> = lines.iter().filter_map(|section| line(section, out)).collect();
    let services = file.sections("service", "[[service]]", SERVICE_KEYS, out);
    if !file.has("service") {
        let remedy = r#"add [[service]] with name = "www.example.com" and targets = ["203.0.113.10"]"#;
        out.push(Complaint::new("the guard would protect nothing: the file has no [[service]]", remedy));
    }
    if services.len() > MAX_SERVICES {
        let reason =
            format!("{} services are more than the {MAX_SERVICES} that one guard watches", services.len());
        out.push(Complaint::new(reason, "let several guards share them, or join services to prefixes"));
    }
    let defence = match file.section("defence", "[defence]", &["nftables", "relays"], out) {
        Some(section) => defence(&section, &lines, out),
        None => Defence::default(),
    };
    let Some(section) = file.section("guard", "[guard]", GUARD_KEYS, out) else {
        if !file.has("guard") {
            let remedy = r#"add [guard] with name = "hq", private_key_file and interfaces = ["eth0"]"#;
            out.push(Complaint::new("the file has no [guard] section", remedy));
        }
        return None;
    };
    let policy = policy(&section, out);
    let services: Vec<Spanned<Service>> =
        services.iter().filter_map(|section| service(section, &policy, out)).collect();
    no_two_alike(&services, out);
    let services = services.into_iter().map(Spanned::into_inner).collect();
    guard(&section, source, out).map(|config| Config { coordinators, services, lines, defence, ..config })
}

/// All that `[guard]` says; the other sections are empty.
fn guard(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    let name = section.required("name", NAME, "what you call this guard", out);
    let private_key = section.private_key("private_key_file", "\"/etc/psmc-guard/hq.key\"", source, out);
    let remedy = r#"add interfaces = ["eth0"], those by which the services are reached"#;
    let interfaces = section.some_of("interfaces", INTERFACE, remedy, out);
    let gateway = section.optional("gateway", SOCKET, out);
    let signal_interface = section.optional("signal_interface", INTERFACE, out);
    let signal_address = section.optional("signal_address", LOCAL_ADDRESS, out);
    let state_file = section.optional("state_file", STATE_FILE, out).map(|file| source.beside(file));
    let control_socket = section.optional("control_socket", OWN_SOCKET, out);
    let metrics = section.optional("metrics", ENDPOINT, out);
    let name = name?;
    Some(Config {
        state_file: state_file.unwrap_or_else(|| PathBuf::from(STATE_DIR).join(format!("{name}.json"))),
        control_socket: match control_socket {
            Some(path) => path,
            // A name has 32 characters at most, and no slash.
            None => format!("{RUN_DIR}/{name}.sock").parse().expect("a name fits into the path of a socket"),
        },
        name,
        private_key: private_key?,
        interfaces: interfaces?,
        gateway,
        signal_interface,
        signal_address,
        metrics,
        coordinators: Vec::new(),
        services: Vec::new(),
        lines: Vec::new(),
        defence: Defence::default(),
    })
}

/// How all services are judged that say nothing else.
fn policy(section: &Section<'_>, out: &mut Vec<Complaint>) -> Policy {
    let default = Policy::default();
    Policy {
        factor: section.optional("factor", FACTOR, out).unwrap_or(default.factor),
        learning: section.optional("learning", SECONDS, out).unwrap_or(default.learning),
        calm: section.optional("calm", SECONDS, out).unwrap_or(default.calm),
        fixed: default.fixed,
    }
}

fn coordinator(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Coordinator> {
    let address = section.required("address", ENDPOINT, "where it takes guards", out);
    let public_key = section.required("public_key", PUBLIC_KEY, "what `psmc pubkey` prints there", out);
    Some(Coordinator { address: address?, public_key: public_key? })
}

fn line(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Line> {
    let interface = section.required("interface", INTERFACE, "that of the hidden line", out);
    let address = section.optional("address", LOCAL_ADDRESS, out);
    Some(Line { interface: interface?, address })
}

fn service(section: &Section<'_>, policy: &Policy, out: &mut Vec<Complaint>) -> Option<Spanned<Service>> {
    let name = section.required_at("name", SERVICE_NAME, "as DNS has it", out);
    let remedy = r#"add targets = ["203.0.113.10"], its addresses"#;
    let targets = section.some_of("targets", TARGET, remedy, out);
    let ports = section.list("ports", SERVICE_PORT, out).unwrap_or_default();
    let limit = section.section("limit", "`limit`", LIMIT_KEYS, out);
    let fixed = limit.map_or_else(Sample::default, |section| limits(&section, out));
    let name = name?;
    let policy = Policy { fixed, ..policy.clone() };
    Some(Spanned::new(name.span(), Service { name: name.into_inner(), targets: targets?, ports, policy }))
}

fn limits(section: &Section<'_>, out: &mut Vec<Complaint>) -> Sample {
    let limits = Signal::ALL.into_iter().filter_map(|signal| {
        let kind = match signal {
            Signal::Packets | Signal::Syns | Signal::NewSources => PER_SECOND,
            Signal::Bits => BITS,
            Signal::Loss => SHARE,
        };
        Some((signal, section.optional(signal.name(), kind, out)?))
    });
    limits.collect()
}

fn defence(section: &Section<'_>, lines: &[Line], out: &mut Vec<Complaint>) -> Defence {
    let nftables = section.optional("nftables", SWITCH, out).unwrap_or(false);
    if nftables && lines.is_empty() {
        let remedy = r#"add [[line]] with interface = "eth1", by which nothing but relays may come"#;
        out.push(Complaint::new("[defence] needs at least one [[line]]", remedy).at(section.place()));
    }
    Defence { nftables, relays: section.list("relays", TARGET, out).unwrap_or_default() }
}

fn no_two_alike(services: &[Spanned<Service>], out: &mut Vec<Complaint>) {
    for (this, first) in repeated(services, |service| &service.get_ref().name) {
        let reason = format!("duplicate service {}", this.get_ref().name);
        let complaint = Complaint::new(reason, "list all targets in one of them").at(this.span());
        out.push(complaint.because_of(first.span(), "the first"));
    }
}

/// A name of DNS, in lower case and without the dot at the end.
const SERVICE_NAME: Kind<String> = Kind::text("\"www.example.com\"", |text| {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let is_label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    // RFC 1035 §2.3.4.
    if name.len() <= 253 && name.split('.').all(is_label) {
        return Ok(name);
    }
    let remedy = "write the name by which the service is reached, such as \"www.example.com\"";
    Err(ValueError::new(format!("{text:?} is no name of DNS"), remedy))
});

/// An address, or a prefix of addresses.
const TARGET: Kind<IpNet> = Kind::text("\"203.0.113.10\"", |text| {
    let net = text.parse::<IpAddr>().map(IpNet::from);
    net.or_else(|_| parse_net(text)).map(|net| net.trunc())
});

/// A port of a service.
const SERVICE_PORT: Kind<u16> = Kind::number("443", |text| {
    within(text, 1..=u16::MAX, format_args!("{text} is not a port"), "a port is a number from 1 to 65535")
});

/// An address and a port.
const ENDPOINT: Kind<SocketAddr> = Kind::text("\"198.51.100.9:5117\"", |text| {
    let address = text.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
    let remedy = "write address and port, such as \"198.51.100.9:5117\": names may not resolve in an attack";
    address.ok_or_else(|| ValueError::new(format!("{text:?} is no address and port"), remedy))
});

/// An address of this machine.
const LOCAL_ADDRESS: Kind<IpAddr> = Kind::text("\"192.0.2.7\"", |text| {
    let remedy = "write an address of this machine, such as \"192.0.2.7\", without a length";
    text.parse().map_err(|_| ValueError::new(format!("{text:?} is no address"), remedy))
});

/// The path of the file in which the state is kept.
const STATE_FILE: Kind<PathBuf> = Kind::text("\"/var/lib/psmc-guard/hq.json\"", |text| {
    if text.is_empty() || text.ends_with('/') || text.contains('\0') {
        let remedy = "name a file, such as \"/var/lib/psmc-guard/hq.json\"";
        return Err(ValueError::new(format!("{text:?} is not the path of a file"), remedy));
    }
    Ok(text.into())
});

/// A time in seconds.
const SECONDS: Kind<Duration> = Kind::number("60", |text| {
    let remedy = "write seconds, from 1 to 86400, which is a day";
    within(text, 1..=86_400, format_args!("{text} s is no time for this"), remedy).map(Duration::from_secs)
});

/// How many times what is usual is too much.
const FACTOR: Kind<f64> = Kind::decimal("3", |text| {
    let remedy = "write a number from 1.2 to 1000; 3 lets a service have twice its visitors";
    within(text, 1.2..=1000.0, format_args!("{text} is no factor for this"), remedy)
});

/// So many per second.
const PER_SECOND: Kind<f64> = Kind::decimal("20000", |text| {
    let remedy = "write a number from 1 on, such as 20000";
    within(text, 1.0..=1e12, format_args!("{text} per second is no limit"), remedy)
});

/// So many bits per second.
const BITS: Kind<f64> = Kind::text("\"80mbit\"", |text| {
    let bits = bits_per_second(text)?;
    if bits == 0 {
        return Err(ValueError::new("every bit would be an attack", "write a rate, such as \"80mbit\""));
    }
    #[expect(clippy::cast_precision_loss, reason = "nobody measures rates to sixteen digits")]
    Ok(bits as f64)
});

/// A share of packets: neither none nor all of them.
const SHARE: Kind<f64> = Kind::decimal("0.2", |text| {
    let share = text.parse().ok().filter(|share| *share > 0.0 && *share < 1.0);
    let remedy = "write a number between 0 and 1, such as 0.2";
    share.ok_or_else(|| ValueError::new(format!("{text} is no share of packets"), remedy))
});

/// The path of its control socket.
const OWN_SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc-guard/hq.sock\"", |text| socket_path(text, "/run/psmc-guard/hq.sock"));
