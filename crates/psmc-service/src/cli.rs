//! What command lines have in common: arguments and commands of daemons, and how a program ends that could not do what it was
//! asked for.

use std::error::Error;
use std::io::{self, Write};
use std::iter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::sys::prctl::set_dumpable;
use psmc_toml::ConfigError;

use crate::logging::{self, LogError, LogFormat};
use crate::socket::{Client, ClientError, Report, StatusOf, only_socket};
use crate::{error_chain, output};

/// Ends a program, and says why if it has failed: in one line after `prefix`, or, if a file is wrong, as a compiler would.
pub fn finish<E: Error + 'static>(prefix: &str, outcome: Result<(), E>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    let text = complaint(prefix, &error, logging::is_styled());
    // If standard error is gone there is nobody left to tell.
    drop(io::stderr().write_all(text.as_bytes()));
    ExitCode::FAILURE
}

fn complaint(prefix: &str, error: &(dyn Error + 'static), styled: bool) -> String {
    match wrong_file(error) {
        Some(wrong) => wrong.render(styled),
        None => format!("{prefix}: {}\n", error_chain(error)),
    }
}

/// The file that is wrong, if the error says nothing else.
fn wrong_file<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a ConfigError> {
    let mut causes = iter::successors(Some(error), |&error| error.source());
    let wrong = causes.find_map(|cause| cause.downcast_ref::<ConfigError>());
    wrong.filter(|wrong| wrong.to_string() == error.to_string())
}

/// Why a command of a daemon failed. The text is all that the user gets to see.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The configuration is wrong.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// It cannot log what it should.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A daemon that runs does not answer.
    #[error(transparent)]
    Ask(#[from] ClientError),
    /// The answer cannot be printed.
    #[error("cannot print the result")]
    Output(#[from] io::Error),
    /// There is nothing to run with.
    #[error("name the configuration: {program} --config FILE")]
    NoConfig {
        /// The program, as it is called.
        program: &'static str,
    },
    /// What the program itself says.
    #[error(transparent)]
    Program(Box<dyn Error + Send + Sync>),
}

impl CliError {
    /// For `map_err`: what the program itself says.
    pub fn program(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Program(Box::new(error))
    }
}

/// The arguments of a daemon that is to run.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Run with this configuration, in the foreground.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
}

impl RunArgs {
    /// Runs a daemon, as [`run`] does.
    ///
    /// # Errors
    /// [`CliError`].
    pub fn run<C, E: Error + Send + Sync + 'static>(
        &self,
        program: &'static str,
        load: impl FnOnce(&Path) -> Result<C, ConfigError>,
        daemon: impl FnOnce(C, &Path) -> Result<(), E>,
    ) -> Result<(), CliError> {
        let file = self.config.as_deref().ok_or(CliError::NoConfig { program })?;
        run(file, &self.log, load, daemon)
    }
}

/// The arguments of a daemon that is run by them, and can be asked how it is.
#[derive(Debug, clap::Args)]
pub struct DaemonArgs {
    #[command(flatten)]
    run: RunArgs,
    #[command(subcommand)]
    command: Option<DaemonCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum DaemonCommand {
    /// Checks a configuration, and prints a summary.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Shows what the running daemon sees and does.
    Status(StatusArgs),
}

impl DaemonArgs {
    /// Does what was asked for of the daemon that tells `T` about itself, in the words of `describe`.
    ///
    /// # Errors
    /// [`CliError`].
    pub fn run<T: Report, C, E: Error + Send + Sync + 'static>(
        &self,
        load: impl FnOnce(&Path) -> Result<C, ConfigError>,
        summary: impl FnOnce(&C) -> String,
        daemon: impl FnOnce(C, &Path) -> Result<(), E>,
        describe: impl FnOnce(&T) -> String,
    ) -> Result<(), CliError> {
        match &self.command {
            Some(DaemonCommand::Check { file }) => check(file, load, summary),
            Some(DaemonCommand::Status(asked)) => asked.show(describe),
            None => self.run.run(T::PROGRAM, load, daemon),
        }
    }
}

