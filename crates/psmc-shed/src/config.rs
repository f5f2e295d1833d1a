//! The configuration of an agent: one TOML file, checked to the last value before anything is started.

mod basis;
mod draft;

use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_toml::{ConfigError, Dialect, InterfaceName, Listen, Name, SocketPath, Source, choice, rate_text};

pub use basis::{Basis, Chain, Measured, NftLimits, Resource, Sign};
pub(crate) use draft::RUN_DIR;

use crate::class::Class;

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
    kind: "a configuration of psmc-shed",
    // A thousand servers have a quarter of it.
    max_mib: 1,
    missing_remedy: "check the path; configurations are usually kept in /etc/psmc-shed",
    secret_key: Some("private_key"),
    section: "[shed]",
    sections: "[[accept]]",
    setting: r#"name = "hq""#,
    list: r#"["203.0.113.0/24", "2001:db8::/48"]"#,
};

/// A whole file.
#[derive(Debug)]
pub struct Config {
    /// What the agent is called.
    pub name: Name,
    /// By which the others know it.
    pub private_key: PrivateKey,
    /// Where `psmc-shed status` asks.
    pub control_socket: SocketPath,
    /// Where it answers Prometheus.
    pub metrics: Option<SocketAddr>,
    /// What it does as a server.
    pub server: Option<Server>,
    /// What it does as a router.
    pub router: Option<Router>,
}

/// A server: what it accepts, and who is to drop the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// How long rules last unless they are renewed.
    pub lifetime: Duration,
    /// Where it is written down what BGP daemons were told.
    pub state_file: PathBuf,
    /// What it accepts.
    pub accepts: Vec<Accept>,
    /// Who drops the rest.
    pub upstreams: Vec<Upstream>,
}

/// A class that a server accepts so much of, `[[accept]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// What people call it.
    pub name: Name,
    /// Its packets.
    pub class: Class,
    /// Bytes of IP packets per second; where the file is not what says it, what is accepted while the source says nothing.
    pub rate: u64,
    /// From where that is known.
    pub basis: Basis,
}

/// Who drops what a server does not accept, `[[upstream]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// What people call it.
    pub name: Name,
    /// How it is reached.
    pub by: Means,
}

/// How an upstream is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Means {
    /// An agent on a Linux router.
    Agent(Agent),
    /// A relay.
    Relay(Relay),
    /// A peer of the site of this machine.
    Site(Site),
    /// A BGP daemon, whose peers take rules of Flowspec.
    Bgp(Bgp),
}

/// A relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Where and who it is.
    pub agent: Agent,
    /// Classes that come in sessions, within which it does not see.
    pub datagrams: Vec<Datagrams>,
}

/// A class that comes in sessions to this site: all datagrams of one drop precedence, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagrams {
    /// What it is called.
    pub class: Name,
    /// The drop precedence, if it is one.
    pub precedence: Option<u8>,
}

/// A peer of the site of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// What it is called there.
    pub peer: Name,
    /// The control socket of the site's daemon.
    pub socket: PathBuf,
}

/// An agent on a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Where it takes servers.
    pub address: SocketAddr,
    /// Whom to expect there.
    pub public_key: PublicKey,
    /// The address to dial from, where that is not left to the routes.
    pub local: Option<IpAddr>,
}

/// A BGP daemon of the operator's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bgp {
    /// Which one, and where it is told.
    pub daemon: BgpDaemon,
    /// Rules at most.
    pub max_rules: usize,
    /// How long a rule lasts after it was last needed.
    pub ttl: Duration,
}

/// A BGP daemon, and where it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BgpDaemon {
    /// GoBGP, at this address of its API.
    GoBgp(SocketAddr),
    /// ExaBGP, by the named pipe of its API.
    ExaBgp(PathBuf),
}

/// A router: whom it listens to, and when it drops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// Where it takes servers.
    pub listen: Listen,
    /// Through which interfaces packets leave that count, and whose queues are watched; all, if there are none.
    pub interfaces: Vec<InterfaceName>,
    /// When limits are enforced.
    pub when: When,
    /// Whom it listens to.
    pub servers: Vec<Owner>,
}

