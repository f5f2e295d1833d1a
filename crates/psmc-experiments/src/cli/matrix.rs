//! `psmc-experiments matrix`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{CliError, output};
use crate::matrix::{Inner, PROFILES, Peer, Plan, Profile};
use psmc_lab::bench::{Bench, BenchArgs};
use psmc_lab::report::write_json;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Everything three times, with a plot:
  psmc-experiments matrix --runs 3 --plot matrix.svg
What is run for one row, as scenarios for psmc-lab run:
  psmc-experiments matrix --profile baseline --inner cubic --print-scenario")]
pub(super) struct Args {
    /// What to compare with; everything if left out
    #[arg(long, value_name = "PEER")]
    peer: Vec<Peer>,
    /// On which pairs of paths; on all if left out
    #[arg(long, value_name = "NAME", value_parser = profiles())]
    profile: Vec<Profile>,
    /// What flows; each kind if left out
    #[arg(long, value_name = "KIND")]
    inner: Vec<Inner>,
    /// How long each flow lasts
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Number of repetitions; medians are printed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Print a list of objects as JSON
    #[arg(long)]
    json: bool,
    /// Print the table as Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Draw the matrix as bars into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    bench: BenchArgs,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let plan = Plan {
        profiles: or_all(&args.profile, &PROFILES),
        inners: or_all(&args.inner, &Inner::ALL),
        peers: or_all(&args.peer, &Peer::ALL),
        seconds: args.seconds,
        runs: args.runs,
    };
    let mut bench = Bench::new(&args.bench, Some(plan.trials().len()));
    let matrix = plan.measure(&mut bench);
    if bench.has_results() {
        match (args.json, args.markdown) {
            (true, _) => write_json(&matrix.json(), Path::new("-"))?,
            (_, true) => output::print(&matrix.markdown())?,
            (false, false) => output::print(&matrix.text())?,
        }
        if let Some(file) = &args.plot {
            matrix.write_plot(file)?;
        }
    }
    Ok(if bench.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the user named, or everything there is.
fn or_all<T: Clone>(named: &[T], all: &[T]) -> Vec<T> {
    if named.is_empty() { all.to_vec() } else { named.to_vec() }
}

fn profiles() -> impl TypedValueParser<Value = Profile> {
    let names = PossibleValuesParser::new(PROFILES.map(|profile| profile.name));
    names.try_map(|name| Profile::find(&name).ok_or("there is no such profile"))
}
