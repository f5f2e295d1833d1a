//! WireGuard in user space, as we are.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ipnet::IpNet;

use super::{Raised, Tunnel, make_key};
use crate::hosts::{Host, Hosts};
use crate::kit::programs::{self, NotOnPath, on_path, path_and_version};
use crate::measure::retry;

/// The port on which both sides listen.
const PORT: u16 = 51820;

/// A program that is looked for.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// What it is to be told beside the interface.
    arguments: &'static [&'static str],
}

impl Program {
    pub(super) const ALL: [Self; 3] = [
        Self { name: "wireguard-go", arguments: &[] },
        Self { name: "boringtun-cli", arguments: &["--foreground", "--disable-drop-privileges"] },
        Self { name: "gotatun", arguments: &["--foreground", "--disable-drop-privileges"] },
    ];
}

/// One of them.
pub(super) struct Wireguard {
    program: Program,
    daemon: PathBuf,
    wg: PathBuf,
}

impl Wireguard {
    /// The one on the PATH, and what configures it.
    pub(super) fn find(program: Program) -> Result<Self, NotOnPath> {
        Ok(Self { daemon: on_path(program.name)?, wg: on_path("wg")?, program })
    }

    /// Starts a daemon, which makes the side's interface.
    fn start(&self, side: &Side<'_>) -> Result<programs::Program, Box<dyn Error>> {
        // In the foreground, so that it ends with us.
        let mut command = Command::new(&self.daemon);
        command.args(self.program.arguments).arg(&side.interface);
        side.host.start(command.env("WG_PROCESS_FOREGROUND", "1").stdout(Stdio::null()))
    }

    fn configure(&self, side: &Side<'_>, peer: &Side<'_>) -> Result<(), Box<dyn Error>> {
        let mut set = Command::new(&self.wg);
        set.args(["set", &side.interface, "listen-port", &PORT.to_string()]);
        set.arg("private-key").arg(&side.key_file);
        set.args(["peer", &peer.public_key, "allowed-ips", &format!("{}/32", peer.host.inner)]);
        set.args(["endpoint", &format!("{}:{PORT}", peer.host.outer(0))]);
        // Refused until the daemon listens on its socket.
        retry(|| side.host.output(&mut set))?;
        side.host.namespace.add_address(&side.interface, IpNet::new(side.host.inner, 24)?)?;
        Ok(side.host.namespace.set_link(&side.interface, true)?)
    }
}

impl Tunnel for Wireguard {
    fn name(&self) -> &'static str {
        self.program.name
    }

    fn origin(&self) -> String {
        path_and_version(&self.daemon)
    }

    /// gotatun 0.10.2 panics now and then while it is set up.
    fn attempts(&self) -> usize {
        3
    }

    fn raise(&self, hosts: &Hosts) -> Result<Raised, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let sides = [
            Side::new(&hosts.client, &self.wg, directory.path())?,
            Side::new(&hosts.server, &self.wg, directory.path())?,
        ];
        let [client, server] = &sides;
        let programs = [self.start(client)?, self.start(server)?];
        self.configure(client, server)?;
        self.configure(server, client)?;
        let sockets = sides.map(|side| Socket::of(&side.interface));
        let processes = programs.iter().map(|program| program.0.id()).collect();
        Ok(Raised {
            server: hosts.server.inner,
            processes,
            _parts: vec![Box::new(programs), Box::new(sockets)],
        })
    }
}

/// One end of the tunnel.
struct Side<'a> {
    host: &'a Host,
    interface: String,
    key_file: PathBuf,
    public_key: String,
}

impl<'a> Side<'a> {
    fn new(host: &'a Host, wg: &Path, directory: &Path) -> Result<Self, Box<dyn Error>> {
        let key_file = directory.join(host.name);
        Ok(Self {
            host,
            // The sockets of all network namespaces share one directory, so the names must differ.
            interface: format!("{}{}", host.name, std::process::id()),
            public_key: make_key(wg, &key_file)?,
            key_file,
        })
    }
}

/// The control socket of a daemon, which leaves it behind when it is killed.
struct Socket(PathBuf);

impl Socket {
    fn of(interface: &str) -> Self {
        Self(Path::new("/var/run/wireguard").join(interface).with_extension("sock"))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Gone already if the daemon ended by itself.
        let _ = fs::remove_file(&self.0);
    }
}
