//! `psmc-lab clean`.

use std::process::ExitCode;

use super::{CliError, output};
use crate::clean::{self, Removed};

/// Cleans up, and says what there was.
pub(super) fn run() -> Result<ExitCode, CliError> {
    let removed = clean::clean().map_err(CliError::of)?;
    let text: String = removed.iter().map(line).collect();
    output::print(if text.is_empty() { "no dead lab has left anything\n" } else { &text })?;
    Ok(ExitCode::SUCCESS)
}

fn line(removed: &Removed) -> String {
    let processes = match removed.killed {
        0 => String::new(),
        1 => ", killed 1 process".to_owned(),
        count => format!(", killed {count} processes"),
    };
    let directory = removed.directory.iter().map(|path| format!(", removed {}", path.display()));
    format!("lab {}{processes}{}\n", removed.pid, directory.collect::<String>())
}
