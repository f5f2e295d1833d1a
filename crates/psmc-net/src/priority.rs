//! Threads that must not wait for a processor.

use nix::libc::{self, SCHED_FIFO, SCHED_RESET_ON_FORK, sched_param};
use nix::sys::prctl::set_timerslack;

/// Above all ordinary threads, and below every other real-time one: those of the kernel may be among them.
const REAL_TIME_PRIORITY: i32 = 1;

/// The shortest time by which the kernel may wake a thread late so as to wake several at once; 0 means its default.
const TIMER_SLACK_NANOSECONDS: u64 = 1;

/// Has the kernel wake this thread as soon as it has something to do, even if others must stop for it.
///
/// Returns whether it may: ordinary users may not, and their threads wait for their turn.
pub fn prefer_this_thread() -> bool {
    // Without real-time priority it still helps; with it, it is not needed. The kernel refuses only nonsense.
    let _ = set_timerslack(TIMER_SLACK_NANOSECONDS);
    let parameters = sched_param { sched_priority: REAL_TIME_PRIORITY };
    // SAFETY: 0 is this thread, and the parameters outlive the call, which only reads them. What the thread starts is
    // ordinary again.
    #[expect(unsafe_code, reason = "no crate of ours knows this call")]
    let outcome =
        unsafe { libc::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &raw const parameters) };
    outcome == 0
}
