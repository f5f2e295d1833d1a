//! The relays between the sites.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Instant;

use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_testbed::netns::Namespace;
use tokio::time::sleep;

use super::{PATIENCE, POLL, directory, end, file, spawn};
use crate::DemoError;
use crate::network::{Link, Network};
use crate::programs::Program;

/// A relay at the end of each link that leads to one.
pub(crate) struct Relays {
    relays: Vec<Relay>,
}

/// One relay; it is killed on drop.
struct Relay {
    name: &'static str,
    key: PublicKey,
    program: Child,
    file: PathBuf,
    log: PathBuf,
    socket: PathBuf,
}

impl Relays {
    /// Starts them, for a site with this key, and waits until they serve.
    pub(crate) async fn start(
        network: &Network,
        directory: &Path,
        site: &PublicKey,
    ) -> Result<Self, DemoError> {
        let links = network.hosts().filter(|(link, _)| link.to_relay.is_some());
        let relays = links.map(|(link, host)| Relay::start(link, host, directory, site));
        let relays = Self { relays: relays.collect::<Result<_, _>>()? };
        for relay in &relays.relays {
            relay.wait_until_it_answers().await?;
        }
        Ok(relays)
    }

    /// None.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { relays: Vec::new() }
    }

    /// The key of the relay at the end of a link.
    pub(super) fn key(&self, link: &Link) -> Option<&PublicKey> {
        self.relays.iter().find(|relay| relay.name == link.name).map(|relay| &relay.key)
    }

    /// Kills the relay at the end of a link, without a word.
    pub(crate) fn kill(&mut self, link: &Link) {
        for relay in self.relays.iter_mut().filter(|relay| relay.name == link.name) {
            end(&mut relay.program);
        }
    }

    /// Starts the relay at the end of a link once more.
    pub(crate) fn restart(&mut self, network: &Network, link: &Link) -> Result<(), DemoError> {
        for relay in self.relays.iter_mut().filter(|relay| relay.name == link.name) {
            relay.program = run(relay.name, network.far(link), &relay.file, &relay.log)?;
        }
        Ok(())
    }
}

impl Relay {
    fn start(link: &Link, host: &Namespace, directory: &Path, site: &PublicKey) -> Result<Self, DemoError> {
        let key = PrivateKey::generate();
        let of_kind = |kind: &str| directory.join(link.name).with_extension(kind);
        let (file, log, socket) = (of_kind("toml"), of_kind("log"), of_kind("sock"));
        directory::write_private(&of_kind("key"), key.to_base64().as_str())?;
        directory::write_private(&file, &file::relay(link, &of_kind("key"), site, &socket))?;
        let program = run(link.name, host, &file, &log)?;
        Ok(Self { name: link.name, key: key.public(), program, file, log, socket })
    }

    async fn wait_until_it_answers(&self) -> Result<(), DemoError> {
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = psmc_relay::status::ask(&self.socket) {
            if Instant::now() > deadline {
                let log = super::log_tail(&self.log, self.name);
                let error = psmc_service::error_chain(&error);
                return Err(DemoError::Relay { relay: self.name, error, log });
            }
            sleep(POLL).await;
        }
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        end(&mut self.program);
    }
}

fn run(name: &'static str, host: &Namespace, file: &Path, log: &Path) -> Result<Child, DemoError> {
    spawn(host, Program::Relay, file, log)
        .map_err(|source| DemoError::Start { site: name.to_owned(), source })
}
