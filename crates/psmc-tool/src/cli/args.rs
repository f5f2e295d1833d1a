//! What can stand on the command line, and what several commands have there.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::capture::CaptureArgs;
use super::conditioner::ConditionerCommand;
use super::dns::DnsCommand;
use super::doctor::DoctorArgs;
use super::flows::FlowsArgs;
use super::import::ImportArgs;
use super::keys::GrantArgs;
use super::peer::{PathCommand, PeerCommand};
use super::ping::PingArgs;
use super::routes::{RegisterArgs, RoutesArgs};
use super::select::{SelectArgs, TopologyArgs};
use super::setup::{ExpelArgs, InitArgs, InviteArgs, JoinArgs};
use super::sla::SlaArgs;
use super::speedtest::SpeedtestArgs;
use super::stamp::StampArgs;
use super::trace::TraceArgs;
use super::watch::WatchArgs;
use psmcd::config::{Name, ValueError};

/// Control a multipath tunnel, and generate its keys
#[derive(Debug, Parser)]
#[command(name = "psmc", version, propagate_version = false, disable_help_subcommand = true)]
#[command(after_help = "\
A tunnel in three commands, as root:
  psmc init --name hq --endpoint 203.0.113.5     on a machine that others reach: make it a site, and start it
  psmc invite van                                there: print a line with which one more site joins
  psmc join 'psmc:…'                             on the other machine: join, and start
By hand: psmc genkey, psmc pubkey, psmc check FILE, psmcd --config FILE. Where it does not work: psmc doctor")]
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
    /// Make this machine a site that others can join
    ///
    /// Writes a private key and a complete configuration, and starts psmcd: as a unit where systemd runs, else in the background.
    Init(InitArgs),
    /// Invite a site: print a line with which it joins
    ///
    /// The line holds a secret that admits one new site, once. The invitation is written into the configuration, and counts at once.
    Invite(InviteArgs),
    /// Join the tunnel of a site that has invited this machine
    ///
    /// Makes a private key, which stays here, learns the rest from the other site, writes the configuration, starts psmcd, and prints
    /// which paths work.
    Join(JoinArgs),
    /// List the peers of a running daemon, and open invitations
    Peers,
    /// Remove a peer, or an invitation, from the configuration and the running daemon
    Expel(ExpelArgs),
    /// Undo what a daemon has left on this machine that was killed
    ///
    /// Removes its rules, routes and tables of nftables, a kill switch among them, and restores settings of the kernel and name servers.
    /// A daemon that is started again does so, too.
    Clean,
    /// Check a configuration, and print a summary
    ///
    /// Prints everything that is wrong with the file, with line and remedy, and exits with 1; or a summary of the file, and
    /// exits with 0. Nothing is started or changed.
    Check {
        /// The configuration of a site, in TOML
        file: PathBuf,
    },
    /// Find out why a tunnel does not work, and what to do about it
    ///
    /// Looks at this machine, the running daemon if there is one, and tries each way to each peer. Exits with 0 if nothing is wrong, with
    /// 1 if something is, and with 2 if it could not look. Nothing is changed. docs/TROUBLESHOOTING.md lists all that it can find.
    Doctor(DoctorArgs),
    /// Print a file of wg-quick (WireGuard) as a configuration of psmcd
    ///
    /// Its first lines say what is left to do: keys do not carry over.
    Import(ImportArgs),
    /// Generate a private key
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
    /// Sign a grant: a temporary permission for a site to use a relay
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
    /// Watch a running daemon: its paths with their rates, and what happens to them
    ///
    /// Shows it in the terminal until `q` is pressed; `?` lists the keys, by which paths are put on standby and re-weighted.
    Watch(WatchArgs),
    /// Measure the round trip of each path to a peer, also of those on standby
    ///
    /// The challenges and answers are those of the tunnel itself, one on each path in each round, so they take the way that data
    /// takes. Runs until Ctrl-C, or for --count rounds, and prints a summary. Exits with 1 if no path has answered.
    Ping(PingArgs),
    /// Show whether what was promised is kept, and if not, where it is broken
    ///
    /// The targets are those of [[sla.target]] in the configuration. With --segments: where on its way each path loses and delays
    /// datagrams, whatever was promised.
    ///
    /// This site, the relays of the path and the peer count the path's own datagrams, so nothing is sent for that but a few questions. The
    /// first look takes a few seconds; sites and relays of earlier versions do not count, and are left out.
    Sla(SlaArgs),
    /// Show which flows lose much, and how those are held down that heed no loss
    ///
    /// A site with `mode = "police"` in its `[unresponsive]` watches what loses a tenth of all that is lost, or more, and holds to what
    /// arrives what goes on as before. docs/UNRESPONSIVE.md says how that is decided.
    Flows(FlowsArgs),
    /// Measure how much each path to a peer carries, and all together, in both directions
    ///
    /// Each number is the payload of one TCP connection inside the tunnel, from its start: first with all its packets on one
    /// path, also on one that is on standby, then as the scheduler treats any connection. It competes with whatever else is in the
    /// tunnel. The peer's file has to allow it: `speedtest = true` in its `[site]`.
    Speedtest(SpeedtestArgs),
    /// Measure delay and loss to a host or router that answers STAMP (RFC 8762)
    ///
    /// That is any that has a reflector of STAMP, or of TWAMP Light, such as psmcd with `reflector` in its `[sla]`. It takes no psmcd here.
    /// Runs until Ctrl-C, or for --count probes, and prints a summary. The delays each way are known where both clocks are
    /// synchronised. Exits with 1 if there was no answer. docs/SLA.md says how to set up a router of another vendor.
    Stamp(StampArgs),
    /// Trace the way of each path to a peer: its uplink, the routers outside the tunnel, its relays
    ///
    /// Sends datagrams by the uplink of each path that may pass one router more each, as traceroute does, and prints who answers;
    /// and the round trip of the path itself, as `psmc ping` measures it. A path through relays is traced to the first one.
    Trace(TraceArgs),
    /// Capture what is inside the tunnel, for Wireshark: with an interface for each path
    ///
    /// Writes the inner packets as pcapng, in both directions, each with the path that it takes as its interface (PEER/PATH); one
    /// that leaves on two paths, or again, is there each time. Runs until Ctrl-C:
    ///
    ///   psmc capture --filter 'host 10.77.0.1 and icmp' | tshark -r - -T fields -e frame.interface_name -e _ws.col.Info
    #[command(verbatim_doc_comment)]
    Capture(CaptureArgs),
    /// Make a running daemon reload its configuration
    ///
    /// What has changed is applied without losing a packet: peers and their keys, networks, paths, weights, relays, classes. What
    /// needs a restart is reported; changes made at run time stay in force. An invalid file
    /// changes nothing; then the exit status is 1.
    Reload {
        /// First write peers and paths that were added at run time into the configuration; everything else in it is preserved
        #[arg(long)]
        save: bool,
    },
    /// Change what a running daemon logs
    ///
    /// It lasts until the daemon ends, or `psmc log --reset`.
    #[command(group(clap::ArgGroup::new("what").required(true).args(["filter", "reset"])))]
    Log {
        /// A level, such as debug, or a list of directives, such as psmc_net=trace,info
        #[arg(value_name = "FILTER")]
        filter: Option<String>,
        /// Log what was logged at the start
        #[arg(long)]
        reset: bool,
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
    /// Show, set or clear a running daemon's learned routes
    Routes(RoutesArgs),
    /// Show or set the relays with which a running daemon is registered as a gateway
    ///
    /// They apply until the daemon stops, in addition to those of its configuration.
    Register(RegisterArgs),
    /// Select the relays that make the best connection together
    ///
    /// Reads a network with its relays, bandwidths and latencies, and prints the paths to use. docs/SELECTION.md has the
    /// formats and the algorithms.
    Select(Box<SelectArgs>),
    /// Fetch one file from several mirrors at once
    #[command(disable_help_flag = true)]
    Fetch(OtherArgs),
    /// Publish and resolve alternate routes of services in DNS
    Dns {
        #[command(subcommand)]
        command: DnsCommand,
    },
    /// Print the profiles of a site's classes for routers of others
    Conditioner {
        #[command(subcommand)]
        command: ConditionerCommand,
    },
    /// Generate a random network for `psmc select`
    ///
    /// Prints it as TOML:
    ///
    ///   psmc topology transit-stub --nodes 200 --relays 20 > net.toml; psmc select net.toml
    #[command(verbatim_doc_comment)]
    Topology(TopologyArgs),
    /// Demonstrate PSMC on this machine: two sites, several paths, one of them cut
    #[command(disable_help_flag = true)]
    Demo(OtherArgs),
}