choice! {
    /// When a router enforces limits.
    pub enum When: "time for limits", such as "congested" {
        /// Whenever there are any.
        Always = "always",
        /// While its own lines are congested.
        Congested = "congested",
    }
}

/// A server that a router listens to, `[[server]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// What people call it.
    pub name: Name,
    /// Who it is.
    pub public_key: PublicKey,
    /// The destinations that are its own.
    pub prefixes: Vec<IpNet>,
    /// Rules that it may have at most.
    pub max_rules: usize,
    /// How long its rules last at most unless they are renewed.
    pub max_lifetime: Duration,
}

impl Config {
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
        writeln!(f, "{}, public key {}", config.name, config.private_key.public())?;
        if let Some(server) = &config.server {
            writeln!(f, "server, whose rules last {} s unless renewed", server.lifetime.as_secs())?;
            for accept in &server.accepts {
                write!(f, "  accepts {} of {} ({})", bits(accept.rate), accept.class, accept.name)?;
                match &accept.basis {
                    Basis::File => writeln!(f)?,
                    Basis::Nft(_) | Basis::Measured(_) => {
                        writeln!(f, ", or what is found by {}", accept.basis)?
                    }
                }
            }
            for upstream in &server.upstreams {
                writeln!(f, "  has the rest dropped by {}: {}", upstream.name, upstream.by)?;
            }
        }
        if let Some(router) = &config.router {
            let when = match router.when {
                When::Always => "always",
                When::Congested => "while its lines are congested",
            };
            writeln!(f, "router, listens on {}, enforces limits {when}", router.listen)?;
            if !router.interfaces.is_empty() {
                writeln!(f, "  on what leaves through {}", joined(&router.interfaces))?;
            }
            for server in &router.servers {
                writeln!(
                    f,
                    "  {} may have {} rules for {}, of {} s at most",
                    server.name,
                    server.max_rules,
                    joined(&server.prefixes),
                    server.max_lifetime.as_secs()
                )?;
            }
        }
        Ok(())
    }
}

impl Display for Datagrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.precedence {
            None => self.class.fmt(f),
            Some(precedence) => write!(f, "{}/{precedence}", self.class),
        }
    }
}

impl Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent(agent) => write!(f, "psmc-shed at {}, {}", agent.address, agent.public_key),
            Self::Relay(relay) => {
                write!(f, "the relay at {}, {}", relay.agent.address, relay.agent.public_key)?;
                relay.datagrams.iter().try_for_each(|hidden| write!(f, ", datagrams for {hidden}"))
            }
            Self::Site(site) => write!(f, "{}, a peer of the site at {}", site.peer, site.socket.display()),
            Self::Bgp(bgp) => {
                match &bgp.daemon {
                    BgpDaemon::GoBgp(address) => write!(f, "GoBGP at {address}")?,
                    BgpDaemon::ExaBgp(pipe) => write!(f, "ExaBGP by {}", pipe.display())?,
                }
                write!(f, ", {} rules at most, {} s each", bgp.max_rules, bgp.ttl.as_secs())
            }
        }
    }
}

/// A rate in bytes per second, as people write it: in bits.
pub(crate) fn bits(bytes: u64) -> String {
    rate_text(bytes.saturating_mul(8))
}

