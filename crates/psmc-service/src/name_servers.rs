//! Which name servers the machine asks, as long as a program wants it: through systemd-resolved, or resolv.conf.

mod resolv_conf;
mod resolved;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use thiserror::Error;

use psmc_net::netlink::interface_index;
use resolv_conf::ResolvConf;
use resolved::Resolved;

/// Whom to tell where the name servers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
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

/// Why the machine cannot be made to ask other name servers.
#[derive(Debug, Error)]
pub enum NameServersError {
    /// A resolv.conf has no ports.
    #[error("resolv.conf cannot name {0}, because it has no ports: the name server has to listen on port 53")]
    Port(SocketAddr),
    /// A file cannot be read or written.
    #[error("cannot read or write {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is where nothing may be written, as in a service that systemd confines.
    #[error(
        "cannot write {}, because its file system is read-only here: where systemd runs this, add \
         `ReadWritePaths={}` under [Service] by `systemctl edit UNIT`",
        path.display(), folder_of(path).display()
    )]
    ReadOnly {
        /// Which.
        path: PathBuf,
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

impl NameServersError {
    /// What the system said of a file.
    fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::ReadOnlyFilesystem {
            Self::ReadOnly { path }
        } else {
            Self::File { path, source }
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// As long as it is there, the machine asks these name servers.
#[derive(Debug)]
pub struct Integration {
    undo: Undo,
}

#[derive(Debug)]
enum Undo {
    Resolved(Resolved),
    ResolvConf { conf: ResolvConf },
}

impl Integration {
    /// Makes the machine ask the name servers at these addresses.
    ///
    /// # Errors
    /// [`NameServersError`]; nothing has changed then.
    pub fn begin(place: &Place, servers: &[SocketAddr]) -> Result<Self, NameServersError> {
        let undo = match place {
            Place::Resolved { link, domains, program } => {
                Undo::Resolved(Resolved::begin(program, link, domains, servers, interface_index)?)
            }
            Place::ResolvConf(path) => Undo::ResolvConf { conf: ResolvConf::begin(path, servers)? },
        };
        Ok(Self { undo })
    }

    /// Whether it still is so: others write resolv.conf, too, and systemd-resolved forgets what it was told of a link that goes, or
    /// that systemd-networkd configures.
    #[must_use]
    pub fn holds(&self) -> bool {
        match &self.undo {
            Undo::Resolved(resolved) => {
                resolved.holds(interface_index, fs::read_to_string(resolved::LIST).ok().as_deref())
            }
            Undo::ResolvConf { conf } => conf.holds(),
        }
    }

    /// Sees to it that systemd-resolved stays told; ends never.
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

/// The file with the name servers that were asked before a program took the place of `path`, if one has.
#[must_use]
pub fn earlier(path: &Path) -> PathBuf {
    resolv_conf::earlier(path)
}

/// Puts back the resolv.conf that a program has left which could not do so itself. Where none has nothing is done.
///
/// # Errors
/// [`NameServersError::File`].
pub fn restore(path: &Path) -> Result<(), NameServersError> {
    resolv_conf::restore(path)
}
