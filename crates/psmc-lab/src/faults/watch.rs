//! What daemons hold while faults are made: file descriptors and memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use super::network::Daemon;

/// A daemon at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    /// Since the daemons were started.
    pub(super) at: Duration,
    /// Which of its bed.
    pub(super) daemon: usize,
    pub(super) pid: u32,
    /// How many descriptors it has open.
    pub(super) fds: u64,
    /// What of its memory is its own (`RssAnon`), in kB: what it has read of files comes and goes.
    pub(super) rss_kb: u64,
}

/// A thread that looks at them.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sight>>,
}

impl Watch {
    /// Looks at these daemons, which write their numbers to a directory.
    pub(super) fn start(daemons: &[Daemon], directory: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let files: Vec<PathBuf> = daemons.iter().map(|daemon| daemon.pid_file(directory)).collect();
        let of_thread = Arc::clone(&stop);
        Self { stop, thread: thread::spawn(move || watch(&files, &of_thread)) }
    }

    /// Everything that was seen.
    pub(super) fn finish(self) -> Vec<Sight> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn watch(files: &[PathBuf], stop: &AtomicBool) -> Vec<Sight> {
    let mut sights = Vec::new();
    let mut start = None;
    while !stop.load(Ordering::Relaxed) {
        for (daemon, file) in files.iter().enumerate() {
            let Some(pid) = fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()) else {
                continue;
            };
            let at = start.get_or_insert_with(Instant::now).elapsed();
            sights.extend(look(at, daemon, pid));
        }
        sleep(INTERVAL);
    }
    sights
}

/// `None` of a process that has ended.
fn look(at: Duration, daemon: usize, pid: u32) -> Option<Sight> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let rss = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let rss_kb = rss.trim().trim_end_matches(" kB").parse().ok()?;
    Some(Sight { at, daemon, pid, fds: fds.try_into().ok()?, rss_kb })
}

/// How often they are looked at.
const INTERVAL: Duration = Duration::from_millis(500);
