//! The configuration of a site: one TOML file, checked to the last value before anything is started.
//!
//! [`Config::load`] either gives a configuration in which every value is legal and all of them fit together, or a
//! [`ConfigError`] with *everything* that is wrong with the file: where, why, and what to do about it.
//!
//! The file passes three stages: TOML to drafts, in which each value is checked by itself (`draft`, `value`); checks between the values (`cross`);
//! drafts to the [`Config`] (`draft` again, and `model`).

mod cross;
mod draft;
mod edit;
mod grants;
mod include;
mod ipfix;
mod model;
mod preset;
mod promise;
mod summary;
mod value;

use std::path::Path;

use psmc_toml::{Dialect, Source};

pub use edit::{Files, SaveError};
pub use grants::grant_text;
pub(crate) use grants::{read_grant, read_grants};
use include::files_of;
pub use ipfix::Ipfix;
pub(crate) use model::FIRST_FLOW;
pub use model::{
    Class, Config, Internet, Invitation, PathCongestion, PathSettings, Paths, Peer, Relay, Site, Sla,
    Treatment, TunnelEnd, Web,
};
pub use preset::{Chosen, Preset};
pub use promise::{DelayLimit, Measured, Method, Promise};
pub use psmc_core::{Direction, SchedulerKind, Tier};
pub use psmc_toml::{Complaint, ConfigError};
pub use value::{
    AllowedNet, BindAddress, Congestion, DEFAULT_KEEPALIVE, DIRECTION, DnsName, Endpoint, Exclusion,
    FITTED_LEAST_MTU, FITTED_MOST_MTU, Host, InterfaceName, LinkMtu, Listen, Name, Port, PortalCheck, Rate,
    RoutePolicy, SCHEDULER, SocketPath, TIER, Tcp, Transport, USED_BYTES, ValueError, Weight,
};

/// Most paths that one peer can have. Nobody has sixty-four uplinks, and every path costs probes and an anti-replay window.
pub const MAX_PATHS: usize = 64;

/// What the name of a path by a stream of TLS has behind that of the one by UDP beside which it is opened.
pub(crate) const STREAM_SUFFIX: &str = "-tls";

/// Most relays that one path can lead through. Each one more costs its detour, and hides no more than two do.
pub const MAX_CHAIN: usize = 4;

/// What the tunnel adds to a full-size packet, in bytes: its own part, UDP and the larger IP header.
pub const TUNNEL_OVERHEAD: usize =
    psmc_wire::datagram::DATAGRAM_OVERHEAD + psmc_wire::frame::DATA_OVERHEAD + 8 + 40;

impl Config {
    /// Reads and checks a file, with those that it includes. Relative paths in it are taken from the directory that it is in.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let mut source = Source::read(&DIALECT, path)?;
        include::extend(&mut source)?;
        Self::check(source)
    }

    /// Checks a text; `path` is what complaints call it, and where its relative paths start.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        Self::check(Source::new(&DIALECT, path, text))
    }

    fn check(source: Source) -> Result<Self, ConfigError> {
        source.check(|root, source, out| {
            let draft = draft::Draft::read(root, source, out);
            cross::check(&draft, out);
            draft.build()
        })
    }
}

/// How complaints speak of these files.
static DIALECT: Dialect = Dialect {
    kind: "a configuration",
    // Fifty thousand peers.
    max_mib: 16,
    missing_remedy: "check the path; configurations are usually kept in /etc/psmc",
    secret_key: Some("private_key"),
    section: "[site]",
    sections: "[[peer]]",
    setting: r#"name = "van""#,
    list: r#"["10.77.0.2/24", "fd77::2/64"]"#,
};

#[cfg(test)]
mod tests;
