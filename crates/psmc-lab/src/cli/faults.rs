//! `psmc-lab faults` and `psmc-lab soak`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::{CliError, output};
use crate::faults::{FaultOptions, Row, faults, make_soak, tables};
use crate::report::write_json;

/// Which faults, and what is left of them.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only this fault, or those whose names begin like that: kill-hq, kill
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Print the tables as Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Leave configurations, scenarios and logs in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct SoakArgs {
    /// For how long
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=120))]
    minutes: u32,
    /// What the faults are drawn from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    args: Args,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let rows = faults(&args.options()).map_err(CliError::of)?;
    let tables = tables(&rows);
    let texts = tables.iter().map(|table| if args.markdown { table.markdown() } else { table.text() });
    args.show(&rows, &texts.collect::<Vec<_>>().join("\n"))?;
    Ok(exit_code(rows.iter().all(Row::is_good)))
}

pub(super) fn run_soak(args: &SoakArgs) -> Result<ExitCode, CliError> {
    let soak = make_soak(args.minutes, args.seed, &args.args.options()).map_err(CliError::of)?;
    let tables = [soak.faults(), soak.held()];
    let tables = tables.map(|table| if args.args.markdown { table.markdown() } else { table.text() });
    let complaints = soak.complaints.iter().map(|complaint| format!("{complaint}\n"));
    let text = tables.join("\n") + "\n" + &complaints.collect::<String>();
    args.args.show(&soak, &text)?;
    Ok(exit_code(soak.is_good()))
}

impl Args {
    fn options(&self) -> FaultOptions {
        FaultOptions { only: self.only.clone(), keep: self.keep.clone(), programs: None }
    }

    fn show(&self, value: &impl serde::Serialize, text: &str) -> Result<(), CliError> {
        if self.json {
            return write_json(value, Path::new("-")).map_err(CliError::of);
        }
        Ok(output::print(text)?)
    }
}

fn exit_code(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
