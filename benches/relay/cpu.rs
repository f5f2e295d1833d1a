//! Cores: who runs on which.

use std::error::Error;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// The core of the forwarder; of everything, when costs are measured.
pub(crate) const FORWARDER: usize = 0;

/// The core of the hosts on both sides, when delays are measured.
pub(crate) const TESTER: usize = 1;

/// Has this thread, and what it starts from now on, run on these cores only.
pub(crate) fn pin(cores: &[usize]) -> Result<(), Box<dyn Error>> {
    let mut set = CpuSet::new();
    for core in cores {
        set.set(*core)?;
    }
    sched_setaffinity(Pid::from_raw(0), &set)
        .map_err(|error| format!("cannot use cores {cores:?}: {error}"))?;
    Ok(())
}
