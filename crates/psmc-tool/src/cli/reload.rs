//! `psmc reload`, and what was added while the daemon ran, written into its configuration.
//!
//! Each file is written anew beside the old one, with its owner and mode, and takes its place when all of it is on the disk. So a
//! full disk, or a power cut, costs nothing.

mod edit;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use toml_edit::{DocumentMut, Table};

use super::{CliError, output};
use edit::{add_path, add_peer, find_peer};
use psmc_api::{Additions, Client, ReloadReport};
use psmc_toml::ConfigError;
use psmcd::config::{Config, files_of};

/// Why nothing was saved.
#[derive(Debug, thiserror::Error)]
pub(super) enum SaveError {
    /// The configuration was wrong before.
    #[error("nothing saved: the configuration has errors\n\n{0}")]
    WasWrong(#[source] ConfigError),
    /// It would be wrong afterwards.
    #[error("nothing saved: the new configuration would have errors\n\n{0}")]
    WouldBeWrong(#[source] ConfigError),
    /// A file cannot be read.
    #[error("nothing is saved: cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("nothing saved, nothing changed: cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What was saved.
#[derive(Debug, Default)]
struct Saved {
    /// Into which files what was written.
    written: Vec<(PathBuf, String)>,
    /// What could not be written, and why.
    left: Vec<String>,
}

/// The files of a configuration that are changed.
struct Files {
    all: Vec<PathBuf>,
    documents: BTreeMap<PathBuf, DocumentMut>,
}

pub(super) fn run(client: &mut Client, saves: bool) -> Result<(), CliError> {
    if saves {
        let saved = save(&client.additions()?)?;
        output::print(&saved.to_string())?;
    }
    let report = client.reload()?;
    Ok(output::print(&text(&report))?)
}

fn text(report: &ReloadReport) -> String {
    let ReloadReport { changes, restart, kept } = report;
    let mut text = if changes.is_empty() {
        "Configuration reloaded: no changes.\n".to_owned()
    } else {
        "Configuration reloaded. Applied:\n".to_owned()
    };
    text.extend(changes.iter().map(|change| format!("  {change}\n")));
    if !kept.is_empty() {
        text += "Changes made at run time that remain in force:\n";
        text.extend(kept.iter().map(|kept| format!("  {kept}\n")));
    }
    if !restart.is_empty() {
        text += &format!("Needs a restart of psmcd:\n  {}\n", restart.join(", "));
    }
    text
}

/// Writes what was added into the configuration.
fn save(additions: &Additions) -> Result<Saved, SaveError> {
    if additions.peers.is_empty() && additions.paths.is_empty() {
        return Ok(Saved::default());
    }
    Config::load(&additions.file).map_err(SaveError::WasWrong)?;
    let mut files =
        Files { all: files_of(&additions.file).map_err(SaveError::WasWrong)?, documents: BTreeMap::new() };
    let saved = edit(&mut files, additions)?;
    let written = files.write()?;
    put_in_place(written, &additions.file)?;
    Ok(saved)
}

fn edit(files: &mut Files, additions: &Additions) -> Result<Saved, SaveError> {
    let mut saved = Saved::default();
    for peer in &additions.peers {
        let what = format!("peer {}", peer.name);
        if add_peer(files.document(&additions.file)?, peer) {
            saved.written.push((additions.file.clone(), what));
        } else {
            saved.left.push(format!("{what}: the file has its peers in brackets, write it there by hand"));
        }
    }
    for added in &additions.paths {
        let what = format!("path {} of {}", added.path.name, added.peer);
        if !added.is_among_others {
            saved.left.push(format!(
                "{what}: the file lists no paths of {}, so that there is one over every uplink, and a listed one would be the only \
                 one",
                added.peer
            ));
            continue;
        }
        let place = files.with_peer(&added.peer)?;
        match place.and_then(|(file, peer)| add_path(peer, &added.path).then_some(file)) {
            Some(file) => saved.written.push((file, what)),
            None => {
                saved.left.push(format!("{what}: the file has its paths in brackets, write it there by hand"))
            }
        }
    }
    Ok(saved)
}

impl Files {
    fn document(&mut self, path: &Path) -> Result<&mut DocumentMut, SaveError> {
        if !self.documents.contains_key(path) {
            self.documents.insert(path.to_owned(), read(path)?);
        }
        Ok(self.documents.entry(path.to_owned()).or_default())
    }

    /// The file that has the peer of this name, and where.
    fn with_peer(&mut self, name: &str) -> Result<Option<(PathBuf, &mut Table)>, SaveError> {
        for path in &self.all {
            if !self.documents.contains_key(path) {
                let mut document = read(path)?;
                if find_peer(&mut document, name).is_some() {
                    self.documents.insert(path.clone(), document);
                }
            }
        }
        let found =
            self.documents.iter_mut().find_map(|(path, document)| Some((path, find_peer(document, name)?)));
        Ok(found.map(|(path, peer)| (path.clone(), peer)))
    }

    /// Writes what has changed beside the files.
    fn write(self) -> Result<Vec<Written>, SaveError> {
        let written = self.documents.into_iter().map(|(path, document)| {
            let failed = |source| SaveError::Write { path: path.clone(), source };
            // What is a link stays one.
            let place = fs::canonicalize(&path).map_err(failed)?;
            let file = beside(&place, &document.to_string()).map_err(failed)?;
            Ok(Written { path, place, file })
        });
        written.collect()
    }
}

/// A file that is to take the place of another one.
struct Written {
    /// What the other one is called, and where it is.
    path: PathBuf,
    place: PathBuf,
    file: NamedTempFile,
}

fn read(path: &Path) -> Result<DocumentMut, SaveError> {
    let failed = |source| SaveError::Read { path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(failed)?;
    text.parse().map_err(|error| failed(io::Error::other(error)))
}

/// A file in the same folder, with the same owner and mode, all of it on the disk.
fn beside(place: &Path, text: &str) -> io::Result<NamedTempFile> {
    let old = fs::metadata(place)?;
    let mut file = tempfile::Builder::new().prefix(".").suffix(".new").tempfile_in(folder_of(place))?;
    file.write_all(text.as_bytes())?;
    let new = file.as_file().metadata()?;
    if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
        fchown(file.as_file(), Some(old.uid()), Some(old.gid()))?;
    }
    file.as_file().set_permissions(old.permissions())?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn folder_of(place: &Path) -> &Path {
    place.parent().unwrap_or(Path::new("/"))
}

/// Replaces the old files, if the configuration is right with them.
fn put_in_place(written: Vec<Written>, main: &Path) -> Result<(), SaveError> {
    if let Some(new) = written.iter().find(|written| written.path == main) {
        Config::load(new.file.path()).map_err(SaveError::WouldBeWrong)?;
    }
    for Written { path, place, file } in written {
        let failed = |source| SaveError::Write { path: path.clone(), source };
        file.persist(&place).map_err(|error| failed(error.error))?;
        File::open(folder_of(&place)).and_then(|folder| folder.sync_all()).map_err(failed)?;
    }
    Ok(())
}

impl fmt::Display for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written, left } = self;
        if written.is_empty() && left.is_empty() {
            writeln!(f, "Nothing to save: the configuration already contains everything.")?;
        }
        let mut before = None;
        for (file, what) in written {
            if before.replace(file) != Some(file) {
                writeln!(f, "Written into {}:", file.display())?;
            }
            writeln!(f, "  {what}")?;
        }
        if !left.is_empty() {
            writeln!(f, "Not written:")?;
        }
        left.iter().try_for_each(|left| writeln!(f, "  {left}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_is_otherwise_and_what_is_not() {
        assert!(text(&ReloadReport::default()).ends_with("no changes.\n"));
        let report = ReloadReport {
            changes: vec!["path lte of hq".to_owned()],
            restart: vec!["listen".to_owned(), "mtu".to_owned()],
            kept: vec!["path dsl of hq, added at run time".to_owned()],
        };
        assert_eq!(
            text(&report),
            "Configuration reloaded. Applied:\n  path lte of hq\n\
             Changes made at run time that remain in force:\n  path dsl of hq, added at run time\n\
             Needs a restart of psmcd:\n  listen, mtu\n"
        );
    }
}
