//! One TCP connection that is always full, and when it got on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use super::plan::Family;
use super::{Site, wait_for};

/// Where the receiver listens.
const PORT: u16 = 9000;

/// Bytes written or read at once.
const BLOCK: usize = 16 * 1024;

/// A transfer that is running.
pub(crate) struct Bulk {
    receiving: TcpStream,
    arrivals: Arc<Mutex<Vec<(Instant, usize)>>>,
    threads: [JoinHandle<()>; 2],
}

impl Bulk {
    /// Connects through the tunnel, and sends until [`finish`](Self::finish).
    pub(crate) fn start(from: &Site, to: &Site) -> Self {
        let address = SocketAddr::new(to.inner(Family::V4), PORT);
        let listener = to.namespace.run(|| TcpListener::bind(address)).unwrap();
        let sending = from.namespace.run(|| TcpStream::connect(address)).unwrap();
        let (receiving, _) = listener.accept().unwrap();
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let (reading, record) = (receiving.try_clone().unwrap(), arrivals.clone());
        Self {
            receiving,
            arrivals,
            threads: [spawn(move || write_on(sending)), spawn(move || read_on(reading, &record))],
        }
    }

    /// Waits until this many bytes have come.
    pub(crate) fn wait_for_bytes(&self, bytes: usize, patience: Duration) {
        wait_for("bytes over TCP", patience, || (self.bytes() >= bytes).then_some(()));
    }

    /// Lets it run for `time` from now on, and returns the longest time in it without a byte.
    pub(crate) fn longest_gap_in(&self, time: Duration, patience: Duration) -> Duration {
        let (start, end) = (Instant::now(), Instant::now() + time);
        wait_for("bytes over TCP", patience, || {
            let arrivals = self.arrivals.lock().unwrap();
            let (last, _) = arrivals.last()?;
            (*last >= end).then_some(())
        });
        let arrivals = self.arrivals.lock().unwrap();
        let times: Vec<_> = arrivals.iter().map(|&(at, _)| at).filter(|at| *at >= start).collect();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.chain([times[0] - start]).max().unwrap()
    }

    /// How many bytes have come.
    pub(crate) fn bytes(&self) -> usize {
        self.arrivals.lock().unwrap().iter().map(|&(_, read)| read).sum()
    }

    /// The longest time without a byte since `start`, up to the last that has come.
    pub(crate) fn longest_gap_since(&self, start: Instant) -> Duration {
        let arrivals = self.arrivals.lock().unwrap();
        let first = arrivals.partition_point(|&(at, _)| at < start);
        // The gap in which it began counts from its begin.
        let times: Vec<_> =
            std::iter::once(start).chain(arrivals[first..].iter().map(|&(at, _)| at)).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    /// Ends the transfer.
    pub(crate) fn finish(self) {
        // The sender notices by the reset.
        drop(self.receiving.shutdown(std::net::Shutdown::Both));
        drop(self.receiving);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

fn write_on(mut stream: TcpStream) {
    let block = [0xa5; BLOCK];
    while stream.write_all(&block).is_ok() {}
}

fn read_on(mut stream: TcpStream, record: &Mutex<Vec<(Instant, usize)>>) {
    let mut block = [0; BLOCK];
    while let Ok(read @ 1..) = stream.read(&mut block) {
        record.lock().unwrap().push((Instant::now(), read));
    }
}
