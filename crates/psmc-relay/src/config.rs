//! The configuration of a relay: one TOML file, checked to the last value before anything is started.
//!
//! [`Config::load`] either gives a configuration in which every value is legal, or everything that is wrong with the
//! file: where, why, and what to do about it.

mod draft;
mod networks;
#[cfg(test)]
mod tests;
mod tunnels;

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_toml::{ConfigError, Dialect, Listen, Name, Rate, SocketPath, Source};

pub use networks::Networks;
pub(crate) use tunnels::link_mtu;
pub use tunnels::{Outer, Tunnel, TunnelEnd};

impl Config {
    /// Reads and checks a file. Relative paths in it are taken from the directory that it is in.
    ///
    /// # Errors
    /// [`ConfigError`], with everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::check(Source::read(&DIALECT, path)?)
    }

    /// Checks a text; `path` is what complaints call it, and where its relative paths start.
    ///
    /// # Errors
    /// [`ConfigError`], with everything that is wrong with it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        Self::check(Source::new(&DIALECT, path, text))
    }

    fn check(source: Source) -> Result<Self, ConfigError> {
        source.check(draft::read)
    }
}

/// How complaints speak of these files.
static DIALECT: Dialect = Dialect {
    kind: "a relay's configuration",
    // The largest sensible one, ten thousand sites, has a quarter of it.
    max_mib: 8,
    missing_remedy: "check the path; configurations are usually kept in /etc/psmc-relay",
    secret_key: Some("private_key"),
    section: "[relay]",
    sections: "[[allow]] or [[tunnel]]",
    setting: r#"name = "fra1""#,
    list: r#"["203.0.113.0/24", "2001:db8:5::/48"]"#,
};

/// A whole file.
#[derive(Debug)]
pub struct Config {
    /// What the relay is called.
    pub name: Name,
    /// Its secret.
    pub private_key: PrivateKey,
    /// Where it is reached: UDP for data, TCP for control.
    pub listen: Listen,
    /// Whose signed grants count, and who may cap rates.
    pub coordinator: Option<PublicKey>,
    /// Threads that move datagrams.
    pub workers: u8,
    /// Sessions at most, of all sites.
    pub max_sessions: u32,
    /// What it may send in all.
    pub max_rate: Option<Rate>,
    /// After this time without use a session is forgotten.
    pub idle: Duration,
    /// Where sessions and streams may lead.
    pub destinations: Networks,
    /// Whether it takes datagrams in IP-in-IP, if it has the right to.
    pub ipip: bool,
    /// Where it answers Prometheus.
    pub metrics: Option<SocketAddr>,
    /// Where `psmc-relay status` asks.
    pub control_socket: SocketPath,
    /// Whom it serves without a grant.
    pub sites: Vec<Site>,
    /// Pairs of ends of plain tunnels between which packets pass.
    pub tunnels: Vec<Tunnel>,
}

/// A site that is served, `[[allow]]`.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its name.
    pub name: Name,
    /// The key that it proves to have.
    pub public_key: PublicKey,
    /// Sessions at most.
    pub max_sessions: u32,
    /// What all of them may carry, in each direction.
    pub max_rate: Option<Rate>,
    /// What each of them may carry, in each direction.
    pub session_rate: Option<Rate>,
    /// Whether others may reach it by its key.
    pub gateway: bool,
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
        writeln!(
            f,
            "relay {} on {}, public key {}",
            config.name,
            config.listen,
            config.private_key.public()
        )?;
        writeln!(
            f,
            "  up to {} sessions, {} in all, forgotten after {} s without use, {} worker(s)",
            config.max_sessions,
            rate(config.max_rate),
            config.idle.as_secs(),
            config.workers,
        )?;
        writeln!(f, "  leads to {}", config.destinations)?;
        if let Some(coordinator) = config.coordinator {
            writeln!(f, "  serves whoever has a grant of {coordinator}")?;
        }
        if let Some(metrics) = config.metrics {
            writeln!(f, "  metrics at http://{metrics}/metrics")?;
        }
        for site in &config.sites {
            writeln!(
                f,
                "  {}{}: up to {} sessions, each {}, all of them {}",
                site.name,
                if site.gateway { " (gateway)" } else { "" },
                site.max_sessions,
                rate(site.session_rate),
                rate(site.max_rate),
            )?;
        }
        for tunnel in &config.tunnels {
            let [left, right] = &tunnel.ends;
            writeln!(f, "  tunnel {}: {left} to {right}, each way {}", tunnel.name, rate(tunnel.max_rate))?;
        }
        Ok(())
    }
}

fn rate(rate: Option<Rate>) -> String {
    rate.map_or_else(|| "without a limit".to_owned(), |rate| format!("at most {rate}"))
}
