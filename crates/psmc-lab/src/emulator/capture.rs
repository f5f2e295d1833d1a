//! Logs of packets in the format of libpcap, with nanoseconds, written by threads of their own: a slow disk must not
//! hold up a link, and a full one must not stop it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

/// Bytes that are handed to the disk at once.
const CHUNK: usize = 256 << 10;

/// How many chunks there are. While the disk does not take them they hold 60 ms of 2 Gb/s.
const CHUNKS: usize = 64;

/// After so long what there is gets written, so that a log can be watched as it grows.
const PATIENCE: Duration = Duration::from_millis(200);

/// A log that grows. Dropping it completes the file.
#[derive(Debug)]
pub(super) struct Log {
    current: Option<Chunk>,
    /// `None` only while dropping, which is how the writer learns of it.
    full: Option<SyncSender<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Chunk {
    bytes: Vec<u8>,
    begun: Instant,
}

impl Log {
    /// Makes the file. `on_failure` hears of the error that ends it early.
    pub(super) fn create(
        path: &Path,
        on_failure: impl FnOnce(io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        Self::start(File::create(path)?, on_failure)
    }

    /// Adds a frame that passed at `at`. Says `false` if it could not, for the disk is too slow or full.
    pub(super) fn record(&mut self, at: SystemTime, frame: &[u8], now: Instant) -> bool {
        let Some(chunk) = self.chunk(now) else { return false };
        chunk.extend_from_slice(&record_header(at, frame.len()));
        chunk.extend_from_slice(frame);
        if chunk.len() >= CHUNK {
            self.flush();
        }
        true
    }

    /// When to call [`flush_due`](Self::flush_due).
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.current.as_ref().map(|chunk| chunk.begun + PATIENCE)
    }

    /// Writes what is due by now, if anything is.
    pub(super) fn flush_due(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.flush();
        }
    }

    fn start(file: File, on_failure: impl FnOnce(io::Error) + Send + 'static) -> io::Result<Self> {
        let (full, chunks) = sync_channel(CHUNKS);
        let (give_back, empty) = sync_channel(CHUNKS);
        for _ in 0..CHUNKS {
            // There is room for all of them, and memory comes when the first packet does.
            let _ = give_back.try_send(Vec::new());
        }
        let write = move || write_all(&file, &chunks, &give_back).unwrap_or_else(on_failure);
        let writer = thread::Builder::new().name("lab-capture".to_owned()).spawn(write)?;
        Ok(Self { current: None, full: Some(full), empty, writer: Some(writer) })
    }

    /// The chunk to be filled; `None` if all of them wait for the disk, or the writer has given up.
    fn chunk(&mut self, now: Instant) -> Option<&mut Vec<u8>> {
        if self.current.is_none() {
            let mut bytes = self.empty.try_recv().ok()?;
            bytes.reserve(CHUNK + MAX_RECORD);
            self.current = Some(Chunk { bytes, begun: now });
        }
        self.current.as_mut().map(|chunk| &mut chunk.bytes)
    }

    fn flush(&mut self) {
        if let (Some(chunk), Some(full)) = (self.current.take(), &self.full) {
            // There is room for every chunk there is; a writer that has given up has said so.
            let _ = full.try_send(chunk.bytes);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.flush();
        drop(self.full.take());
        if let Some(writer) = self.writer.take() {
            // It does not panic, and if it did its file would be incomplete, no more.
            let _ = writer.join();
        }
    }
}

fn write_all(mut file: &File, chunks: &Receiver<Vec<u8>>, give_back: &SyncSender<Vec<u8>>) -> io::Result<()> {
    file.write_all(&file_header())?;
    for mut chunk in chunks {
        file.write_all(&chunk)?;
        chunk.clear();
        // There is room for every chunk there is; a log that is being dropped wants none.
        let _ = give_back.try_send(chunk);
    }
    Ok(())
}

/// The longest record: that of the longest frame of a virtual Ethernet interface.
const MAX_RECORD: usize = RECORD_HEADER + 14 + 4 + 65535;

const RECORD_HEADER: usize = 16;

/// draft-ietf-opsawg-pcap, section 4: magic number (nanoseconds), version 2.4, two unused words, the length from which
/// packets are cut off, and the link type (Ethernet).
fn file_header() -> [u8; 24] {
    words([0xa1b2_3c4d, 2 | 4 << 16, 0, 0, u32::MAX >> 1, 1])
}

/// draft-ietf-opsawg-pcap, section 5: seconds, nanoseconds, and the length twice, for nothing is cut off.
fn record_header(at: SystemTime, length: usize) -> [u8; RECORD_HEADER] {
    let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // The format lasts until 2106, and no frame is as long as 4 GiB.
    let seconds = u32::try_from(since_epoch.as_secs()).unwrap_or(u32::MAX);
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    words([seconds, since_epoch.subsec_nanos(), length, length])
}

fn words<const WORDS: usize, const BYTES: usize>(values: [u32; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (chunk, value) in bytes.chunks_exact_mut(4).zip(values) {
        chunk.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_log_is_what_libpcap_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.pcap");
        let mut log = Log::create(&path, |error| panic!("{error}")).unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
        assert!(log.record(at, &[1, 2, 3], Instant::now()));
        drop(log);
        let expected: &[&[u8]] = &[
            &[0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 1, 0, 0, 0],
            &1_700_000_000_u32.to_le_bytes(),
            &123_456_789_u32.to_le_bytes(),
            &[3, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3],
        ];
        assert_eq!(fs::read(path).unwrap(), expected.concat());
    }

    #[test]
    fn what_is_due_gets_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log.pcap");
        let mut log = Log::create(&path, |error| panic!("{error}")).unwrap();
        let now = Instant::now();
        assert!(log.record(SystemTime::now(), &[1], now));
        assert_eq!(log.deadline(), Some(now + PATIENCE));
        log.flush_due(now + PATIENCE / 2);
        assert!(log.deadline().is_some());
        log.flush_due(now + PATIENCE);
        assert_eq!(log.deadline(), None);
    }

    #[test]
    fn a_full_disk_is_told_once_and_then_nothing_is_logged() {
        let (report, failure) = channel();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut log = Log::start(full, move |error| report.send(error).unwrap()).unwrap();
        let frame = [0; 1500];
        while log.record(SystemTime::now(), &frame, Instant::now()) {}
        assert_eq!(failure.recv().unwrap().kind(), io::ErrorKind::StorageFull);
        assert!(!log.record(SystemTime::now(), &frame, Instant::now()));
    }
}
