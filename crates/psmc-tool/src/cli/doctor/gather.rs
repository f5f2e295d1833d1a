//! Looks at everything, and makes facts of it.

mod daemon;
mod machine;
mod network;
mod plan;
mod ports;
mod tries;

use std::fs;
use std::io;
use std::path::Path;

use psmc_net::keys::read_private_key;
use psmc_net::netlink::{Netlink, NetlinkError};
use psmc_service::open_files;
use psmc_toml::read_key_file;
use psmcd::config::Config;
use psmcd::machine::{Marks, Notice};
use zeroize::Zeroizing;

use super::facts::{Daemon, Facts, Machine, Network, WrongKeyFile};
use super::firewall::Dropped;
use plan::Plan;

/// The packets that every way must carry: IPv6's minimum, in bytes (RFC 8200 section 5).
pub(super) const LEAST_PACKET: u16 = 1280;

/// All that can be seen with this configuration.
///
/// # Errors
/// If there is no runtime.
pub(super) fn all(config: &Config, file: &Path) -> io::Result<Facts> {
    let mut unseen = Vec::new();
    let is_privileged = machine::may_administer();
    if is_privileged {
        psmcd::machine::keep_outside(&config.site);
    } else {
        unseen.push(
            "the firewall, and what packets of the tunnel itself do in it: run this as root".to_owned(),
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let daemon = runtime.block_on(daemon::ask(config));
    if matches!(daemon, Daemon::Denied) {
        unseen.push("what psmcd says: its control socket is for root, and who may write to it".to_owned());
    }
    let taken_ports = if matches!(daemon, Daemon::Absent | Daemon::Dead { .. }) {
        ports::taken(config)
    } else {
        Vec::new()
    };
    let mut seen = Seen { notices: notices(config, &daemon), ..Seen::default() };
    if let Err(error) = runtime.block_on(seen.look(config, &daemon, &mut unseen)) {
        unseen.push(format!("the network: {}", crate::error_chain(&error)));
    }
    let dropped = if is_privileged { firewall(config, &mut unseen) } else { Vec::new() };
    // After all else, so that what the tries bring about is among it.
    let machine = machine::look(Some(file), is_privileged, &mut unseen);
    let Seen { notices, network, plan } = seen;
    let Plan { unled, ways, untried } = plan;
    if untried > 0 {
        unseen.push(format!("{untried} more ways to peers: {} are tried at most", plan::MAX_WAYS));
    }
    Ok(Facts { machine, daemon, taken_ports, notices, network, dropped, unled, ways, unseen })
}

/// What can be seen without a configuration.
pub(super) fn without_config() -> Machine {
    machine::look(None, machine::may_administer(), &mut Vec::new())
}

/// What is wrong with the file of the private key that this configuration names, if anything is.
pub(super) fn key_file(file: &Path) -> Option<WrongKeyFile> {
    // The key may stand in it.
    let text = Zeroizing::new(fs::read_to_string(file).ok()?);
    let table: toml::Table = text.parse().ok()?;
    let named = table.get("site")?.get("private_key_file")?.as_str()?;
    let path = file.parent()?.join(named);
    match (read_private_key(&path), read_key_file(&path)) {
        (Err(error), Err(said)) => Some(WrongKeyFile { error, said }),
        (_, _) => None,
    }
}

/// What `psmc check` says as well, but for the network.
fn notices(config: &Config, daemon: &Daemon) -> Vec<Notice> {
    let most = match daemon {
        Daemon::Running { most_files, .. } => *most_files,
        Daemon::Absent | Daemon::Dead { .. } | Daemon::Silent { .. } | Daemon::Denied => {
            open_files::most().ok()
        }
    };
    let few = most.and_then(|most| psmcd::machine::too_few_files(config, most));
    let internet = psmcd::machine::of_internet(config);
    let quotas = psmcd::machine::of_quotas(config, &jiff::Zoned::now());
    psmcd::machine::of_key(&config.site).into_iter().chain(few).chain(internet).chain(quotas).collect()
}

/// What is seen of the network.
#[derive(Default)]
struct Seen {
    notices: Vec<Notice>,
    network: Network,
    plan: Plan,
}

impl Seen {
    async fn look(
        &mut self,
        config: &Config,
        daemon: &Daemon,
        unseen: &mut Vec<String>,
    ) -> Result<(), NetlinkError> {
        let netlink = Netlink::new()?;
        let marks = Marks::of(&config.site);
        let tun = network::tunnel_interface(&netlink, config, daemon).await?;
        self.notices.extend(psmcd::machine::of_network(config).await?);
        let (network, hidden) = network::look(&netlink, config, daemon, (tun, &marks)).await?;
        self.network = network;
        self.notices.extend(hidden);
        self.plan = plan::make(&netlink, config, &self.network, (tun, &marks)).await?;
        tries::make(config, daemon, (&mut self.plan.ways, &marks), unseen).await;
        Ok(())
    }
}

fn firewall(config: &Config, unseen: &mut Vec<String>) -> Vec<Dropped> {
    match machine::ruleset() {
        Ok(Some(ruleset)) => {
            network::packets(config).iter().filter_map(|packet| ruleset.drops(packet)).collect()
        }
        Ok(None) => {
            unseen.push("the firewall: nft says nothing that can be read".to_owned());
            Vec::new()
        }
        Err(_) => {
            unseen.push("the firewall: nft is not installed".to_owned());
            Vec::new()
        }
    }
}
