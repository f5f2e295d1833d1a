//! The configuration of a guard: one TOML file, checked to the last value before anything is started.

mod draft;

use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_toml::{ConfigError, Dialect, InterfaceName, Name, SocketPath, Source};

pub(crate) use draft::RUN_DIR;

use crate::detect::{Policy, Signal};

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
    kind: "a guard's configuration",
    // A hundred services have a hundredth of it.
    max_mib: 1,
    missing_remedy: "check the path; configurations of guards are usually kept in /etc/psmc-guard",
    secret_key: Some("private_key"),
    section: "[guard]",
    sections: "[[service]]",
    setting: r#"name = "hq""#,
    list: r#"["203.0.113.10/32", "2001:db8::10/128"]"#,
};

/// A whole file.
#[derive(Debug)]
pub struct Config {
    /// What the guard is called.
    pub name: Name,
    /// Under which coordinators know it.
    pub private_key: PrivateKey,
    /// Where arrivals are watched.
    pub interfaces: Vec<InterfaceName>,
    /// The control socket of the psmcd that is moved, if there is one beside the guard.
    pub gateway: Option<SocketPath>,
    /// The interface through which coordinators are dialled, where that is not left to the routes.
    pub signal_interface: Option<InterfaceName>,
    /// The address from which they are.
    pub signal_address: Option<IpAddr>,
    /// Where what is learned, and what a coordinator has said, is kept.
    pub state_file: PathBuf,
    /// Where `psmc-guard status` asks.
    pub control_socket: SocketPath,
    /// Where it answers Prometheus.
    pub metrics: Option<SocketAddr>,
    /// Whom it tells, the first that answers.
    pub coordinators: Vec<Coordinator>,
    /// What it protects.
    pub services: Vec<Service>,
    /// The lines by which psmcd registers at relays; none leaves that to the routes.
    pub lines: Vec<Line>,
    /// The filter of the hidden lines.
    pub defence: Defence,
}

/// A coordinator, `[[coordinator]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coordinator {
    /// Where it takes connections of the signal channel.
    pub address: SocketAddr,
    /// Whom to expect there.
    pub public_key: PublicKey,
}

/// A service, `[[service]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its name, as coordinators and DNS have it.
    pub name: String,
    /// Its addresses.
    pub targets: Vec<IpNet>,
    /// Its ports; none means all of them.
    pub ports: Vec<u16>,
    /// How attacks are told from what is usual.
    pub policy: Policy,
}

/// A hidden line, `[[line]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its interface.
    pub interface: InterfaceName,
    /// The address from which relays are dialled by it.
    pub address: Option<IpAddr>,
}

/// The filter, `[defence]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defence {
    /// Whether the hidden lines take only what comes from relays.
    pub nftables: bool,
    /// Relays that are always let in: those at which psmcd's own file registers it.
    pub relays: Vec<IpNet>,
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
        writeln!(f, "guard {}, public key {}", config.name, config.private_key.public())?;
        writeln!(f, "  watches {}", joined(&config.interfaces))?;
        match &config.gateway {
            Some(socket) => writeln!(f, "  moves the psmcd at {socket}")?,
            None => writeln!(f, "  moves no psmcd: `gateway` names none")?,
        }
        for coordinator in &config.coordinators {
            writeln!(f, "  tells {} at {}", coordinator.public_key, coordinator.address)?;
        }
        for line in &config.lines {
            write!(f, "  registers by {}", line.interface)?;
            line.address.map_or(Ok(()), |address| write!(f, " from {address}"))?;
            writeln!(f)?;
        }
        if config.defence.nftables {
            writeln!(f, "  lets only relays in there")?;
        }
        config.services.iter().try_for_each(|service| write!(f, "{service}"))
    }
}

impl Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}: {}", self.name, joined(&self.targets))?;
        if !self.ports.is_empty() {
            write!(f, ", port {}", joined(&self.ports))?;
        }
        let policy = &self.policy;
        let (learning, calm) = (policy.learning.as_secs(), policy.calm.as_secs());
        writeln!(
            f,
            "; {} times what is usual is an attack, learned for {learning} s, over after {calm} s",
            policy.factor
        )?;
        for signal in Signal::ALL {
            if let Some(limit) = policy.fixed.get(signal) {
                writeln!(f, "    {} fixed at {limit}", signal.name())?;
            }
        }
        Ok(())
    }
}

