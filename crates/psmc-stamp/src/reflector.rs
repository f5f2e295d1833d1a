//! The Session-Reflector (RFC 8762 section 4.3), stateful, with those extensions of RFC 8972 that it does itself.

mod answering;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use psmc_net::retry::Retry;
use psmc_net::timed::{Arrival, TimedSocket};
use tokio::task::yield_now;

use crate::key::Key;
use answering::Answering;

/// Where a reflector is, and whom it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it listens; `[::]` stands for all addresses of both families.
    pub listen: SocketAddr,
    /// With a key only those are answered who have it, too.
    pub key: Option<Key>,
    /// Packets in a second of each source that are answered, at most. Sources by IPv6 are networks of 64 bits.
    pub rate: u32,
}

/// Why a packet was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An answer would be longer than what it answers.
    Short,
    /// Its source sends more than it may, or all together do.
    TooMany,
    /// Its HMAC is not that of the key.
    WrongHmac,
    /// It is itself the answer of a reflector: two of them would never end.
    Answer,
    /// It has the layout of another mode, or cannot be understood.
    Misshapen,
    /// The answer could not be sent: the question came through the tunnel of this process, or the socket is full.
    NotSent,
}

impl Refusal {
    /// All there are.
    pub const ALL: [Self; 6] =
        [Self::Short, Self::TooMany, Self::WrongHmac, Self::Answer, Self::Misshapen, Self::NotSent];

    /// Its name, for people and machines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::TooMany => "too_many",
            Self::WrongHmac => "wrong_hmac",
            Self::Answer => "answer",
            Self::Misshapen => "misshapen",
            Self::NotSent => "not_sent",
        }
    }
}

/// What a reflector has done so far.
#[derive(Debug, Default)]
pub struct Counts {
    answered: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
}

impl Counts {
    /// Packets that were answered.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Packets that were not, for this reason.
    #[must_use]
    pub fn refused(&self, refusal: Refusal) -> u64 {
        self.refused[refusal as usize].load(Ordering::Relaxed)
    }

    fn count(&self, outcome: Result<(), Refusal>) {
        let counter = match outcome {
            Ok(()) => &self.answered,
            Err(refusal) => &self.refused[refusal as usize],
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Answers to those who measure.
pub struct Reflector {
    socket: TimedSocket,
    answering: Answering,
    counts: Arc<Counts>,
}

/// The largest UDP datagram, in bytes.
const LARGEST: usize = 65_535;

/// Packets that are answered before others have their turn: some tenths of a millisecond.
const BATCH: usize = 64;

impl Reflector {
    /// Listens where the settings say.
    ///
    /// # Errors
    /// What the system says, such as that the port is taken.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn bind(settings: &Settings) -> io::Result<Self> {
        let socket = TimedSocket::bind(settings.listen)?;
        let port = socket.local_addr()?.port();
        let answering = Answering::new(port, settings.key.clone(), settings.rate);
        Ok(Self { socket, answering, counts: Arc::default() })
    }

    /// Where it listens, with the port that the kernel chose if it was asked to.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    /// Answers until it is dropped.
    pub async fn run(mut self) {
        let mut buffer = vec![0; LARGEST];
        let mut retry = Retry::new("receive STAMP packets");
        loop {
            for _ in 0..BATCH {
                match self.socket.recv(&mut buffer).await {
                    Ok(arrival) => {
                        let outcome = self.reflect(&buffer[..arrival.length], &arrival);
                        self.counts.count(outcome);
                    }
                    Err(error) => retry.after(&error).await,
                }
            }
            yield_now().await;
        }
    }

    fn reflect(&mut self, question: &[u8], arrival: &Arrival) -> Result<(), Refusal> {
        let answer = self.answering.answer(question, arrival)?;
        let sent = self.socket.try_send(&answer, arrival.to, arrival.from);
        sent.map_err(|_| Refusal::NotSent)
    }
}
