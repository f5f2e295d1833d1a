//! A scenario: one TOML file, checked to the last value before anything is made.
//!
//! [`Scenario::load`] either gives a scenario in which every value is legal and all of them fit together, or a
//! [`ConfigError`] with *everything* that is wrong with the file: where, why, and what to do about it.
//!
//! The file passes two stages: TOML to drafts, in which each value is checked by itself (`draft`, `value`); drafts to the
//! [`Scenario`], in which names are indices, and addresses, routes and paths are complete (`build`).

mod build;
mod draft;
mod model;
mod summary;
pub(crate) mod value;

use std::path::Path;

use psmc_toml::{Dialect, Source};

pub use model::{
    Action, Bound, Check, Event, Host, HostId, Link, LinkEnd, LinkId, Metric, Nat, NatKind, Program,
    ProgramId, Route, Router, Scenario, Sites, Subject, Traffic, TrafficId, TrafficKind, Tunnel, TunnelEnd,
    TunnelId, TunnelPath,
};
pub use psmc_toml::{Complaint, ConfigError};

impl Scenario {
    /// Reads and checks a file. Relative paths in it are taken from the directory that it is in.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::check(Source::read(&DIALECT, path)?)
    }

    /// Checks a text; `path` is what complaints call it, and where its relative paths start.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        Self::check(Source::new(&DIALECT, path, text))
    }

    fn check(source: Source) -> Result<Self, ConfigError> {
        source.check(|root, source, out| {
            let draft = draft::Draft::read(root, source, out);
            build::scenario(&draft, source, out)
        })
    }
}

/// How complaints speak of these files.
static DIALECT: Dialect = Dialect {
    kind: "a scenario",
    // As many links, tunnels and streams as there can be, each with all settings, have less.
    max_mib: 8,
    missing_remedy: "check the path; there are examples in the directory `scenarios` of PSMC",
    secret_key: None,
    section: "[scenario]",
    sections: "[[link]]",
    setting: r#"name = "dsl""#,
    list: r#"["van", "hq"]"#,
};

#[cfg(test)]
mod tests;
