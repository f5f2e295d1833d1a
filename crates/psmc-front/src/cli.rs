//! The command line of `psmc-front`: its arguments, and what `psmc-front status` says.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use psmc_service::cli::{self, CliError, RunArgs, StatusArgs};
use psmc_service::output;
use psmc_service::socket::Report;
use psmc_service::units::duration_ms;

use crate::config::Config;
use crate::daemon;
use crate::plan::PlanArgs;
use crate::status::{ClassStatus, ServerStatus, Status};

/// Reverse proxy that keeps promises between classes of users.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(flatten)]
    run: RunArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks a configuration, and prints a summary.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Shows what the running daemon sees and does.
    Status(StatusArgs),
    /// Says which ratios can be held, from which load on, and what each class would see.
    Plan(PlanArgs),
}

/// What stands on the command line of `psmc-front`, for its manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs `psmc-front` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    cli::finish(Status::PROGRAM, run(Args::parse()))
}

fn run(args: Args) -> Result<(), CliError> {
    match args.command {
        None => args.run.run(Status::PROGRAM, Config::load, daemon::run),
        Some(Command::Check { file }) => {
            cli::check(&file, Config::load, |config: &Config| config.summary().to_string())
        }
        Some(Command::Status(asked)) => asked.show(describe),
        Some(Command::Plan(asked)) => Ok(output::print(&asked.run()?)?),
    }
}

fn describe(status: &Status) -> String {
    let mut text = format!("{}, up {} s, holds ratios of {}\n", status.name, status.uptime_s, status.hold);
    // Writing to a string does not fail.
    for class in &status.classes {
        let _ = writeln!(text, "{}", class_text(class));
    }
    for server in &status.servers {
        let _ = writeln!(text, "{}", server_text(server));
    }
    let counts = &status.counts;
    let _ = writeln!(
        text,
        "requests {}, complete {}, refused {}, malformed {}, unreachable {}, timed out {}, cut {}, abandoned {}",
        counts.requests,
        counts.complete,
        counts.refused,
        counts.malformed,
        counts.unreachable,
        counts.timed_out,
        counts.cut,
        counts.abandoned
    );
    text
}

fn class_text(class: &ClassStatus) -> String {
    let mut text = format!(
        "class {}: {} arrived, {} waiting, {} at servers, {} refused",
        class.name, class.arrived, class.waiting, class.in_service, class.refused
    );
    if let Some(response) = class.response_s {
        let _ = write!(text, ", response time {}", duration_ms(response * 1000.0));
    }
    if let Some(slowdown) = class.slowdown {
        let _ = write!(text, ", slowdown {slowdown:.1}");
    }
    let Some(beside) = &class.beside else { return text };
    match (class.ratio, &class.infeasible) {
        (Some(ratio), None) => {
            let _ = write!(text, ", ratio to {beside} {ratio:.2} of {}", class.wanted_ratio);
        }
        (_, Some(reason)) => {
            let _ = write!(text, ", ratio {} to {beside} cannot be held: {reason}", class.wanted_ratio);
        }
        (None, None) => {}
    }
    text
}

fn server_text(server: &ServerStatus) -> String {
    let state = if server.up { "up" } else { "down" };
    format!(
        "server {} of {}: {state}, {} of {} requests, {} connections kept, {} made, {} failed",
        server.address,
        server.upstream,
        server.in_flight,
        server.limit,
        server.idle,
        server.connects,
        server.failures
    )
}
