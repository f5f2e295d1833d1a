//! `psmc-lab check`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{CliError, output};
use crate::scenario::Scenario;

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The scenario, in TOML
    file: PathBuf,
}

pub(super) fn run(args: &CheckArgs) -> Result<ExitCode, CliError> {
    let scenario = Scenario::load(&args.file)?;
    let text = format!("{} is valid. Summary:\n\n{}", args.file.display(), scenario.summary());
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
