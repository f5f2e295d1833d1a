//! The configuration of the server: one TOML file, checked to the last value, zone files and keys included, before
//! anything is started.

mod draft;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use hickory_proto::rr::Name as DomainName;
use psmc_routes::update::TsigKey;
use psmc_toml::{ConfigError, Dialect, Name, SocketPath, Source};

use crate::server::{Access, Secondary};
use crate::zone::{Zone, ZoneSigner};

/// A whole file.
#[derive(Debug)]
pub struct Config {
    /// What the server is called.
    pub name: Name,
    /// Where it takes UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// Where it takes TLS, and as whom.
    pub tls: Option<TlsConfig>,
    /// Where zones that change are kept.
    pub database: PathBuf,
    /// UDP responses in a second to each network.
    pub rate_limit: u32,
    /// Where `psmc-dns status` asks.
    pub control_socket: SocketPath,
    /// The TSIG keys that it knows.
    pub keys: Vec<TsigKey>,
    /// The zones.
    pub zones: Vec<ZoneConfig>,
}

/// DNS over TLS.
#[derive(Clone, Debug)]
pub struct TlsConfig {
    /// Where.
    pub listen: Vec<SocketAddr>,
    /// The certificates, in PEM, the server's own first.
    pub certificate_file: PathBuf,
    /// The private key, in PEM.
    pub private_key_file: PathBuf,
}

/// A zone.
#[derive(Debug)]
pub struct ZoneConfig {
    /// Its name, in lower case.
    pub origin: DomainName,
    /// Where it comes from.
    pub content: Content,
    /// Who may fetch it.
    pub access: Access,
    /// Who is told when it changes.
    pub secondaries: Vec<Secondary>,
}

/// Where a zone comes from.
#[derive(Debug)]
pub enum Content {
    /// From a file.
    File {
        /// What the file has.
        zone: Zone,
        /// Keys that may change it; with any, the database has the zone, and the file is where it began.
        updaters: Vec<DomainName>,
        /// What signs it.
        signer: Option<ZoneSigner>,
    },
    /// From another server.
    Primary {
        /// Which.
        address: SocketAddr,
        /// What transfers are signed with.
        key: Option<TsigKey>,
    },
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

    /// What the file means, for people.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut lines = vec![format!("name server {} on {}", self.name, addresses(&self.listen))];
        if let Some(tls) = &self.tls {
            lines.push(format!("  TLS on {}", addresses(&tls.listen)));
        }
        lines.push(format!(
            "  zones that change are kept in {}; at most {} UDP responses/s to each network",
            self.database.display(),
            self.rate_limit
        ));
        lines.extend(self.zones.iter().map(ZoneConfig::summary));
        lines.join("\n") + "\n"
    }
}

impl ZoneConfig {
    fn summary(&self) -> String {
        let origin = &self.origin;
        let what = match &self.content {
            Content::File { zone, updaters, signer } => {
                let changes = if updaters.is_empty() {
                    "does not change".to_owned()
                } else {
                    format!("changed by {}", names(updaters))
                };
                let ds = signer.as_ref().and_then(|signer| signer.ds(origin).ok());
                let signed = ds.map_or_else(String::new, |ds| {
                    format!("; signed: the zone above needs\n    {origin} IN DS {ds}")
                });
                format!("{} records, {changes}{signed}", zone.len())
            }
            Content::Primary { address, key } => {
                let key =
                    key.as_ref().map_or_else(String::new, |key| format!(", with the key {}", key.name()));
                format!("fetched from {address}{key}")
            }
        };
        let told: Vec<SocketAddr> = self.secondaries.iter().map(|secondary| secondary.address).collect();
        let told = if told.is_empty() { String::new() } else { format!("; tells {}", addresses(&told)) };
        format!("  {origin} {what}{told}")
    }
}

fn addresses(list: &[SocketAddr]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn names(list: &[DomainName]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Who is let in by address.
fn ip_of(address: &SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}

/// How complaints speak of these files.
static DIALECT: Dialect = Dialect {
    kind: "a name server's configuration",
    // Ten thousand zones have a quarter of it.
    max_mib: 8,
    missing_remedy: "check the path; configurations are usually kept in /etc/psmc-dns",
    secret_key: None,
    section: "[server]",
    sections: "[[zone]]",
    setting: r#"name = "ns1""#,
    list: r#"["192.0.2.54", "[2001:db8::54]:5353"]"#,
};

#[cfg(test)]
mod tests;
