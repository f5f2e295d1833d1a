//! What a relay is told: every value is legal, and all of them fit together.

use std::fmt::{self, Display};
use std::net::SocketAddr;
use std::time::Duration;

use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_toml::{Listen, Name, Rate, SocketPath};

use super::{Networks, Tunnel};

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
