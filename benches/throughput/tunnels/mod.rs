//! The tunnels that are compared.

mod direct;
pub(crate) mod null;
mod psmc;
mod wireguard;

use std::any::Any;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use crate::hosts::Hosts;

/// A way for packets from the client to the server.
pub(crate) trait Tunnel {
    /// What the table calls it.
    fn name(&self) -> &'static str;

    /// What exactly runs: a file and its version.
    fn origin(&self) -> String;

    /// How many links between the hosts it uses.
    fn links(&self) -> usize {
        1
    }

    /// Starts it on both hosts. It need not be ready to carry packets yet.
    fn raise(&self, hosts: &Hosts) -> Result<Raised, Box<dyn Error>>;
}

/// A tunnel that was started, and ends when the value is dropped.
pub(crate) struct Raised {
    /// The address that leads to the server through the tunnel.
    pub(crate) server: IpAddr,
    /// Its programs.
    pub(crate) processes: Vec<u32>,
    /// The same, and what is to be removed after them, in this order.
    _parts: Vec<Box<dyn Any>>,
}

/// The bare link, ours, and every competitor on this machine.
pub(crate) fn found() -> Vec<Box<dyn Tunnel>> {
    let mut tunnels: Vec<Box<dyn Tunnel>> = vec![Box::new(direct::Direct)];
    for null in null::Null::all() {
        tunnels.push(Box::new(null));
    }
    for psmc in psmc::Psmc::all() {
        tunnels.push(Box::new(psmc));
    }
    for tunnel in wireguard::Wireguard::found() {
        tunnels.push(Box::new(tunnel));
    }
    tunnels
}

/// A new private key from the command `genkey` of `tool`, written to `file`, and its public key.
fn make_key(tool: &Path, file: &Path) -> Result<String, Box<dyn Error>> {
    let genkey = Command::new(tool).arg("genkey").output()?;
    let mut owner_only = OpenOptions::new();
    owner_only.write(true).create_new(true).mode(0o600).open(file)?.write_all(&genkey.stdout)?;
    let pubkey = Command::new(tool).arg("pubkey").stdin(std::fs::File::open(file)?).output()?;
    if !genkey.status.success() || !pubkey.status.success() {
        return Err(format!("{} makes no keys", tool.display()).into());
    }
    Ok(String::from_utf8(pubkey.stdout)?.trim().to_owned())
}
