//! A measurement that runs: a [`Session`] on a socket, in time.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use psmc_net::keys::random_seed;
use psmc_net::probe::IcmpError;
use psmc_net::timed::TimedSocket;
use tokio::time::sleep_until;

use crate::answer::{Answer, Oddities};
use crate::clock::Reading;
use crate::key::Key;
use crate::loss::Losses;
use crate::session::{MIN_INTERVAL, Session};

/// What is measured, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The reflector.
    pub remote: SocketAddr,
    /// The key that it has, too; `None` measures without authentication.
    pub key: Option<Key>,
    /// From one probe to the next, [`MIN_INTERVAL`] at least.
    pub interval: Duration,
    /// How long an answer is waited for, up to [`MAX_PATIENCE`](crate::MAX_PATIENCE).
    pub patience: Duration,
    /// How many probes are sent, or tried; `None` does not end.
    pub count: Option<u32>,
    /// Through which interface; `None` follows the routes.
    pub interface: Option<String>,
    /// From which address; `None` leaves it to the kernel.
    pub local: Option<IpAddr>,
}

/// What has become of a probe.
#[derive(Debug)]
pub enum Outcome {
    /// It is answered.
    Answered(Answer),
    /// No answer has come in time to the one with this number.
    Lost(u32),
    /// It could not be sent; the next one takes its number.
    NotSent(io::Error),
}

/// Measures one reflector until it has sent as many probes as it should, and knows what became of them.
#[derive(Debug)]
pub struct Sender {
    target: Target,
    socket: TimedSocket,
    session: Session,
    /// When the next probe is due; `None` if there is none.
    next: Option<Instant>,
    /// Probes that were sent, or could not be.
    tried: u32,
    sent: u32,
    /// What was said last of one that was not delivered.
    undeliverable: Option<IcmpError>,
    buffer: Box<[u8; BUFFER]>,
}

/// An answer is as long as its probe, of 160 bytes at most; what is longer is none of ours, but may be looked at.
const BUFFER: usize = 2048;

/// ICMP errors that are heard at a time: whoever sends more of them than there are probes must not keep us busy.
const MAX_ERRORS: usize = 16;

impl Sender {
    /// Begins to measure; the first probe is due at once.
    ///
    /// # Errors
    /// When there is no such interface or address.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn open(target: Target) -> io::Result<Self> {
        let socket = TimedSocket::asking(target.interface.as_deref(), target.local, target.remote)?;
        let [high, low, ..] = random_seed();
        // Zero means that there is none.
        let ssid = u16::from_be_bytes([high, low]).max(1);
        let session = Session::new(target.remote, target.key.clone(), ssid, target.patience);
        let next = Some(Instant::now());
        let buffer = Box::new([0; BUFFER]);
        Ok(Self { target, socket, session, next, tried: 0, sent: 0, undeliverable: None, buffer })
    }

    /// Waits for what becomes of the next probe; `None` when nothing more will. May be dropped and called again.
    pub async fn next(&mut self) -> Option<Outcome> {
        loop {
            let now = Instant::now();
            if let Some(sequence) = self.session.give_up(now) {
                return Some(Outcome::Lost(sequence));
            }
            if self.next.is_some_and(|next| next <= now) {
                match self.send(now) {
                    Ok(()) => continue,
                    Err(error) => return Some(Outcome::NotSent(error)),
                }
            }
            let deadline = [self.next, self.session.deadline()].into_iter().flatten().min()?;
            tokio::select! {
                biased;
                received = self.socket.recv(&mut *self.buffer) => {
                    if let Some(answer) = self.receive(received) {
                        return Some(Outcome::Answered(answer));
                    }
                }
                () = sleep_until(deadline.into()) => {}
            }
        }
    }

    /// Sends no more probes. Those that were sent are still waited for.
    pub fn stop(&mut self) {
        self.next = None;
    }

    /// How many probes were sent.
    #[must_use]
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// What was lost, and which way.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.session.losses()
    }

    /// What was odd.
    #[must_use]
    pub fn oddities(&self) -> &Oddities {
        self.session.oddities()
    }

    /// How often a clock was set, here or there, as far as it was noticed.
    #[must_use]
    pub fn clock_sets(&self) -> u64 {
        self.session.clock_sets()
    }

    /// What was said last of a probe that was not delivered.
    #[must_use]
    pub fn undeliverable(&self) -> Option<IcmpError> {
        self.undeliverable
    }

    fn send(&mut self, now: Instant) -> io::Result<()> {
        self.schedule(now);
        self.tried = self.tried.saturating_add(1);
        let (_, bytes) = self.session.probe(Reading::now());
        self.session.leaves(Reading::now());
        let mut sent = self.socket.try_send(&bytes, None, self.target.remote);
        if sent.is_err() && self.hear_errors() {
            // That was about an earlier one.
            sent = self.socket.try_send(&bytes, None, self.target.remote);
        }
        match sent {
            Ok(()) => self.sent = self.sent.saturating_add(1),
            Err(_) => self.session.not_sent(),
        }
        if self.target.count.is_some_and(|count| self.tried >= count) {
            self.next = None;
        }
        sent
    }

    /// Probes that this machine was too busy for are left out, not sent all at once.
    fn schedule(&mut self, now: Instant) {
        let interval = self.target.interval.max(MIN_INTERVAL);
        self.next =
            self.next.map(|next| next + interval).map(|next| if next <= now { now + interval } else { next });
    }

    fn receive(&mut self, received: io::Result<psmc_net::timed::Arrival>) -> Option<Answer> {
        let Ok(arrival) = received else {
            self.hear_errors();
            return None;
        };
        let at = Reading::now().back_to(arrival.at);
        let bytes = &self.buffer[..arrival.length];
        self.session.answer(bytes, arrival.from, at, arrival.hops)
    }

    /// Hears what ICMP says; whether it has said something.
    fn hear_errors(&mut self) -> bool {
        let mut has_heard = false;
        for _ in 0..MAX_ERRORS {
            let Some((about, error)) = self.socket.take_icmp_error() else { break };
            has_heard = true;
            if about == Some(self.target.remote) {
                self.session.undeliverable();
                self.undeliverable = Some(error);
            }
        }
        has_heard
    }
}
