//! How the machine comes to use the resolver, and no longer does: by systemd-resolved, or by resolv.conf.

mod resolv_conf;
mod resolved;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

use resolv_conf::ResolvConf;
use resolved::Resolved;

/// Whom to tell where the resolver is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemConfig {
    /// systemd-resolved, as the servers of a link.
    Resolved {
        /// The interface.
        link: String,
        /// For which domains; `~.` for all.
        domains: Vec<String>,
        /// The program `resolvectl`.
        program: PathBuf,
    },
    /// A file such as `/etc/resolv.conf`, which is put back at the end.
    ResolvConf(PathBuf),
}

/// Why the machine cannot be made to use the resolver.
#[derive(Debug, Error)]
pub enum SystemError {
    /// Another program writes the file.
    #[error(
        "{} is a symbolic link to {}, which another program writes: write resolved_link = \"psmc0\" in [system] \
         instead if that is systemd-resolved", path.display(), target.display()
    )]
    Link {
        /// The file.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// A resolv.conf has no ports.
    #[error("{0} cannot stand in a resolv.conf, which has no ports: listen on port 53 of an address as well")]
    Port(SocketAddr),
    /// A file cannot be read or written.
    #[error("cannot read or write {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// resolvectl cannot be run, or complains.
    #[error("`{command}` fails: {reason}")]
    Resolvectl {
        /// What was run.
        command: String,
        /// Why.
        reason: String,
    },
}

/// As long as it is there, the machine uses the resolver.
#[derive(Debug)]
pub struct Integration {
    _undo: Undo,
}

#[derive(Debug)]
#[expect(dead_code, reason = "they are dropped, and that undoes what was done")]
enum Undo {
    Resolved(Resolved),
    ResolvConf(ResolvConf),
}

impl Integration {
    /// Has the machine ask at these addresses.
    ///
    /// # Errors
    /// [`SystemError`]; nothing has changed then.
    pub fn begin(config: &SystemConfig, listen: &[SocketAddr]) -> Result<Self, SystemError> {
        let undo = match config {
            SystemConfig::Resolved { link, domains, program } => {
                Undo::Resolved(Resolved::begin(program, link, domains, listen)?)
            }
            SystemConfig::ResolvConf(path) => Undo::ResolvConf(ResolvConf::begin(path, listen)?),
        };
        Ok(Self { _undo: undo })
    }
}
