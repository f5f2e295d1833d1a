//! What a site changes on its host beside its interface, its rules and routes, and that it is undone.
//!
//! - a table of nftables: what peers send to the Internet is masqueraded, nothing but the tunnel's own leaves where there is a kill
//!   switch, and what is excluded goes another way than the rest;
//! - settings of the kernel, without which it would not forward, or drop answers;
//! - rules for Docker, which drops what others want forwarded;
//! - the name servers that the host asks.
//!
//! All that outlives the process is in a [`Record`] beside the control socket, before it is done: so a site that was killed is cleaned
//! up after by its next start, or by `psmc clean`. The kill switch stays until then: that is what it is for.

mod clean;
mod docker;
mod name_servers;
mod record;
mod sysctl;
mod table;

use std::path::{Path, PathBuf};
use std::time::Instant;

use psmc_net::netlink::Uplink;
use psmc_net::nft::{NftError, nft, replacing, table_name};
use psmc_service::name_servers::NameServersError;
use thiserror::Error;
use tokio::task::spawn_blocking;

use super::steering::Numbers;
use crate::config::{Exclusion, Internet, Site};
use crate::machine::cgroup_folder;
pub use clean::{CleanError, Cleaned, clean};
use name_servers::NameServers;
use record::{Record, Saved, unfinished};
use table::Shape;

