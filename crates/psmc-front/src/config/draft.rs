//! Reading the file, section by section, and the values that only these files have.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderName;
use hyper::http::uri::PathAndQuery;
use ipnet::IpNet;
use psmc_toml::{
    Complaint, FILE, Kind, METRICS_ADDRESS, NAME, SWITCH, Section, SocketPath, Source, ValueError, describe,
    draft, parse_net, remedy_for, repeated, socket_path, within,
};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use toml::Spanned;
use toml::de::DeTable;

use super::{
    Class, Config, Forwarded, HealthPath, Hold, Limit, Limits, Listener, Tls, Upstream, UpstreamTls,
};
use crate::class::{Pair, Rule, Urgency};

const SECTIONS: &[&str] = &["front", "listener", "limits", "upstream", "class"];

/// Where sockets are.
pub(crate) const RUN_DIR: &str = "/run/psmc-front";

/// Classes at most: more cannot be told apart by measurement.
pub const MAX_CLASSES: usize = 64;

/// Servers at most: each is checked by itself.
pub const MAX_SERVERS: usize = 1024;

/// How long a head may take where the file says nothing: what slow lines need, and what idle connections may cost.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// How long a body may stand still where the file says nothing: nginx has the same.
const STALL_TIME: Duration = Duration::from_secs(60);

/// The largest head where the file says nothing: nginx takes 32 KiB in four buffers, servers behind often 8 or 16.
const HEAD_SIZE: usize = 16 * 1024;

/// The longest target where the file says nothing (RFC 9110, section 4.1, asks for 8,000 at least).
const URI_SIZE: usize = 8 * 1024;

/// Connections at a time where the file says nothing: each has a descriptor, and a request another one.
const CONNECTIONS: usize = 20_000;

/// How long requests may take to end where the file says nothing: systemd kills after 90 seconds.
const DRAIN_TIME: Duration = Duration::from_secs(30);

/// How long a connection to a server may take where the file says nothing: two lost SYNs.
const CONNECT_TIME: Duration = Duration::from_secs(4);

/// How long the head of an answer may take where the file says nothing: nginx has the same.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// How long a connection is kept where the file says nothing: less than most servers keep them.
const KEEP_TIME: Duration = Duration::from_secs(4);

/// How often health is checked where the file says nothing.
const HEALTH_INTERVAL: Duration = Duration::from_secs(5);

/// Requests of a class that may wait where the file says nothing.
const QUEUE: usize = 1024;

