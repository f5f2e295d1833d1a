//! The servers that questions are put to.
//!
//! The fastest is asked first, and the next one beside it as soon as that takes longer than usual; whichever answers
//! first is believed. So a dead server costs no question more than a fraction of a second, and the ranking moves away
//! from it. A server that is reached through a tunnel is one of them: it takes over where the direct ways are flooded.

mod edns;
mod rank;
mod stream;
mod tls;
mod udp;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hickory_proto::op::Message;
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use super::question::{Form, Question};
use super::reply::Reply;
use edns::Edns;
use rank::Rank;
use stream::Stream;
pub use tls::TlsError;
pub(super) use tls::client_config;

/// How long all servers together have for a question: an application waits 5 s as a rule.
const PATIENCE: Duration = Duration::from_millis(4500);

/// How long a server has for one try. The second try of UDP may wait longer, for the first may have met a full queue.
const TRIES: [Duration; 2] = [Duration::from_millis(800), Duration::from_millis(2000)];

/// How an upstream server is spoken to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP, and TCP for what is too long.
    Udp,
    /// TCP.
    Tcp,
    /// TLS (RFC 7858), with a certificate for this name.
    Tls(String),
}

/// An upstream server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamAddress {
    /// Where it is.
    pub address: SocketAddr,
    /// How it is spoken to.
    pub transport: Transport,
}

impl UpstreamAddress {
    /// Whether nobody else can answer in its name: it has a certificate, or is on this machine.
    fn proves_itself(&self) -> bool {
        matches!(self.transport, Transport::Tls(_)) || self.address.ip().is_loopback()
    }
}

impl std::fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = self.address;
        match &self.transport {
            Transport::Udp => write!(f, "{address}"),
            Transport::Tcp => write!(f, "tcp://{address}"),
            Transport::Tls(name) => write!(f, "tls://{address}#{name}"),
        }
    }
}

/// Why a server has not answered.
#[derive(Debug, Error)]
enum AskError {
    #[error("the exchange failed")]
    Io(#[from] io::Error),
    #[error("timed out")]
    TooLong,
    #[error("invalid response")]
    Malformed,
}

/// What there is to know of an upstream server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// Where it is, and how it is spoken to.
    pub server: String,
    /// Whether it answered the last time that it was asked.
    pub answers: bool,
    /// Its smoothed round trip in milliseconds, if it ever answered.
    pub round_trip_ms: Option<f64>,
}

/// All of them.
pub(super) struct Upstreams(Vec<Arc<Upstream>>);

impl Upstreams {
    /// The servers; `tls` is for those that are spoken to by TLS. Connections are made when they are needed.
    pub(super) fn new(addresses: &[UpstreamAddress], tls: &Arc<ClientConfig>) -> Self {
        Self(addresses.iter().map(|address| Arc::new(Upstream::new(address.clone(), tls))).collect())
    }

    /// The answer of whichever server gives one; a failure if all say so; `None` if none says anything.
    pub(super) async fn ask(&self, question: &Question) -> Option<Reply> {
        let mut waiting = self.in_order(Instant::now()).into_iter();
        let (mut asked, mut failure) = (JoinSet::new(), None);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let mut ask_next = |asked: &mut JoinSet<_>| {
            let server = waiting.next()?;
            let patience = server.rank().patience();
            let question = question.clone();
            asked.spawn(async move { server.ask(&question).await });
            Some(patience)
        };
        let mut patience = ask_next(&mut asked)?;
        loop {
            tokio::select! {
                answer = asked.join_next() => match answer {
                    Some(Ok(Some(reply))) if reply.is_final() => return Some(reply),
                    Some(answer) => {
                        failure = answer.ok().flatten().or(failure);
                        patience = ask_next(&mut asked).unwrap_or(PATIENCE);
                    }
                    None => return failure,
                },
                () = sleep(patience) => patience = ask_next(&mut asked).unwrap_or(PATIENCE),
                () = sleep_until(deadline) => return failure,
            }
        }
    }

    pub(super) fn status(&self) -> Vec<UpstreamStatus> {
        self.0.iter().map(|server| server.status()).collect()
    }

