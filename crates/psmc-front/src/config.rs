//! The configuration of a front: one TOML file, checked to the last value before anything is started.

mod draft;

use std::fmt::{self, Debug, Display};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use psmc_toml::{ConfigError, Dialect, Name, SocketPath, Source, choice};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ServerConfig};

pub use draft::{MAX_CLASSES, MAX_SERVERS};

pub(crate) use draft::RUN_DIR;

use crate::class::Rule;

impl Config {
    /// Reads and checks a file. Relative paths in it are taken from the directory that it is in.
    ///
    /// # Errors
    /// [`ConfigError`], with everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Source::read(&DIALECT, path)?.check(draft::read)
    }

    /// Checks a text; `path` is what complaints call it, and where its relative paths start.
    ///
    /// # Errors
    /// [`ConfigError`], with everything that is wrong with it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        Source::new(&DIALECT, path, text).check(draft::read)
    }
}

/// How complaints speak of these files.
static DIALECT: Dialect = Dialect {
    kind: "a configuration of psmc-front",
    // A thousand servers and all classes have a tenth of it.
    max_mib: 1,
    missing_remedy: "check the path; configurations are usually kept in /etc/psmc-front",
    secret_key: None,
    section: "[front]",
    sections: "[[class]]",
    setting: r#"name = "web""#,
    list: r#"["127.0.0.1:8080", "127.0.0.1:8081"]"#,
};

/// A whole file.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What the front is called.
    pub name: Name,
    /// Where `psmc-front status` asks.
    pub control_socket: SocketPath,
    /// Where it answers Prometheus.
    pub metrics: Option<SocketAddr>,
    /// Whether each answer has a line in the log.
    pub access_log: bool,
    /// Which fields tell servers who asks.
    pub forwarded: Forwarded,
    /// Proxies whose word about their clients is passed on.
    pub trusted: Vec<IpNet>,
    /// What ratios are held of.
    pub hold: Hold,
    /// Whether requests are kept back although servers have room, where ratios cannot be held otherwise.
    pub idling: bool,
    /// Where psmcd is asked for the addresses of its peers; the only one of this machine if the file does not say.
    pub psmcd: Option<SocketPath>,
    /// What clients may ask of it.
    pub limits: Limits,
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// The groups of servers; at least one, and no two of a name.
    pub upstreams: Vec<Upstream>,
    /// The classes, of which the first whose rule fits a request is its own; the last fits all.
    pub classes: Vec<Class>,
}

choice! {
    /// Which fields tell servers who asks.
    pub enum Forwarded: "kind of field", such as "x-forwarded" {
        /// `X-Forwarded-For`, `-Proto` and `-Host`, which most servers know.
        XForwarded = "x-forwarded",
        /// `Forwarded` (RFC 7239).
        Rfc7239 = "forwarded",
        /// All of them.
        Both = "both",
    }
}

choice! {
    /// What ratios are held of.
    pub enum Hold: "thing to hold ratios of", such as "slowdown" {
        /// The time from a request's arrival to its answer.
        ResponseTime = "response-time",
        /// That over the time which the server takes: whoever asks for little waits little.
        Slowdown = "slowdown",
    }
}

/// What clients may ask of a front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long the head of a request may take, and how long a connection may be idle before it.
    pub head_time: Duration,
    /// How long a body may stand still, whoever is to go on with it.
    pub stall_time: Duration,
    /// The largest head of a request, in bytes.
    pub head_size: usize,
    /// The longest target of a request, in bytes.
    pub uri_size: usize,
    /// Connections of clients at a time.
    pub connections: usize,
    /// How long requests may take to end when the front is stopped.
    pub drain_time: Duration,
}

/// Where clients connect, `[[listener]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// The local address and port.
    pub address: SocketAddr,
    /// The certificate, if TLS is spoken there.
    pub tls: Option<Tls>,
    /// Whether each connection begins with who its client is, by the PROXY protocol.
    pub proxy_protocol: bool,
}

/// A certificate, with its key.
#[derive(Clone)]
pub struct Tls {
    /// The file with the certificate and those that vouch for it.
    pub certificate: PathBuf,
    /// What a connection is accepted by.
    pub config: Arc<ServerConfig>,
}

