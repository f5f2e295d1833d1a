//! A stream of numbered datagrams from one site to the other, through the tunnel.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};

use super::plan::Family;
use super::{Site, wait_for};

/// Bytes in each datagram, its number included.
const SIZE: usize = 200;

/// What the receiving socket holds, in bytes: a test that is not scheduled for a second must not look like a loss.
const RECEIVE_BUFFER: usize = 32 << 20;

/// After the last datagram is sent, the stream is over when nothing has come for this long.
const QUIET: Duration = Duration::from_millis(500);

/// A stream that is running.
pub(crate) struct Stream {
    stop: Arc<AtomicBool>,
    record: Arc<Mutex<Deliveries>>,
    threads: [JoinHandle<()>; 2],
}

/// What became of one attempt to send.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    /// Whether the kernel took it; without an interface there is no route.
    accepted: bool,
}

impl Stream {
    /// Sends a datagram every `interval`, until [`finish`](Self::finish).
    pub(crate) fn start(from: &Site, to: &Site, interval: Duration) -> Self {
        // Streams of one test don't meet.
        static NEXT_PORT: AtomicU16 = AtomicU16::new(20_000);
        let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        let open = |site: &Site, port| site.namespace.run(|| UdpSocket::bind(("0.0.0.0", port))).unwrap();
        let (sending, receiving) = (open(from, 0), open(to, port));
        setsockopt(&receiving, RcvBufForce, &RECEIVE_BUFFER).unwrap();
        receiving.set_read_timeout(Some(QUIET)).unwrap();
        let target = SocketAddr::new(to.inner(Family::V4), port);
        let stop = Arc::new(AtomicBool::new(false));
        let record = Arc::new(Mutex::new(Deliveries::default()));
        let (send_until, receive_until) = (stop.clone(), stop.clone());
        let (sender_record, receiver_record) = (record.clone(), record.clone());
        Self {
            stop,
            record,
            threads: [
                spawn(move || send(&sending, target, interval, &sender_record, &send_until)),
                spawn(move || receive(&receiving, &receiver_record, &receive_until)),
            ],
        }
    }

    /// Waits until a datagram has come that was sent after `moment`, and returns how long after it that was.
    pub(crate) fn wait_until_back(&self, moment: Instant, patience: Duration) -> Duration {
        wait_for("a datagram of the stream", patience, || self.record.lock().unwrap().back_after(moment))
    }

    /// Stops sending, waits for what is on its way, and says what came.
    pub(crate) fn finish(self) -> Deliveries {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        std::mem::take(&mut *self.record.lock().unwrap())
    }
}

fn send(
    socket: &UdpSocket,
    target: SocketAddr,
    interval: Duration,
    record: &Mutex<Deliveries>,
    stop: &AtomicBool,
) {
    let mut next = Instant::now();
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut datagram = [0; SIZE];
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        let at = Instant::now();
        // The lock is held so that nothing comes that was not sent.
        let mut record = record.lock().unwrap();
        let accepted = socket.send_to(&datagram, target).is_ok();
        record.sent.push(Sent { at, accepted });
        drop(record);
        // Not later and later: a sender that was held up would send a burst else.
        next = (next + interval).max(at);
        sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn receive(socket: &UdpSocket, record: &Mutex<Deliveries>, stop: &AtomicBool) {
    let mut datagram = [0; SIZE];
    loop {
        match socket.recv(&mut datagram) {
            Ok(SIZE) => {
                let number = u64::from_be_bytes(datagram[..8].try_into().unwrap());
                let arrival = (usize::try_from(number).unwrap(), Instant::now());
                record.lock().unwrap().received.push(arrival);
            }
            Ok(other) => panic!("a datagram of {other} bytes came out of the tunnel"),
            Err(_) if stop.load(Ordering::Relaxed) => return,
            Err(_) => {}
        }
    }
}

/// What came of a stream.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    sent: Vec<Sent>,
    received: Vec<(usize, Instant)>,
}

impl Deliveries {
    /// How many the kernel took.
    pub(crate) fn sent(&self) -> usize {
        self.sent.iter().filter(|sent| sent.accepted).count()
    }

    /// The numbers of those that the kernel took and that never came.
    pub(crate) fn lost(&self) -> Vec<usize> {
        let received: BTreeSet<_> = self.received.iter().map(|&(number, _)| number).collect();
        let sent = self.sent.iter().enumerate().filter(|(_, sent)| sent.accepted);
        sent.map(|(number, _)| number).filter(|number| !received.contains(number)).collect()
    }

    /// How many came more than once.
    pub(crate) fn duplicates(&self) -> usize {
        let different: BTreeSet<_> = self.received.iter().map(|&(number, _)| number).collect();
        self.received.len() - different.len()
    }

    /// How long after `moment` one came that was sent after it.
    fn back_after(&self, moment: Instant) -> Option<Duration> {
        let sent_later = |&&(number, _): &&(usize, Instant)| self.sent[number].at >= moment;
        let (_, at) = self.received.iter().rev().take_while(sent_later).last()?;
        Some(*at - moment)
    }
}
