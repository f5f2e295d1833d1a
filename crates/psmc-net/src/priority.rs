//! Threads and programs that must not wait for a processor.

use std::mem;

use nix::libc::{self, PRIO_PROCESS, SCHED_FIFO, SCHED_RESET_ON_FORK, c_int, sched_param};
use nix::sys::prctl::set_timerslack;

/// Above all ordinary threads, and below every other real-time one: those of the kernel may be among them.
const REAL_TIME_PRIORITY: c_int = 1;

/// The most that an ordinary thread can be preferred (setpriority(2)).
const BEST_NICENESS: c_int = -20;

/// By how much the kernel may wake a thread late so as to wake several at once; 0 means its default.
const TIMER_SLACK_NANOSECONDS: u64 = 1;

/// Makes the kernel wake this thread as soon as it has something to do, even if others must stop for it. The threads and
/// programs that it starts are ordinary ones.
///
/// Returns whether it does: for ordinary users it does not, and in some containers; the thread then gets as much as may be
/// had.
pub fn prefer_this_thread() -> bool {
    wake_exactly();
    set_policy(SCHED_FIFO | SCHED_RESET_ON_FORK) || {
        set_niceness(BEST_NICENESS);
        false
    }
}

/// Makes the kernel end the sleeps of this thread when they should end, and not up to 50 µs later.
pub fn wake_exactly() {
    // The kernel refuses only nonsense.
    let _ = set_timerslack(TIMER_SLACK_NANOSECONDS);
}

/// Makes the kernel prefer this thread and all that it starts, programs included, to ordinary ones; says whether it does.
pub fn prefer_this_thread_and_its_children() -> bool {
    set_policy(SCHED_FIFO)
}

fn set_policy(policy: c_int) -> bool {
    // SAFETY: 0 is this thread, and the parameters outlive the call, which only reads them. They are numbers, of which C libraries
    // other than glibc have more.
    #[expect(unsafe_code, reason = "no crate of ours knows this call")]
    let outcome = unsafe {
        let mut parameters: sched_param = mem::zeroed();
        parameters.sched_priority = REAL_TIME_PRIORITY;
        libc::sched_setscheduler(0, policy, &raw const parameters)
    };
    outcome == 0
}

fn set_niceness(niceness: c_int) {
    // SAFETY: no pointers are passed; 0 is this thread. It is refused where this was expected.
    #[expect(unsafe_code, reason = "no crate of ours knows this call")]
    let _ = unsafe { libc::setpriority(PRIO_PROCESS, 0, niceness) };
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::*;

    /// The scheduling policy of a program started by this thread, as proc(5) says: 0 is ordinary, 1 is SCHED_FIFO.
    fn policy_of_child() -> String {
        let output = Command::new("cat").arg("/proc/self/stat").output().unwrap();
        let stat = String::from_utf8(output.stdout).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(38).unwrap().to_owned()
    }

    #[test]
    fn children_are_preferred_only_if_asked_for() {
        let alone = thread::spawn(|| (prefer_this_thread(), policy_of_child())).join().unwrap();
        assert_eq!(alone, (true, "0".to_owned()), "this test needs root");
        let both = thread::spawn(|| (prefer_this_thread_and_its_children(), policy_of_child()));
        assert_eq!(both.join().unwrap(), (true, "1".to_owned()));
    }
}
