//! The cheapest tunnel there can be: what TUN and UDP themselves cost.

use std::error::Error;
use std::process::Command;

use clap::ValueEnum;

use super::{Raised, Tunnel};
use crate::hosts::{Host, Hosts};
use crate::kit::programs::Program;
use crate::null::Cipher;

/// The port of either end.
const PORT: u16 = 5115;

/// With so much encryption.
pub(super) struct Null {
    name: &'static str,
    cipher: Cipher,
}

impl Null {
    /// Without encryption and with it.
    pub(super) fn all() -> [Self; 2] {
        [("null", Cipher::None), ("null-aes", Cipher::Aes256Gcm)].map(|(name, cipher)| Self { name, cipher })
    }

    /// This program, as one end of the tunnel.
    fn start(&self, host: &Host, peer: &Host) -> Result<Program, Box<dyn Error>> {
        let cipher = self.cipher.to_possible_value().ok_or("a cipher without a name")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("null-end").arg(format!("{}/24", host.inner)).arg(format!("{}:{PORT}", host.outer(0)));
        host.start(command.arg(format!("{}:{PORT}", peer.outer(0))).arg(cipher.get_name()))
    }
}

impl Tunnel for Null {
    fn name(&self) -> &'static str {
        self.name
    }

    fn origin(&self) -> String {
        "packets of up to 64 KiB as they are, in batches of datagrams".to_owned()
    }

    fn raise(&self, hosts: &Hosts) -> Result<Raised, Box<dyn Error>> {
        let ends = [self.start(&hosts.client, &hosts.server)?, self.start(&hosts.server, &hosts.client)?];
        let processes = ends.iter().map(|end| end.0.id()).collect();
        Ok(Raised { server: hosts.server.inner, processes, _parts: vec![Box::new(ends)] })
    }
}