fn joined<T: ToString>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use psmc_net::keys::PrivateKey;

    use super::*;
    use crate::detect::Signal;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("hq.key");
        fs::write(&file, PrivateKey::from_seed([7; 32]).to_base64().as_str()).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        Config::parse(text, &directory.path().join("guard.toml"))
    }

    fn complaints(text: &str) -> Vec<String> {
        let error = parse(text).expect_err("it is wrong");
        error.complaints().iter().map(|complaint| complaint.reason().to_owned()).collect()
    }

    const GUARD: &str = "[guard]\nname = \"hq\"\nprivate_key_file = \"hq.key\"\ninterfaces = [\"eth0\"]\n";
    const SERVICE: &str = "[[service]]\nname = \"WWW.example.com.\"\ntargets = [\"203.0.113.10\"]\n";

    #[test]
    fn the_least_is_enough() {
        let config = parse(&format!("{GUARD}{SERVICE}")).unwrap();
        assert_eq!(config.services[0].name, "www.example.com");
        assert_eq!(config.services[0].targets[0].to_string(), "203.0.113.10/32");
        assert_eq!(config.control_socket.to_string(), "/run/psmc-guard/hq.sock");
        assert_eq!(config.state_file.to_str(), Some("/var/lib/psmc-guard/hq.json"));
        assert_eq!(config.services[0].policy, crate::detect::Policy::default());
        assert!(config.gateway.is_none() && config.coordinators.is_empty() && !config.defence.nftables);
    }

    #[test]
    fn everything_can_be_said() {
        let key = PrivateKey::from_seed([1; 32]).public();
        let text = format!(
            "{GUARD}gateway = \"/run/psmc/hq.sock\"\nsignal_interface = \"eth1\"\nsignal_address = \"192.0.2.7\"\n\
         learning = 10\ncalm = 5\nfactor = 4.5\nstate_file = \"hq.json\"\ncontrol_socket = \"/tmp/x.sock\"\nmetrics = \"127.0.0.1:9117\"\n\
         [[coordinator]]\naddress = \"198.51.100.9:5117\"\npublic_key = \"{key}\"\n\
         {SERVICE}ports = [443, 80]\nlimit = {{ packets = 20000, bits = \"80mbit\", syns = 500, new_sources = 200, loss = 0.2 }}\n\
         [[line]]\ninterface = \"eth1\"\naddress = \"192.0.2.7\"\n\
         [defence]\nnftables = true\nrelays = [\"198.51.100.7\"]\n"
        );
        let config = parse(&text).unwrap();
        assert_eq!(config.metrics, Some("127.0.0.1:9117".parse().unwrap()));
        let policy = &config.services[0].policy;
        assert_eq!((policy.learning, policy.calm), (Duration::from_secs(10), Duration::from_secs(5)));
        assert_eq!(policy.fixed.get(Signal::Bits), Some(80e6));
        assert_eq!(policy.fixed.get(Signal::Loss), Some(0.2));
        let summary = config.summary().to_string();
        for said in [
            "hq",
            "eth0",
            "hq.sock",
            "5117",
            "eth1 from 192.0.2.7",
            "443, 80",
            "4.5 times",
            "syns fixed at 500",
        ] {
            assert!(summary.contains(said), "{said}: {summary}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert_eq!(complaints(GUARD), ["the guard would protect nothing: the file has no [[service]]"]);
        assert!(complaints(SERVICE)[0].contains("no [guard]"));
        assert_eq!(complaints(&format!("{GUARD}{SERVICE}{SERVICE}")), ["duplicate service www.example.com"]);
        let defence = "[defence]\nnftables = true\n";
        assert_eq!(
            complaints(&format!("{GUARD}{SERVICE}{defence}")),
            ["[defence] needs at least one [[line]]"]
        );
        let bad = "limit = { packets = 0, bits = \"0mbit\", loss = 1.5, sins = 1 }\nports = [0]\n";
        assert_eq!(complaints(&format!("{GUARD}{SERVICE}{bad}")).len(), 5);
        let bad = "learning = 0\nfactor = 1\nsignal_address = \"x\"\nstate_file = \"\"\n";
        assert_eq!(complaints(&format!("{GUARD}{bad}{SERVICE}")).len(), 4);
        let bad = "[[coordinator]]\naddress = \"example.com:1\"\npublic_key = \"x\"\n";
        assert_eq!(complaints(&format!("{GUARD}{SERVICE}{bad}")).len(), 2);
        let error = parse(&format!("{GUARD}{SERVICE}ports = [0]\n")).unwrap_err();
        assert_eq!(error.complaints()[0].remedy(), "a port is a number from 1 to 65535");
        let empty = "[guard]\nname = \"hq\"\nprivate_key_file = \"hq.key\"\ninterfaces = []\n";
        assert_eq!(complaints(&format!("{empty}{SERVICE}")), ["[guard] has no `interfaces`"]);
    }
}
