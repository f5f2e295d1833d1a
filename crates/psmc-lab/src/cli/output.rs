//! Standard output, standard error and exit codes.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use super::CliError;
use crate::error_chain;

/// Prints to standard output. A reader that has gone, as in `psmc-lab … | head`, has what it wanted.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// The exit code of a command, after its error, if any, has been shown.
pub(super) fn finish(result: Result<ExitCode, CliError>) -> ExitCode {
    result.unwrap_or_else(|error| {
        let text = if let CliError::Scenario(error) = &error {
            error.render(is_styled())
        } else {
            format!("error: {}\n", error_chain(&error))
        };
        // If standard error is gone there is nobody left to tell.
        drop(io::stderr().write_all(text.as_bytes()));
        ExitCode::FAILURE
    })
}

/// Colours are for terminals whose owner has not declined them (<https://no-color.org>).
fn is_styled() -> bool {
    let declined = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stderr().is_terminal() && !declined
}
