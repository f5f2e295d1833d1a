//! Whether the machine runs all the time: a virtual one stands still, processor by processor, while its host gives these to
//! others. Whoever measures in real time should know.
//!
//! Linux counts such time as stolen where the host says so, which many don't. So it is measured: a thread on each processor,
//! preferred to all ordinary ones, sleeps for moments and looks how late it is woken. An ordinary user's threads are not
//! preferred: what others of the same machine take from them counts, too.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use psmc_net::priority::prefer_this_thread;

/// How long a thread sleeps at a time. What is shorter than that may pass unseen.
const MOMENT: Duration = Duration::from_millis(5);

/// By how much a thread may be late on a machine that runs.
const PUNCTUAL: Duration = Duration::from_millis(1);

/// How much the machine has stood still.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stalls {
    /// The part of the time, from 0 to 1, that a processor stood still: the mean of all.
    pub share: f64,
    /// The longest time that one did.
    pub longest: Duration,
}

/// Looks for stalls until it is asked, or dropped.
#[derive(Debug)]
pub struct StallWatch {
    start: Instant,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Stood>>,
}

/// How long a processor has stood still.
#[derive(Clone, Copy, Debug, Default)]
struct Stood {
    total: Duration,
    longest: Duration,
}

impl StallWatch {
    /// Watches the processors on which the calling thread may run: each of them from when this returns.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub fn start() -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut watch = Self { start: Instant::now(), stop, threads: Vec::new() };
        let allowed = sched_getaffinity(THIS_THREAD)?;
        let (ready, all_ready) = mpsc::channel();
        for processor in (0..CpuSet::count()).filter(|it| allowed.is_set(*it).is_ok_and(|set| set)) {
            let (stop, ready) = (watch.stop.clone(), ready.clone());
            let thread = thread::Builder::new().name(format!("stalls-{processor}"));
            watch.threads.push(thread.spawn(move || watch_one(processor, &stop, &ready))?);
        }
        drop(ready);
        all_ready.iter().take(watch.threads.len()).for_each(drop);
        Ok(watch)
    }

    /// Ends it, and says what was seen.
    #[must_use]
    pub fn finish(mut self) -> Stalls {
        self.stop.store(true, Ordering::Relaxed);
        let count = self.threads.len();
        let stood: Vec<Stood> = self.threads.drain(..).filter_map(|thread| thread.join().ok()).collect();
        let all = self.start.elapsed().as_secs_f64() * count as f64;
        let total: Duration = stood.iter().map(|it| it.total).sum();
        Stalls {
            share: (total.as_secs_f64() / all.max(f64::MIN_POSITIVE)).min(1.0),
            longest: stood.iter().map(|it| it.longest).max().unwrap_or_default(),
        }
    }
}

impl Drop for StallWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Stalls {
    /// What is left of a rate that two processors reach together: the part of the time in which both run.
    #[must_use]
    pub fn left_of(&self, rate: f64) -> f64 {
        rate * (1.0 - self.share).powi(2)
    }
}

/// Sleeps and looks at the clock, on one processor, and says when it begins to.
fn watch_one(processor: usize, stop: &AtomicBool, ready: &Sender<()>) -> Stood {
    let mut only = CpuSet::new();
    // Where it may not choose its processor, it watches the one that it gets.
    let _ = only.set(processor).and_then(|()| sched_setaffinity(THIS_THREAD, &only));
    prefer_this_thread();
    let mut stood = Stood::default();
    let mut asleep = Instant::now();
    // Who started it may have gone: then it is told to stop.
    let _ = ready.send(());
    while !stop.load(Ordering::Relaxed) {
        sleep(MOMENT);
        let awake = Instant::now();
        let late = (awake - asleep).saturating_sub(MOMENT);
        if late > PUNCTUAL {
            stood.total += late;
            stood.longest = stood.longest.max(late);
        }
        asleep = awake;
    }
    stood
}

const THIS_THREAD: Pid = Pid::from_raw(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_two_processors() {
        let stalls = Stalls { share: 0.5, longest: Duration::ZERO };
        assert_eq!(stalls.left_of(20.0), 5.0);
        assert_eq!(Stalls::default().left_of(20.0), 20.0);
    }

    /// A thread that the kernel prefers even more, and that does not rest, is like a host that takes the processor away.
    #[test]
    fn a_processor_that_others_have_stands_still() {
        const TAKEN: Duration = Duration::from_millis(100);
        let allowed = sched_getaffinity(THIS_THREAD).unwrap();
        let processor = (0..CpuSet::count()).find(|it| allowed.is_set(*it).unwrap()).unwrap();
        let watch = StallWatch::start().unwrap();
        let thief = thread::spawn(move || {
            let mut only = CpuSet::new();
            only.set(processor).unwrap();
            sched_setaffinity(THIS_THREAD, &only).unwrap();
            assert!(prefer_this_thread(), "this test needs root");
            let start = Instant::now();
            while start.elapsed() < TAKEN {
                std::hint::spin_loop();
            }
        });
        thief.join().unwrap();
        let stalls = watch.finish();
        assert!(stalls.longest >= TAKEN / 2, "{stalls:?}");
        assert!(stalls.share > 0.0 && stalls.share <= 1.0, "{stalls:?}");
    }
}
