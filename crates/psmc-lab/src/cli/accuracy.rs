//! `psmc-lab accuracy`

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use psmc_testbed::netns::{enter_user_namespace, is_privileged};

use super::{CliError, output};
use crate::accuracy::{measure, table};
use crate::report::write_json;

/// The arguments of `psmc-lab accuracy`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Duration of each measurement
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    seconds: Duration,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    if !is_privileged() {
        enter_user_namespace().map_err(CliError::of)?;
    }
    // If standard error is gone, nobody wants to know.
    let mut note = |what: &str| drop(writeln!(std::io::stderr(), "measuring {what}"));
    let accuracy = measure(args.seconds, &mut note).map_err(CliError::of)?;
    if args.json {
        write_json(&accuracy, Path::new("-")).map_err(CliError::of)?;
    } else {
        output::print(&table(&accuracy))?;
    }
    Ok(if accuracy.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number".to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if (SHORTEST..=LONGEST).contains(&duration) { Ok(duration) } else { Err("not from 0.1 to 60".to_owned()) }
}

/// There must be some packets.
const SHORTEST: Duration = Duration::from_millis(100);

/// There must be room for all of them.
const LONGEST: Duration = Duration::from_secs(60);
