//! What can stand on the command lines.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::dns::DnsCommand;
use super::grant::GrantArgs;
use super::other::OtherArgs;
use super::peer::PeerCommand;
use super::register::RegisterArgs;
use super::routes::RoutesArgs;
use super::select::SelectArgs;
use super::topology::TopologyArgs;
use psmcd::config::{BindAddress, Congestion, Endpoint, InterfaceName, LinkMtu, Name, Rate, Weight};

/// Control a multipath tunnel, and make its keys
#[derive(Debug, Parser)]
#[command(name = "psmc", version, propagate_version = false, disable_help_subcommand = true)]
#[command(after_help = "\
A tunnel in four steps, on each of the two sites:
  umask 077; psmc genkey > van.key       make the private key
  psmc pubkey < van.key                  print the public key, for the other site's file
  psmc check van.toml                    is the configuration right, and what does it mean?
  psmcd --config van.toml                run the tunnel; then, elsewhere: psmc status")]
pub(super) struct Psmc {
    #[command(flatten)]
    pub(super) target: Target,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Which daemon is meant.
#[derive(Debug, Args)]
pub(super) struct Target {
    /// The control socket of the daemon to talk to
    #[arg(long, global = true, value_name = "PATH", conflicts_with = "site", help_heading = "Which daemon")]
    pub(super) socket: Option<PathBuf>,
    /// The site to talk to, where several run on this machine
    #[arg(long, global = true, value_name = "NAME", help_heading = "Which daemon")]
    pub(super) site: Option<Name>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check a configuration, and say what it means
    ///
    /// Prints everything that is wrong with the file, with line and remedy, and exits with 1; or what the file means, and
    /// exits with 0. Nothing is started or changed.
    Check {
        /// The configuration of a site, in TOML
        file: PathBuf,
    },
    /// Make a private key
    ///
    /// Prints a new private key. Keep it in a file of its own, which nobody else can read:
    ///
    ///   umask 077; psmc genkey > van.key
    #[command(verbatim_doc_comment)]
    Genkey,
    /// Print the public key of a private key
    ///
    /// Reads a private key from standard input:
    ///
    ///   psmc pubkey < van.key
    #[command(verbatim_doc_comment)]
    Pubkey,
    /// Sign a grant: the right of a site to use a relay, for some time
    ///
    /// Prints one line for the site's `grants_file`. Relays that name the coordinator's public key serve whoever has one,
    /// without an `[[allow]]`:
    ///
    ///   psmc grant --coordinator coordinator.key --relay KEY --holder KEY --for 24h >> van.grants
    #[command(verbatim_doc_comment)]
    Grant(GrantArgs),
    /// Show what a running daemon is doing: peers, paths, rates, losses
    Status {
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Have a running daemon read its configuration again
    ///
    /// What has changed is applied without losing a packet: peers and their keys, networks, paths, weights, relays, classes. What
    /// needs a restart is named, and so is what was changed by hand while the daemon ran: that stays. A file that is wrong
    /// changes nothing; then the exit status is 1.
    Reload {
        /// Write peers and paths that were added while it ran into the configuration first; all else in it stays as it is
        #[arg(long)]
        save: bool,
    },
    /// List, add, remove or change the paths of a running daemon
    ///
    /// Changes last until the daemon ends; write them into its configuration to keep them.
    Path {
        #[command(subcommand)]
        command: PathCommand,
    },
    /// Add or remove peers of a running daemon, change them, or wait for them
    ///
    /// Changes last until the daemon ends; write them into its configuration to keep them.
    Peer {
        #[command(subcommand)]
        command: PeerCommand,
    },
    /// Show, set or end the routes to peers that a running daemon has learned
    Routes(RoutesArgs),
    /// Show or set the relays at which a running daemon is a gateway
    ///
    /// Those that are set count until the daemon ends, beside those of its configuration.
    Register(RegisterArgs),
    /// Select relays: which of many make the best connection together?
    ///
    /// Reads a network with its relays, bandwidths and latencies, and prints the paths to use. docs/SELECTION.md has the
    /// formats and the algorithms.
    Select(Box<SelectArgs>),
    /// Fetch one file from several mirrors at once
    #[command(disable_help_flag = true)]
    Fetch(OtherArgs),
    /// Keep names working: alternate routes of services, in DNS
    Dns {
        #[command(subcommand)]
        command: DnsCommand,
    },
    /// Make a network by chance, to try `psmc select` on
    ///
    /// Prints it as TOML:
    ///
    ///   psmc topology transit-stub --nodes 200 --relays 20 > net.toml; psmc select net.toml
    #[command(verbatim_doc_comment)]
    Topology(TopologyArgs),
    /// Show the whole thing on this one machine: two sites, several paths, one of them cut
    #[command(disable_help_flag = true)]
    Demo(OtherArgs),
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
}

#[derive(Debug, Args)]
pub(super) struct PathAddArgs {
    /// The peer that it leads to
    pub(super) peer: Name,
    /// Its name
    pub(super) path: Name,
    /// The interface that it must leave by, such as wlan0
    #[arg(long, value_name = "NAME")]
    pub(super) interface: Option<InterfaceName>,
    /// The local address that it sends from
    #[arg(long, value_name = "IP")]
    pub(super) address: Option<BindAddress>,
    /// The relays that it leads through, the nearest first, as the daemon's configuration names them
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(super) relays: Vec<Name>,
    /// Where it leads, if not to the peer's own endpoint
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) endpoint: Option<Endpoint>,
    /// Its share in the scheduler wrr, 1 to 1000
    #[arg(long, value_name = "N")]
    pub(super) weight: Option<Weight>,
    /// The most it may send, such as 20mbit
    #[arg(long, value_name = "RATE")]
    pub(super) max_rate: Option<Rate>,
    /// The MTU of its link in bytes, if not the interface's
    #[arg(long, value_name = "BYTES")]
    pub(super) mtu: Option<LinkMtu>,
    /// How its rate is found: model, cubic, or fixed (at --max-rate)
    #[arg(long, value_name = "NAME")]
    pub(super) congestion: Option<Congestion>,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("change").required(true).multiple(true).args(["weight", "max_rate", "state", "congestion"])))]
