//! How long this thread has had to wait for a processor.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// Three numbers of twenty digits.
const LONGEST: usize = 64;

/// What the kernel counts of this thread.
#[derive(Debug)]
pub(super) struct Processor {
    /// Not where the kernel does not count.
    counts: Option<File>,
}

impl Processor {
    /// That of the thread which calls this.
    pub(super) fn of_this_thread() -> Self {
        Self { counts: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// For how long the thread could have run, in all, but something else did; zero where the kernel does not count.
    pub(super) fn waited(&self) -> Duration {
        let mut text = [0; LONGEST];
        let read = self.counts.as_ref().and_then(|counts| counts.read_at(&mut text, 0).ok());
        let text = str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
        // After the time that it has run (Documentation/scheduler/sched-stats.rst).
        let waited = text.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok());
        Duration::from_nanos(waited.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn threads_that_share_too_few_processors_wait() {
        let over = AtomicBool::new(false);
        let threads = 2 * thread::available_parallelism().unwrap().get();
        let waited = thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let counted = scope.spawn(|| {
                let processor = Processor::of_this_thread();
                let since = Instant::now();
                while processor.waited().is_zero() && since.elapsed() < Duration::from_secs(60) {
                    std::hint::spin_loop();
                }
                processor.waited()
            });
            let waited = counted.join().unwrap();
            over.store(true, Ordering::Relaxed);
            waited
        });
        assert!(!waited.is_zero());
    }
}