impl Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// A certificate that was read anew may be another one in a file of the same name.
impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

/// A group of servers that are alike, `[[upstream]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// What people call it.
    pub name: Name,
    /// Their addresses.
    pub servers: Vec<SocketAddr>,
    /// How many requests each has at a time.
    pub limit: Limit,
    /// Whether HTTP/2 is spoken to them, without asking first.
    pub h2: bool,
    /// How they are known, if TLS is spoken to them.
    pub tls: Option<UpstreamTls>,
    /// How long a connection to one may take.
    pub connect_time: Duration,
    /// How long the head of an answer may take.
    pub answer_time: Duration,
    /// How long a connection is kept for the next request.
    pub keep_time: Duration,
    /// How often its health is checked.
    pub health_interval: Duration,
    /// What is asked of it then; where there is none, one that failed is only connected to.
    pub health_path: Option<HealthPath>,
}

/// How servers are known that TLS is spoken to.
#[derive(Clone)]
pub struct UpstreamTls {
    /// The name that stands in their certificates; the address of each if there is none.
    pub name: Option<ServerName<'static>>,
    /// Certificates that theirs are signed by, or are; those that the system trusts if there are none.
    pub authorities: Vec<CertificateDer<'static>>,
    /// What a connection is made by.
    pub config: Arc<ClientConfig>,
}

impl Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authorities = self.authorities.len();
        f.debug_struct("UpstreamTls")
            .field("name", &self.name)
            .field("authorities", &authorities)
            .finish_non_exhaustive()
    }
}

/// What a connection is made by follows from the rest.
impl PartialEq for UpstreamTls {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.authorities == other.authorities
    }
}

impl Eq for UpstreamTls {}

/// What is asked for to check the health of a server: the path of a `GET`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthPath(pub(crate) hyper::http::uri::PathAndQuery);

/// How many requests a server has at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// As many as make it faster, which is measured.
    Adaptive,
    /// So many.
    Fixed(u32),
}

/// A class of requests, `[[class]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// What people call it.
    pub name: Name,
    /// Which requests are of it.
    pub rule: Rule,
    /// The groups of servers that are for it, by their places; at least one.
    pub upstreams: Vec<usize>,
    /// Its share of the response time: one with 3 takes three times as long as one with 1.
    pub ratio: f64,
    /// What the 99th percentile of its response times should keep.
    pub p99: Option<Duration>,
    /// Whether requests are refused that would wait in vain.
    pub shed: bool,
    /// Requests of it that may wait.
    pub queue: usize,
}

impl Config {
    /// Whether a class is that of a peer of psmcd's.
    #[must_use]
    pub fn uses_peers(&self) -> bool {
        self.classes.iter().any(|class| class.rule.peer.is_some())
    }

    /// What the file means, for people.
    #[must_use]
    pub fn summary(&self) -> impl Display + '_ {
        Summary(self)
    }
}

struct Summary<'a>(&'a Config);

