//! `psmc-lab run`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::{CliError, output};
use crate::report;
use crate::results::Results;
use crate::run::{self, RunOptions};
use crate::scenario::Scenario;

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The scenario, in TOML
    file: PathBuf,
    #[command(flatten)]
    outputs: Outputs,
    /// Leave configurations, logs and captures in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Show nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

/// Where results go.
#[derive(Debug, Args)]
pub(super) struct Outputs {
    /// Write the results as JSON to this file; - is standard output, in the place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw everything that was measured over time, as SVG files in this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// Runs the scenario. To be called before the process starts its second thread.
pub(super) fn run(args: &RunArgs) -> Result<ExitCode, CliError> {
    let scenario = Scenario::load(&args.file)?;
    let options = RunOptions { keep: args.keep.clone(), quiet: args.quiet, programs: None };
    let results = run::run(&scenario, &options).map_err(CliError::of)?;
    args.outputs.write(&results)
}

impl Outputs {
    /// Writes the results, and says by the exit code whether all checks hold.
    pub(super) fn write(&self, results: &Results) -> Result<ExitCode, CliError> {
        if let Some(directory) = &self.plots {
            report::write_plots(results, directory).map_err(CliError::of)?;
        }
        if let Some(path) = &self.json {
            report::write_json(results, path).map_err(CliError::of)?;
        }
        if self.json.as_deref() != Some(Path::new("-")) {
            output::print(&report::table(results))?;
        }
        let all_hold = results.checks.iter().all(|check| check.ok);
        Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
