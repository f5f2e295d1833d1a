//! Undoing what a site has left that was killed: `psmc clean`.

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_net::netlink::{Netlink, NetlinkError};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::{FootprintError, Numbers, Record, record_beside, unfinished};

/// Why nothing is cleaned up.
#[derive(Debug, Error)]
pub enum CleanError {
    /// It is in use.
    #[error("psmcd runs with {}: stop it first, and it cleans up itself", .0.display())]
    Runs(PathBuf),
    /// Something could not be undone. What was written of it is still there.
    #[error("cannot undo everything that psmcd has changed")]
    Left(#[from] FootprintError),
    /// The kernel does not let rules and routes be changed.
    #[error("cannot remove rules and routes")]
    Netlink(#[from] NetlinkError),
    /// The system refuses.
    #[error("cannot remove {}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// A site had left something, which is undone.
    Undone,
    /// There was nothing to do.
    Nothing,
}

/// Undoes what the site with this control socket has changed on its host, if it does not run any more, and removes the socket.
///
/// # Errors
/// [`CleanError`].
pub async fn clean(socket: &Path) -> Result<Cleaned, CleanError> {
    if is_listened_to(socket).await {
        return Err(CleanError::Runs(socket.to_owned()));
    }
    let file = record_beside(socket);
    let record = Record::read(&file);
    if let Some(record) = &record {
        if let Some(mark) = NonZeroU32::new(record.mark) {
            let numbers = Numbers { mark, table: record.table, back_table: record.back_table };
            numbers.remove_all(&Netlink::new()?).await?;
        }
        if let Some(error) = record.undo().into_iter().next() {
            return Err(error.into());
        }
    }
    let mut cleaned = if record.is_some() { Cleaned::Undone } else { Cleaned::Nothing };
    for path in [&*file, &unfinished(&file), socket] {
        match fs::remove_file(path) {
            Ok(()) => cleaned = Cleaned::Undone,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(CleanError::System { path: path.to_owned(), source }),
        }
    }
    Ok(cleaned)
}

/// Whether a daemon has the socket. One that was killed has left it to a program that it was about to run, as long as that is a copy
/// of itself still.
async fn is_listened_to(socket: &Path) -> bool {
    let end = Instant::now() + LONGEST_COPY;
    while UnixStream::connect(socket).is_ok() {
        if Instant::now() >= end {
            return true;
        }
        sleep(LONGEST_COPY / 50).await;
    }
    false
}

/// A copy becomes another program within milliseconds, unless the machine stands still.
const LONGEST_COPY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_record_whose_writing_was_cut_off_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("van.sock");
        assert_eq!(clean(&socket).await.unwrap(), Cleaned::Nothing);
        fs::write(unfinished(&record_beside(&socket)), "{").unwrap();
        assert_eq!(clean(&socket).await.unwrap(), Cleaned::Undone);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
