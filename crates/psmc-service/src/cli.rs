//! Commands that all programs have.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::output;
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
        let text = if self.json { output::json(&status)? } else { describe(&status) };
        Ok(output::print(&text)?)
    }
}
