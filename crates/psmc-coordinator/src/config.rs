//! The configuration of a coordinator: one TOML file, checked to the last value, keys included, before anything is
//! started.

mod draft;
mod people;
mod service;
#[cfg(test)]
mod tests;
mod value;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::rr::Name as DomainName;
use ipnet::IpNet;
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::token::Token;
use psmc_routes::GroupKey;
use psmc_routes::update::{Server, TsigKey};
use psmc_toml::{ConfigError, Dialect, Listen, Name, Rate, SocketPath, Source};
use tokio_rustls::rustls::ClientConfig;

use crate::{engine, http, suricata};

pub use value::StoreAddress;

/// The group of clients there is where the file has none: everyone.
pub const EVERYONE: &str = "everyone";

/// A whole file.
#[derive(Debug)]
pub struct Config {
    /// What the coordinator is called.
    pub name: Name,
    /// What it proves to be, and what grants are signed with.
    pub private_key: Arc<PrivateKey>,
    /// Where gateways and clients dial.
    pub listen: Listen,
    /// Where state is kept.
    pub store: StoreAddress,
    /// How members of an etcd cluster are known, and this coordinator to them; without it nothing there is encrypted.
    pub etcd_tls: Option<Arc<ClientConfig>>,
    /// Where alerts are taken by HTTP.
    pub hook: Option<Hook>,
    /// Where Prometheus finds metrics.
    pub metrics: Option<SocketAddr>,
    /// Where the tool asks.
    pub control_socket: SocketPath,
    /// The file to which Suricata writes events.
    pub eve_file: Option<PathBuf>,
    /// For how long alerts count unless they are renewed.
    pub leases: Leases,
    /// The relays.
    pub relays: Vec<Relay>,
    /// The groups of clients; one at least.
    pub groups: Vec<Group>,
    /// The clients.
    pub clients: Vec<Client>,
    /// The services.
    pub services: Vec<Service>,
}

/// For how long alerts count unless they are renewed, by who has raised them: none of them lasts for ever, for whoever would
/// have to clear it may be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leases {
    /// Those of a guard: from when its connection has ended, for as long as that lasts it renews them.
    pub gateway: Duration,
    /// Those of the hook.
    pub hook: Duration,
    /// Those of Suricata, which repeats what goes on, and clears nothing.
    pub suricata: Duration,
    /// Those of people and programs that use the command.
    pub command: Duration,
    /// Those of watchers, which repeat what goes on.
    pub watcher: Duration,
}

impl Leases {
    /// That of a source.
    #[must_use]
    pub fn of(&self, source: &str) -> Duration {
        match source {
            engine::GATEWAY => self.gateway,
            http::HOOK => self.hook,
            suricata::SOURCE => self.suricata,
            source if source.starts_with(engine::WATCHER) => self.watcher,
            _ => self.command,
        }
    }
}

/// Where alerts are taken by HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The address.
    pub address: SocketAddr,
    /// What whoever sends one shows.
    pub token: Token,
}

/// A relay.
#[derive(Clone, Debug)]
pub struct Relay {
    /// Its name.
    pub name: String,
    /// Where it takes UDP and TCP.
    pub address: SocketAddr,
    /// The key that it proves to have.
    pub public_key: PublicKey,
    /// What it carries.
    pub capacity: Rate,
    /// How far it is from clients, in milliseconds; measured from here where the file does not say.
    pub latency_ms: Option<u32>,
}

/// A group of clients.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The secret that routes are sealed with; without one everyone can read them.
    pub key: Option<Arc<GroupKey>>,
}

/// A legitimate client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// The key that it proves to have.
    pub public_key: PublicKey,
    /// The group that it is in.
    pub group: String,
    /// Its addresses in the tunnel.
    pub allowed_ips: Vec<IpNet>,
}

