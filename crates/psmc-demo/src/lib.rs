//! `psmc-demo`: the whole thing on one machine.
//!
//! Two sites, `van` and `hq`, each in a network namespace of its own, joined by three links of different speed. One TCP flow
//! is measured over each link alone, then a file is sent through the tunnel over all of them, and the fastest link is cut
//! while it runs. With relays the links end at those, there is no other way from site to site, and instead of a link one
//! relay is killed. Nothing outside of the namespaces changes, and nothing is left behind.
//!
//! | module | what it has |
//! |---|---|
//! | [`cli`] | the command line |
//! | `network` | the namespaces and the links, how one is cut, and what the tunnel could carry at best |
//! | `launch` | how programs are started and ended, and where their files are |
//! | `sites` | the daemons and relays: keys, configuration, start, status |
//! | `tcp` | TCP flows between the hosts, and what arrived when: rates and gaps |
//! | `transfer` | the file, and the script of what happens meanwhile |
//! | `attack` | `psmc demo --attack` and `--root`: other scripts, with a network and programs of their own |
//! | `view` | what is shown while it runs |
//! | `report` | what is printed at the end |

mod attack;
pub mod cli;
mod error;
mod launch;
mod network;
mod report;
mod sites;
mod tcp;
mod transfer;
mod view;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use psmc_net::keys::PrivateKey;
use psmc_testbed::netns::{enter_user_namespace, is_privileged};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use launch::Directory;
use network::{Links, Network, RELAYS, links};
use psmc_service::output;
use report::Report;
use sites::{Relays, Sites};
use view::View;

pub use error::DemoError;
pub use network::Cut;

/// The arguments of `psmc-demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// Print the results as JSON
    #[arg(long)]
    pub json: bool,
    /// Join the sites by this many relays, and by nothing else; one of them is killed, and started again
    #[arg(long, value_name = "NUMBER", conflicts_with = "cut", value_parser = clap::value_parser!(u8).range(RELAYS))]
    pub relays: Option<u8>,
    /// Flood a service, and see its clients go around by themselves
    #[arg(long, conflicts_with_all = ["relays", "cut"])]
    pub attack: bool,
    /// Flood a root name server, and see resolvers go around by themselves; needs BIND 9
    #[arg(long, conflicts_with_all = ["relays", "cut", "attack"])]
    pub root: bool,
    /// How the fastest link is cut
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub cut: Cut,
    /// Work in this directory and leave configurations and logs in it
    #[arg(long, value_name = "DIRECTORY")]
    pub keep: Option<PathBuf>,
}

/// Runs the demonstration. To be called before the process starts its second thread: an ordinary user needs a user
/// namespace, which a process with several threads cannot enter.
///
/// # Errors
/// [`DemoError`]; also if everything ran, but what arrived is not what was sent.
pub fn run(args: &DemoArgs) -> Result<(), DemoError> {
    // At once, and not after half a minute of measuring.
    File::options().read(true).write(true).open("/dev/net/tun").map_err(DemoError::NoTun)?;
    if !is_privileged() {
        enter_user_namespace()?;
    }
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(DemoError::Runtime)?;
    let hash_ok = runtime.block_on(async {
        tokio::select! {
            // Signals must be caught before there is anything to remove.
            biased;
            error = interruption() => Err(error),
            hash_ok = show(args) => hash_ok,
        }
    })?;
    if hash_ok { Ok(()) } else { Err(DemoError::Corrupt) }
}

/// Runs it, prints the report, and says whether what arrived is what was sent.
async fn show(args: &DemoArgs) -> Result<bool, DemoError> {
    if args.attack || args.root {
        launch::require_others()?;
    }
    if args.attack {
        let report = attack::demonstrate(args.keep.as_deref()).await?;
        print(&report, || report.table(), args.json)?;
        return Ok(report.hash_ok);
    }
    if args.root {
        let report = attack::demonstrate_root(args.keep.as_deref()).await?;
        print(&report, || report.table(), args.json)?;
        return Ok(true);
    }
    let report = demonstrate(args).await?;
    print(&report, || report.table(), args.json)?;
    Ok(report.hash_ok)
}

fn print(report: &impl Serialize, table: impl Fn() -> String, json: bool) -> Result<(), DemoError> {
    let text = if json { output::json(report) } else { Ok(table()) };
    text.and_then(|text| output::print(&text)).map_err(DemoError::Output)
}

/// Everything from making the network to measuring the tunnel. To drop it ends the daemons and removes what was made.
async fn demonstrate(args: &DemoArgs) -> Result<Report, DemoError> {
    let directory = Directory::new(args.keep.as_deref())?;
    let mut view = View::new();
    let links = links(args.relays);
    let cut = if args.relays.is_some() { Cut::Killed } else { args.cut };
    let joined = if args.relays.is_some() { "that only relays join" } else { "joined by three links" };
    view.note(&format!("two sites, van and hq, {joined}: {}", listed(links)));
    let network = Arc::new(Network::new(links)?);
    let alone = measure_links(&network, &mut view).await?;
    let van_key = PrivateKey::generate();
    let mut relays = Relays::start(&network, directory.path(), &van_key.public()).await?;
    view.note("starting psmcd on both sites");
    let mut sites = Sites::start(&network, &van_key, &relays, directory.path()).await?;
    let set_up = sites.wait_until_up().await?;
    view.note(&format!("the tunnel is up with {} paths after {} ms", links.len(), set_up.as_millis()));
    let transfer = transfer::run(&network, &mut sites, &mut relays, cut, &mut view).await?;
    Ok(Report::new(links, cut, alone, set_up, &transfer))
}

/// What one TCP flow gets over each link, in Mbit/s.
async fn measure_links(network: &Network, view: &mut View) -> Result<Vec<f64>, DemoError> {
    let mut alone = Vec::new();
    for link in network.links {
        let name = link.name;
        view.note(&format!("measuring {name}: one TCP flow (CUBIC), outside of the tunnel"));
        alone.push(tcp::goodput_mbps(network, link).await?);
    }
    Ok(alone)
}

fn listed(links: Links) -> String {
    let links = links.iter().map(|link| format!("{} {} Mbit/s", link.name, link.mbps));
    links.collect::<Vec<_>>().join(", ")
}

/// Waits until the user, or the system, wants the demonstration to end.
async fn interruption() -> DemoError {
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = signals else {
        // Without handlers the signals do what they do by default, which ends the demonstration as well.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
    DemoError::Interrupted
}