    fn in_order(&self, now: Instant) -> Vec<Arc<Upstream>> {
        let mut servers = self.0.clone();
        servers.sort_by_key(|server| server.rank().order(now));
        servers.iter().skip(1).for_each(|server| server.rank().passed_over());
        servers
    }
}

struct Upstream {
    address: UpstreamAddress,
    /// For TCP and TLS; for UDP, what is too long for a datagram.
    stream: Stream,
    rank: Mutex<Rank>,
    edns: Mutex<Edns>,
}

impl Upstream {
    fn new(address: UpstreamAddress, tls: &Arc<ClientConfig>) -> Self {
        let stream = match &address.transport {
            Transport::Udp | Transport::Tcp => Stream::plain(address.address),
            Transport::Tls(name) => Stream::secure(address.address, name.clone(), tls.clone()),
        };
        Self { address, stream, rank: Mutex::default(), edns: Mutex::default() }
    }

    async fn ask(&self, question: &Question) -> Option<Reply> {
        for (number, patience) in TRIES.into_iter().enumerate() {
            let start = Instant::now();
            // Some servers, and what is in front of others, throw away what has EDNS.
            let is_second = number > 0 && !question.wants_signatures();
            let form = if is_second { Form::Plain } else { self.edns().form(start) };
            let answer = match timeout(patience, self.try_once(question, form)).await {
                Ok(answer) => answer,
                Err(_) => Err(AskError::TooLong),
            };
            match answer {
                Ok(message) => {
                    self.rank().answered(start.elapsed());
                    match form {
                        Form::Edns => self.edns().answered(),
                        Form::Plain if is_second => self.edns().only_plain_answered(Instant::now()),
                        Form::Plain => {}
                    }
                    let reply = Reply::of(message);
                    // Whoever is on the way to another server sets the flag as he likes.
                    let authentic = reply.authentic && self.address.proves_itself();
                    return Some(Reply { authentic, ..reply });
                }
                Err(error) => {
                    self.rank().failed(Instant::now());
                    let cause = crate::error_chain(&error);
                    tracing::debug!(server = %self.address, cause, "an upstream server has not answered");
                    // Who refuses the connection does so again at once.
                    if matches!(error, AskError::Io(_)) {
                        return None;
                    }
                }
            }
        }
        None
    }

    /// Asks once; without EDNS again where the server says that it does not take it (RFC 6891 §7).
    async fn try_once(&self, question: &Question, form: Form) -> Result<Message, AskError> {
        let message = self.exchange(question, form).await?;
        if form == Form::Plain || !edns::is_refused(&message) {
            return Ok(message);
        }
        let plain = self.exchange(question, Form::Plain).await?;
        if !edns::is_refused(&plain) {
            self.edns().refused(Instant::now());
        }
        Ok(plain)
    }

    async fn exchange(&self, question: &Question, form: Form) -> Result<Message, AskError> {
        if self.address.transport != Transport::Udp {
            return self.stream.ask(question, form).await;
        }
        let message = udp::ask(self.address.address, question, form).await?;
        if message.truncation { self.stream.ask(question, form).await } else { Ok(message) }
    }

    /// As for the rank.
    fn edns(&self) -> MutexGuard<'_, Edns> {
        self.edns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn status(&self) -> UpstreamStatus {
        let rank = *self.rank();
        UpstreamStatus {
            server: self.address.to_string(),
            answers: !rank.is_silent(),
            round_trip_ms: rank.round_trip().map(|round_trip| round_trip.as_secs_f64() * 1e3),
        }
    }

    /// It is replaced whole, so a thread that panicked with it has left nothing half done.
    fn rank(&self) -> MutexGuard<'_, Rank> {
        self.rank.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An id that an attacker cannot guess (RFC 5452 §9).
fn random_id() -> Result<u16, io::Error> {
    let mut id = [0; 2];
    aws_lc_rs::rand::fill(&mut id).map_err(|_| io::Error::other("the system has no randomness to give"))?;
    Ok(u16::from_be_bytes(id))
}
