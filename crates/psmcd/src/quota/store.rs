//! The file in which it is kept what was used of quotas.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ledger::Ledger;

/// What was used, by the uplink's name: also of those that have no quota now, as they may have one again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// By the name of the uplink: its interface, else its address, else `default`.
    pub uplinks: BTreeMap<String, Ledger>,
}

impl Usage {
    /// Reads what was kept; nothing, if there is no file yet.
    ///
    /// # Errors
    /// If the file cannot be read, or is none of these.
    pub fn read(file: &Path) -> io::Result<Self> {
        match fs::read(file) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes it. A process that is killed leaves the file as it was, or as it is to be.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        let new = file.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, file)
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::date;

    use super::*;

    #[test]
    fn what_was_written_is_read_again_and_what_is_damaged_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("van.json");
        assert_eq!(Usage::read(&file).unwrap(), Usage::default());
        let ledger = Ledger { since: date(2026, 12, 1), used: 7 };
        let usage = Usage { uplinks: BTreeMap::from([("wwan0".to_owned(), ledger)]) };
        usage.write(&file).unwrap();
        assert_eq!(Usage::read(&file).unwrap(), usage);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        fs::write(&file, "{").unwrap();
        assert!(Usage::read(&file).is_err());
    }
}
