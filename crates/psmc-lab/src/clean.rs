//! What a lab leaves behind if it is killed, and how it is removed.
//!
//! Namespaces, links, sockets and the programs that the lab has started go with it: the kernel sees to that. What can
//! stay is a process that such a program has started in its turn, and the directory of the run. So each lab registers
//! itself: a file in the state directory, locked for as long as the lab lives, says which namespaces are its own and
//! where its directory is. The kernel takes the lock from a lab that dies, however it dies.

mod registration;

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_testbed::netns::NamespaceId;

use self::registration::{Entry, StateDirectory};

pub use registration::{RegisterError, Registration};

/// A dead lab that was cleaned up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The number of its process.
    pub pid: u32,
    /// How many processes lived in its namespaces.
    pub killed: usize,
    /// Its directory, if that was still there.
    pub directory: Option<PathBuf>,
}

/// Why a dead lab could not be cleaned up.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove what the lab in {} left behind", path.display())]
pub struct CleanError {
    /// What could not be read or removed.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Removes everything that dead labs of this user have left. Living labs are not touched.
///
/// # Errors
/// The first thing that could not be read or removed; what comes before it is done.
pub fn clean() -> Result<Vec<Removed>, CleanError> {
    let mut removed = Vec::new();
    for directory in StateDirectory::existing() {
        // No lab may register meanwhile: between making its file and locking it, it would look dead.
        let _alone = directory.lock().map_err(failed(directory.path()))?;
        for path in directory.entries().map_err(failed(directory.path()))? {
            removed.extend(clean_up(&path).map_err(failed(&path))?);
        }
    }
    Ok(removed)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> CleanError {
    let path = path.to_owned();
    |source| CleanError { path, source }
}

/// Cleans up after the lab with this entry, unless it lives, or ends by itself meanwhile and takes its entry with it.
fn clean_up(path: &Path) -> io::Result<Option<Removed>> {
    match File::open(path) {
        Ok(file) => clean_up_opened(path, &file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn clean_up_opened(path: &Path, file: &File) -> io::Result<Option<Removed>> {
    match file.try_lock() {
        Ok(()) if file.metadata()?.nlink() == 0 => return Ok(None),
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut removed = None;
    // A lab that died before it had written anything had not made anything either.
    if let Some(entry) = Entry::read(file)? {
        let killed = if entry.is_of_this_boot() { kill_in(&entry.namespaces) } else { 0 };
        let directory = remove_directory(&entry.directory)?.then_some(entry.directory);
        removed = Some(Removed { pid: entry.pid, killed, directory });
    }
    fs::remove_file(path)?;
    Ok(removed)
}

/// Removes a directory; says whether there was one.
fn remove_directory(path: &Path) -> io::Result<bool> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// How often processes are looked for. They may start others while they are being killed, but not this often: each time
/// all those that were found are dead already.
const ROUNDS: u32 = 100;

/// How long to wait until those that were killed have ended.
const PAUSE: Duration = Duration::from_millis(5);

/// Kills every process that lives in one of the namespaces, and returns how many there were.
fn kill_in(namespaces: &[NamespaceId]) -> usize {
    let mut killed = Vec::new();
    for _ in 0..ROUNDS {
        let found: Vec<_> = processes().filter(|pid| is_in(*pid, namespaces)).collect();
        if found.is_empty() {
            break;
        }
        killed.extend(found.iter().filter(|pid| !killed.contains(*pid)).copied().collect::<Vec<_>>());
        found.into_iter().for_each(end);
        sleep(PAUSE);
    }
    killed.len()
}

/// All processes but this one.
fn processes() -> impl Iterator<Item = u32> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).filter(|pid| *pid != std::process::id())
}

/// A process of another user, or one that has ended, is in none of them.
fn is_in(pid: u32, namespaces: &[NamespaceId]) -> bool {
    let inode = NamespaceId::inode_of_process(pid);
    let may_be = inode.is_ok_and(|inode| namespaces.iter().any(|id| id.inode == inode));
    may_be && NamespaceId::of_process(pid).is_ok_and(|id| namespaces.contains(&id))
}

fn end(pid: u32) {
    if let Ok(pid) = pid.try_into() {
        // It fails for a process that has just ended.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use psmc_testbed::netns::Namespace;

    use super::*;

    #[test]
    fn a_lab_that_ends_meanwhile_has_left_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("entry");
        let mut file = File::create_new(&path).unwrap();
        file.write_all(b"{}\n").unwrap();
        let opened = File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        drop(file);
        assert_eq!(clean_up_opened(&path, &opened).unwrap(), None, "it ended before its lock was tried");
        assert_eq!(clean_up(&path).unwrap(), None, "it ended before its entry was opened");
    }

    #[test]
    fn whoever_lives_in_a_namespace_is_found_and_nobody_else() {
        let [mine, other] = [(); 2].map(|()| Namespace::new().expect("this test needs root"));
        // The shell starts another process and waits for it.
        let mut tree = mine.spawn(Command::new("sh").args(["-c", "sleep 1000; true"])).unwrap();
        let mut bystander = other.spawn(Command::new("sleep").arg("1000")).unwrap();
        let impostor = NamespaceId { inode: other.id().unwrap().inode, cookie: 0 };
        while processes().filter(|pid| is_in(*pid, &[mine.id().unwrap()])).count() < 2 {
            sleep(PAUSE);
        }
        assert_eq!(kill_in(&[mine.id().unwrap(), impostor]), 2);
        assert!(!tree.wait().unwrap().success());
        assert_eq!(
            bystander.try_wait().unwrap(),
            None,
            "it lives in a namespace with the number of a dead one"
        );
        bystander.kill().unwrap();
        bystander.wait().unwrap();
    }
}
