//! A configuration that is changed by programs: peers and paths written into the text of its files, of which all else stays as it is.
//!
//! Each file is written anew beside the old one, with its owner and mode, and takes its place when all of it is on the disk. So a
//! full disk, or a power cut, costs nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};

use super::value::bytes_text;
use super::{Config, Invitation, files_of};
use crate::quota::{Every, Quota};
use psmc_api::{PathSpec, PeerSpec};
use psmc_toml::{ConfigError, rate_text};

/// Why nothing was saved.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
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

/// The files of a configuration that are changed.
#[derive(Debug)]
pub struct Files {
    main: PathBuf,
    all: Vec<PathBuf>,
    documents: BTreeMap<PathBuf, DocumentMut>,
}

impl Files {
    /// Those of the configuration `main`, which must be right.
    ///
    /// # Errors
    /// [`SaveError::WasWrong`].
    pub fn open(main: &Path) -> Result<Self, SaveError> {
        Config::load(main).map_err(SaveError::WasWrong)?;
        let all = files_of(main).map_err(SaveError::WasWrong)?;
        Ok(Self { main: main.to_owned(), all, documents: BTreeMap::new() })
    }

    /// Adds a peer at the end of the main file. Returns whether that can be done: not where peers are written as a list in brackets.
    ///
    /// # Errors
    /// [`SaveError::Read`].
    pub fn add_peer(&mut self, peer: &PeerSpec) -> Result<bool, SaveError> {
        Ok(add_peer(self.document(&self.main.clone())?, peer))
    }

    /// Adds a path behind the others of a peer. Returns the file, or `None` where that can't be done: where peers or paths are
    /// written as a list in brackets.
    ///
    /// # Errors
    /// [`SaveError::Read`].
    pub fn add_path(&mut self, peer: &str, path: &PathSpec) -> Result<Option<PathBuf>, SaveError> {
        let found = self.with_peer(peer)?;
        Ok(found.and_then(|(file, peer)| add_path(peer, path).then_some(file)))
    }

    /// Removes the peer of this name. Returns whether there was one.
    ///
    /// # Errors
    /// [`SaveError::Read`].
    pub fn remove_peer(&mut self, name: &str) -> Result<bool, SaveError> {
        let Some((file, _)) = self.with_peer(name)? else { return Ok(false) };
        let removed = remove(self.document(&file)?, "peer", |peer| text_of(peer, "name") == name);
        Ok(removed > 0)
    }

    /// Adds an invitation at the end of the main file. Returns whether that can be done: not where they are written as a list in
    /// brackets.
    ///
    /// # Errors
    /// [`SaveError::Read`].
    pub fn add_invitation(&mut self, invitation: &Invitation) -> Result<bool, SaveError> {
        let Invitation { name, public_key, allowed_ips, expires } = invitation;
        let networks: Vec<_> = allowed_ips.iter().map(ToString::to_string).collect();
        let mut table = section();
        table["name"] = value(name.as_str());
        table["public_key"] = value(public_key.to_string());
        table["allowed_ips"] = list(&networks);
        table["expires"] = value(expires.to_string());
        let document = self.document(&self.main.clone())?;
        Ok(push(document.as_table_mut(), "invitation", table))
    }

    /// Removes the invitations whose name and public key `is_meant` picks. Returns how many.
    ///
    /// # Errors
    /// [`SaveError::Read`].
    pub fn remove_invitations(&mut self, is_meant: impl Fn(&str, &str) -> bool) -> Result<usize, SaveError> {
        let document = self.document(&self.main.clone())?;
        Ok(remove(document, "invitation", |table| {
            is_meant(text_of(table, "name"), text_of(table, "public_key"))
        }))
    }

    /// Puts the files in the place of the old ones, if the configuration is right with them.
    ///
    /// # Errors
    /// [`SaveError`]; then nothing has changed.
    pub fn save(self) -> Result<(), SaveError> {
        let main = self.main.clone();
        put_in_place(self.write()?, &main)
    }

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

/// Adds a peer at the end of a file. Returns whether that can be done: not where peers are written as a list in brackets.
fn add_peer(document: &mut DocumentMut, peer: &PeerSpec) -> bool {
    let mut table = section();
    table["name"] = value(&peer.name);
    table["public_key"] = value(&peer.public_key);
    table["allowed_ips"] = list(&peer.allowed_ips);
    if let Some(endpoint) = &peer.endpoint {
        table["endpoint"] = value(endpoint);
    }
    push(document.as_table_mut(), "peer", table)
}

/// Where a file has the peer of this name.
fn find_peer<'a>(document: &'a mut DocumentMut, name: &str) -> Option<&'a mut Table> {
    let peers = document.get_mut("peer")?.as_array_of_tables_mut()?;
    peers.iter_mut().find(|peer| peer.get("name").and_then(Item::as_str) == Some(name))
}