/// Why something is not as the configuration has it.
#[derive(Debug, Error)]
pub enum FootprintError {
    /// nftables is missing, or refuses.
    #[error("`internet`, `kill_switch` and `exclude` need nftables")]
    Nft(#[from] NftError),
    /// A setting of the kernel cannot be changed.
    #[error(
        "cannot set {name} to {value}: set it where this machine is managed, as in /etc/sysctl.d or by who runs this container"
    )]
    Sysctl {
        /// The setting.
        name: String,
        /// What it has to be.
        value: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
    /// Docker's rules cannot be changed.
    #[error("Docker drops what is to be forwarded, and `{command}` failed: {reason}")]
    Docker {
        /// What was run.
        command: String,
        /// What it said.
        reason: String,
    },
    /// The machine cannot be made to ask other name servers.
    #[error("cannot set the name servers of `dns`")]
    NameServers(#[from] NameServersError),
}

/// What a site has changed on its host.
pub(in crate::daemon) struct Footprint {
    saved: Saved,
    /// The script by which the table was made.
    applied: Option<String>,
    name_servers: NameServers,
    /// Whether a psmcd that was killed has left any of it.
    was_there: bool,
}

/// The file in which a site writes what it changes: beside its control socket.
fn record_beside(socket: &Path) -> PathBuf {
    socket.with_extension("changes")
}

/// The table of a site.
fn table_of(site: &Site) -> String {
    table_name("psmc", site.name.as_str())
}

impl Footprint {
    /// Takes over what was left, and lets nothing leave from here on if there is a kill switch.
    ///
    /// # Errors
    /// [`FootprintError::Nft`].
    pub(in crate::daemon) async fn begin(site: &Site, numbers: Numbers) -> Result<Self, FootprintError> {
        let file = record_beside(site.control_socket.as_path());
        let left = Record::read(&file);
        let was_there = left.is_some();
        if was_there {
            tracing::warn!("psmcd was killed, or its machine has stopped: what it has left is taken over");
        }
        let mut record = left.unwrap_or_default();
        (record.mark, record.table, record.back_table) =
            (numbers.mark.get(), numbers.table, numbers.back_table);
        let saved = Saved::new(file, record);
        let mut footprint = Self { saved, applied: None, name_servers: NameServers::default(), was_there };
        footprint.saved.save();
        let left = footprint.saved.record.nft_table.is_some();
        if site.internet.kill_switch || left {
            let done = footprint.match_table(site, numbers, None, &[]).await;
            if let Err(error) = done {
                footprint.abandon().await;
                return Err(error);
            }
        }
        Ok(footprint)
    }

    /// Has everything as the configuration and the uplinks want it.
    ///
    /// # Errors
    /// [`FootprintError`], of the first thing that cannot be had; what can be had is there all the same.
    pub(in crate::daemon) async fn match_host(
        &mut self,
        site: &Site,
        numbers: Numbers,
        interface: &str,
        uplinks: &[Uplink],
    ) -> Result<(), FootprintError> {
        let names: Vec<&str> = uplinks.iter().map(|uplink| uplink.name.as_str()).collect();
        let table = self.match_table(site, numbers, Some(interface), &names).await;
        let settings = sysctl::match_settings(&mut self.saved, &sysctl::wanted(site, &names));
        let docker = self.match_docker(&site.internet, interface, &names).await;
        let servers = self.name_servers.match_site(&mut self.saved, &site.internet.dns, interface).await;
        table.and(settings).and(docker).and(servers)
    }

    async fn match_table(
        &mut self,
        site: &Site,
        numbers: Numbers,
        interface: Option<&str>,
        uplinks: &[&str],
    ) -> Result<(), FootprintError> {
        let name = table_of(site);
        let shape = Shape {
            name: &name,
            mark: numbers.mark.get(),
            interface,
            own: &site.addresses,
            internet: &site.internet,
            uplinks,
            cgroups: existing_cgroups(&site.internet),
        };
        let script = shape.script();
        if script == self.applied && (script.is_some() || self.saved.record.nft_table.is_none()) {
            return Ok(());
        }
        // One of a site that was called otherwise.
        let other = self.saved.record.nft_table.take().filter(|table| *table != name);
        let mut whole = other.map_or_else(String::new, |other| replacing(&other, None));
        whole += &replacing(&name, script.as_deref());
        self.saved.record.nft_table = Some(name);
        self.saved.save();
        run(whole).await?;
        if script.is_none() {
            self.saved.record.nft_table = None;
            self.saved.save();
        }
        self.applied = script;
        Ok(())
    }

    async fn match_docker(
        &mut self,
        internet: &Internet,
        interface: &str,
        uplinks: &[&str],
    ) -> Result<(), FootprintError> {
        let wanted = if internet.is_offered { docker::rules(interface, uplinks) } else { Vec::new() };
        if wanted == self.saved.record.docker {
            return Ok(());
        }
        let before = self.saved.record.docker.clone();
        let is_there = spawn_blocking(docker::is_there).await.unwrap_or_default();
        if !is_there && before.is_empty() {
            return Ok(());
        }
        self.saved.record.docker.extend(wanted.iter().filter(|rule| !before.contains(rule)).cloned());
        self.saved.save();
        let (removed, added) = (before, wanted.clone());
        let done = spawn_blocking(move || docker::replace(&removed, &added)).await;
        done.unwrap_or(Ok(()))?;
        self.saved.record.docker = wanted;
        self.saved.save();
        Ok(())
    }

    /// Whether somebody else has changed what this site has changed, or something that failed is to be tried again. To be asked now
    /// and then: nobody tells.
    pub(in crate::daemon) fn is_disturbed(&mut self, now: Instant) -> bool {
        self.name_servers.is_due(now)
    }

    /// Takes everything back.
    pub(in crate::daemon) async fn end(&mut self) {
        self.name_servers.end();
        let record = std::mem::take(&mut self.saved.record);
        let failed = spawn_blocking(move || record.undo()).await.unwrap_or_default();
        if failed.is_empty() {
            self.saved.remove();
        }
        for error in failed {
            tracing::warn!(error = crate::error_chain(&error), "cannot undo a change of this host");
        }
    }

    /// Takes everything back when the site cannot start, unless there was something before: a kill switch of one that was killed.
    pub(in crate::daemon) async fn abandon(&mut self) {
        if !self.was_there {
            self.end().await;
        }
    }
}

/// Those control groups that are excluded and there: nftables knows them by what they are, and not by their names.
fn existing_cgroups(internet: &Internet) -> Vec<&str> {
    let paths = internet.exclude.iter().filter_map(|excluded| match excluded {
        Exclusion::Cgroup(path) => Some(path.as_str()),
        Exclusion::Network(_) | Exclusion::Lan | Exclusion::User(_) => None,
    });
    paths.filter(|path| cgroup_folder(path).is_dir()).collect()
}

/// Has nftables carry out a script.
async fn run(script: String) -> Result<(), FootprintError> {
    let done = spawn_blocking(move || nft(&["-f", "-"], &script)).await;
    // A task that was cancelled: the program ends.
    done.map_or(Ok(()), |done| done.map(drop).map_err(FootprintError::from))
}
