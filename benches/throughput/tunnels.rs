//! The tunnels that are compared.

mod direct;
mod nebula;
pub(crate) mod null;
mod openvpn;
mod psmc;
mod wireguard;

use std::any::Any;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::hosts::Hosts;
use crate::kit::programs::NotOnPath;

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

    /// How often it is tried in a run before the benchmark fails, once at least. Ours has to work each time.
    fn attempts(&self) -> usize {
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

/// What can be compared on this machine.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) tunnels: Vec<Box<dyn Tunnel>>,
    /// Competitors that can't take part, and why.
    pub(crate) absent: Vec<(&'static str, NotOnPath)>,
}

impl Found {
    /// The bare link, ours, and every competitor on the PATH.
    pub(crate) fn here() -> Self {
        let mut found = Self { tunnels: vec![Box::new(direct::Direct)], absent: Vec::new() };
        null::Null::all().into_iter().for_each(|null| found.tunnels.push(Box::new(null)));
        psmc::Psmc::all().into_iter().for_each(|psmc| found.tunnels.push(Box::new(psmc)));
        for program in wireguard::Program::ALL {
            found.add(program.name, wireguard::Wireguard::find(program));
        }
        found.add("openvpn", openvpn::OpenVpn::find());
        found.add("nebula", nebula::Nebula::find());
        found
    }

    fn add<T: Tunnel + 'static>(&mut self, name: &'static str, found: Result<T, NotOnPath>) {
        match found {
            Ok(tunnel) => self.tunnels.push(Box::new(tunnel)),
            Err(missing) => self.absent.push((name, missing)),
        }
    }
}

/// The MTU inside the tunnels that don't choose their own, WireGuard's.
pub(crate) const MTU: u16 = 1420;

/// Bytes of a socket's buffers, where a tunnel leaves them to its user.
pub(crate) const SOCKET_BUFFER: usize = 7 << 20;

/// What a program is to write to where its complaints go: its standard output is for its own program's results.
fn to_stderr() -> Result<Stdio, Box<dyn Error>> {
    Ok(std::io::stderr().as_fd().try_clone_to_owned()?.into())
}

/// Runs a tool to its end.
fn run(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
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
