//! What goes to standard error.

mod writer;

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use tracing::subscriber::{SetGlobalDefaultError, set_global_default};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::reload;

pub use writer::LogGuard;
use writer::LogWriter;

/// Lines of the log that could not be written.
static DROPPED: LazyLock<Arc<AtomicU64>> = LazyLock::new(Arc::default);

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
    /// The system has no thread left.
    #[error("cannot start the logging thread")]
    NoThread(#[from] io::Error),
    /// Logging was set up before.
    #[error("logging is already initialised")]
    Twice(#[from] SetGlobalDefaultError),
}

/// What changes the filter of this process, and the filter that it began with.
static FILTER: OnceLock<Filter> = OnceLock::new();

struct Filter {
    change: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
    first: String,
}

/// Sets up logging for the whole process; to be called once. Whoever logs never waits for whoever reads: lines for which there is
/// no room are dropped and [counted](dropped). The guard waits for the last lines when it is dropped.
///
/// `filter` is a level or a list of directives of [`EnvFilter`]; without one `RUST_LOG` counts, and without that `info`.
pub fn init(format: LogFormat, filter: Option<&str>) -> Result<LogGuard, LogError> {
    let filter = filter.map(str::to_owned).or_else(|| std::env::var(EnvFilter::DEFAULT_ENV).ok());
    let first = filter.filter(|filter| !filter.is_empty()).unwrap_or_else(|| "info".to_owned());
    let writer = LogWriter::new(io::stderr(), DROPPED.clone(), format.teller())?;
    let guard = writer.guard();
    // Not by `try_init`, which would also log what other crates say by the crate `log`, if any crate at all has that switched on.
    let builder = tracing_subscriber::fmt().with_env_filter(parse(&first)?).with_writer(writer);
    let change: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync> = match format {
        LogFormat::Text => {
            let builder = builder.with_ansi(io::stderr().is_terminal()).with_filter_reloading();
            let handle = builder.reload_handle();
            set_global_default(builder.finish())?;
            Box::new(move |filter| handle.reload(filter))
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            set_global_default(builder.finish())?;
            Box::new(move |filter| handle.reload(filter))
        }
    };
    // Whoever set up logging twice was told so above.
    let _ = FILTER.set(Filter { change, first });
    Ok(guard)
}

/// Logs what this filter lets through from now on; without one what was logged at the start.
///
/// # Errors
/// [`LogError::Filter`].
pub fn set_filter(filter: Option<&str>) -> Result<(), LogError> {
    let Some(Filter { change, first }) = FILTER.get() else { return Ok(()) };
    // It fails where there is no log any more, and nobody who misses it.
    let _ = change(parse(filter.unwrap_or(first))?);
    Ok(())
}

/// How many lines of the log could not be written so far.
#[must_use]
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

impl LogFormat {
    /// What makes a line of the number of those that were lost.
    fn teller(self) -> fn(u64) -> String {
        match self {
            Self::Text => |count| format!("{count} lines of the log could not be written before this\n"),
            Self::Json => |count| {
                format!(
                    "{{\"level\":\"WARN\",\"message\":\"lines of the log could not be written\",\"count\":{count}}}\n"
                )
            },
        }
    }
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
