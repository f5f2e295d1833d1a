//! What has been changed, for whoever is to undo it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use psmc_net::nft::{nft, replacing};
use psmc_service::name_servers;
use serde::{Deserialize, Serialize};

use super::{FootprintError, docker, sysctl};

/// What a site has changed on its host, or is about to.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Record {
    /// The numbers by which its rules and routes are known.
    pub(super) mark: u32,
    pub(super) table: u32,
    pub(super) back_table: u32,
    /// Its table of nftables, of family `inet`.
    #[serde(default)]
    pub(super) nft_table: Option<String>,
    /// The kernel's settings, in the order in which they were changed.
    #[serde(default)]
    pub(super) settings: Vec<Setting>,
    /// Rules for Docker, as arguments of iptables.
    #[serde(default)]
    pub(super) docker: Vec<Vec<String>>,
    /// The resolv.conf that names other name servers.
    #[serde(default)]
    pub(super) resolv_conf: Option<PathBuf>,
}

/// A setting of the kernel that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Setting {
    /// Its file, below `/proc/sys`.
    pub(super) file: String,
    pub(super) before: String,
    pub(super) set: String,
}

impl Record {
    /// That of a site that has not undone what it did, if there is one. One that cannot be read says nothing.
    pub(super) fn read(file: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }

    /// Undoes everything but rules and routes, and returns what could not be undone.
    pub(super) fn undo(&self) -> Vec<FootprintError> {
        let mut failed = Vec::new();
        if let Some(file) = &self.resolv_conf {
            failed.extend(name_servers::restore(file).err().map(FootprintError::from));
        }
        if !self.docker.is_empty() {
            failed.extend(docker::replace(&self.docker, &[]).err());
        }
        failed.extend(self.settings.iter().rev().filter_map(|setting| sysctl::undo(setting).err()));
        // The kill switch last: until here nothing leaves.
        if let Some(table) = &self.nft_table {
            failed.extend(nft(&["-f", "-"], &replacing(table, None)).err().map(FootprintError::from));
        }
        failed
    }
}

/// What is written first and becomes the file then: a psmcd that is killed meanwhile leaves it.
pub(super) fn unfinished(file: &Path) -> PathBuf {
    file.with_extension("changes-new")
}

/// A [`Record`], and where it is kept.
pub(super) struct Saved {
    file: PathBuf,
    pub(super) record: Record,
    /// Whether it was said that it cannot be written.
    complained: bool,
}

impl Saved {
    pub(super) fn new(file: PathBuf, record: Record) -> Self {
        Self { file, record, complained: false }
    }

    /// Writes it. Where that fails everything goes on: only one that is killed is not cleaned up after.
    pub(super) fn save(&mut self) {
        if let Err(error) = self.write()
            && !self.complained
        {
            self.complained = true;
            let file = self.file.display();
            tracing::warn!(%error, "cannot write {file}: if psmcd is killed, `psmc clean` cannot undo what it has changed");
        }
    }

    fn write(&self) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(&self.record)?;
        let new = unfinished(&self.file);
        fs::write(&new, text)?;
        fs::rename(&new, &self.file)
    }

    pub(super) fn remove(&self) {
        match fs::remove_file(&self.file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(%error, "cannot remove {}", self.file.display());
            }
            Ok(()) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again_and_what_is_damaged_is_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("van.changes");
        assert!(Record::read(&file).is_none());
        let setting =
            Setting { file: "net/ipv4/ip_forward".to_owned(), before: "0".to_owned(), set: "1".to_owned() };
        let record = Record { mark: 7, settings: vec![setting.clone()], ..Record::default() };
        let mut saved = Saved::new(file.clone(), record);
        saved.save();
        let read = Record::read(&file).unwrap();
        assert_eq!((read.mark, read.settings), (7, vec![setting]));
        fs::write(&file, "{").unwrap();
        assert!(Record::read(&file).is_none());
        saved.remove();
        saved.remove();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
