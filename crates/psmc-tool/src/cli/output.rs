//! Standard output, standard error and exit codes.

use std::io::{self, Write};
use std::process::ExitCode;

use psmc_service::logging::is_styled;

use super::CliError;

/// Prints to standard output. A reader that has gone, as in `psmc status | head`, has what it wanted.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints a warning to standard error.
pub(super) fn warn(text: &str) {
    // If standard error is gone there is nobody left to tell.
    drop(writeln!(io::stderr(), "warning: {text}"));
}

/// The exit code of a command, after its error, if any, has been shown.
pub(super) fn finish(result: Result<(), CliError>) -> ExitCode {
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    let text = if let CliError::Config(error) = &error {
        error.render(is_styled())
    } else if let CliError::Daemon(error) = &error {
        error.render(is_styled())
    } else {
        format!("error: {}\n", crate::error_chain(&error))
    };
    drop(io::stderr().write_all(text.as_bytes()));
    ExitCode::FAILURE
}

/// A value as JSON for scripts, with a line end.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> io::Result<String> {
    let mut text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    text.push('\n');
    Ok(text)
}
