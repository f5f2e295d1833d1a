//! The command line of `psmc-fetch`.

mod report;

use std::future::Future;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use psmc_service::{cli, output};
use tokio::signal::unix::{SignalKind, signal};

use crate::{FetchError, Fetched, Url, Via, View, Wanted};
use report::{Progress, Report};

/// Fetch one file from several mirrors at once
///
/// Each mirror gives parts of the file, as many as it can. One that fails costs no more than its share; what has
/// arrived is kept if the program is interrupted; the same command resumes.
#[derive(Debug, Parser)]
#[command(name = "psmc-fetch", version)]
#[command(after_help = "\
Example:
  psmc fetch https://one.example/big.iso https://two.example/pub/big.iso --sha256 9f86…")]
struct FetchArgs {
    /// URLs of the same file, http:// or https://
    #[arg(required = true, value_name = "URL")]
    urls: Vec<Url>,
    /// Name of the output file [default: as in the first URL]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The SHA-256 that the file must have, in hexadecimal digits
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    sha256: Option<String>,
    /// Connect by this interface, or from this address of this machine; given several times, by all of them at once
    #[arg(long, value_name = "NAME")]
    interface: Vec<Via>,
    /// Connections to each mirror, by each interface
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    connections: u8,
    /// Discard the partial download of an interrupted run
    #[arg(long)]
    restart: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

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

/// Why nothing can be fetched as it was asked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum FetchArgsError {
    #[error("the URL {0} names no file; say with --output what the file is to be called")]
    NoName(String),
    #[error("{} is a directory; name a file in it with --output", .0.display())]
    Directory(PathBuf),
}

/// What stands on the command line of `psmc-fetch`, for its manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    FetchArgs::command()
}

/// Runs `psmc-fetch` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    cli::finish("error", run(&FetchArgs::parse()))
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

async fn fetch(wanted: &Wanted, is_quiet: bool) -> io::Result<Fetched> {
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

impl FetchArgs {
    fn wanted(&self) -> Result<Wanted, FetchArgsError> {
        let named = || self.urls.first().and_then(Url::file_name).map(PathBuf::from);
        let first = || self.urls.first().map_or_else(String::new, Url::to_string);
        let output = self.output.clone().or_else(named).ok_or_else(|| FetchArgsError::NoName(first()))?;
        if output.is_dir() {
            return Err(FetchArgsError::Directory(output));
        }
        Ok(Wanted {
            urls: self.urls.clone(),
            ways: self.interface.clone(),
            output,
            sha256: self.sha256.clone(),
            connections: usize::from(self.connections),
            restart: self.restart,
        })
    }
}

fn sha256(text: &str) -> Result<String, &'static str> {
    let is_sound = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_sound { Ok(text.to_ascii_lowercase()) } else { Err("a SHA-256 has 64 hexadecimal digits") }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        FetchArgs::command().debug_assert();
    }

    fn wanted(words: &[&str]) -> Result<Wanted, FetchArgsError> {
        FetchArgs::parse_from(["psmc-fetch"].iter().chain(words)).wanted()
    }

    #[test]
    fn the_first_url_names_the_file() {
        let output = |words| wanted(words).map(|wanted| wanted.output);
        assert_eq!(output(&["http://a/b/c.iso", "http://d/e"]), Ok(PathBuf::from("c.iso")));
        assert_eq!(output(&["http://a/b", "-o", "f"]), Ok(PathBuf::from("f")));
        assert_eq!(output(&["http://a/a%20b"]), Ok(PathBuf::from("a b")));
        assert_eq!(output(&["http://a/"]), Err(FetchArgsError::NoName("http://a/".to_owned())));
        assert!(matches!(output(&["http://a/b", "-o", "/"]), Err(FetchArgsError::Directory(_))));
    }

    #[test]
    fn hashes_are_checked_before_anything_is_fetched() {
        assert_eq!(sha256(&"Ab".repeat(32)), Ok("ab".repeat(32)));
        assert!(sha256("ab").is_err() && sha256(&"xy".repeat(32)).is_err());
        assert!(FetchArgs::try_parse_from(["psmc-fetch", "http://a/b", "--sha256", "ab"]).is_err());
        assert!(FetchArgs::try_parse_from(["psmc-fetch", "ftp://a/b"]).is_err());
        assert!(FetchArgs::try_parse_from(["psmc-fetch"]).is_err());
    }
}
