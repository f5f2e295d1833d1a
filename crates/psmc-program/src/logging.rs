//! What goes to standard error.

use std::fmt;
use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one object in a line.
    Json,
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

/// Why nothing would be logged.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter makes no sense.
    #[error(
        "{filter:?} is not a log filter ({source}); write a level, such as debug, or `psmc_net=trace,info`"
    )]
    Filter {
        /// What was asked for.
        filter: String,
        /// What is wrong with it.
        source: ParseError,
    },
    /// Logging was set up before.
    #[error("logging is set up already")]
    Twice(#[from] TryInitError),
}

/// Sets up logging for the whole process; to be called once.
///
/// `filter` is a level or a list of directives of [`EnvFilter`]; without one `RUST_LOG` counts, and without that `info`.
pub fn init(format: LogFormat, filter: Option<&str>) -> Result<(), LogError> {
    let filter = filter.map(str::to_owned).or_else(|| std::env::var(EnvFilter::DEFAULT_ENV).ok());
    let filter = parse(filter.as_deref().filter(|filter| !filter.is_empty()).unwrap_or("info"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).finish().try_init()?,
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init()?,
    }
    Ok(())
}

fn parse(filter: &str) -> Result<EnvFilter, LogError> {
    EnvFilter::builder()
        .parse(filter)
        .map_err(|source| LogError::Filter { filter: filter.to_owned(), source })
}

/// Colours are for terminals whose owner has not declined them (<https://no-color.org>).
#[must_use]
pub fn is_styled() -> bool {
    let declined = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !declined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_checked() {
        assert!(parse("debug").is_ok());
        assert!(parse("psmc_net=trace,info").is_ok());
        assert!(parse("psmc_net=loud").unwrap_err().to_string().contains("loud"));
    }
}
