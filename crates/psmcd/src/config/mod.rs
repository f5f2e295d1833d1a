//! The configuration of a site: one TOML file, checked to the last value before anything is started.
//!
//! [`Config::load`] either gives a configuration in which every value is legal and all of them fit together, or a
//! [`ConfigError`] with *everything* that is wrong with the file: where, why, and what to do about it.
//!
//! The file passes three stages: TOML to drafts, in which each value is checked by itself (`draft`, `section`, `value`);
//! checks between the values (`cross`); drafts to the [`Config`] (`build`).

mod build;
mod complaint;
mod cross;
mod draft;
mod keys;
mod model;
mod section;
mod source;
mod summary;
mod syntax;
mod value;

use std::path::Path;

use toml::de::DeTable;

pub use complaint::{Complaint, ConfigError};
pub use model::{Config, PathSettings, Paths, Peer, Relay, Site};
pub(crate) use value::RUN_DIR;
pub use value::{
    AllowedNet, BindAddress, DnsName, Endpoint, Host, InnerMtu, InterfaceName, Keepalive, LinkMtu, Listen,
    Name, Port, Rate, Reorder, Scheduler, SocketPath, TunnelAddress, ValueError, Weight,
};

use source::Source;

/// Most paths that one peer can have. Nobody has sixty-four uplinks, and every path costs probes and an anti-replay window.
pub const MAX_PATHS: usize = 64;

/// What the tunnel adds to a full-size packet, in bytes: its own part, UDP and the larger IP header.
pub const TUNNEL_OVERHEAD: usize =
    psmc_wire::datagram::DATAGRAM_OVERHEAD + psmc_wire::frame::DATA_OVERHEAD + 8 + 40;

impl Config {
    /// Reads and checks a file. Relative paths in it are taken from the directory that it is in.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::check(Source::read(path)?)
    }

    /// Checks a text; `path` is what complaints call it, and where its relative paths start.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        Self::check(Source::new(path, text))
    }

    fn check(source: Source) -> Result<Self, ConfigError> {
        let (root, errors) = DeTable::parse_recoverable(source.text());
        if !errors.is_empty() {
            // What the parser made of the rest is guesswork, and complaints about it would mislead.
            let complaints = syntax::complaints(&source, &errors);
            return Err(ConfigError::new(source, complaints));
        }
        let mut complaints = Vec::new();
        let draft = draft::Draft::read(root.get_ref(), &source, &mut complaints);
        cross::check(&draft, &mut complaints);
        match build::config(draft) {
            Some(config) if complaints.is_empty() => Ok(config),
            Some(_) | None => Err(ConfigError::new(source, complaints)),
        }
    }
}

#[cfg(test)]
mod tests;
