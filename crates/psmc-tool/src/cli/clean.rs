//! `psmc clean`

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use psmc_toml::{RUN_DIR, SocketPath};
use psmcd::daemon::{CleanError, Cleaned, clean};

use super::args::Target;
use super::{CliError, output};

/// Undoes what daemons have left that were killed: the one that is meant, or all that do not run.
pub(super) fn run(target: &Target) -> Result<(), CliError> {
    let one = match (&target.socket, &target.site) {
        (Some(socket), _) => Some(socket.clone()),
        (None, Some(site)) => Some(SocketPath::of_site(site).as_path().to_owned()),
        (None, None) => None,
    };
    let is_one = one.is_some();
    let sockets = one.map_or_else(|| left_in(Path::new(RUN_DIR)), |socket| Ok(BTreeSet::from([socket])))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut text = String::new();
    for socket in sockets {
        let name = socket.display();
        match runtime.block_on(clean(&socket)) {
            Ok(Cleaned::Undone) => text += &format!("{name}: what psmcd had left is removed\n"),
            Ok(Cleaned::Nothing) => {}
            Err(CleanError::Runs(_)) if !is_one => text += &format!("{name}: psmcd runs, left alone\n"),
            Err(error) => return Err(error.into()),
        }
    }
    if text.is_empty() {
        "nothing was left\n".clone_into(&mut text);
    }
    Ok(output::print(&text)?)
}

/// The control sockets of all sites that run, or have left something.
fn left_in(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_left = |path: &PathBuf| {
        path.extension().is_some_and(|kind| kind == "changes" || kind == "changes-new" || kind == "sock")
    };
    Ok(paths.filter(is_left).map(|path| path.with_extension("sock")).collect())
}
