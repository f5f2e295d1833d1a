//! Standard output and standard error of what people type.

use std::io::{self, Write};

/// Prints to standard output. A reader that has gone, as in `psmc status | head`, has what it wanted.
///
/// # Errors
/// What the system says.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Prints a warning to standard error.
pub fn warn(text: &str) {
    // If standard error is gone there is nobody left to tell.
    drop(writeln!(io::stderr(), "warning: {text}"));
}

/// A value as JSON for scripts, with a line end.
///
/// # Errors
/// What the serializer says.
pub fn json<T: serde::Serialize>(value: &T) -> io::Result<String> {
    let mut text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    text.push('\n');
    Ok(text)
}
