//! The arguments.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use psmc_signal::AlertKind;

/// The PSMC coordinator: leads clients around an attack.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
pub(super) struct Args {
    /// Run with this configuration, in the foreground
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// What is logged: a level, such as debug, or a list of directives [default: RUST_LOG, or info]
    #[arg(long, value_name = "FILTER")]
    pub(super) log: Option<String>,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// Where the coordinator is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Socket {
    /// The coordinator's control socket [default: the only one in /run/psmc-coordinator]
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
}

/// What was measured, per second.
#[derive(Debug, clap::Args)]
pub(super) struct Rates {
    /// Packets per second
    #[arg(long, value_name = "NUMBER")]
    pub(super) packets: Option<f64>,
    /// Bits per second
    #[arg(long, value_name = "NUMBER")]
    pub(super) bits: Option<f64>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check a configuration with its keys, and say what it means
    Check {
        /// The file
        file: PathBuf,
    },
    /// Show relays, services and what is done for them
    Status {
        #[command(flatten)]
        socket: Socket,
        /// As JSON, for tools
        #[arg(long)]
        json: bool,
    },
    /// Show what has happened, the latest first
    Events {
        #[command(flatten)]
        socket: Socket,
        /// As JSON, for tools
        #[arg(long)]
        json: bool,
        /// How many at most
        #[arg(long, default_value_t = 100, value_name = "N")]
        count: u32,
    },
    /// Say that a service is attacked, or, with --clear, no more
    Alert {
        #[command(flatten)]
        socket: Socket,
        /// The service's name, or one of its addresses
        service: String,
        /// The attack is over
        #[arg(long)]
        clear: bool,
        /// Which alert, where there can be several
        #[arg(long)]
        id: Option<String>,
        /// Who says so
        #[arg(long)]
        source: Option<String>,
        /// What it is about
        #[arg(long)]
        kind: Option<Kind>,
        /// For how long it counts unless it is renewed [default: as the configuration says]
        #[arg(long, value_name = "SECONDS", conflicts_with = "clear", value_parser = clap::value_parser!(u64).range(1..=604_800))]
        lasts: Option<u64>,
        /// Go on renewing it for as long as this process runs, and nobody clears it
        #[arg(long = "while", value_name = "PID", conflicts_with = "clear")]
        process: Option<u32>,
        #[command(flatten)]
        measured: Rates,
    },
    /// Have relays kept ready for a service
    Prepare {
        #[command(flatten)]
        socket: Socket,
        /// The service's name
        service: String,
    },
    /// End whatever is done for a service
    Withdraw {
        #[command(flatten)]
        socket: Socket,
        /// The service's name
        service: String,
    },
    /// Say which clients misbehave
    Client {
        #[command(subcommand)]
        action: ClientAction,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ClientAction {
    /// Tell a client nothing any more, and have gateways shut it out
    Block {
        #[command(flatten)]
        socket: Socket,
        /// The client's name
        client: String,
    },
    /// Trust it again
    Unblock {
        #[command(flatten)]
        socket: Socket,
        /// The client's name
        client: String,
    },
}

/// What an alert can be about.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Kind {
    /// Too many packets or bytes
    Rate,
    /// Too many new TCP connections
    Syn,
    /// Too many new sources
    NewSources,
    /// Packets are lost
    Loss,
    /// Anything else
    Other,
}

impl From<Kind> for AlertKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Rate => Self::Rate,
            Kind::Syn => Self::Syn,
            Kind::NewSources => Self::NewSources,
            Kind::Loss => Self::Loss,
            Kind::Other => Self::Other,
        }
    }
}
