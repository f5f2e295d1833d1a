//! A stream of numbered datagrams from one site to the other, through the tunnel.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt::RcvBufForce};

use super::plan::Family;
use super::{Site, wait_for};

/// Bytes in each datagram, its number included, unless others are asked for.
const SIZE: usize = 200;

/// The longest datagram that can be asked for.
const LONGEST: usize = 1500;

/// What the receiving socket holds, in bytes: a test that is not scheduled for a second must not look like a loss.
const RECEIVE_BUFFER: usize = 32 << 20;

/// After the last datagram is sent, the stream is over when so often nothing has come for so long. A machine that stands
/// still for longer does so once.
const QUIET: (u32, Duration) = (50, Duration::from_millis(20));

/// How long a busy machine may take for what should take two seconds.
const PATIENCE: Duration = Duration::from_secs(20);

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
        Self::of(SIZE, from, (to, to.inner(Family::V4)), interval)
    }

    /// The same with so many bytes in each datagram, to an address of the other site.
    pub(crate) fn of(size: usize, from: &Site, (to, address): (&Site, IpAddr), interval: Duration) -> Self {
        // Streams of one test don't meet.
        static NEXT_PORT: AtomicU16 = AtomicU16::new(20_000);
        let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        let any = match address {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let open = |site: &Site, port| site.namespace.run(|| UdpSocket::bind((any, port))).unwrap();
        let (sending, receiving) = (open(from, 0), open(to, port));
        setsockopt(&receiving, RcvBufForce, &RECEIVE_BUFFER).unwrap();
        receiving.set_read_timeout(Some(QUIET.1)).unwrap();
        let target = SocketAddr::new(address, port);
        let stop = Arc::new(AtomicBool::new(false));
        let record = Arc::new(Mutex::new(Deliveries::default()));
        let (send_until, receive_until) = (stop.clone(), stop.clone());
        let (sender_record, receiver_record) = (record.clone(), record.clone());
        Self {
            stop,
            record,
            threads: [
                spawn(move || send(&sending, (target, size), interval, &sender_record, &send_until)),
                spawn(move || receive(&receiving, size, &receiver_record, &receive_until)),
            ],
        }
    }

    /// Waits until a datagram has come that was sent after `moment`, and returns how long after it that was.
    pub(crate) fn wait_until_back(&self, moment: Instant, patience: Duration) -> Duration {
        wait_for("a datagram of the stream", patience, || self.record.lock().unwrap().back_after(moment))
    }

    /// Waits until so many datagrams were sent.
    pub(crate) fn wait_until_sent(&self, count: usize, patience: Duration) {
        wait_for("the datagrams of a stream", patience, || {
            (self.record.lock().unwrap().sent() >= count).then_some(())
        });
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
    (target, size): (SocketAddr, usize),
    interval: Duration,
    record: &Mutex<Deliveries>,
    stop: &AtomicBool,
) {
    let mut next = Instant::now();
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut datagram = [0; LONGEST];
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        let at = Instant::now();
        // The lock is held so that nothing comes that was not sent.
        let mut record = record.lock().unwrap();
        let accepted = socket.send_to(&datagram[..size], target).is_ok();
        record.sent.push(Sent { at, accepted });
        drop(record);
        // Not later and later: a sender that was held up would send a burst else.
        next = (next + interval).max(at);
        sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn receive(socket: &UdpSocket, size: usize, record: &Mutex<Deliveries>, stop: &AtomicBool) {
    let mut datagram = [0; LONGEST + 1];
    let mut quiet = 0;
    while quiet < QUIET.0 {
        match socket.recv(&mut datagram) {
            Ok(length) => {
                assert_eq!(length, size, "a datagram of another length came out of the tunnel");
                let number = u64::from_be_bytes(datagram[..8].try_into().unwrap());
                let arrival = (usize::try_from(number).unwrap(), Instant::now());
                record.lock().unwrap().received.push(arrival);
                quiet = 0;
            }
            Err(_) => quiet += u32::from(stop.load(Ordering::Relaxed)),
        }
    }
}

/// Checks that UDP at 10 Mbit/s, in payloads of `size` bytes, loses less than `enough` percent on its way to an address of a site.
/// After a pause it goes on at that rate, where iperf3 makes up for what it has missed with a burst that no queue holds.
pub(crate) fn udp_arrives(from: &Site, to: (&Site, IpAddr), size: u16, enough: f64) {
    let stream = Stream::of(size.into(), from, to, Duration::from_micros(u64::from(size) * 8 / 10));
    stream.wait_until_sent(2000, PATIENCE);
    let deliveries = stream.finish();
    let lost = deliveries.loss_percent();
    println!("UDP to {}: {lost} % lost of {}", to.1, deliveries.sent());
    assert!(lost < enough, "{lost} % of UDP to {} are lost", to.1);
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

    /// How many of 100 never came.
    pub(crate) fn loss_percent(&self) -> f64 {
        100.0 * self.lost().len() as f64 / self.sent() as f64
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
