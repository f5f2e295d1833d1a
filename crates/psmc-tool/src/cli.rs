//! The command line of `psmc`.

mod args;
mod check;
mod dns;
mod grant;
mod keys;
mod other;
mod path;
mod peer;
mod register;
mod reload;
mod routes;
mod select;
mod status;
mod table;
mod topology;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use args::{Command, PathCommand, Psmc, Target};
use psmc_api::{Client, ClientError};
use psmc_service::logging::{LogError, is_styled};
use psmc_service::{output, units};
use psmcd::config::ConfigError;

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
    Save(#[from] reload::SaveError),
    #[error("the time is over, and what was waited for has not come")]
    NotYet,
    #[error("{0}")]
    Select(#[from] select::SelectError),
    #[error("{}", crate::error_chain(.0))]
    Other(#[from] other::OtherError),
    #[error(transparent)]
    Dns(#[from] dns::DnsError),
    #[error("{0}")]
    Log(#[from] LogError),
    #[error("cannot print the result: {0}")]
    Output(#[from] io::Error),
}

/// Runs the tool `psmc` with the arguments of the process.
pub fn psmc() -> ExitCode {
    finish(run(Psmc::parse()))
}

fn run(psmc: Psmc) -> Result<(), CliError> {
    match psmc.command {
        Command::Check { file } => check::run(&file),
        Command::Genkey => keys::genkey(),
        Command::Pubkey => keys::pubkey(),
        Command::Grant(args) => grant::run(&args),
        Command::Status { json } => status::run(&mut connect(&psmc.target)?, json),
        Command::Reload { save } => reload::run(&mut connect(&psmc.target)?, save),
        Command::Path { command } => path(&mut connect(&psmc.target)?, command),
        Command::Peer { command } => peer::run(&mut connect(&psmc.target)?, command),
        Command::Routes(args) => routes::run(&mut connect(&psmc.target)?, args),
        Command::Register(args) => register::run(&mut connect(&psmc.target)?, args),
        Command::Select(args) => select::run(&args),
        Command::Fetch(args) => Ok(other::run("psmc-fetch", &args)?),
        Command::Dns { command } => dns::run(command),
        Command::Topology(args) => topology::run(&args),
        Command::Demo(args) => Ok(other::run("psmc-demo", &args)?),
    }
}

fn path(client: &mut Client, command: PathCommand) -> Result<(), CliError> {
    match command {
        PathCommand::List { peer, json } => path::list(client, peer, json),
        PathCommand::Add(args) => path::add(client, args),
        PathCommand::Remove { peer, path } => path::remove(client, peer, path),
        PathCommand::Set(args) => path::set(client, args),
    }
}

/// Connects to the daemon that the user means.
fn connect(target: &Target) -> Result<Client, ClientError> {
    match (&target.socket, &target.site) {
        (Some(path), _) => Client::connect(path),
        (None, Some(name)) => Client::connect_to_site(name),
        (None, None) => Client::connect_to_only_site(),
    }
}

/// The exit code of a command, after its error, if any, has been shown.
fn finish(result: Result<(), CliError>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    let text = if let CliError::Config(error) = &error {
        error.render(is_styled())
    } else {
        format!("error: {}\n", crate::error_chain(&error))
    };
    drop(io::stderr().write_all(text.as_bytes()));
    ExitCode::FAILURE
}
