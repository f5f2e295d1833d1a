//! The configuration of a guard: one TOML file, checked to the last value before anything is started.

mod draft;
mod model;
#[cfg(test)]
mod tests;
mod value;

use std::path::Path;

use psmc_toml::{ConfigError, Dialect, Source};

pub(crate) use draft::RUN_DIR;
pub use model::{Config, Coordinator, Defence, Line, Service};

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
}

/// How complaints speak of these files.
static DIALECT: Dialect = Dialect {
    kind: "a guard's configuration",
    // A hundred services have a hundredth of it.
    max_mib: 1,
    missing_remedy: "check the path; configurations of guards are usually kept in /etc/psmc-guard",
    secret_key: Some("private_key"),
    section: "[guard]",
    sections: "[[service]]",
    setting: r#"name = "hq""#,
    list: r#"["203.0.113.10/32", "2001:db8::10/128"]"#,
};
