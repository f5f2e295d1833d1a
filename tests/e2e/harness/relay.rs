//! A man in the middle: stands on the headquarters' host and passes on all datagrams that the van sends to it, and back.
//!
//! He sees what anybody on the way sees, and can send what anybody on the way can send. Control connections pass him by.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use super::plan::{Family, HQ, PORT};
use super::{Plan, Site};

/// Where the van finds the headquarters, as it believes.
const RELAY_PORT: u16 = 6000;

/// How soon the threads notice the end.
const ATTENTION: Duration = Duration::from_millis(20);

/// The greatest datagram.
const MAX_DATAGRAM: usize = 65_535;

/// The relay, running; it ends on drop.
pub(crate) struct Relay {
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Towards {
    Hq,
    Van,
}

/// What he sends beside a datagram that passes.
#[derive(Debug, Default)]
pub(crate) struct Forgeries {
    /// In front of it.
    pub(crate) before: Vec<Vec<u8>>,
    /// Behind it.
    pub(crate) after: Vec<Vec<u8>>,
    /// Behind it, too, but from another address than the van's. Towards the headquarters only.
    pub(crate) elsewhere: Vec<Vec<u8>>,
}

type Mischief = Box<dyn FnMut(&[u8]) -> Forgeries + Send>;

struct State {
    ended: AtomicBool,
    /// The socket that the van sends to.
    front: UdpSocket,
    /// The socket that sends to the headquarters.
    back: Mutex<Arc<UdpSocket>>,
    /// Where the van's last datagram came from.
    van: Mutex<Option<SocketAddr>>,
    /// A socket that nobody has heard from.
    elsewhere: UdpSocket,
    /// What he adds to the datagrams towards the headquarters, and towards the van.
    mischief: [Mutex<Option<Mischief>>; 2],
}

/// A datagram on its way.
struct Delayed {
    due: Instant,
    datagram: Vec<u8>,
    /// The socket towards the headquarters that it passes, now or then.
    back: Arc<UdpSocket>,
}

impl Relay {
    /// A tunnel with one path, which leads through a relay.
    pub(crate) fn plan() -> Plan {
        Plan {
            links: 1,
            endpoint: Some(format!("{}:{RELAY_PORT}", HQ.outer(1, Family::V4))),
            ..Plan::default()
        }
    }

    /// Starts it; each datagram is held up for `delay`.
    pub(crate) fn start(hq: &Site, delay: Duration) -> Self {
        hq.run(&[
            "nft",
            &format!(
                "table ip relay {{ chain front {{ type nat hook prerouting priority -100; \
                 tcp dport {RELAY_PORT} redirect to :{PORT}; }}; }}"
            ),
        ]);
        let state = Arc::new(State {
            ended: AtomicBool::new(false),
            front: bind(hq, RELAY_PORT),
            back: Mutex::new(Arc::new(connect(hq))),
            van: Mutex::new(None),
            elsewhere: connect(hq),
            mischief: Default::default(),
        });
        let mut threads = Vec::new();
        for towards in [Towards::Hq, Towards::Van] {
            let (sender, receiver) = mpsc::channel();
            let (receiving, sending) = (state.clone(), state.clone());
            threads.push(spawn(move || receiving.receive(towards, delay, &sender)));
            threads.push(spawn(move || sending.pass_on(towards, &receiver)));
        }
        Self { state, threads }
    }

    /// From now on datagrams reach the headquarters from another port, as when a NAT has forgotten the old one.
    pub(crate) fn rebind(&self, hq: &Site) {
        *self.state.back.lock().unwrap() = Arc::new(connect(hq));
    }

    /// From now on `mischief` says what he adds to each datagram that goes this way.
    pub(crate) fn make(&self, towards: Towards, mischief: impl FnMut(&[u8]) -> Forgeries + Send + 'static) {
        *self.state.mischief[towards as usize].lock().unwrap() = Some(Box::new(mischief));
    }

    /// He adds nothing any more.
    pub(crate) fn behave(&self) {
        for mischief in &self.state.mischief {
            *mischief.lock().unwrap() = None;
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that has panicked has said so.
            drop(thread.join());
        }
    }
}

impl State {
    fn receive(&self, towards: Towards, delay: Duration, queue: &mpsc::Sender<Delayed>) {
        let mut buffer = vec![0; MAX_DATAGRAM];
        while !self.ended.load(Ordering::Relaxed) {
            let back = self.back();
            let received = match towards {
                Towards::Hq => self.front.recv_from(&mut buffer),
                Towards::Van => back.recv_from(&mut buffer),
            };
            // Nothing came for a while, or nobody is there yet.
            let Ok((length, from)) = received else { continue };
            if towards == Towards::Hq {
                *self.van.lock().unwrap() = Some(from);
            }
            let datagram = buffer[..length].to_vec();
            let (due, back) = (Instant::now() + delay, self.back());
            // The other thread of this direction goes last.
            drop(queue.send(Delayed { due, datagram, back }));
        }
    }

    /// The delay lies between the NAT and the headquarters: what is on its way when the port changes still arrives at
    /// the headquarters, and doesn't at the van.
    fn pass_on(&self, towards: Towards, queue: &mpsc::Receiver<Delayed>) {
        for Delayed { due, datagram, back } in queue {
            sleep(due.saturating_duration_since(Instant::now()));
            let mut mischief = self.mischief[towards as usize].lock().unwrap();
            let forgeries = mischief.as_mut().map(|forge| forge(&datagram)).unwrap_or_default();
            let seen = [forgeries.before, vec![datagram], forgeries.after].concat();
            seen.iter().for_each(|datagram| self.send(towards, &back, datagram));
            for datagram in forgeries.elsewhere {
                self.elsewhere.send(&datagram).unwrap();
            }
        }
    }

    /// What the network has no room for is lost, as ever.
    fn send(&self, towards: Towards, back: &Arc<UdpSocket>, datagram: &[u8]) {
        match towards {
            Towards::Hq => drop(back.send(datagram)),
            Towards::Van if Arc::ptr_eq(back, &self.back()) => {
                let van = *self.van.lock().unwrap();
                drop(van.map(|van| self.front.send_to(datagram, van)));
            }
            Towards::Van => {}
        }
    }

    fn back(&self) -> Arc<UdpSocket> {
        self.back.lock().unwrap().clone()
    }
}

fn connect(hq: &Site) -> UdpSocket {
    let socket = bind(hq, 0);
    socket.connect((HQ.outer(1, Family::V4), PORT)).unwrap();
    socket
}

fn bind(hq: &Site, port: u16) -> UdpSocket {
    let address = SocketAddr::new(HQ.outer(1, Family::V4), port);
    let socket = hq.namespace.run(|| UdpSocket::bind(address)).unwrap();
    socket.set_read_timeout(Some(ATTENTION)).unwrap();
    socket
}