/// What is logged, and how.
#[derive(Debug, clap::Args)]
pub struct LogArgs {
    /// Log level or directives: a level, such as debug, or a list of directives [default: RUST_LOG, or info].
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How a line of the log is written.
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    log_format: LogFormat,
}

/// Runs a daemon with what is in `file`, until it ends.
///
/// # Errors
/// [`CliError`].
pub fn run<C, E: Error + Send + Sync + 'static>(
    file: &Path,
    args: &LogArgs,
    load: impl FnOnce(&Path) -> Result<C, ConfigError>,
    daemon: impl FnOnce(C, &Path) -> Result<(), E>,
) -> Result<(), CliError> {
    let _log = logging::init(args.log_format, args.log.as_deref())?;
    // Before there is a secret in it: no core dump, and nobody but root looks at the memory, whoever runs this.
    if let Err(error) = set_dumpable(false) {
        tracing::warn!(%error, "the memory of this process cannot be kept from its user");
    }
    daemon(load(file)?, file).map_err(CliError::program)
}

/// Checks a file, and prints what is in it.
///
/// # Errors
/// What is wrong with the file, and that nothing can be printed.
pub fn check<C, E: From<ConfigError> + From<io::Error>>(
    file: &Path,
    load: impl FnOnce(&Path) -> Result<C, ConfigError>,
    summary: impl FnOnce(&C) -> String,
) -> Result<(), E> {
    let config = load(file)?;
    Ok(output::print(&format!("{} is valid. Summary:\n\n{}", file.display(), summary(&config)))?)
}

/// The arguments of `status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The program's control socket [default: the only one in its directory under /run].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// As JSON, for tools.
    #[arg(long)]
    json: bool,
}

impl StatusArgs {
    /// Asks the program for its status, and prints it: for people, in the words of `describe`.
    ///
    /// # Errors
    /// [`CliError`].
    pub fn show<T: Report>(&self, describe: impl FnOnce(&T) -> String) -> Result<(), CliError> {
        let path = match &self.socket {
            Some(path) => path.clone(),
            None => only_socket(T::PROGRAM, Path::new(T::DIRECTORY))?,
        };
        let status = Client::<StatusOf<T>>::connect(&path)?.status()?;
        let text = if self.json { output::json(&status)? } else { describe(&status) };
        Ok(output::print(&text)?)
    }
}

#[cfg(test)]
mod tests {
    use psmc_toml::{Complaint, Dialect, Source};

    use super::*;

    static DIALECT: Dialect = Dialect {
        kind: "a configuration",
        max_mib: 1,
        missing_remedy: "check the path",
        secret_key: None,
        section: "[site]",
        sections: "[[peer]]",
        setting: r#"name = "van""#,
        list: "[1, 2]",
    };

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("{0}")]
        Command(#[from] CliError),
        #[error("cannot save it")]
        Save(#[source] ConfigError),
    }

    fn wrong() -> ConfigError {
        let source = Source::new(&DIALECT, Path::new("van.toml"), "name = 1");
        ConfigError::new(source, vec![Complaint::new("this is a number", "write a name").at(7..8)])
    }

    #[test]
    fn what_is_wrong_with_a_file_is_shown_as_a_compiler_would() {
        let plain = wrong().render(false);
        assert_eq!(complaint("psmc-x", &CliError::from(wrong()), false), plain);
        assert_eq!(complaint("error", &Outer::from(CliError::from(wrong())), false), plain);
        assert_eq!(complaint("psmc-x", &CliError::from(wrong()), true), wrong().render(true));
    }

    #[test]
    fn everything_else_follows_the_prefix_in_one_line() {
        let no_config = CliError::NoConfig { program: "psmc-x" };
        let text = complaint("psmc-x", &no_config, true);
        assert_eq!(text, "psmc-x: name the configuration: psmc-x --config FILE\n");
        let output = CliError::program(CliError::Output(io::Error::other("no room")));
        assert_eq!(complaint("psmc-x", &output, false), "psmc-x: cannot print the result: no room\n");
        assert!(complaint("error", &Outer::Save(wrong()), false).starts_with("error: cannot save it: "));
    }
}