/// Adds a path behind the others of a peer. Returns whether that can be done: not where paths are written as a list in brackets.
fn add_path(peer: &mut Table, path: &PathSpec) -> bool {
    let mut table = section();
    table["name"] = value(&path.name);
    let mut set = |key: &str, text: Option<String>| {
        if let Some(text) = text {
            table[key] = value(text);
        }
    };
    set("interface", path.interface.clone());
    set("address", path.address.as_ref().map(IpAddr::to_string));
    set("endpoint", path.endpoint.clone());
    set("max_rate", path.max_rate_bits_per_second.map(rate_text));
    set("congestion", path.congestion.clone());
    set("tier", path.tier.clone());
    set("direction", path.direction.clone());
    set("transport", path.transport.clone());
    if !path.relays.is_empty() {
        table["relays"] = list(&path.relays);
    }
    for (key, number) in [("weight", path.weight), ("mtu", path.mtu)] {
        if let Some(number) = number {
            table[key] = value(i64::from(number));
        }
    }
    // What is no quota is none that was told by the daemon.
    if let Some(quota) = path.quota.as_deref().and_then(|quota| quota.parse::<Quota>().ok()) {
        table["quota"] = Item::Value(Value::InlineTable(quota_table(&quota)));
    }
    push(peer, "path", table)
}

fn quota_table(quota: &Quota) -> InlineTable {
    let mut table = InlineTable::new();
    table.insert("bytes", bytes_text(quota.bytes).into());
    table.insert("every", quota.every.as_str().into());
    if quota.every != Every::Day {
        table.insert("day", i64::from(quota.day).into());
    }
    table.insert("then", quota.then.to_string().into());
    table
}

/// Removes the sections of a kind that `is_meant` picks. Returns how many.
fn remove(document: &mut DocumentMut, key: &str, is_meant: impl Fn(&Table) -> bool) -> usize {
    let sections = document.get_mut(key).and_then(Item::as_array_of_tables_mut);
    let Some(sections) = sections else { return 0 };
    let before = sections.len();
    sections.retain(|table| !is_meant(table));
    before - sections.len()
}

/// The text of a key, empty if there is none.
fn text_of<'a>(table: &'a Table, key: &str) -> &'a str {
    table.get(key).and_then(Item::as_str).unwrap_or_default()
}

/// A section with an empty line above.
fn section() -> Table {
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    table
}

fn list(texts: &[String]) -> Item {
    Item::Value(Value::Array(texts.iter().collect::<Array>()))
}

fn push(parent: &mut Table, key: &str, table: Table) -> bool {
    let sections = parent.entry(key).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let Some(sections) = sections.as_array_of_tables_mut() else { return false };
    sections.push(table);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# The van.\n[site]\nname = \"van\"   # ours\n\n[[peer]]\nname = 'hq'\n\n  # By cable.\n  \
        [[peer.path]]\n  name = \"dsl\" # slow\n\n# Another.\n[[peer]]\nname = \"depot\"\n# The end.\n";

    fn document() -> DocumentMut {
        FILE.parse().unwrap()
    }

    #[test]
    fn nothing_else_changes() {
        assert_eq!(document().to_string(), FILE);
        let mut document = document();
        let path = PathSpec {
            name: "lte".to_owned(),
            interface: Some("wwan0".to_owned()),
            weight: Some(3),
            max_rate_bits_per_second: Some(20_000_000),
            relays: vec!["fra1".to_owned()],
            quota: Some("50GB/month/12,backup".to_owned()),
            ..PathSpec::default()
        };
        assert!(add_path(find_peer(&mut document, "hq").unwrap(), &path));
        assert!(find_peer(&mut document, "nobody").is_none());
        let peer = PeerSpec {
            name: "bus".to_owned(),
            public_key: "KEY".to_owned(),
            allowed_ips: vec!["10.9.0.0/24".to_owned(), "fd09::/64".to_owned()],
            endpoint: None,
        };
        assert!(add_peer(&mut document, &peer));
        let added = "\n[[peer.path]]\nname = \"lte\"\ninterface = \"wwan0\"\nmax_rate = \"20mbit\"\n\
            relays = [\"fra1\"]\nweight = 3\n\
            quota = { bytes = \"50GB\", every = \"month\", day = 12, then = \"backup\" }\n";
        let at = FILE.find("\n# Another.").unwrap();
        let expected = format!("{}{added}{}", &FILE[..at], &FILE[at..]);
        let (before, end) = expected.split_at(expected.find("# The end.").unwrap());
        let peer = "\n[[peer]]\nname = \"bus\"\npublic_key = \"KEY\"\nallowed_ips = [\"10.9.0.0/24\", \"fd09::/64\"]\n";
        assert_eq!(document.to_string(), format!("{before}{peer}{end}"));
    }

    #[test]
    fn what_is_removed_takes_nothing_else_along() {
        let mut document = document();
        assert_eq!(remove(&mut document, "peer", |peer| text_of(peer, "name") == "nobody"), 0);
        assert_eq!(remove(&mut document, "invitation", |_| true), 0);
        assert_eq!(document.to_string(), FILE);
        assert_eq!(remove(&mut document, "peer", |peer| text_of(peer, "name") == "hq"), 1);
        let (start, end) = (FILE.find("\n[[peer]]").unwrap(), FILE.find("\n# Another.").unwrap());
        assert_eq!(document.to_string(), format!("{}{}", &FILE[..start], &FILE[end..]));
    }

    #[test]
    fn what_is_written_in_brackets_is_left_alone() {
        let mut document: DocumentMut = "peer = [{ name = \"hq\" }]\n".parse().unwrap();
        assert!(find_peer(&mut document, "hq").is_none());
        let peer =
            PeerSpec { name: "b".into(), public_key: "K".into(), allowed_ips: Vec::new(), endpoint: None };
        assert!(!add_peer(&mut document, &peer));
    }
}
