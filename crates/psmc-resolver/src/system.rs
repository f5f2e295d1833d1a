//! How the machine comes to use the resolver, and no longer does: by systemd-resolved, or by resolv.conf.

mod resolv_conf;
mod resolved;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

use psmc_net::netlink::interface_index;
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
    /// A resolv.conf has no ports.
    #[error("resolv.conf cannot name {0}, because it has no ports: also listen on port 53 of an address")]
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
    #[error("`{command}` failed: {reason}")]
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
    undo: Undo,
}

#[derive(Debug)]
enum Undo {
    Resolved(Resolved),
    ResolvConf {
        #[expect(dead_code, reason = "it is dropped, and that undoes what was done")]
        conf: ResolvConf,
    },
}

impl Integration {
    /// Makes the machine use the resolver at these addresses.
    ///
    /// # Errors
    /// [`SystemError`]; nothing has changed then.
    pub fn begin(config: &SystemConfig, listen: &[SocketAddr]) -> Result<Self, SystemError> {
        let undo = match config {
            SystemConfig::Resolved { link, domains, program } => {
                Undo::Resolved(Resolved::begin(program, link, domains, listen, interface_index)?)
            }
            SystemConfig::ResolvConf(path) => Undo::ResolvConf { conf: ResolvConf::begin(path, listen)? },
        };
        Ok(Self { undo })
    }

    /// Sees to it that it stays so; ends never.
    pub fn watch(&self) -> impl Future<Output = ()> + use<> {
        let watch = match &self.undo {
            Undo::Resolved(resolved) => Some(resolved.watch()),
            Undo::ResolvConf { .. } => None,
        };
        async {
            match watch {
                Some(watch) => watch.await,
                None => std::future::pending().await,
            }
        }
    }
}
