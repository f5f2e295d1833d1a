//! `psmc-experiments experiment`

use std::path::Path;
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{CliError, output};
use crate::experiment::{self, Experiment, Setup};
use psmc_lab::bench::{Bench, BenchArgs};
use psmc_lab::report::write_json;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Which one
    #[arg(required_unless_present = "list", hide_possible_values = true, value_parser = experiments())]
    name: Option<&'static Experiment>,
    /// List all there are
    #[arg(long, conflicts_with = "name")]
    list: bool,
    /// Duration of each run [default: chosen by the experiment]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,
    /// Number of repetitions [default: chosen by the experiment]: what is printed is the median
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,
    /// Only rows whose name contains this, such as "direct, 20 kB/s"
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Print an object as JSON
    #[arg(long)]
    json: bool,
    /// Print it as Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    #[command(flatten)]
    bench: BenchArgs,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let Some(experiment) = args.name else {
        output::print(&experiment::list())?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut bench = Bench::new(&args.bench, None);
    let mut setup = Setup::new(&mut bench);
    setup.seconds = args.seconds;
    setup.only.clone_from(&args.only);
    let report = experiment.run(&mut setup, args.runs);
    if bench.has_results() || (report.is_computed() && !bench.prints_only()) {
        match (args.json, args.markdown) {
            (true, _) => write_json(&report.json(), Path::new("-"))?,
            (_, true) => output::print(&report.markdown())?,
            (false, false) => output::print(&report.text())?,
        }
        return Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    Ok(if bench.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn experiments() -> impl TypedValueParser<Value = &'static Experiment> {
    let names = PossibleValuesParser::new(experiment::experiments().map(|experiment| experiment.name));
    names.try_map(|name| Experiment::find(&name).ok_or("there is no such experiment"))
}
