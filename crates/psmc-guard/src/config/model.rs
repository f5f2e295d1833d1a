//! What a guard is told: every value is legal, and all of them fit together.

use std::fmt::{self, Display};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_toml::{InterfaceName, Name, SocketPath};

use crate::detect::{Policy, Signal};

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