pub(super) struct PathSetArgs {
    /// The peer that it leads to
    pub(super) peer: Name,
    /// Its name
    pub(super) path: Name,
    /// Its share in the scheduler wrr, 1 to 1000
    #[arg(long, value_name = "N")]
    pub(super) weight: Option<Weight>,
    /// The most it may send, such as 20mbit, or none for no limit
    #[arg(long, value_name = "RATE")]
    pub(super) max_rate: Option<MaxRate>,
    /// Whether it carries data, or waits until no other can
    #[arg(long)]
    pub(super) state: Option<StateArg>,
    /// How this site finds its rate: model, cubic, or fixed (at --max-rate)
    #[arg(long, value_name = "NAME")]
    pub(super) congestion: Option<Congestion>,
}

/// A limit, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaxRate {
    None,
    Limit(Rate),
}

impl std::str::FromStr for MaxRate {
    type Err = psmcd::config::ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self::None) } else { text.parse().map(Self::Limit) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum StateArg {
    Active,
    Standby,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Psmc::command().debug_assert();
    }

    #[test]
    fn other_programs_get_their_arguments_as_they_are() {
        let parsed = Psmc::try_parse_from(["psmc", "fetch", "--help", "--socket", "a", "-o", "b", "--", "c"]);
        let Command::Fetch(args) = parsed.unwrap().command else { panic!("another command") };
        assert_eq!(
            format!("{args:?}"),
            r#"OtherArgs { args: ["--help", "--socket", "a", "-o", "b", "--", "c"] }"#
        );
    }

    #[test]
    fn setting_nothing_is_refused() {
        assert!(Psmc::try_parse_from(["psmc", "path", "set", "hq", "lte"]).is_err());
        assert!(Psmc::try_parse_from(["psmc", "path", "set", "hq", "lte", "--max-rate", "none"]).is_ok());
    }
}
