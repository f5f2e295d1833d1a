//! resolv.conf: its servers are replaced, and put back at the end; after a crash, by the next start.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::NameServersError;

/// The first line of a file that this program has written.
const MARK: &str = "# Written by PSMC, which puts the earlier contents back when it ends.";

/// What the name of the file with the earlier contents ends in.
const BACKUP: &str = ".before-psmc";

/// What the name of a file that is being written ends in.
const NEW: &str = ".new-psmc";

/// Who may read a file where there was none: everyone.
const MODE: u32 = 0o644;

/// resolv.conf has room for so many servers (resolv.conf(5), MAXNS).
const MAX_SERVERS: usize = 3;

/// The file with our servers; put back on drop.
#[derive(Debug)]
pub(super) struct ResolvConf(Files);

/// A resolv.conf, and where its earlier contents are kept.
#[derive(Debug)]
struct Files {
    path: PathBuf,
    backup: PathBuf,
}

impl ResolvConf {
    pub(super) fn begin(path: &Path, listen: &[SocketAddr]) -> Result<Self, NameServersError> {
        let failed = |source| NameServersError::of(path, source);
        let servers: Vec<&SocketAddr> = listen.iter().filter(|address| address.port() == 53).collect();
        if let (true, Some(address)) = (servers.is_empty(), listen.first()) {
            return Err(NameServersError::Port(*address));
        }
        let files = Files::of(path);
        files.undo().map_err(failed)?;
        let (earlier, mode) = match fs::read_to_string(path) {
            // There is none, or it leads to a file that another program has not written yet.
            Err(error) if error.kind() == ErrorKind::NotFound => (String::new(), MODE),
            Err(error) => return Err(failed(error)),
            Ok(text) => (text, fs::metadata(path).map_err(failed)?.permissions().mode()),
        };
        if fs::symlink_metadata(path).is_ok() {
            files.keep(&earlier, mode).map_err(failed)?;
        }
        // Whatever fails from here on, they are put back.
        let conf = Self(files);
        replace(path, &rewritten(&earlier, &servers), mode).map_err(failed)?;
        Ok(conf)
    }

    /// Whether the file is the one that was written.
    pub(super) fn holds(&self) -> bool {
        self.0.holds()
    }
}

impl Files {
    fn of(path: &Path) -> Self {
        let mut name = OsString::from(path);
        name.push(BACKUP);
        Self { path: path.to_owned(), backup: PathBuf::from(name) }
    }

    fn holds(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|text| text.starts_with(MARK))
    }

    /// Keeps what there is: of a symbolic link itself, so that whoever writes the file that it leads to is not disturbed.
    fn keep(&self, earlier: &str, mode: u32) -> io::Result<()> {
        match fs::read_link(&self.path) {
            Ok(target) => symlink(target, &self.backup),
            Err(_) => replace(&self.backup, earlier, mode),
        }
    }

    /// Puts back what there was before this program, if it was here: unless somebody else has written the file since.
    fn undo(&self) -> io::Result<()> {
        for new in [beside(&self.path), beside(&self.backup)] {
            match fs::remove_file(new) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let is_ours = text.as_ref().is_none_or(|text| text.starts_with(MARK));
        let undone = if is_ours { self.put_back() } else { fs::remove_file(&self.backup) };
        match undone {
            // There was no file before.
            Err(error) if error.kind() == ErrorKind::NotFound && is_ours && text.is_some() => {
                fs::remove_file(&self.path)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn put_back(&self) -> io::Result<()> {
        match fs::rename(&self.backup, &self.path) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                overwrite(&self.path, &fs::read_to_string(&self.backup)?)?;
                fs::remove_file(&self.backup)
            }
            other => other,
        }
    }
}

impl Drop for ResolvConf {
    fn drop(&mut self) {
        if let Err(error) = self.0.undo() {
            let (path, backup) = (self.0.path.display(), self.0.backup.display());
            tracing::error!(%error, "cannot restore {path}; the original is in {backup}");
        }
    }
}

/// The file that counted before, and the one that counts now if there is no other.
pub(super) fn earlier(path: &Path) -> PathBuf {
    let files = Files::of(path);
    if files.holds() { files.backup } else { files.path }
}

/// Puts back what there was before a program that has not done so.
pub(super) fn restore(path: &Path) -> Result<(), NameServersError> {
    let undone = Files::of(path).undo();
    undone.map_err(|source| NameServersError::of(path, source))
}

/// The earlier file with other servers: search lists and options stay.
fn rewritten(earlier: &str, servers: &[&SocketAddr]) -> String {
    let mut text = format!("{MARK}\n");
    for server in servers.iter().take(MAX_SERVERS) {
        text += &format!("nameserver {}\n", server.ip());
    }
    for line in earlier.lines().filter(|line| !line.trim_start().starts_with("nameserver")) {
        text += line;
        text.push('\n');
    }
    text
}

/// What is written first and becomes the file then: a program that is killed meanwhile leaves it.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(NEW);
    PathBuf::from(name)
}

