//! `psmc peer`

use clap::{Args, Subcommand, ValueEnum};
use psmc_net::keys::PublicKey;

use super::grant::Life;
use super::{CliError, output};
use psmc_api::{Client, PeerReport, Request, WaitFor};
use psmcd::config::{AllowedNet, Endpoint, Name, SCHEDULER, SchedulerKind};

#[derive(Debug, Subcommand)]
pub(super) enum PeerCommand {
    /// Change how packets to a peer are spread over its paths
    Set(PeerSetArgs),
    /// Add a peer
    Add(PeerAddArgs),
    /// Remove a peer that was added
    Remove {
        /// The peer
        peer: Name,
    },
    /// Wait until a path to a peer can carry data, or until its direct paths are not well
    ///
    /// Says how it stands by then. Exits with 0 if what was waited for has come, and with 1 if the time was over before.
    Wait(PeerWaitArgs),
}

#[derive(Debug, Args)]
pub(super) struct PeerSetArgs {
    /// The peer
    peer: Name,
    /// Which path takes a packet: earliest, wrr, wrr-adaptive, flow, redundant or backup
    #[arg(long, value_name = "NAME", value_parser = |text: &str| SCHEDULER.read(text))]
    scheduler: SchedulerKind,
}

#[derive(Debug, Args)]
pub(super) struct PeerAddArgs {
    /// What it is called here
    peer: Name,
    /// Its public key, which `psmc pubkey` prints there
    #[arg(long, value_name = "KEY")]
    public_key: PublicKey,
    /// The networks behind it, such as 10.77.0.9/32
    #[arg(long, value_name = "NET,…", value_delimiter = ',', required = true)]
    allowed_ips: Vec<AllowedNet>,
    /// Where it is reached, if it is not the one to call
    #[arg(long, value_name = "HOST:PORT")]
    endpoint: Option<Endpoint>,
}

#[derive(Debug, Args)]
pub(super) struct PeerWaitArgs {
    /// The peer
    peer: Name,
    /// What to wait for
    #[arg(long, default_value = "usable")]
    until: WaitArg,
    /// How long, up to 60s
    #[arg(long = "for", default_value = "30s", value_name = "TIME")]
    time: Life,
    /// Print how it stands as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WaitArg {
    Usable,
    Trouble,
}

pub(super) fn run(client: &mut Client, command: PeerCommand) -> Result<(), CliError> {
    match command {
        PeerCommand::Set(PeerSetArgs { peer, scheduler }) => {
            let (peer, scheduler) = (peer.to_string(), scheduler.name().to_owned());
            Ok(client.order(&Request::PeerSet { peer, scheduler })?)
        }
        PeerCommand::Add(PeerAddArgs { peer, public_key, allowed_ips, endpoint }) => {
            let allowed_ips: Vec<_> = allowed_ips.iter().map(ToString::to_string).collect();
            let endpoint = endpoint.map(|endpoint| endpoint.to_string());
            let key = public_key.to_string();
            Ok(client.add_peer(peer.as_str(), &key, &allowed_ips, endpoint.as_deref())?)
        }
        PeerCommand::Remove { peer } => Ok(client.remove_peer(peer.as_str())?),
        PeerCommand::Wait(args) => wait(client, &args),
    }
}

fn wait(client: &mut Client, args: &PeerWaitArgs) -> Result<(), CliError> {
    let until = match args.until {
        WaitArg::Usable => WaitFor::Usable,
        WaitArg::Trouble => WaitFor::Trouble,
    };
    let report = client.wait_for_peer(args.peer.as_str(), until, args.time.0)?;
    let text = if args.json { output::json(&report)? } else { text(&report) };
    output::print(&text)?;
    if report.reached { Ok(()) } else { Err(CliError::NotYet) }
}

fn text(report: &PeerReport) -> String {
    let usable = if report.usable { "can be used" } else { "cannot be used" };
    let direct = if report.direct_well { "well" } else { "not well" };
    let up = report.learned_up;
    format!("peer {}: {usable}; direct paths {direct}; paths over learned routes {up}\n", report.peer)
}
