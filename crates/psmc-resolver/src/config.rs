//! The configuration of a resolver: one TOML file, checked to the last value, keys included, before anything is started.

mod draft;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_toml::{ConfigError, Dialect, Name, SocketPath, Source};

use super::service::ServiceConfig;
use super::tunnels::Policy;
use super::upstream::UpstreamAddress;
use psmc_service::name_servers::Place;

/// A whole file.
#[derive(Debug)]
pub struct Config {
    /// What the resolver is called.
    pub name: Name,
    /// Where it takes UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// Whom it asks.
    pub upstream: Vec<UpstreamAddress>,
    /// The certificates, in PEM, that servers' certificates are to be signed by; else those that the system believes.
    pub ca_file: Option<PathBuf>,
    /// Special names, such as `home.arpa`, that they are asked for all the same.
    pub passed_on: Vec<hickory_proto::rr::Name>,
    /// Who may ask, beside this machine.
    pub clients: Vec<IpNet>,
    /// Under which names there may be addresses of this machine and its networks.
    pub private: Vec<hickory_proto::rr::Name>,
    /// How much memory answers may take, in MiB.
    pub cache_mib: u32,
    /// How long an answer may wait for the tunnel to its service.
    pub patience: Duration,
    /// Where the routes of services are kept.
    pub state_directory: PathBuf,
    /// Where its status is asked for.
    pub control_socket: SocketPath,
    /// Names that have alternate routes.
    pub services: Vec<ServiceConfig>,
    /// Who tells of routes.
    pub coordinator: Option<CoordinatorConfig>,
    /// How the machine comes to use it.
    pub system: Option<Place>,
}

/// Who tells of routes.
#[derive(Debug)]
pub struct CoordinatorConfig {
    /// Where it is, and others that share its state.
    pub addresses: Vec<SocketAddr>,
    /// The key that it proves to have.
    pub public_key: PublicKey,
    /// The key that this client proves to have.
    pub private_key: PrivateKey,
}

impl Config {
    /// Reads and checks a file.
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

    /// What the file means, for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut lines = vec![
            format!("resolver {} on {}", self.name, list(&self.listen)),
            format!("  asks {}", list(&self.upstream)),
            format!(
                "  keeps answers in {} MiB, and routes in {}",
                self.cache_mib,
                self.state_directory.display()
            ),
        ];
        lines.extend(self.services.iter().map(service_summary));
        if let Some(coordinator) = &self.coordinator {
            lines.push(format!("  hears of routes from the coordinator at {}", list(&coordinator.addresses)));
        }
        match &self.system {
            Some(Place::Resolved { link, domains, .. }) => {
                lines.push(format!("  is the server of the link {link} for {}", domains.join(" ")));
            }
            Some(Place::ResolvConf(path)) => lines.push(format!("  is written into {}", path.display())),
            None => {}
        }
        lines.join("\n") + "\n"
    }
}

fn service_summary(service: &ServiceConfig) -> String {
    let ServiceConfig { name, tunnel, group_key, policy, addresses, .. } = service;
    let group = if group_key.is_some() { ", by its group's routes before everyone's" } else { "" };
    let policy = policy.map_or_else(String::new, |policy: Policy| format!(", {}", policy.as_str()));
    let inner =
        if addresses.is_empty() { String::new() } else { format!("; inside it is {}", list(addresses)) };
    format!("  {name} is the peer {} of {}{group}{policy}{inner}", tunnel.peer, tunnel.socket.display())
}

fn list<T: ToString>(list: &[T]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// How complaints speak of these files.
static DIALECT: Dialect = Dialect {
    kind: "a resolver's configuration",
    // A thousand services have a quarter of it.
    max_mib: 1,
    missing_remedy: "check the path; configurations are usually kept in /etc/psmc-dns",
    secret_key: None,
    section: "[resolver]",
    sections: "[[service]]",
    setting: r#"name = "local""#,
    list: r#"["192.0.2.53", "tls://192.0.2.54#dns.example.net"]"#,
};

#[cfg(test)]
mod tests;
