//! `psmc peer` and `psmc path`: the peers of a running daemon, and the paths to them.

use std::str::FromStr;

use clap::{Args, Subcommand, ValueEnum};
use psmc_net::keys::PublicKey;

use super::args::Life;
use super::status::{path_reasons, path_table};
use super::{CliError, output};
use psmc_api::{Client, PathSpec, PeerPaths, PeerReport, RateLimit, Request, WaitFor, WantedState};
use psmcd::config::{
    AllowedNet, BindAddress, Congestion, DIRECTION, Direction, Endpoint, InterfaceName, LinkMtu, Name, Rate,
    SCHEDULER, SchedulerKind, TIER, Tier, Transport, USED_BYTES, ValueError, Weight,
};
use psmcd::quota::Quota;

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
    /// Wait until a path to a peer can carry data, or until its direct paths are unhealthy
    ///
    /// Prints the state at the end. Exits with 0 if the condition was met, and with 1 if it timed out.
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
    /// The peer's name here
    peer: Name,
    /// Its public key, which `psmc pubkey` prints there
    #[arg(long, value_name = "KEY")]
    public_key: PublicKey,
    /// The networks behind it, such as 10.77.0.9/32
    #[arg(long, value_name = "NET,…", value_delimiter = ',', required = true)]
    allowed_ips: Vec<AllowedNet>,
    /// Its endpoint, unless the peer dials
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

#[derive(Debug, Subcommand)]
pub(super) enum PathCommand {
    /// List the paths
    List {
        /// Only those to this peer
        peer: Option<Name>,
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Add a path
    Add(PathAddArgs),
    /// Remove a path
    Remove {
        /// The peer that it leads to
        peer: Name,
        /// Its name
        path: Name,
    },
    /// Change a path
    Set(PathSetArgs),
    /// Correct what was used of the quota of a path's uplink
    ///
    /// What the provider has counted and what psmcd has counted differ: other programs use the link, too. The correction is kept in
    /// the daemon's state file, also through restarts, and counting goes on from there; `psmc path list` shows it.
    Quota(PathQuotaArgs),
}

#[derive(Debug, Args)]
pub(super) struct PathAddArgs {
    /// The peer that it leads to
    peer: Name,
    /// Its name
    path: Name,
    /// The interface to use, such as wlan0
    #[arg(long, value_name = "NAME")]
    interface: Option<InterfaceName>,
    /// The local address that it sends from
    #[arg(long, value_name = "IP")]
    address: Option<BindAddress>,
    /// The relays on the path, the nearest first, by their names in the daemon's configuration
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    relays: Vec<Name>,
    /// Its endpoint, if not the peer's
    #[arg(long, value_name = "HOST:PORT")]
    endpoint: Option<Endpoint>,
    /// Its share in the scheduler wrr, 1 to 1000
    #[arg(long, value_name = "N")]
    weight: Option<Weight>,
    /// What it is for: primary, secondary (for what the primary paths have no room for), backup or never
    #[arg(long, value_name = "NAME", value_parser = |text: &str| TIER.read(text))]
    tier: Option<Tier>,
    /// Which way it carries data, as seen from here: both, up or down
    #[arg(long, value_name = "WAY", value_parser = |text: &str| DIRECTION.read(text))]
    direction: Option<Direction>,
    /// What its uplink may carry: 50GB/month,backup is bytes, day, week or month, and what becomes of the path then (backup, never
    /// or slow:RATE); 50GB/month/12,backup has months that begin on the 12th
    #[arg(long, value_name = "QUOTA")]
    quota: Option<Quota>,
    /// What carries its datagrams, if not what the peer's paths have: udp, tls, or auto (tls while nothing comes by udp)
    #[arg(long, value_name = "NAME")]
    transport: Option<Transport>,
    /// Maximum sending rate, such as 20mbit
    #[arg(long, value_name = "RATE")]
    max_rate: Option<Rate>,
    /// The MTU of its link in bytes, if not the interface's
    #[arg(long, value_name = "BYTES")]
    mtu: Option<LinkMtu>,
    /// Congestion control: model, cubic, or fixed (at --max-rate)
    #[arg(long, value_name = "NAME")]
    congestion: Option<Congestion>,
}

#[derive(Debug, Args)]
pub(super) struct PathQuotaArgs {
    /// The peer that it leads to
    peer: Name,
    /// Its name
    path: Name,
    /// What was used in this period, as the provider shows it: 12.3GB, 800MB or 0MB
    #[arg(long, value_name = "BYTES", value_parser = |text: &str| USED_BYTES.read(text))]
    used: u64,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true).args(["weight", "tier", "direction", "max_rate", "state", "congestion"])))]