impl Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.0;
        writeln!(f, "{}", config.name)?;
        for listener in &config.listeners {
            let tls = match &listener.tls {
                Some(tls) => format!("TLS with {}", tls.certificate.display()),
                None => "without TLS".to_owned(),
            };
            let proxy = if listener.proxy_protocol { ", after the PROXY protocol" } else { "" };
            writeln!(f, "  listens on {}, {tls}{proxy}", listener.address)?;
        }
        for upstream in &config.upstreams {
            let limit = match upstream.limit {
                Limit::Adaptive => "as many requests at a time as make it faster".to_owned(),
                Limit::Fixed(1) => "1 request at a time".to_owned(),
                Limit::Fixed(limit) => format!("{limit} requests at a time"),
            };
            let protocol = if upstream.h2 { "HTTP/2" } else { "HTTP/1.1" };
            let tls = if upstream.tls.is_some() { " with TLS" } else { "" };
            for server in &upstream.servers {
                writeln!(f, "  {} has {server}, by {protocol}{tls}, {limit}", upstream.name)?;
            }
        }
        if config.hold == Hold::Slowdown {
            writeln!(f, "ratios are held of response over service times")?;
        }
        if config.idling {
            writeln!(f, "requests are kept back where ratios cannot be held otherwise")?;
        }
        for class in &config.classes {
            write!(f, "class {}: {}, ratio {}", class.name, class.rule, class.ratio)?;
            if let Some(p99) = class.p99 {
                write!(f, ", 99 % within {} ms", p99.as_millis())?;
            }
            if class.upstreams.len() < config.upstreams.len() {
                let names: Vec<_> =
                    class.upstreams.iter().map(|place| config.upstreams[*place].name.to_string()).collect();
                write!(f, ", served by {}", names.join(", "))?;
            }
            let shed = if class.shed { ", refused rather than waiting in vain" } else { "" };
            writeln!(f, ", {} may wait{shed}", class.queue)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRONT: &str = "[front]\nname = \"web\"\n";
    const LISTENER: &str = "[[listener]]\naddress = \"127.0.0.1:80\"\n";
    const UPSTREAM: &str = "[[upstream]]\nservers = [\"127.0.0.1:8080\"]\n";

    fn parse(text: &str) -> Result<Config, ConfigError> {
        let data = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/front/data/web.toml");
        Config::parse(text, Path::new(data))
    }

    fn complaints(text: &str) -> Vec<String> {
        let error = parse(text).expect_err("it is wrong");
        error.complaints().iter().map(|complaint| complaint.reason().to_owned()).collect()
    }

    fn complaint(text: &str) -> String {
        let mut complaints = complaints(text);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        complaints.remove(0)
    }

    #[test]
    fn the_least_is_enough() {
        let config = parse(&format!("{FRONT}{LISTENER}{UPSTREAM}")).unwrap();
        assert_eq!(config.limits, Limits::default());
        assert_eq!(config.classes.len(), 1);
        assert!(config.classes[0].rule.fits_all());
        assert_eq!(config.control_socket.as_path(), Path::new("/run/psmc-front/web.sock"));
        assert_eq!(config.upstreams[0].limit, Limit::Adaptive);
    }

    #[test]
    fn the_example_of_the_documentation_is_right() {
        let text = include_str!("../../../docs/FRONT.md");
        let blocks: Vec<&str> =
            text.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        let [example, groups] = blocks[..] else { panic!("there are two: {blocks:?}") };
        let groups = parse(&format!("{FRONT}{LISTENER}{groups}")).unwrap();
        assert_eq!(groups.classes.iter().map(|class| class.upstreams.len()).collect::<Vec<_>>(), [2, 1]);
        let example = example
            .replace("/etc/psmc-front/fullchain.pem", "server.pem")
            .replace("/etc/psmc-front/key.pem", "server.key");
        let config = parse(&example).unwrap();
        let summary = config.summary().to_string();
        for said in [
            "listens on [::]:443, TLS with server.pem",
            "servers has 127.0.0.1:8081, by HTTP/1.1, as many requests at a time as make it faster",
            "class paying: cookie tier=gold, ratio 1, 99 % within 300 ms",
            "class rest: all requests, ratio 3, 1024 may wait, refused rather than waiting in vain",
        ] {
            assert!(summary.contains(said), "{said}: {summary}");
        }
    }

    #[test]
    fn classes_choose_groups_of_servers() {
        let text = format!(
            "{FRONT}hold = \"slowdown\"\nidling = true\n{LISTENER}{UPSTREAM}name = \"fast\"\n\
             [[upstream]]\nname = \"all\"\nservers = [\"127.0.0.1:8443\"]\ntls = {{ name = \"web.test\", ca = \"ca.pem\" }}\n\
             [[class]]\nname = \"paying\"\nmatch = {{ peer = \"hq\" }}\n[[class]]\nname = \"rest\"\nupstream = [\"all\"]\n"
        );
        let config = parse(&text).unwrap();
        assert_eq!(config.classes[0].upstreams, [0, 1]);
        assert_eq!(config.classes[1].upstreams, [1]);
        let summary = config.summary().to_string();
        for said in [
            "fast has 127.0.0.1:8080, by HTTP/1.1, as",
            "all has 127.0.0.1:8443, by HTTP/1.1 with TLS, as",
            "ratios are held of response over service times",
            "requests are kept back where ratios cannot be held otherwise",
            "class paying: from peer hq, ratio 1, 1024 may wait",
            "class rest: all requests, ratio 1, served by all, 1024",
        ] {
            assert!(summary.contains(said), "{said}: {summary}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(complaints("").len(), 3);
        let class = |text: &str| format!("{FRONT}{LISTENER}{UPSTREAM}[[class]]\nname = \"a\"\n{text}");
        assert!(complaint(&class("match = { path = \"/a\" }\n")).contains("match no class"));
        assert!(complaint(&class("[[class]]\nname = \"b\"\n")).contains("none of those below"));
        assert!(
            complaint(&class("match = { path = \"/a\" }\n[[class]]\nname = \"a\"\n"))
                .contains("duplicate class a")
        );
        for (text, reason) in [
            ("ratio = 0", "is no ratio"),
            ("objective = { p99 = \"3\" }", "is no time"),
            ("objective = { p99 = \"0ms\" }", "is no time"),
            ("queue = 0", "out of bounds"),
            ("match = { cookie = \"a b\" }", "is no cookie"),
            ("match = { header = \"a b: c\" }", "is no header"),
            ("match = { path = \"a\" }", "is not the beginning of a path"),
            ("match = { source = [\"a\"] }", "prefix length"),
            ("match = { urgency = 8 }", "is no urgency"),
        ] {
            let all = complaints(&class(text));
            assert!(all.iter().any(|said| said.contains(reason)), "{text}: {all:?}");
        }
        let groups = |text: &str| format!("{FRONT}{LISTENER}{UPSTREAM}name = \"a\"\n[[upstream]]\n{text}");
        let of_group = |text: &str| {
            complaints(&groups(&format!("name = \"b\"\nservers = [\"127.0.0.1:8081\"]\n{text}")))
        };
        for (said, reason) in [
            (complaints(&groups("servers = [\"127.0.0.1:8081\"]\n")), "a name of its own"),
            (complaints(&groups("name = \"a\"\nservers = [\"127.0.0.1:8081\"]\n")), "duplicate upstream a"),
            (
                complaints(&groups("name = \"b\"\nservers = [\"127.0.0.1:8080\"]\n")),
                "127.0.0.1:8080 is there twice",
            ),
            (of_group("[[class]]\nname = \"c\"\nupstream = [\"d\"]\n"), "no upstream d"),
            (of_group("h2 = true\n[[class]]\nname = \"c\"\n"), "some by HTTP/2"),
            (of_group("tls = { ca = \"missing.pem\" }\n"), "there is no such file"),
            (of_group("tls = { name = \"a b\" }\n"), "is no name of a server"),
        ] {
            assert!(said.iter().any(|one| one.contains(reason)), "{reason}: {said:?}");
        }
        let twice = format!("{FRONT}{LISTENER}{LISTENER}{UPSTREAM}");
        assert_eq!(complaint(&twice), "127.0.0.1:80 is there twice");
        assert!(complaint(&format!("{FRONT}{LISTENER}{UPSTREAM}limit = 0\n")).contains("is no limit"));
        let limits = format!("{FRONT}{LISTENER}{UPSTREAM}[limits]\nhead_size = 100\nuri_size = 10\n");
        assert_eq!(complaints(&limits).len(), 2);
    }

    #[test]
    fn a_certificate_is_read_with_its_key() {
        let tls = |certificate: &str, key: &str| {
            let tls = format!("tls = {{ certificate = \"{certificate}\", key = \"{key}\" }}\n");
            format!("{FRONT}{LISTENER}{tls}{UPSTREAM}")
        };
        assert!(parse(&tls("server.pem", "server.key")).unwrap().listeners[0].tls.is_some());
        assert!(complaint(&tls("missing.pem", "server.key")).contains("there is no such file"));
        assert!(complaint(&tls("server.key", "server.key")).contains("there is no certificate"));
        assert!(complaint(&tls("ca.pem", "server.key")).contains("cannot be used together"));
        assert!(complaint(&tls("server.pem", "server.pem")).contains("has not what it should"));
    }
}
