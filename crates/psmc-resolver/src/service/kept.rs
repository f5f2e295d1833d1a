//! What is kept of a service on disk, for the day when its name servers are dead: the routes, which are older, and
//! the service's addresses.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hickory_proto::rr::Name;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The form of the file.
const VERSION: u32 = 1;

/// The largest file: two records and the grants of their relays have a tenth of it.
const MAX_LEN: u64 = 256 << 10;

/// Why what was kept is of no use.
#[derive(Debug, Error)]
pub(super) enum KeptError {
    #[error("cannot read or write {}: check the directory's permissions and the free disk space", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} does not contain routes of a service: it will be rewritten", path.display())]
    Malformed { path: PathBuf },
}

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// The lowest serial numbers that are believed: of everyone's sets, and of the group's.
    pub(super) least: [u64; 2],
    /// The contents of ALT records.
    pub(super) records: Vec<Vec<u8>>,
    /// What is shown to their relays.
    pub(super) grants: Vec<String>,
    /// The addresses that DNS last had for the service.
    pub(super) addresses: Vec<IpAddr>,
}

#[derive(Serialize, Deserialize)]
struct Form {
    version: u32,
    least: [u64; 2],
    records: Vec<String>,
    grants: Vec<String>,
    #[serde(default)]
    addresses: Vec<IpAddr>,
}

/// The file of a service.
#[derive(Clone, Debug)]
pub(super) struct KeptFile(PathBuf);

impl KeptFile {
    /// In the directory of the resolver; a name makes a file name that leads nowhere else.
    pub(super) fn new(directory: &Path, service: &Name) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '+' };
        let name: String = service.to_ascii().chars().map(plain).collect();
        Self(directory.join(format!("{name}routes")))
    }

    /// What was kept; nothing where there is no file.
    pub(super) fn read(&self) -> Result<Kept, KeptError> {
        let malformed = || KeptError::Malformed { path: self.0.clone() };
        let mut text = Vec::new();
        match File::open(&self.0).and_then(|file| file.take(MAX_LEN).read_to_end(&mut text)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kept::default()),
            Err(error) => return Err(self.failed(error)),
        }
        let form: Form = serde_json::from_slice(&text).map_err(|_| malformed())?;
        if form.version != VERSION {
            return Err(malformed());
        }
        let records = form.records.iter().map(|record| STANDARD.decode(record));
        let records = records.collect::<Result<_, _>>().map_err(|_| malformed())?;
        Ok(Kept { least: form.least, records, grants: form.grants, addresses: form.addresses })
    }

    /// Keeps it: after a crash the file is the old one or the new one.
    pub(super) fn write(&self, kept: &Kept) -> Result<(), KeptError> {
        let records = kept.records.iter().map(|record| STANDARD.encode(record)).collect();
        let (grants, addresses) = (kept.grants.clone(), kept.addresses.clone());
        let form = Form { version: VERSION, least: kept.least, records, grants, addresses };
        let text = serde_json::to_vec(&form).map_err(|error| self.failed(error.into()))?;
        self.replace(&text).map_err(|error| self.failed(error))
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let new = self.0.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&new, &self.0)?;
        // The directory has the name; until it is on the disk, too, the old file may come back.
        self.0.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
    }

    fn failed(&self, source: io::Error) -> KeptError {
        KeptError::File { path: self.0.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::from_ascii(text).unwrap()
    }

    #[test]
    fn what_is_kept_comes_back_and_what_is_spoilt_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = KeptFile::new(directory.path(), &name("www.example.com."));
        assert_eq!(file.read().unwrap(), Kept::default());
        let kept = Kept {
            least: [3, 5],
            records: vec![vec![1, 2, 3]],
            grants: vec!["grant".to_owned()],
            addresses: vec![[10, 0, 0, 1].into()],
        };
        file.write(&kept).unwrap();
        file.write(&kept).unwrap();
        assert_eq!(file.read().unwrap(), kept);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        fs::write(directory.path().join("www.example.com.routes"), "{\"version\":1").unwrap();
        assert!(matches!(file.read(), Err(KeptError::Malformed { .. })));
    }

    #[test]
    fn a_full_or_missing_disk_is_told() {
        let file = KeptFile::new(Path::new("/proc/no-such-directory"), &name("a."));
        let error = file.write(&Kept::default()).unwrap_err();
        assert!(
            error.to_string().contains("check the directory's permissions and the free disk space"),
            "{error}"
        );
    }

    #[test]
    fn no_name_leads_out_of_the_directory() {
        let strange = Name::from_labels(["a/../../b".as_bytes(), b"c"]).unwrap();
        let file = KeptFile::new(Path::new("/d"), &strange);
        assert_eq!(file.0.parent(), Some(Path::new("/d")));
    }
}
