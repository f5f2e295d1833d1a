//! Commands that all programs have.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::status::{StatusError, ask};

/// The arguments of `status`.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// The program's control socket [default: the first one in its directory under /run].
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
    Status(#[from] StatusError),
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
    /// Asks the program of that name, the sockets of which are in that directory, and prints its answer: for people, in the
    /// words of `describe`.
    ///
    /// # Errors
    /// [`ShowError`].
    pub fn show<T: Serialize + DeserializeOwned>(
        &self,
        program: &'static str,
        directory: &Path,
        describe: impl FnOnce(&T) -> String,
    ) -> Result<(), ShowError> {
        let path = self.socket.clone().unwrap_or_else(|| usual_socket(directory));
        let status: T = ask(program, &path)?;
        let text = if self.json {
            serde_json::to_string_pretty(&status).map_err(io::Error::from)? + "\n"
        } else {
            describe(&status)
        };
        Ok(io::stdout().write_all(text.as_bytes())?)
    }
}

/// The first socket in a directory, or where one would be.
fn usual_socket(directory: &Path) -> PathBuf {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let sockets =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "sock"));
    sockets.min().unwrap_or_else(|| directory.join("NAME.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_socket_is_asked() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        assert_eq!(usual_socket(directory.path()), path("NAME.sock"));
        assert_eq!(usual_socket(&path("none")), path("none/NAME.sock"));
        for name in ["a.toml", "c.sock", "b.sock"] {
            fs::write(path(name), "").unwrap();
        }
        assert_eq!(usual_socket(directory.path()), path("b.sock"));
    }
}
