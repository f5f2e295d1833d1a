//! `psmc-lab sim`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::CliError;
use super::run::Outputs;
use crate::scenario::Scenario;
use crate::sim::simulate;

#[derive(Debug, Args)]
pub(super) struct SimArgs {
    /// The scenario, in TOML
    file: PathBuf,
    #[command(flatten)]
    outputs: Outputs,
}

pub(super) fn run(args: &SimArgs) -> Result<ExitCode, CliError> {
    let scenario = Scenario::load(&args.file)?;
    let results = simulate(&scenario).map_err(CliError::of)?;
    args.outputs.write(&results)
}
