//! The command line of `psmc-coordinator`.

mod args;
mod renew;
mod text;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use psmc_service::logging::{self, LogError, LogFormat};
use psmc_service::socket::{ClientError, Protocol, only_socket};
use psmc_signal::{AlertKind, Measured};
use psmc_toml::ConfigError;

use self::args::{Args, ClientAction, Command, Socket};
use crate::config::Config;
use crate::daemon::{self, DaemonError};
use crate::local::{Answer, BY_HAND, Coordinator, Request, ask};

/// Where control sockets are where nothing else is said.
const RUN_DIR: &str = "/run/psmc-coordinator";

/// Why a command failed. The text is all that the user gets to see.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    #[error(transparent)]
    Ask(#[from] ClientError),
    #[error(transparent)]
    Process(#[from] renew::NoProcess),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("cannot print the result")]
    Output(#[from] io::Error),
}

/// Runs `psmc-coordinator` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads the output has seen enough.
        Err(CliError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        // It has told its causes already.
        Err(CliError::Config(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("psmc-coordinator: {}", crate::error_chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), CliError> {
    if let Some(file) = args.config {
        let _log = logging::init(LogFormat::Text, args.log.as_deref())?;
        return Ok(daemon::run(Config::load(&file)?, &file)?);
    }
    let Some(command) = args.command else {
        // clap asks for one of the two.
        return Ok(());
    };
    match command {
        Command::Check { file } => {
            let config = Config::load(&file)?;
            print(&format!("{} is right. It means:\n\n{}", file.display(), config.summary()))?;
            for warning in config.warnings() {
                print(&format!("\nwarning: {warning}\n"))?;
            }
            Ok(())
        }
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
                Some(process) => Ok(renew::keep(&path_of(&socket)?, &request, process)?),
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

/// Asks, and prints the answer.
fn show(socket: &Socket, request: &Request, json: bool) -> Result<(), CliError> {
    let answer = ask(&path_of(socket)?, request)?;
    let text = match (&answer, json) {
        (Answer::Status(status), true) => {
            serde_json::to_string_pretty(status).map_err(io::Error::from)? + "\n"
        }
        (Answer::Events { events }, true) => {
            serde_json::to_string_pretty(events).map_err(io::Error::from)? + "\n"
        }
        (Answer::Status(status), false) => text::status(status),
        (Answer::Events { events }, false) => text::events(events),
        (Answer::Done | Answer::NotOpen | Answer::Error { .. }, _) => String::new(),
    };
    print(&text)
}

/// The socket that was named, or the only one that there is.
fn path_of(socket: &Socket) -> Result<PathBuf, ClientError> {
    match &socket.socket {
        Some(path) => Ok(path.clone()),
        None => only_socket(Coordinator::PROGRAM, Path::new(RUN_DIR)),
    }
}

fn print(text: &str) -> Result<(), CliError> {
    Ok(io::stdout().write_all(text.as_bytes())?)
}