/// What a command is told that is a program of its own, all of it for the program.
#[derive(Debug, Args)]
pub(super) struct OtherArgs {
    /// Its own arguments; `--help` names them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(super) args: Vec<OsString>,
}

/// For how long a grant or a route counts, or somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life(pub(super) Duration);

impl FromStr for Life {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let wrong = |reason: &str| {
            ValueError::new(format!("{text:?} {reason}"), "write a number and a unit: 90m, 12h, 7d")
        };
        let (number, unit) = text.split_at(text.trim_end_matches(|c: char| !c.is_ascii_digit()).len());
        let number: u64 = number.parse().map_err(|_| wrong("is no time"))?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(wrong("has no unit that is known")),
        };
        let life = Duration::from_secs(number.saturating_mul(seconds));
        match life {
            Duration::ZERO => Err(wrong("expires immediately")),
            life if life > MAX_LIFE => Err(wrong("is longer than a year")),
            life => Ok(Self(life)),
        }
    }
}

/// How long somebody waits, or pauses: a [`Life`], or milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause(pub(super) Duration);

impl FromStr for Pause {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let Some(number) = text.strip_suffix("ms") else {
            return text.parse::<Life>().map(|life| Self(life.0));
        };
        let remedy = "write a number and a unit: 200ms, 5s, 1m";
        let wrong = || ValueError::new(format!("{text:?} is no time"), remedy);
        let number: u32 = number.parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
        Ok(Self(Duration::from_millis(number.into())))
    }
}

/// A grant that lasts longer is none that one would call short-lived; an `[[allow]]` does as well.
const MAX_LIFE: Duration = Duration::from_secs(366 * 86_400);

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

    #[test]
    fn a_time_has_a_unit_and_an_end() {
        assert_eq!("90m".parse::<Life>().unwrap().0, Duration::from_secs(5400));
        assert_eq!("7d".parse::<Life>().unwrap().0, Duration::from_secs(7 * 86_400));
        for wrong in ["", "h", "7", "7w", "-1h", "0s", "1000d", "99999999999999999999h"] {
            assert!(wrong.parse::<Life>().is_err(), "{wrong}");
        }
        assert_eq!("200ms".parse::<Pause>().unwrap().0, Duration::from_millis(200));
        assert_eq!("2s".parse::<Pause>().unwrap().0, Duration::from_secs(2));
        for wrong in ["ms", "0ms", "0.5ms", "1", "-1ms"] {
            assert!(wrong.parse::<Pause>().is_err(), "{wrong}");
        }
    }
}
