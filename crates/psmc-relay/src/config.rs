//! The configuration of a relay: one TOML file, checked to the last value before anything is started.
//!
//! [`Config::load`] either gives a configuration in which every value is legal, or everything that is wrong with the
//! file: where, why, and what to do about it.

mod draft;
mod model;
mod networks;
mod tunnels;
mod value;

use std::path::Path;

use psmc_toml::{ConfigError, Dialect, Source};

pub use model::{Config, Site};
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

#[cfg(test)]
mod tests;
