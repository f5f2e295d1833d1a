//! Ours: the real daemon, configured as a user would.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Raised, Tunnel, make_key};
use crate::hosts::{Host, Hosts, uplink};
use crate::kit::programs::{Program, path_and_version};
use psmc_testbed::programs::installed_program;

/// The port on which the daemons listen.
const PORT: u16 = 5115;

/// With so many paths.
pub(super) struct Psmc {
    name: &'static str,
    paths: usize,
}

impl Psmc {
    /// With one path, as the others, and with several.
    pub(super) fn all() -> [Self; 4] {
        [("psmc", 1), ("psmc-2", 2), ("psmc-4", 4), ("psmc-8", 8)].map(|(name, paths)| Self { name, paths })
    }
}

impl Tunnel for Psmc {
    fn name(&self) -> &'static str {
        self.name
    }

    fn links(&self) -> usize {
        self.paths
    }

    fn origin(&self) -> String {
        path_and_version(&installed_program("psmcd"))
    }

    fn raise(&self, hosts: &Hosts) -> Result<Raised, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let tool = installed_program("psmc");
        let make_key = |host: &Host| make_key(&tool, &key_file(directory.path(), host));
        let (client_key, server_key) = (make_key(&hosts.client)?, make_key(&hosts.server)?);

        let mut to_server = site(directory.path(), &hosts.client) + &peer(&hosts.server, &server_key);
        to_server += &format!("endpoint = \"{}:{PORT}\"\n", hosts.server.outer(0));
        to_server.extend((0..self.paths).map(|link| path(&hosts.server, link)));
        let to_client = site(directory.path(), &hosts.server) + &peer(&hosts.client, &client_key);
        let server = start(directory.path(), &hosts.server, &to_client)?;
        let client = start(directory.path(), &hosts.client, &to_server)?;
        Ok(Raised {
            server: hosts.server.inner,
            processes: vec![client.0.id(), server.0.id()],
            _parts: vec![Box::new(client), Box::new(server), Box::new(directory)],
        })
    }
}

fn key_file(directory: &Path, host: &Host) -> PathBuf {
    directory.join(host.name).with_extension("key")
}

fn site(directory: &Path, host: &Host) -> String {
    let key_file = key_file(directory, host);
    let socket = directory.join(host.name).with_extension("sock");
    format!(
        "[site]\nname = {:?}\nprivate_key_file = {key_file:?}\naddresses = [\"{}/24\"]\nlisten = {PORT}\n\
         control_socket = {socket:?}\n\n",
        host.name, host.inner
    )
}

fn peer(host: &Host, public_key: &str) -> String {
    format!(
        "[[peer]]\nname = {:?}\npublic_key = {public_key:?}\nallowed_ips = [\"{}/32\"]\n",
        host.name, host.inner
    )
}

fn path(host: &Host, link: usize) -> String {
    let (interface, address) = (uplink(link), host.outer(link));
    format!(
        "\n[[peer.path]]\nname = {interface:?}\ninterface = {interface:?}\nendpoint = \"{address}:{PORT}\"\n"
    )
}

fn start(directory: &Path, host: &Host, configuration: &str) -> Result<Program, Box<dyn Error>> {
    let file = directory.join(host.name).with_extension("toml");
    fs::write(&file, configuration)?;
    host.start(Command::new(installed_program("psmcd")).args(["--log", "warn", "--config"]).arg(file))
}