fn joined<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hq.key");
        fs::write(&file, PrivateKey::from_seed([7; 32]).to_base64().as_str()).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        Config::parse(text, &directory.path().join("hq.toml"))
    }

    fn complaints(text: &str) -> Vec<String> {
        let error = parse(text).expect_err("it is wrong");
        error.complaints().iter().map(|complaint| complaint.reason().to_owned()).collect()
    }

    const SHED: &str = "[shed]\nname = \"hq\"\nprivate_key_file = \"hq.key\"\n";
    const ACCEPT: &str = "[[accept]]\nname = \"web\"\ndestination = \"203.0.113.10\"\nrate = \"80mbit\"\n";
    const ROUTER: &str = "[router]\n";

    fn key(seed: u8) -> PublicKey {
        PrivateKey::from_seed([seed; 32]).public()
    }

    fn upstream() -> String {
        format!(
            "[[upstream]]\nname = \"e1\"\nkind = \"nft\"\naddress = \"192.0.2.1:5118\"\npublic_key = \"{}\"\n",
            key(1)
        )
    }

    fn server(seed: u8, prefix: &str) -> String {
        format!("[[server]]\nname = \"s{seed}\"\npublic_key = \"{}\"\nprefixes = [\"{prefix}\"]\n", key(seed))
    }

    #[test]
    fn the_least_is_enough() {
        let config = parse(&format!("{SHED}{ACCEPT}{}", upstream())).unwrap();
        let server = config.server.unwrap();
        assert_eq!(server.accepts[0].class.to_string(), "203.0.113.10/32");
        assert_eq!((server.accepts[0].rate, server.lifetime.as_secs()), (10_000_000, 10));
        assert_eq!(config.control_socket.to_string(), "/run/psmc-shed/hq.sock");
        assert!(config.router.is_none());
        let config = parse(&format!("{SHED}{ROUTER}{}", self::server(1, "203.0.113.0/24"))).unwrap();
        let router = config.router.unwrap();
        assert_eq!((router.listen.port.get(), router.when), (5118, When::Always));
        assert_eq!((router.servers[0].max_rules, router.servers[0].max_lifetime.as_secs()), (10, 60));
        assert!(config.server.is_none());
    }

    #[test]
    fn everything_can_be_said() {
        let text = format!(
            "{SHED}control_socket = \"/tmp/x.sock\"\nmetrics = \"127.0.0.1:9119\"\nlifetime = 5\nstate_file = \"hq.json\"\n\
             {ACCEPT}protocol = \"tcp\"\nports = \"80-90\"\nsource = \"198.51.100.0/24\"\n{}\
             [[upstream]]\nname = \"bgp\"\nkind = \"gobgp\"\naddress = \"127.0.0.1:50051\"\nmax_rules = 3\nttl = 300\n\
             [[upstream]]\nname = \"exa\"\nkind = \"exabgp\"\npipe = \"/run/exabgp/exabgp.in\"\n\
             [[upstream]]\nname = \"fra1\"\nkind = \"relay\"\naddress = \"192.0.2.5:5115\"\npublic_key = \"{}\"\ndatagrams = [\"web/2\"]\n\
             [[upstream]]\nname = \"van\"\nkind = \"site\"\npeer = \"van\"\nsocket = \"/run/psmc/hq.sock\"\n\
             [router]\nlisten = \"192.0.2.7:99\"\ninterfaces = [\"eth1\"]\nwhen = \"congested\"\n\
             {}max_rules = 20\nmax_lifetime = 30\n",
            upstream() + "local = \"192.0.2.9\"\n",
            key(3),
            server(2, "198.51.100.0/24"),
        );
        let config = parse(&text).unwrap();
        let summary = config.summary().to_string();
        for said in [
            "80mbit of 203.0.113.10/32 tcp 80-90 from 198.51.100.0/24 (web)",
            "e1: psmc-shed at 192.0.2.1:5118",
            "bgp: GoBGP at 127.0.0.1:50051, 3 rules at most, 300 s each",
            "exa: ExaBGP by /run/exabgp/exabgp.in, 10 rules",
            "fra1: the relay at 192.0.2.5:5115",
            "datagrams for web/2",
            "van: van, a peer of the site at /run/psmc/hq.sock",
            "while its lines are congested",
            "through eth1",
            "s2 may have 20 rules for 198.51.100.0/24, of 30 s",
        ] {
            assert!(summary.contains(said), "{said}: {summary}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(
            complaints(SHED),
            ["the agent would do nothing: the file has neither [[accept]] nor [router]"]
        );
        assert!(complaints(ACCEPT)[0].contains("no [shed]"));
        assert_eq!(
            complaints(&format!("{SHED}{ACCEPT}")),
            ["nobody would drop anything: the file has no [[upstream]]"]
        );
        assert_eq!(
            complaints(&format!("{SHED}{ROUTER}")),
            ["nobody may have rules here: the file has no [[server]]"]
        );
        let twice = format!("{SHED}{ACCEPT}{}{}", ACCEPT.replace("web", "other"), upstream());
        assert_eq!(complaints(&twice), ["203.0.113.10/32 is accepted twice"]);
        let shared =
            format!("{SHED}{ROUTER}{}{}", server(1, "203.0.113.0/24"), server(2, "203.0.113.128/25"));
        assert_eq!(complaints(&shared), ["203.0.113.128/25 is s2's as well as s1's"]);
        let ports = format!("{SHED}{ACCEPT}ports = 80\n{}", upstream());
        assert!(complaints(&ports)[0].contains("ports"), "{:?}", complaints(&ports));
        let source = format!("{SHED}{ACCEPT}source = \"2001:db8::/32\"\n{}", upstream());
        assert_eq!(complaints(&source), ["source and destination are not both of IPv4 or both of IPv6"]);
        let when = format!("{SHED}{ROUTER}when = \"congested\"\n{}", server(1, "203.0.113.0/24"));
        assert_eq!(complaints(&when), ["`when = \"congested\"` needs `interfaces`"]);
        let kind = format!("{SHED}{ACCEPT}[[upstream]]\nname = \"x\"\nkind = \"gobgp\"\npipe = \"/x\"\n");
        assert_eq!(complaints(&kind).len(), 1, "{:?}", complaints(&kind));
        let hidden = |list: &str| {
            let of_relay = upstream().replace("nft", "relay") + &format!("datagrams = [{list}]\n");
            complaints(&format!("{SHED}{ACCEPT}{of_relay}"))
        };
        assert_eq!(hidden("\"wbe\""), ["there is no class wbe"]);
        assert_eq!(hidden("\"web\", \"web/1\""), ["web is named twice"]);
        assert!(hidden("\"web/4\"")[0].contains("drop precedence"), "{:?}", hidden("\"web/4\""));
        let bad = "protocol = \"tpc\"\nports = \"9-8\"\n";
        assert_eq!(complaints(&format!("{SHED}{ACCEPT}{bad}{}", upstream())).len(), 2);
    }

    #[test]
    fn what_is_accepted_can_be_found() {
        let bounds = "min_rate = \"8mbit\"\nmax_rate = \"800mbit\"\n";
        for (more, said) in [
            ("from = \"nft\"\nchain = \"inet filter input\"\n".to_owned(), "the limits of inet filter input"),
            (format!("from = \"listen-queue\"\n{bounds}"), "full listen queues, from 8mbit to 800mbit"),
            (format!("from = \"io-pressure\"\nabove = 40\n{bounds}"), "stalls for io above 40 %, from"),
            (
                format!(
                    "from = \"haproxy\"\nsocket = \"/run/haproxy/admin.sock\"\nbackend = \"app\"\n{bounds}"
                ),
                "more than 10 requests that wait in HAProxy for app, from",
            ),
        ] {
            let config = parse(&format!("{SHED}{ACCEPT}{more}{}", upstream())).unwrap();
            let summary = config.summary().to_string();
            assert!(summary.contains(&format!("or what is found by {said}")), "{said}: {summary}");
        }
        for (more, complaint) in [
            ("from = \"nft\"\n".to_owned(), "no `chain`"),
            ("from = \"nft\"\nchain = \"filter; flush ruleset\"\n".to_owned(), "no table or chain"),
            ("from = \"listen-queue\"\nmin_rate = \"8mbit\"\n".to_owned(), "max_rate"),
            (format!("from = \"listen-queue\"\nabove = 3\n{bounds}"), "`above` does not belong"),
            ("chain = \"inet filter input\"\n".to_owned(), "`chain` does not belong"),
            (
                "from = \"listen-queue\"\nmin_rate = \"90mbit\"\nmax_rate = \"800mbit\"\n".to_owned(),
                "between",
            ),
            (format!("from = \"cpu-pressure\"\nabove = 101\n{bounds}"), "percent"),
        ] {
            let found = complaints(&format!("{SHED}{ACCEPT}{more}{}", upstream()));
            assert!(found.len() == 1 && found[0].contains(complaint), "{complaint}: {found:?}");
        }
    }
}
