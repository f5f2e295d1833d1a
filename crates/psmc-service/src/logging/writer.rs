//! What goes to standard error goes there by a thread of its own: a pipe that nobody reads, a disk that is full or does not answer,
//! costs lines of the log and nothing else. They are counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written: more than a busy second has, less than 2 MiB.
const MAX_WAITING: usize = 4096;

/// How long a program that ends waits for its last lines.
const FLUSH_TIME: Duration = Duration::from_millis(200);

/// Makes lines of the log, and takes them to the thread that writes them. Clones write to the same.
#[derive(Clone, Debug)]
pub(super) struct LogWriter {
    waiting: SyncSender<Work>,
    dropped: Arc<AtomicU64>,
}

/// What the thread has to do.
enum Work {
    Line(Vec<u8>),
    /// Say so when all before is written.
    Tell(SyncSender<()>),
}

/// Waits for the last lines of the log when it is dropped, though not for long.
#[derive(Debug)]
#[must_use = "without it the last lines are lost"]
pub struct LogGuard {
    writer: LogWriter,
}

impl LogWriter {
    /// Writes to `out`, and counts in `dropped` the lines that could not be written. Of those `tell` makes a line, once one can be
    /// written again.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub(super) fn new(
        out: impl Write + Send + 'static,
        dropped: Arc<AtomicU64>,
        tell: fn(u64) -> String,
    ) -> io::Result<Self> {
        let (waiting, work) = sync_channel(MAX_WAITING);
        let count = dropped.clone();
        let body = move || write_all(out, &work, &count, tell);
        std::thread::Builder::new().name("log".to_owned()).spawn(body)?;
        Ok(Self { waiting, dropped })
    }

    /// What waits for the last lines.
    pub(super) fn guard(&self) -> LogGuard {
        LogGuard { writer: self.clone() }
    }
}

impl Write for LogWriter {
    /// Takes a line. It is never refused: whoever logs could do nothing about it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.waiting.try_send(Work::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        let (done, told) = sync_channel(1);
        // A queue that is full is that of a log which is stuck.
        if self.writer.waiting.try_send(Work::Tell(done)).is_ok() {
            match told.recv_timeout(FLUSH_TIME) {
                Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }
}

/// Writes what comes. The thread may be stuck in this for as long as the program runs.
fn write_all(mut out: impl Write, work: &Receiver<Work>, dropped: &AtomicU64, tell: fn(u64) -> String) {
    let mut told = 0;
    while let Ok(work) = work.recv() {
        match work {
            Work::Line(line) => {
                if out.write_all(&line).is_err() {
                    dropped.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let lost = dropped.load(Ordering::Relaxed);
                if lost > told && out.write_all(tell(lost - told).as_bytes()).is_ok() {
                    told = lost;
                }
            }
            // Nobody waits any more.
            Work::Tell(done) => drop(done.try_send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    /// Takes what is written, once it is let go.
    struct Sink {
        written: Arc<Mutex<Vec<u8>>>,
        /// Whoever holds the other end keeps all writes waiting.
        gate: Receiver<()>,
        fails: usize,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.gate.recv();
            if self.fails > 0 {
                self.fails -= 1;
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn tell(count: u64) -> String {
        format!("{count} lost\n")
    }

    #[test]
    fn a_reader_that_does_not_read_costs_lines_and_no_time() {
        let (open, gate) = channel();
        let (written, dropped) = (Arc::default(), Arc::new(AtomicU64::new(0)));
        let sink = Sink { written: Arc::clone(&written), gate, fails: 0 };
        let mut writer = LogWriter::new(sink, dropped.clone(), tell).unwrap();
        // One more may be in the thread's hand.
        for number in 0..MAX_WAITING + 10 {
            writer.write_all(format!("{number}\n").as_bytes()).unwrap();
        }
        let lost = dropped.load(Ordering::Relaxed);
        assert!((9..=10).contains(&lost), "{lost}");
        drop(writer.guard());
        assert!(written.lock().unwrap().is_empty());
        drop(open);
        let kept = MAX_WAITING as u64 + 10 - lost;
        let is_all = |text: &str| {
            let numbers = text.lines().filter(|line| line.parse::<u64>().is_ok()).count();
            numbers as u64 == kept && text.contains(&tell(lost))
        };
        while !is_all(&String::from_utf8_lossy(&written.lock().unwrap())) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_said_later() {
        let (open, gate) = channel();
        drop(open);
        let (written, dropped) = (Arc::default(), Arc::new(AtomicU64::new(0)));
        let sink = Sink { written: Arc::clone(&written), gate, fails: 2 };
        let mut writer = LogWriter::new(sink, dropped.clone(), tell).unwrap();
        for line in ["a\n", "b\n", "c\n", "d\n"] {
            writer.write_all(line.as_bytes()).unwrap();
        }
        drop(writer.guard());
        assert_eq!(String::from_utf8_lossy(&written.lock().unwrap()), "c\n2 lost\nd\n");
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    }
}
