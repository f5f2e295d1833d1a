//! What a lab says about itself.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::PathBuf;

use psmc_testbed::netns::NamespaceId;
use serde::{Deserialize, Serialize};

/// What a lab says about itself. Its file has one such object in a line; the last whole one counts, so that a lab may
/// be killed while it writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The number of its process, for people.
    pub(super) pid: u32,
    /// Which start of the machine it lived in: after the next one its namespaces' numbers belong to others.
    boot: String,
    /// Where its keys, logs and sockets are; only what it has made itself.
    pub(super) directory: PathBuf,
    #[serde(with = "ids")]
    pub(super) namespaces: Vec<NamespaceId>,
}

impl Entry {
    /// The entry of this process.
    pub(super) fn new(directory: PathBuf) -> io::Result<Self> {
        Ok(Self { pid: std::process::id(), boot: boot_id()?, directory, namespaces: Vec::new() })
    }

    /// The last entry in a file; `None` if there is no whole one.
    pub(super) fn read(mut file: &File) -> io::Result<Option<Self>> {
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text.lines().rev().find_map(|line| serde_json::from_str(line).ok()))
    }

    /// Adds the entry to a file.
    pub(super) fn write(&self, mut file: &File) -> io::Result<()> {
        let mut line = serde_json::to_vec(self).map_err(io::Error::other)?;
        line.push(b'\n');
        file.write_all(&line)
    }

    pub(super) fn is_of_this_boot(&self) -> bool {
        boot_id().is_ok_and(|id| id == self.boot)
    }
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Namespaces as pairs of numbers.
mod ids {
    use psmc_testbed::netns::NamespaceId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(ids: &[NamespaceId], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(ids.iter().map(|id| [id.inode, id.cookie]))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<NamespaceId>, D::Error> {
        let pairs = Vec::<[u64; 2]>::deserialize(input)?;
        Ok(pairs.into_iter().map(|[inode, cookie]| NamespaceId { inode, cookie }).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};

    use super::*;

    #[test]
    fn the_last_whole_line_counts() {
        let mut file = tempfile::tempfile().unwrap();
        let read = |file: &mut File| {
            file.seek(SeekFrom::Start(0)).unwrap();
            Entry::read(file).unwrap()
        };
        assert_eq!(read(&mut file), None);
        let mut entry = Entry::new(PathBuf::from("/tmp/psmc-lab-1")).unwrap();
        assert!(entry.is_of_this_boot());
        entry.write(&file).unwrap();
        entry.namespaces.push(NamespaceId { inode: 4_026_531_840, cookie: 7 });
        entry.write(&file).unwrap();
        assert_eq!(read(&mut file), Some(entry.clone()));
        file.write_all(b"{\"pid\":1,\"bo").unwrap();
        assert_eq!(read(&mut file), Some(entry));
    }
}