/// Writes a file: whoever reads it sees the old one or the new one.
fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let new = beside(path);
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(mode & 0o777).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    match fs::rename(&new, path) {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => {
            fs::remove_file(&new)?;
            return overwrite(path, text);
        }
        other => other?,
    }
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

/// Writes into a file that nothing can take the place of, for something is mounted on it: as containers have it.
fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: &str = "search example.com\nnameserver 192.0.2.1\nnameserver 192.0.2.2\noptions edns0\n";

    fn file() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("resolv.conf");
        fs::write(&path, EARLIER).unwrap();
        (directory, path)
    }

    fn listen(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn the_servers_are_replaced_and_put_back() {
        let (directory, path) = file();
        let conf =
            ResolvConf::begin(&path, &listen(&["127.0.0.54:5353", "127.0.0.54:53", "[::1]:53"])).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let rest = "nameserver 127.0.0.54\nnameserver ::1\nsearch example.com\noptions edns0\n";
        assert_eq!(text, format!("{MARK}\n{rest}"));
        drop(conf);
        assert_eq!(fs::read_to_string(&path).unwrap(), EARLIER);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_crash_is_undone_by_the_next_start() {
        let (_directory, path) = file();
        std::mem::forget(ResolvConf::begin(&path, &listen(&["127.0.0.54:53"])).unwrap());
        let conf = ResolvConf::begin(&path, &listen(&["127.0.0.55:53"])).unwrap();
        assert!(fs::read_to_string(&path).unwrap().contains("\nnameserver 127.0.0.55\nsearch"));
        drop(conf);
        assert_eq!(fs::read_to_string(&path).unwrap(), EARLIER);
    }

    #[test]
    fn files_whose_writing_was_cut_off_are_removed() {
        let (directory, path) = file();
        for name in ["resolv.conf", "resolv.conf.before-psmc"] {
            fs::write(beside(&directory.path().join(name)), "nameser").unwrap();
        }
        restore(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), EARLIER);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_others_wrote_in_the_meantime_stays() {
        let (directory, path) = file();
        let conf = ResolvConf::begin(&path, &listen(&["127.0.0.54:53"])).unwrap();
        fs::write(&path, "nameserver 192.0.2.9\n").unwrap();
        drop(conf);
        assert_eq!(fs::read_to_string(&path).unwrap(), "nameserver 192.0.2.9\n");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_symbolic_link_is_set_aside_and_put_back() {
        let (directory, path) = file();
        let link = directory.path().join("link");
        symlink("resolv.conf", &link).unwrap();
        for ends in [false, true] {
            let conf = ResolvConf::begin(&link, &listen(&["127.0.0.54:53"])).unwrap();
            assert!(fs::read_to_string(&link).unwrap().starts_with(MARK));
            assert_eq!(fs::read_to_string(&path).unwrap(), EARLIER, "its other readers and writers go on");
            if ends { drop(conf) } else { std::mem::forget(conf) }
        }
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("resolv.conf"));
        let early = directory.path().join("early");
        symlink("not-there-yet", &early).unwrap();
        let conf = ResolvConf::begin(&early, &listen(&["127.0.0.54:53"])).unwrap();
        assert_eq!(fs::read_to_string(&early).unwrap(), format!("{MARK}\nnameserver 127.0.0.54\n"));
        drop(conf);
        assert_eq!(fs::read_link(&early).unwrap(), Path::new("not-there-yet"));
        fs::remove_file(&early).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn where_there_is_no_file_there_is_none_in_the_end() {
        let (directory, path) = file();
        fs::remove_file(&path).unwrap();
        for ends in [false, true] {
            let conf = ResolvConf::begin(&path, &listen(&["127.0.0.54:53"])).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("{MARK}\nnameserver 127.0.0.54\n"));
            if ends { drop(conf) } else { std::mem::forget(conf) }
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        restore(&path).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn ports_are_refused() {
        let (_directory, path) = file();
        assert!(matches!(
            ResolvConf::begin(&path, &listen(&["127.0.0.54:54"])),
            Err(NameServersError::Port(_))
        ));
        assert_eq!(fs::read_to_string(&path).unwrap(), EARLIER);
    }
}
