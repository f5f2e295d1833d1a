//! Two connections that have become one stream.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::time::{Instant, sleep, sleep_until};

/// Bytes that are on their way in each direction.
const BUFFER: usize = 16 * 1024;

/// A stream on which nothing has moved for this long is ended. Sites renew their connections every 15 minutes.
const IDLE: Duration = Duration::from_secs(20 * 60);

/// Bits per second in each direction: a stream carries control messages, not traffic.
const RATE: u64 = 1_000_000;

/// Bytes that may pass at once: many times a handshake with post-quantum keys.
const BURST: u64 = 128 * 1024;

/// What streams have carried.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Streams that stand.
    pub(crate) open: AtomicUsize,
    /// Bytes, in both directions.
    pub(crate) bytes: AtomicU64,
}

impl Streams {
    /// Joins the two until one of them ends or breaks, or nothing moves for long.
    pub(crate) async fn splice<A, B>(&self, one: A, two: B) -> io::Result<()>
    where
        A: AsyncRead + AsyncWrite + Unpin,
        B: AsyncRead + AsyncWrite + Unpin,
    {
        let _open = Open::count(&self.open);
        let moved = AtomicU64::new(0);
        let (mut one_reader, mut one_writer) = split(one);
        let (mut two_reader, mut two_writer) = split(two);
        tokio::select! {
            ended = self.pump(&mut one_reader, &mut two_writer, &moved) => ended?,
            ended = self.pump(&mut two_reader, &mut one_writer, &moved) => ended?,
            () = until_idle(&moved) => {}
        }
        // Each side learns that the other has ended; one that has gone already need not.
        let _ = tokio::join!(one_writer.shutdown(), two_writer.shutdown());
        Ok(())
    }

    async fn pump(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        moved: &AtomicU64,
    ) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        let mut due = Instant::now();
        loop {
            let count = from.read(&mut buffer).await?;
            if count == 0 {
                return Ok(());
            }
            to.write_all(&buffer[..count]).await?;
            to.flush().await?;
            moved.fetch_add(count as u64, Ordering::Relaxed);
            self.bytes.fetch_add(count as u64, Ordering::Relaxed);
            let now = Instant::now();
            due = due.max(now) + time_of(count as u64);
            if due > now + time_of(BURST) {
                sleep_until(due - time_of(BURST)).await;
            }
        }
    }
}

/// Ends when nothing has moved between two looks.
async fn until_idle(moved: &AtomicU64) {
    let mut before = u64::MAX;
    loop {
        let now = moved.load(Ordering::Relaxed);
        if now == before {
            return;
        }
        before = now;
        sleep(IDLE).await;
    }
}

fn time_of(bytes: u64) -> Duration {
    Duration::from_micros(bytes * 8 * 1_000_000 / RATE)
}

/// Counts while it lives.
struct Open<'a>(&'a AtomicUsize);

impl<'a> Open<'a> {
    fn count(open: &'a AtomicUsize) -> Self {
        open.fetch_add(1, Ordering::Relaxed);
        Self(open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_go_both_ways_until_one_side_ends() {
        let streams = Streams::default();
        let (mut near, near_end) = duplex(64);
        let (mut far, far_end) = duplex(64);
        let talk = async {
            near.write_all(b"question").await.unwrap();
            let mut heard = [0; 8];
            far.read_exact(&mut heard).await.unwrap();
            assert_eq!(&heard, b"question");
            far.write_all(b"answer").await.unwrap();
            let mut heard = [0; 6];
            near.read_exact(&mut heard).await.unwrap();
            assert_eq!((&heard, streams.open.load(Ordering::Relaxed)), (b"answer", 1));
            drop(near);
            assert_eq!(far.read(&mut heard).await.unwrap(), 0, "the end arrives");
        };
        let (spliced, ()) = tokio::join!(streams.splice(near_end, far_end), talk);
        spliced.unwrap();
        assert_eq!((streams.open.load(Ordering::Relaxed), streams.bytes.load(Ordering::Relaxed)), (0, 14));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_carries_no_more_than_control_needs() {
        let streams = Streams::default();
        let (mut near, near_end) = duplex(BUFFER);
        let (mut far, far_end) = duplex(BUFFER);
        let start = Instant::now();
        let megabyte = vec![7; 1 << 20];
        let talk = async {
            let write = near.write_all(&megabyte);
            let mut heard = vec![0; 1 << 20];
            let (written, read) = tokio::join!(write, far.read_exact(&mut heard));
            written.unwrap();
            read.unwrap();
            assert_eq!(heard, megabyte);
            drop(near);
        };
        let (spliced, ()) = tokio::join!(streams.splice(near_end, far_end), talk);
        spliced.unwrap();
        let least = time_of((1 << 20) - BURST - 2 * BUFFER as u64);
        assert!(start.elapsed() >= least, "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_nobody_uses_is_ended() {
        let streams = Streams::default();
        let (_near, near_end) = duplex(64);
        let (_far, far_end) = duplex(64);
        let start = Instant::now();
        streams.splice(near_end, far_end).await.unwrap();
        assert!(start.elapsed() >= IDLE && start.elapsed() <= 2 * IDLE + Duration::from_secs(1));
    }
}
