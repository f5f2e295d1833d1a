//! Cores: who runs on which.

use std::error::Error;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The core of the forwarder, which it has to itself where it is measured apart.
pub(crate) const FORWARDER: usize = 0;

/// The core of the hosts on both sides where the forwarder is measured apart.
pub(crate) const TESTER: usize = 1;

/// Has this thread, and what it starts from now on, run on this core only. Programs run on the core on which the
/// namespace was made that they are started in, for it keeps a thread to start them.
pub(crate) fn pin(core: usize) -> Result<(), Box<dyn Error>> {
    pin_thread(Pid::from_raw(0), core)
}

/// Has a thread run on this core only.
pub(crate) fn pin_thread(thread: Pid, core: usize) -> Result<(), Box<dyn Error>> {
    sched_setaffinity(thread, &only(core)?).map_err(|error| format!("cannot use core {core}: {error}"))?;
    Ok(())
}

/// Makes sure that these processes run on this core only: otherwise nothing that is measured of them means anything.
pub(crate) fn check(processes: &[u32], core: usize) -> Result<(), Box<dyn Error>> {
    let only = only(core)?;
    for process in processes {
        if sched_getaffinity(Pid::from_raw(i32::try_from(*process)?))? != only {
            return Err(format!("process {process} may run on other cores than {core}").into());
        }
    }
    Ok(())
}

fn only(core: usize) -> Result<CpuSet, Box<dyn Error>> {
    let mut set = CpuSet::new();
    set.set(core)?;
    Ok(set)
}