/// The configuration that a file describes; `None` if there are complaints.
pub(super) fn read(root: &DeTable<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Config> {
    let file = Section::open("the top of a file", 0..0, root, SECTIONS, out);
    for (section, remedy) in [
        ("front", r#"add [front] with name = "web""#),
        ("listener", r#"add [[listener]] with address = "[::]:80""#),
        ("upstream", r#"add [[upstream]] with servers = ["127.0.0.1:8080"]"#),
    ] {
        if !file.has(section) {
            out.push(Complaint::new(format!("the file has no section {section:?}"), remedy));
        }
    }
    let listeners = listeners(&file, source, out);
    let limits = file.only_section("limits", "[limits]", LimitsDraft::KEYS, "there is one [limits]", out);
    let limits = limits.map(|section| LimitsDraft::read(&section, out));
    let upstreams = upstreams(&file, source, out);
    let classes = classes(&file, &upstreams, out);
    let front = file.only_section("front", "[front]", FrontDraft::KEYS, "there is one [front]", out)?;
    let front = FrontDraft::read(&front, out);
    let name = front.name?;
    Some(Config {
        control_socket: match front.control_socket {
            Some(path) => path,
            // A name has 32 characters at most, and no slash.
            None => format!("{RUN_DIR}/{name}.sock").parse().expect("a name fits into the path of a socket"),
        },
        name,
        metrics: front.metrics,
        access_log: front.access_log,
        forwarded: front.forwarded,
        trusted: front.trusted,
        hold: front.hold,
        idling: front.idling,
        psmcd: front.psmcd,
        limits: limits.map_or_else(Limits::default, LimitsDraft::finish),
        listeners,
        upstreams,
        classes,
    })
}

draft! {
    /// `[front]`
    struct FrontDraft(section, out) {
        name: Option<psmc_toml::Name> = required(NAME.like("\"web\""), "what you call this front"),
        control_socket: Option<SocketPath> = optional(OWN_SOCKET),
        metrics: Option<SocketAddr> = optional(METRICS_ADDRESS.like("\"127.0.0.1:9120\"")),
        access_log: bool = optional(SWITCH).unwrap_or(false),
        forwarded: Forwarded = optional(Forwarded::KIND).unwrap_or(Forwarded::XForwarded),
        trusted: Vec<IpNet> = list(PREFIX).unwrap_or_default(),
        hold: Hold = optional(Hold::KIND).unwrap_or(Hold::ResponseTime),
        idling: bool = optional(SWITCH).unwrap_or(false),
        psmcd: Option<SocketPath> = optional(PSMCD_SOCKET),
    }
}

draft! {
    /// `[limits]`
    struct LimitsDraft(section, out) {
        head_time: Duration = optional(DURATION.like("\"30s\"")).unwrap_or(HEAD_TIME),
        stall_time: Duration = optional(DURATION.like("\"60s\"")).unwrap_or(STALL_TIME),
        head_size: usize = optional(HEAD_BYTES).unwrap_or(HEAD_SIZE),
        uri_size: usize = optional(URI_BYTES).unwrap_or(URI_SIZE),
        connections: usize = optional(COUNT.like("20000")).unwrap_or(CONNECTIONS),
        drain_time: Duration = optional(DURATION.like("\"30s\"")).unwrap_or(DRAIN_TIME),
    }
}

impl LimitsDraft {
    fn finish(self) -> Limits {
        Limits {
            head_time: self.head_time,
            stall_time: self.stall_time,
            head_size: self.head_size,
            uri_size: self.uri_size,
            connections: self.connections,
            drain_time: self.drain_time,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_time: HEAD_TIME,
            stall_time: STALL_TIME,
            head_size: HEAD_SIZE,
            uri_size: URI_SIZE,
            connections: CONNECTIONS,
            drain_time: DRAIN_TIME,
        }
    }
}

draft! {
    /// `[[listener]]`
    struct ListenerDraft(section, out, source: &Source) {
        address: Option<Spanned<SocketAddr>> = required_at(ADDRESS.like("\"[::]:443\""), "where clients connect"),
        ["tls"] tls: Option<Option<Tls>> = { section.has("tls").then(|| tls(section, source, out)) },
        proxy_protocol: bool = optional(SWITCH).unwrap_or(false),
    }
}

fn listeners(file: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Vec<Listener> {
    let sections = file.sections("listener", "[[listener]]", ListenerDraft::KEYS, out);
    let read = sections.iter().filter_map(|section| {
        let draft = ListenerDraft::read(section, source, out);
        let address = draft.address?;
        let tls = match draft.tls {
            None => None,
            Some(tls) => Some(tls?),
        };
        let at = address.span();
        let address = address.into_inner();
        Some(Spanned::new(at, Listener { address, tls, proxy_protocol: draft.proxy_protocol }))
    });
    let listeners: Vec<_> = read.collect();
    for (this, first) in repeated(&listeners, |listener| listener.get_ref().address) {
        let complaint = Complaint::new(format!("{} is there twice", this.get_ref().address), "remove one");
        out.push(complaint.at(this.span()).because_of(first.span(), "the first"));
    }
    listeners.into_iter().map(Spanned::into_inner).collect()
}

draft! {
    /// `tls = { certificate = "…", key = "…" }`
    struct TlsDraft(section, out) {
        certificate: Option<Spanned<PathBuf>> = required_at(FILE.like("\"fullchain.pem\""), "its file"),
        key: Option<Spanned<PathBuf>> = required_at(FILE.like("\"key.pem\""), "its file"),
    }
}

/// The protocols that are offered (RFC 7301), the better one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

fn tls(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<Tls> {
    let section = section.section("tls", "`tls`", TlsDraft::KEYS, out)?;
    let draft = TlsDraft::read(&section, out);
    let (file, key_file) = (draft.certificate?, draft.key?);
    let certificates = source.read_beside(&file, read_certificates, out);
    let key = source.read_beside(&key_file, read_key, out);
    let builder = ServerConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider has what both versions need")
        .with_no_client_auth();
    match builder.with_single_cert(certificates?, key?) {
        Ok(mut config) => {
            config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
            Some(Tls { certificate: file.into_inner(), config: Arc::new(config) })
        }
        Err(error) => {
            let reason = format!("this key and the certificate cannot be used together: {error}");
            let complaint = Complaint::new(reason, "name the key that the certificate was made for");
            out.push(complaint.at(key_file.span()).because_of(file.span(), "the certificate"));
            None
        }
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ValueError> {
    let remedy = "name a file that has it in PEM, its own certificate first";
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = read.map_err(|error| pem_error(path, &error, remedy))?;
    match certificates.is_empty() {
        true => Err(ValueError::new(format!("there is no certificate in {}", path.display()), remedy)),
        false => Ok(certificates),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, ValueError> {
    let remedy = "name a file that has it in PEM, without a password";
    PrivateKeyDer::from_pem_file(path).map_err(|error| pem_error(path, &error, remedy))
}

fn pem_error(path: &Path, error: &pem::Error, remedy: &str) -> ValueError {
    let shown = path.display();
    if let pem::Error::Io(error) = error {
        return ValueError::new(format!("cannot read {shown}: {}", describe(error)), remedy_for(error));
    }
    ValueError::new(format!("{shown} has not what it should: {error}"), remedy)
}

draft! {
    /// `[[upstream]]`
    struct UpstreamDraft(section, out, source: &Source) {
        name: Option<Spanned<psmc_toml::Name>> = optional_at(NAME.like("\"fast\"")),
        servers: Option<Vec<Spanned<SocketAddr>>> =
            list_at(ADDRESS).map(Spanned::into_inner),
        limit: Limit = optional(LIMIT).unwrap_or(Limit::Adaptive),
        h2: bool = optional(SWITCH).unwrap_or(false),
        ["tls"] tls: Option<Option<UpstreamTls>> = { section.has("tls").then(|| upstream_tls(section, source, out)) },
        connect_time: Duration = optional(DURATION.like("\"4s\"")).unwrap_or(CONNECT_TIME),
        answer_time: Duration = optional(DURATION.like("\"60s\"")).unwrap_or(ANSWER_TIME),
        keep_time: Duration = optional(DURATION.like("\"4s\"")).unwrap_or(KEEP_TIME),
        health_interval: Duration = optional(DURATION.like("\"5s\"")).unwrap_or(HEALTH_INTERVAL),
        health_path: Option<HealthPath> = optional(HEALTH_PATH),
    }
}

/// What a group of servers is called if it is the only one and the file does not say.
const ONLY_GROUP: &str = "servers";

fn upstreams(file: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Vec<Upstream> {
    let sections = file.sections("upstream", "[[upstream]]", UpstreamDraft::KEYS, out);
    let mut addresses: Vec<Spanned<SocketAddr>> = Vec::new();
    let mut upstreams: Vec<Spanned<Upstream>> = Vec::new();
    for section in &sections {
        let draft = UpstreamDraft::read(section, source, out);
        let servers = draft.servers.unwrap_or_default();
        if !section.has("servers") || section.empty_list("servers").is_some() {
            let remedy = r#"add servers = ["127.0.0.1:8080"], where they listen"#;
            out.push(Complaint::new("an [[upstream]] has servers", remedy).at(section.place()));
        }
        if draft.name.is_none() && sections.len() > 1 {
            let remedy = r#"add a name, such as name = "fast""#;
            out.push(
                Complaint::new("each of several [[upstream]] has a name of its own", remedy)
                    .at(section.place()),
            );
        }
        let (at, name) = match draft.name {
            Some(name) => (name.span(), name.into_inner()),
            None => (section.place(), ONLY_GROUP.parse().expect("it is seven letters")),
        };
        let upstream = Upstream {
            name,
            servers: servers.iter().map(|server| *server.get_ref()).collect(),
            limit: draft.limit,
            h2: draft.h2,
            tls: draft.tls.flatten().map(|tls| tls.for_protocol(draft.h2)),
            connect_time: draft.connect_time,
            answer_time: draft.answer_time,
            keep_time: draft.keep_time,
            health_interval: draft.health_interval,
            health_path: draft.health_path,
        };
        upstreams.push(Spanned::new(at, upstream));
        addresses.extend(servers);
    }
    for (this, first) in repeated(&addresses, |address| *address.get_ref()) {
        let complaint = Complaint::new(format!("{} is there twice", this.get_ref()), "remove one");
        out.push(complaint.at(this.span()).because_of(first.span(), "the first"));
    }
    if sections.len() == upstreams.len() && upstreams.len() > 1 {
        for (this, first) in repeated(&upstreams, |upstream| upstream.get_ref().name.clone()) {
            let complaint =
                Complaint::new(format!("duplicate upstream {}", this.get_ref().name), "rename one");
            out.push(complaint.at(this.span()).because_of(first.span(), "the first"));
        }
    }
    if addresses.len() > MAX_SERVERS {
        let reason = format!("{} servers are more than the {MAX_SERVERS} of a front", addresses.len());
        out.push(Complaint::new(reason, "put several fronts before them"));
    }
    upstreams.into_iter().map(Spanned::into_inner).collect()
}

draft! {
    /// `tls = { name = "…", ca = "…" }`
    struct UpstreamTlsDraft(section, out) {
        name: Option<ServerName<'static>> = optional(SERVER_NAME),
        ca: Option<Spanned<PathBuf>> = optional_at(FILE.like("\"ca.pem\"")),
    }
}

fn upstream_tls(section: &Section<'_>, source: &Source, out: &mut Vec<Complaint>) -> Option<UpstreamTls> {
    let section = section.section("tls", "`tls`", UpstreamTlsDraft::KEYS, out)?;
    let UpstreamTlsDraft { name, ca } = UpstreamTlsDraft::read(&section, out);
    let mut roots = RootCertStore::empty();
    let authorities = match &ca {
        Some(file) => source.read_beside(file, read_certificates, out)?,
        None => Vec::new(),
    };
    let (_, bad) = match &ca {
        Some(_) => roots.add_parsable_certificates(authorities.iter().cloned()),
        None => (roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs).0, 0),
    };
    if bad > 0 || roots.is_empty() {
        let (reason, at) = match &ca {
            Some(file) => ("what stands in this file cannot vouch for servers", file.span()),
            None => ("this system trusts no certificates", section.place()),
        };
        let remedy =
            "name a file with the certificate of who signs those of the servers, in PEM, by ca = \"ca.pem\"";
        out.push(Complaint::new(reason, remedy).at(at));
        return None;
    }
    let config = ClientConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider has what both versions need")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Some(UpstreamTls { name, authorities, config: Arc::new(config) })
}

impl UpstreamTls {
    /// What is said to be spoken (RFC 7301): a server that does not is none of these.
    fn for_protocol(mut self, is_h2: bool) -> Self {
        let protocol: &[u8] = if is_h2 { b"h2" } else { b"http/1.1" };
        Arc::make_mut(&mut self.config).alpn_protocols = vec![protocol.to_vec()];
        self
    }
}

draft! {
    /// `[[class]]`
    struct ClassDraft(section, out) {
        name: Option<Spanned<psmc_toml::Name>> = required_at(NAME.like("\"paying\""), "what you call this class"),
        ["match"] rule: Rule = { rule(section, out) },
        upstream: Option<Vec<Spanned<psmc_toml::Name>>> =
            list_at(NAME.like("\"fast\"")).map(Spanned::into_inner),
        ratio: f64 = optional(RATIO).unwrap_or(1.0),
        ["objective"] p99: Option<Duration> = { objective(section, out) },
        shed: bool = optional(SWITCH).unwrap_or(false),
        queue: usize = optional(COUNT.like("1024")).unwrap_or(QUEUE),
    }
}

/// The places of groups of these names, of all if none is named. They have to speak one protocol: a request is made ready for it.
fn groups_of(
    names: Option<&[Spanned<psmc_toml::Name>]>,
    upstreams: &[Upstream],
    at: std::ops::Range<usize>,
    out: &mut Vec<Complaint>,
) -> Vec<usize> {
    let mut groups = Vec::new();
    for name in names.unwrap_or_default() {
        match upstreams.iter().position(|upstream| upstream.name == *name.get_ref()) {
            Some(group) if groups.contains(&group) => {
                out.push(
                    Complaint::new(format!("upstream {} is there twice", name.get_ref()), "remove one")
                        .at(name.span()),
                );
            }
            Some(group) => groups.push(group),
            None => {
                let reason = format!("there is no upstream {}", name.get_ref());
                out.push(Complaint::new(reason, "name an [[upstream]] of this file").at(name.span()));
            }
        }
    }
    if names.is_none_or(<[_]>::is_empty) {
        groups = (0..upstreams.len()).collect();
    }
    let is_h2 = |group: &usize| upstreams[*group].h2;
    if groups.iter().any(is_h2) && !groups.iter().all(is_h2) {
        let reason = "servers of this class are asked some by HTTP/2 and some by HTTP/1.1";
        let remedy = "name groups by `upstream` that have the same `h2`";
        out.push(Complaint::new(reason, remedy).at(at));
    }
    groups
}

fn classes(file: &Section<'_>, upstreams: &[Upstream], out: &mut Vec<Complaint>) -> Vec<Class> {
    let sections = file.sections("class", "[[class]]", ClassDraft::KEYS, out);
    let read = sections.iter().filter_map(|section| {
        let ClassDraft { name, rule, upstream, ratio, p99, shed, queue } = ClassDraft::read(section, out);
        let upstreams = groups_of(upstream.as_deref(), upstreams, section.place(), out);
        let name = name?;
        let at = name.span();
        Some(Spanned::new(at, Class { name: name.into_inner(), rule, upstreams, ratio, p99, shed, queue }))
    });
    let classes: Vec<_> = read.collect();
    for (this, first) in repeated(&classes, |class| class.get_ref().name.clone()) {
        let complaint = Complaint::new(format!("duplicate class {}", this.get_ref().name), "rename one");
        out.push(complaint.at(this.span()).because_of(first.span(), "the first"));
    }
    if let Some((last, others)) = classes.split_last() {
        for early in others.iter().filter(|class| class.get_ref().rule.fits_all()) {
            let reason =
                format!("all requests are of class {}, and none of those below", early.get_ref().name);
            out.push(Complaint::new(reason, "add a `match`, or move it to the end").at(early.span()));
        }
        if !last.get_ref().rule.fits_all() {
            let reason = format!(
                "requests that match no class have none: the last, {}, has a `match`",
                last.get_ref().name
            );
            let remedy = r#"add a [[class]] without `match` at the end, such as name = "rest""#;
            out.push(Complaint::new(reason, remedy).at(last.span()));
        }
    }
    if classes.len() > MAX_CLASSES {
        let reason = format!("{} classes are more than the {MAX_CLASSES} of a front", classes.len());
        out.push(Complaint::new(reason, "join some of them"));
    }
    if sections.is_empty() {
        let name = "all".parse().expect("it is three letters");
        let upstreams = groups_of(None, upstreams, file.place(), out);
        let rule = Rule::default();
        let class = Class { name, rule, upstreams, ratio: 1.0, p99: None, shed: false, queue: QUEUE };
        return vec![class];
    }
    classes.into_iter().map(Spanned::into_inner).collect()
}

draft! {
    /// `match = { cookie = "tier=gold" }`
    struct RuleDraft(section, out) {
        cookie: Option<Pair<String>> = optional(COOKIE),
        header: Option<Pair<HeaderName>> = optional(HEADER),
        path: Option<String> = optional(PATH),
        source: Option<Vec<IpNet>> = list(PREFIX),
        peer: Option<psmc_toml::Name> = optional(NAME.like("\"hq\"")),
        urgency: Option<Urgency> = optional(URGENCY),
    }
}

fn rule(section: &Section<'_>, out: &mut Vec<Complaint>) -> Rule {
    let Some(section) = section.section("match", "`match`", RuleDraft::KEYS, out) else {
        return Rule::default();
    };
    let RuleDraft { cookie, header, path, source, peer, urgency } = RuleDraft::read(&section, out);
    Rule { cookie, header, path, sources: source.unwrap_or_default(), peer, urgency }
}

draft! {
    /// `objective = { p99 = "300ms" }`
    struct ObjectiveDraft(section, out) {
        p99: Option<Duration> = required(DURATION, "what 99 % of its answers should keep"),
    }
}

fn objective(section: &Section<'_>, out: &mut Vec<Complaint>) -> Option<Duration> {
    let section = section.section("objective", "`objective`", ObjectiveDraft::KEYS, out)?;
    ObjectiveDraft::read(&section, out).p99
}

/// An address and a port.
const ADDRESS: Kind<SocketAddr> = Kind::text("\"127.0.0.1:8080\"", |text| {
    let address = text.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
    let remedy = "write an address and a port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"";
    address.ok_or_else(|| ValueError::new(format!("{text:?} is no address and port"), remedy))
});

/// The name in the certificate of a server.
const SERVER_NAME: Kind<ServerName<'static>> = Kind::text("\"web.example.org\"", |text| {
    let remedy = "write the name that stands in the certificates, such as \"web.example.org\"";
    ServerName::try_from(text.to_owned())
        .map_err(|_| ValueError::new(format!("{text:?} is no name of a server"), remedy))
});

/// Addresses of clients.
const PREFIX: Kind<IpNet> = Kind::text("\"192.0.2.0/24\"", |text| {
    let net = text.parse::<IpAddr>().map(IpNet::from);
    net.or_else(|_| parse_net(text)).map(|net| net.trunc())
});

/// A time: milliseconds or seconds. A day is more than anybody waits.
const DURATION: Kind<Duration> = Kind::text("\"300ms\"", |text| {
    let most = Duration::from_secs(24 * 3600);
    let (number, unit) = psmc_toml::number_and_unit(text);
    let number = number.parse::<u64>().ok();
    let time = match unit {
        "ms" => number.map(Duration::from_millis),
        "s" => number.map(Duration::from_secs),
        "min" => number.and_then(|minutes| minutes.checked_mul(60)).map(Duration::from_secs),
        _ => None,
    };
    let remedy = "write a whole number and a unit, such as \"300ms\", \"5s\" or \"1min\"";
    time.filter(|time| !time.is_zero() && *time <= most)
        .ok_or_else(|| ValueError::new(format!("{text:?} is no time for this"), remedy))
});

/// How many of something that a machine has room for.
const COUNT: Kind<usize> = Kind::number("1024", |text| {
    let remedy = "write a number from 1 to 1000000";
    within(text, 1..=1_000_000, format_args!("{text} is out of bounds here"), remedy)
});

/// The size of a head. hyper's buffers have 8 KiB at least, and ours 64.
const HEAD_BYTES: Kind<usize> = Kind::number("16384", |text| {
    let remedy = "write a number of bytes from 1024 to 65536";
    within(text, 1024..=crate::listener::BUFFER, format_args!("{text} bytes are out of bounds here"), remedy)
});

/// The length of a target.
const URI_BYTES: Kind<usize> = Kind::number("8192", |text| {
    let remedy = "write a number of bytes from 64 to 65534";
    within(text, 64..=65_534, format_args!("{text} bytes are out of bounds here"), remedy)
});

/// How many requests a server has at a time.
const LIMIT: Kind<Limit> = Kind::text_or_number("\"adaptive\"", |text| {
    if text == "adaptive" {
        return Ok(Limit::Adaptive);
    }
    let remedy = "write \"adaptive\", or a number from 1 to 1000000";
    within(text, 1..=1_000_000, format_args!("{text} is no limit"), remedy).map(Limit::Fixed)
});

/// The ratio of a class.
const RATIO: Kind<f64> = Kind::decimal("3", |text| {
    let remedy = "write a number from 0.001 to 1000";
    within(text, 0.001..=1000.0, format_args!("{text} is no ratio"), remedy)
});

/// A cookie.
const COOKIE: Kind<Pair<String>> = Kind::text("\"tier=gold\"", |text| {
    let remedy =
        "write a name, an equals sign and a value, such as \"tier=gold\"; only a name fits any value";
    Pair::cookie(text).ok_or_else(|| ValueError::new(format!("{text:?} is no cookie"), remedy))
});

/// A field of a head.
const HEADER: Kind<Pair<HeaderName>> = Kind::text("\"x-tier: gold\"", |text| {
    let remedy = "write a name, a colon and a value, such as \"x-tier: gold\"; only a name fits any value";
    Pair::field(text).ok_or_else(|| ValueError::new(format!("{text:?} is no header"), remedy))
});

/// The beginning of a path.
const PATH: Kind<String> = Kind::text("\"/api/\"", |text| {
    let is_path = text.starts_with('/') && PathAndQuery::try_from(text).is_ok_and(|path| path.path() == text);
    let remedy = "write how the paths begin, from the root, such as \"/api/\"";
    is_path
        .then(|| text.to_owned())
        .ok_or_else(|| ValueError::new(format!("{text:?} is not the beginning of a path"), remedy))
});

/// What is asked of a server to see whether it is well.
const HEALTH_PATH: Kind<HealthPath> = Kind::text("\"/health\"", |text| {
    let path = text.parse::<PathAndQuery>().ok().filter(|_| text.starts_with('/'));
    let remedy = "write what can be asked for, from the root, such as \"/health\"";
    path.map(HealthPath).ok_or_else(|| ValueError::new(format!("{text:?} is no path"), remedy))
});

/// Urgencies.
const URGENCY: Kind<Urgency> = Kind::text_or_number("\"0-2\"", |text| {
    let remedy = "write a number from 0, the most urgent, to 7, or a range such as \"0-2\" (RFC 9218)";
    Urgency::parse(text).ok_or_else(|| ValueError::new(format!("{text:?} is no urgency"), remedy))
});

/// The path of its control socket.
const OWN_SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc-front/web.sock\"", |text| socket_path(text, "/run/psmc-front/web.sock"));

/// Where psmcd is asked.
const PSMCD_SOCKET: Kind<SocketPath> =
    Kind::text("\"/run/psmc/van.sock\"", |text| socket_path(text, "/run/psmc/van.sock"));
