//! Processes that live in namespaces of a lab.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use psmc_testbed::netns::NamespaceId;

/// How often processes are looked for. They may start others while they are being killed, but not this often: each time
/// all those that were found are dead already.
const ROUNDS: u32 = 100;

/// How long to wait until those that were killed have ended.
const PAUSE: Duration = Duration::from_millis(5);

/// Kills every process that lives in one of the namespaces, and returns how many there were.
pub(super) fn kill_in(namespaces: &[NamespaceId]) -> usize {
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
    use std::process::Command;

    use psmc_testbed::netns::Namespace;

    use super::*;

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
