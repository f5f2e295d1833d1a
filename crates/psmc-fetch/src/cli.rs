//! The command line of `psmc-fetch`.

mod args;
mod progress;
mod report;

use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use psmc_service::{error_chain, output};
use tokio::signal::unix::{SignalKind, signal};

use crate::{FetchError, Outcome, View, Wanted};
use args::FetchArgs;
use progress::Progress;
use report::Report;

/// Why nothing was fetched. The text is all that the user gets to see.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error("{0}")]
    Args(#[from] FetchArgsError),
    #[error("{0}")]
    Fetch(#[from] FetchError),
    #[error("cannot print the result: {0}")]
    Output(#[from] io::Error),
}

/// Runs `psmc-fetch` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    match run(&FetchArgs::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is gone there is nobody left to tell.
            drop(writeln!(io::stderr(), "error: {}", error_chain(&error)));
            ExitCode::FAILURE
        }
    }
}

/// Fetches a file, and prints what came of it.
fn run(args: &FetchArgs) -> Result<(), CliError> {
    let wanted = args.wanted()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(fetch(&wanted, args.quiet))?;
    outcome.notes.iter().for_each(|note| output::warn(note));
    let report = Report::new(&wanted, &outcome);
    if args.json {
        output::print(&output::json(&report)?)?;
    } else if outcome.result.is_ok() {
        output::print(&report.text())?;
    }
    Ok(outcome.result?)
}

async fn fetch(wanted: &Wanted, is_quiet: bool) -> io::Result<Outcome> {
    let stop = stop()?;
    let mut progress = Progress::default();
    let is_shown = io::stderr().is_terminal() && !is_quiet;
    let mut show = |view: &View<'_>| {
        if is_shown {
            progress.show(view);
        }
    };
    let outcome = crate::fetch(wanted, stop, &mut show).await;
    progress.end();
    Ok(outcome)
}

/// Ready when the user, or the system, wants no more of it.
fn stop() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// Why nothing can be fetched as it was asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum FetchArgsError {
    #[error("the URL {0} names no file; say with --output what the file is to be called")]
    NoName(String),
    #[error("{} is a directory; name a file in it with --output", .0.display())]
    Directory(PathBuf),
}
