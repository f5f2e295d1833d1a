//! The command line of `psmc`.

mod args;
mod capture;
mod clean;
mod conditioner;
mod dns;
mod doctor;
mod flows;
mod import;
mod keys;
mod peer;
mod ping;
mod reload;
mod routes;
mod select;
mod setup;
mod sla;
mod speedtest;
mod stamp;
mod status;
mod trace;
mod watch;

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{self, ExitCode};

use clap::{CommandFactory, Parser};

use args::{Command, OtherArgs, Psmc, Target};
use psmc_api::{Client, ClientError, Request};
use psmc_service::programs::{self, NotInstalled};
use psmc_service::{cli, output, units};
use psmcd::config::{Config, ConfigError, SaveError};
use psmcd::daemon::CleanError;

/// Why a command failed. The text is all that the user gets to see.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Key(#[from] keys::KeyInputError),
    #[error("{}: {}", .0.reason(), .0.remedy())]
    CoordinatorKey(#[source] psmcd::config::ValueError),
    #[error("{0}")]
    Client(#[from] ClientError),
    #[error("{}", crate::error_chain(.0))]
    Save(#[from] SaveError),
    #[error(transparent)]
    Setup(#[from] setup::SetupError),
    #[error(transparent)]
    Import(#[from] import::ImportError),
    #[error("timed out")]
    NotYet,
    #[error(transparent)]
    Ping(#[from] ping::PingError),
    #[error("{}", crate::error_chain(.0))]
    Speedtest(#[from] speedtest::SpeedtestError),
    #[error(transparent)]
    Stamp(#[from] stamp::StampError),
    #[error(transparent)]
    Capture(#[from] capture::CaptureError),
    #[error(transparent)]
    Trace(#[from] trace::TraceError),
    #[error(transparent)]
    Watch(#[from] watch::WatchError),
    #[error("{}", crate::error_chain(.0))]
    Clean(#[from] CleanError),
    #[error("{0}")]
    Select(#[from] select::SelectError),
    #[error("{}", crate::error_chain(.0))]
    Other(#[from] OtherError),
    #[error(transparent)]
    Dns(#[from] dns::DnsError),
    #[error("{0}")]
    Daemon(#[from] cli::CliError),
    #[error("cannot print the result: {0}")]
    Output(#[from] io::Error),
}

/// Why a program does not run.
#[derive(Debug, thiserror::Error)]
enum OtherError {
    #[error(transparent)]
    NotInstalled(#[from] NotInstalled),
    #[error("cannot run {program}")]
    Exec { program: &'static str, source: io::Error },
}

/// What stands on the command line of `psmc`, for its manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    Psmc::command()
}

/// Runs the tool `psmc` with the arguments of the process.
pub fn psmc() -> ExitCode {
    run(Psmc::parse()).unwrap_or_else(|error| cli::finish("error", Err(error)))
}

fn run(psmc: Psmc) -> Result<ExitCode, CliError> {
    let done: Result<(), CliError> = match psmc.command {
        Command::Init(args) => setup::init(args),
        Command::Invite(args) => setup::invite(&args, &psmc.target),
        Command::Join(args) => setup::join(&args),
        Command::Peers => setup::peers(&mut connect(&psmc.target)?),
        Command::Expel(args) => setup::expel(&args, &psmc.target),
        Command::Clean => clean::run(&psmc.target),
        Command::Check { file } => cli::check(&file, Config::load, summary),
        Command::Doctor(args) => return doctor::run(&args, &psmc.target),
        Command::Import(args) => import::run(&args),
        Command::Genkey => keys::genkey(),
        Command::Pubkey => keys::pubkey(),
        Command::Grant(args) => keys::grant(&args),
        Command::Status { json } => status::run(&mut connect(&psmc.target)?, json),
        Command::Ping(args) => ping::run(&args, &psmc.target),
        Command::Sla(args) => sla::run(&args, &mut connect(&psmc.target)?),
        Command::Flows(args) => flows::run(&args, &mut connect(&psmc.target)?),
        Command::Speedtest(args) => speedtest::run(&args, &psmc.target),
        Command::Stamp(args) => stamp::run(&args),
        Command::Capture(args) => capture::run(args, &psmc.target),
        Command::Trace(args) => trace::run(&args, &psmc.target),
        Command::Watch(args) => watch::run(&args, psmc.target),
        Command::Reload { save } => reload::run(&mut connect(&psmc.target)?, save),
        Command::Log { filter, reset: _ } => Ok(connect(&psmc.target)?.order(&Request::Log { filter })?),
        Command::Path { command } => peer::run_path(&mut connect(&psmc.target)?, command),
        Command::Peer { command } => peer::run(&mut connect(&psmc.target)?, command),
        Command::Routes(args) => routes::run(&mut connect(&psmc.target)?, args),
        Command::Register(args) => routes::register(&mut connect(&psmc.target)?, args),
        Command::Select(args) => select::run(&args),
        Command::Fetch(args) => Ok(become_program("psmc-fetch", &args)?),
        Command::Dns { command } => dns::run(command),
        Command::Conditioner { command } => conditioner::run(command),
        Command::Topology(args) => select::make_network(&args),
        Command::Demo(args) => Ok(become_program("psmc-demo", &args)?),
    };
    done.map(|()| ExitCode::SUCCESS)
}

/// Connects to the daemon that the user means.
fn connect(target: &Target) -> Result<Client, ClientError> {
    match (&target.socket, &target.site) {
        (Some(path), _) => Client::connect(path),
        (None, Some(name)) => Client::connect_to_site(name),
        (None, None) => Client::connect_to_only_site(),
    }
}

/// What is in a file, and what keeps it from working here.
fn summary(config: &Config) -> String {
    let mut text = config.summary().to_string();
    let notices = psmcd::machine::notices(config);
    if !notices.is_empty() {
        text += "\non this machine\n";
        text.extend(notices.iter().map(|notice| format!("  attention    {notice}\n")));
    }
    text
}

/// Replaces this process by `program`, so that signals and its exit status need nobody to hand them on.
fn become_program(program: &'static str, args: &OtherArgs) -> Result<(), OtherError> {
    let source = process::Command::new(programs::find(program)?).args(&args.args).exec();
    Err(OtherError::Exec { program, source })
}