pub(super) struct PathSetArgs {
    /// The peer that it leads to
    peer: Name,
    /// Its name
    path: Name,
    /// Its share in the scheduler wrr, 1 to 1000
    #[arg(long, value_name = "N")]
    weight: Option<Weight>,
    /// What it is for: primary, secondary (for what the primary paths have no room for), backup or never
    #[arg(long, value_name = "NAME", value_parser = |text: &str| TIER.read(text))]
    tier: Option<Tier>,
    /// Which way it carries data, as seen from here: both, up or down
    #[arg(long, value_name = "WAY", value_parser = |text: &str| DIRECTION.read(text))]
    direction: Option<Direction>,
    /// Maximum sending rate, such as 20mbit, or none
    #[arg(long, value_name = "RATE")]
    max_rate: Option<MaxRate>,
    /// Whether the path carries data (active) or is on standby
    #[arg(long)]
    state: Option<StateArg>,
    /// Congestion control: model, cubic, or fixed (at --max-rate)
    #[arg(long, value_name = "NAME")]
    congestion: Option<Congestion>,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MaxRate {
    None,
    Limit(Rate),
}

impl FromStr for MaxRate {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self::None) } else { text.parse().map(Self::Limit) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StateArg {
    Active,
    Standby,
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

pub(super) fn run_path(client: &mut Client, command: PathCommand) -> Result<(), CliError> {
    match command {
        PathCommand::List { peer, json } => list_paths(client, peer, json),
        PathCommand::Add(args) => add_path(client, args),
        PathCommand::Remove { peer, path } => remove_path(client, peer, path),
        PathCommand::Set(args) => set_path(client, args),
        PathCommand::Quota(PathQuotaArgs { peer, path, used }) => {
            let (peer, path) = (peer.to_string(), path.to_string());
            let note = client.order_noted(&Request::PathQuota { peer, path, used_bytes: used })?;
            note.iter().for_each(|note| output::warn(note));
            Ok(())
        }
    }
}

fn list_paths(client: &mut Client, peer: Option<Name>, json: bool) -> Result<(), CliError> {
    let paths = client.paths(peer.as_ref().map(Name::as_str))?;
    let text = if json { output::json(&paths)? } else { paths_text(&paths) };
    Ok(output::print(&text)?)
}

fn paths_text(peers: &[PeerPaths]) -> String {
    let peers = peers
        .iter()
        .map(|peer| format!("peer {}\n{}{}", peer.peer, path_table(&peer.paths), path_reasons(&peer.paths)));
    peers.collect::<Vec<_>>().join("\n")
}

fn add_path(client: &mut Client, args: PathAddArgs) -> Result<(), CliError> {
    let path = PathSpec {
        name: args.path.to_string(),
        interface: args.interface.map(|name| name.to_string()),
        address: args.address.map(|address| address.get()),
        relays: args.relays.iter().map(ToString::to_string).collect(),
        endpoint: args.endpoint.map(|endpoint| endpoint.to_string()),
        weight: args.weight.map(Weight::get),
        tier: args.tier.map(|tier| tier.name().to_owned()),
        direction: args.direction.map(|direction| direction.name().to_owned()),
        quota: args.quota.map(|quota| quota.spelt()),
        transport: args.transport.map(|transport| transport.as_str().to_owned()),
        max_rate_bits_per_second: args.max_rate.map(Rate::bits_per_second),
        mtu: args.mtu.map(|mtu| mtu.get()),
        congestion: args.congestion.map(|congestion| congestion.as_str().to_owned()),
    };
    if let Some(note) = client.order_noted(&Request::PathAdd { peer: args.peer.to_string(), path })? {
        output::warn(&note);
    }
    Ok(())
}

fn remove_path(client: &mut Client, peer: Name, path: Name) -> Result<(), CliError> {
    Ok(client.order(&Request::PathRemove { peer: peer.to_string(), path: path.to_string() })?)
}

fn set_path(client: &mut Client, args: PathSetArgs) -> Result<(), CliError> {
    let request = Request::PathSet {
        peer: args.peer.to_string(),
        path: args.path.to_string(),
        weight: args.weight.map(Weight::get),
        tier: args.tier.map(|tier| tier.name().to_owned()),
        direction: args.direction.map(|direction| direction.name().to_owned()),
        max_rate: args.max_rate.map(|limit| match limit {
            MaxRate::None => RateLimit::None,
            MaxRate::Limit(rate) => RateLimit::BitsPerSecond(rate.bits_per_second()),
        }),
        state: args.state.map(|state| match state {
            StateArg::Active => WantedState::Active,
            StateArg::Standby => WantedState::Standby,
        }),
        congestion: args.congestion.map(|congestion| congestion.as_str().to_owned()),
    };
    Ok(client.order(&request)?)
}