/// A service, and what is done for it.
#[derive(Debug)]
pub struct Service {
    /// Its name: absolute, in lower case.
    pub name: DomainName,
    /// The zone that has it.
    pub zone: DomainName,
    /// The key of its site, which signs routes.
    pub key: PrivateKey,
    /// The key of the guard that speaks for it.
    pub gateway: Option<PublicKey>,
    /// The keys of sites that may say that it is flooded, beside its gateway.
    pub watchers: Vec<PublicKey>,
    /// The key under which its gateway registers at relays, where that is not the service's own.
    pub site: Option<PublicKey>,
    /// Its direct addresses.
    pub addresses: Vec<IpNet>,
    /// The groups that it admits.
    pub groups: Vec<Group>,
    /// Name servers whose records are changed.
    pub servers: Vec<Server>,
    /// What they know the coordinator by; there if there are servers.
    pub tsig_key: Option<TsigKey>,
    /// How many relays each group gets.
    pub relays_per_group: usize,
    /// What each relay may carry for it.
    pub relay_rate: Option<Rate>,
    /// How long routes count.
    pub lifetime: Duration,
    /// For how long name servers may cache them.
    pub ttl_s: u32,
    /// Whether they are published as SVCB too.
    pub svcb: bool,
    /// Whether relays are kept ready all the time.
    pub prepare: bool,
    /// How long an attack must be over before anything is undone.
    pub hold: Duration,
}

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

    /// The same with what cannot change while `running` runs as it is there, and the names of what differs of it.
    #[must_use]
    pub fn within(self, running: &Self) -> (Self, Vec<&'static str>) {
        let differs = [
            ("name", self.name != running.name),
            ("private_key_file", self.private_key.public() != running.private_key.public()),
            ("listen", self.listen != running.listen),
            ("store", self.store != running.store),
            ("[etcd]", self.etcd_tls.is_some() != running.etcd_tls.is_some()),
            ("hook", self.hook != running.hook),
            ("metrics", self.metrics != running.metrics),
            ("control_socket", self.control_socket != running.control_socket),
            ("[suricata]", self.eve_file != running.eve_file),
        ];
        let config = Self {
            name: running.name.clone(),
            private_key: running.private_key.clone(),
            listen: running.listen,
            store: running.store.clone(),
            etcd_tls: running.etcd_tls.clone(),
            hook: running.hook.clone(),
            metrics: running.metrics,
            control_socket: running.control_socket.clone(),
            eve_file: running.eve_file.clone(),
            ..self
        };
        (config, differs.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect())
    }

    /// What is right in the file and would not work all the same, as things are, for people.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.eve_file.iter().filter_map(|file| suricata::trouble(file)).collect()
    }

    /// What the file means, for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = format!(
            "coordinator {} on {}, with the key {}\n  state is kept in {}\n",
            self.name,
            self.listen,
            self.private_key.public(),
            self.store
        );
        // Writing to a string does not fail.
        if matches!(self.store, StoreAddress::Etcd { .. }) {
            let tls =
                if self.etcd_tls.is_some() { "by TLS" } else { "without encryption, for it has no [etcd]" };
            let _ = writeln!(text, "    {tls}; this coordinator leads when no other does");
        }
        let Leases { gateway, hook, suricata, command, watcher } = &self.leases;
        let _ = writeln!(
            text,
            "  alerts lapse if they are not renewed: of guards {} s after they are gone, of the hook after {} s, of Suricata after {} s, \
             of commands after {} s, of watchers after {} s",
            gateway.as_secs(),
            hook.as_secs(),
            suricata.as_secs(),
            command.as_secs(),
            watcher.as_secs()
        );
        if let Some(file) = &self.eve_file {
            let _ = writeln!(text, "  Suricata's alerts are taken from {}", file.display());
        }
        for relay in &self.relays {
            let _ = writeln!(text, "  relay {} at {}, {}", relay.name, relay.address, relay.capacity);
        }
        for group in &self.groups {
            let sealed = if group.key.is_some() { "sealed" } else { "readable by everyone" };
            let count = self.clients.iter().filter(|client| client.group == group.name).count();
            let _ = writeln!(text, "  group {}: {count} clients, routes {sealed}", group.name);
        }
        for service in &self.services {
            text.push_str(&service.summary());
        }
        text
    }
}

impl Service {
    /// Its name as people write it: without the dot at the end.
    #[must_use]
    pub fn title(&self) -> String {
        title(&self.name)
    }

    /// The key under which its gateway is registered at relays.
    #[must_use]
    pub fn site_key(&self) -> PublicKey {
        self.site.unwrap_or_else(|| self.key.public())
    }

    fn summary(&self) -> String {
        let groups: Vec<&str> = self.groups.iter().map(|group| group.name.as_str()).collect();
        let watchers = match self.watchers.len() {
            0 => String::new(),
            watchers => format!("; {watchers} watchers"),
        };
        let rate = self.relay_rate.map_or_else(String::new, |rate| format!(", {rate} through each"));
        format!(
            "  service {}, key {}\n    {} relays for each of {}{rate}; routes count for {} s, on {} name servers{}{watchers}\n",
            self.title(),
            self.key.public(),
            self.relays_per_group,
            groups.join(", "),
            self.lifetime.as_secs(),
            self.servers.len(),
            if self.prepare { "; prepared ahead" } else { "" }
        )
    }
}

/// A name as people write it: without the dot at the end.
#[must_use]
pub fn title(name: &DomainName) -> String {
    name.to_string().trim_end_matches('.').to_owned()
}

static DIALECT: Dialect = Dialect {
    kind: "a coordinator's configuration",
    // Ten thousand clients have a quarter of it.
    max_mib: 8,
    missing_remedy: "check the path; configurations are usually kept in /etc/psmc-coordinator",
    secret_key: None,
    section: "[coordinator]",
    sections: "[[relay]]",
    setting: r#"name = "co1""#,
    list: r#"["192.0.2.53", "[2001:db8::53]:5353"]"#,
};
