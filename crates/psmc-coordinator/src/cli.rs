//! The command line of `psmc-coordinator`, and its arguments.

mod renew;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use psmc_service::cli::{self, CliError, RunArgs};
use psmc_service::output;
use psmc_service::socket::{ClientError, Protocol, only_socket};
use psmc_signal::{AlertKind, Measured};

use crate::config::Config;
use crate::daemon;
use crate::local::{Answer, BY_HAND, Coordinator, Request, ask};

/// Where control sockets are where nothing else is said.
const RUN_DIR: &str = "/run/psmc-coordinator";

/// What stands on the command line of `psmc-coordinator`, for its manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs `psmc-coordinator` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    cli::finish(Coordinator::PROGRAM, run(Args::parse()))
}

fn run(args: Args) -> Result<(), CliError> {
    let Some(command) = args.command else {
        return args.run.run(Coordinator::PROGRAM, Config::load, daemon::run);
    };
    match command {
        Command::Check { file } => cli::check(&file, Config::load, summary),
        Command::Status { socket, json } => show(&socket, &Request::Status, json),
        Command::Events { socket, json, count } => show(&socket, &Request::Events { count }, json),
        Command::Alert { socket, service, clear, id, source, kind, lasts, process, measured } => {
            let source = source.unwrap_or_else(|| BY_HAND.to_owned());
            let id = id.unwrap_or_else(|| BY_HAND.to_owned());
            let request = if clear {
                Request::Clear { source, id, service }
            } else {
                let measured =
                    Measured { packets: measured.packets, bits: measured.bits, ..Measured::default() };
                Request::Alert {
                    source,
                    id,
                    service,
                    kind: kind.map_or(AlertKind::Other, Into::into),
                    measured,
                    lasts,
                }
            };
            match process {
                Some(process) => {
                    renew::keep(&path_of(&socket)?, &request, process).map_err(CliError::program)
                }
                None => show(&socket, &request, false),
            }
        }
        Command::Prepare { socket, service } => show(&socket, &Request::Prepare { service }, false),
        Command::Withdraw { socket, service } => show(&socket, &Request::Withdraw { service }, false),
        Command::Client { action } => {
            let (socket, client, blocked) = match action {
                ClientAction::Block { socket, client } => (socket, client, true),
                ClientAction::Unblock { socket, client } => (socket, client, false),
            };
            show(&socket, &Request::Block { client, blocked }, false)
        }
    }
}

/// What is in a file, and would not work as things are.
fn summary(config: &Config) -> String {
    let warnings = config.warnings().into_iter().map(|warning| format!("\nwarning: {warning}\n"));
    config.summary() + &warnings.collect::<String>()
}

/// Asks, and prints the answer.
fn show(socket: &Socket, request: &Request, json: bool) -> Result<(), CliError> {
    let answer = ask(&path_of(socket)?, request)?;
    let text = match (&answer, json) {
        (Answer::Status(status), true) => output::json(status)?,
        (Answer::Events { events }, true) => output::json(events)?,
        (Answer::Status(status), false) => text::status(status),
        (Answer::Events { events }, false) => text::events(events),
        (Answer::Done | Answer::NotOpen | Answer::Error { .. }, _) => String::new(),
    };
    Ok(output::print(&text)?)
}

/// The socket that was named, or the only one that there is.
fn path_of(socket: &Socket) -> Result<PathBuf, ClientError> {
    match &socket.socket {
        Some(path) => Ok(path.clone()),
        None => only_socket(Coordinator::PROGRAM, Path::new(RUN_DIR)),
    }
}

/// The PSMC coordinator: reroutes clients during an attack
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Where the coordinator is asked.
#[derive(Debug, clap::Args)]
struct Socket {
    /// The coordinator's control socket [default: the only one in /run/psmc-coordinator]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// What was measured, per second.
#[derive(Debug, clap::Args)]
struct Rates {
    /// Packets per second
    #[arg(long, value_name = "NUMBER")]
    packets: Option<f64>,
    /// Bits per second
    #[arg(long, value_name = "NUMBER")]
    bits: Option<f64>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a configuration and its keys, and print a summary
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
    /// Show the event history, latest first
    Events {
        #[command(flatten)]
        socket: Socket,
        /// As JSON, for tools
        #[arg(long)]
        json: bool,
        /// Maximum number of events
        #[arg(long, default_value_t = 100, value_name = "N")]
        count: u32,
    },
    /// Raise an alert for a service, or clear it with --clear
    Alert {
        #[command(flatten)]
        socket: Socket,
        /// The service's name, or one of its addresses
        service: String,
        /// Clear the alert
        #[arg(long)]
        clear: bool,
        /// The alert's id, if there are several
        #[arg(long)]
        id: Option<String>,
        /// The alert's source
        #[arg(long)]
        source: Option<String>,
        /// The kind of attack
        #[arg(long)]
        kind: Option<Kind>,
        /// Validity in seconds unless renewed [default: as the configuration says]
        #[arg(long, value_name = "SECONDS", conflicts_with = "clear", value_parser = clap::value_parser!(u64).range(1..=604_800))]
        lasts: Option<u64>,
        /// Keep renewing it while this process runs, until it is cleared
        #[arg(long = "while", value_name = "PID", conflicts_with = "clear")]
        process: Option<u32>,
        #[command(flatten)]
        measured: Rates,
    },
    /// Keep relays ready for a service
    Prepare {
        #[command(flatten)]
        socket: Socket,
        /// The service's name
        service: String,
    },
    /// End the mitigation of a service
    Withdraw {
        #[command(flatten)]
        socket: Socket,
        /// The service's name
        service: String,
    },
    /// Block or unblock clients
    Client {
        #[command(subcommand)]
        action: ClientAction,
    },
}

#[derive(Debug, Subcommand)]
enum ClientAction {
    /// Block a client: no routes, no grants, and gateways reject it
    Block {
        #[command(flatten)]
        socket: Socket,
        /// The client's name
        client: String,
    },
    /// Unblock a client
    Unblock {
        #[command(flatten)]
        socket: Socket,
        /// The client's name
        client: String,
    },
}

/// What an alert can be about.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
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
