//! Commands that all programs have.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::socket::{Client, ClientError, Report, StatusOf, only_socket};

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

/// Why a program's status cannot be shown.
#[derive(Debug, Error)]
pub enum ShowError {
    /// It is not known.
    #[error(transparent)]
    Status(#[from] ClientError),
    /// It cannot be printed.
    #[error("cannot print the result")]
    Output(#[from] io::Error),
}

impl ShowError {
    /// Whether whoever reads the output has stopped, and so has seen enough.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl StatusArgs {
    /// Asks the program for its status, and prints it: for people, in the words of `describe`.
    ///
    /// # Errors
    /// [`ShowError`].
    pub fn show<T: Report>(&self, describe: impl FnOnce(&T) -> String) -> Result<(), ShowError> {
        let path = match &self.socket {
            Some(path) => path.clone(),
            None => only_socket(T::PROGRAM, Path::new(T::DIRECTORY))?,
        };
        let status = Client::<StatusOf<T>>::connect(&path)?.status()?;
        let text = if self.json {
            serde_json::to_string_pretty(&status).map_err(io::Error::from)? + "\n"
        } else {
            describe(&status)
        };
        Ok(io::stdout().write_all(text.as_bytes())?)
    }
}
