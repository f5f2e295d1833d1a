//! What a resolver is asked, and what comes back when.

use std::io;
use std::net::{Ipv4Addr, UdpSocket as StdUdpSocket};
use std::time::{Duration, Instant};

use hickory_proto::op::{Message, Query, ResponseCode};
use hickory_proto::rr::{Name, RecordType};
use psmc_testbed::netns::Namespace;
use tokio::net::UdpSocket;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use super::bind::LISTEN;
use crate::DemoError;

/// The port of DNS.
const PORT: u16 = 53;

/// How often a resolver is asked.
pub(super) const EVERY: Duration = Duration::from_millis(20);

/// Who asks waits for so long: what comes later is no answer.
pub(super) const WAITS: Duration = Duration::from_secs(2);

/// Those who ask a resolver.
pub(super) struct Questions {
    resolver: &'static str,
    socket: UdpSocket,
    asked: Vec<Asked>,
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// When it was asked, since the first one.
    pub(super) at: Duration,
    /// How long the answer took; `None` if there is none, or none that helps.
    pub(super) took: Option<Duration>,
}

impl Questions {
    /// For the resolver of a host, from that host.
    pub(super) fn new(resolver: &'static str, host: &Namespace) -> Result<Self, DemoError> {
        let open = || {
            let socket = StdUdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect((LISTEN, PORT))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        let socket = host.run(open).and_then(UdpSocket::from_std).map_err(failed(resolver))?;
        Ok(Self { resolver, socket, asked: Vec::new() })
    }

    /// Whether one question is answered soon.
    pub(super) async fn is_answered(&mut self, name: &str) -> Result<bool, DemoError> {
        let asked = async {
            self.socket.send(&question(0, name)?).await?;
            let mut room = [0; MOST];
            let length = self.socket.recv(&mut room).await?;
            Ok::<_, io::Error>(answered(&room[..length]).is_some())
        };
        match timeout(WAITS / 8, asked).await {
            // While nobody listens the system says so.
            Ok(Err(error)) if error.kind() != io::ErrorKind::ConnectionRefused => {
                Err(failed(self.resolver)(error))
            }
            Ok(result) => Ok(result.unwrap_or(false)),
            Err(_) => Ok(false),
        }
    }

    /// Asks at a steady pace from `started` until it is over, each time for another name.
    pub(super) async fn run(
        &mut self,
        started: Instant,
        is_over: impl Fn() -> bool,
    ) -> Result<(), DemoError> {
        let mut ticks = pace();
        let mut room = [0; MOST];
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if is_over() {
                        return Ok(());
                    }
                    self.ask(started.elapsed()).await.map_err(failed(self.resolver))?;
                }
                received = self.socket.recv(&mut room) => {
                    let length = received.map_err(failed(self.resolver))?;
                    self.note(&room[..length], started.elapsed());
                }
            }
        }
    }

    /// All that was asked, and what came of it.
    pub(super) fn into_asked(self) -> Vec<Asked> {
        self.asked
    }

    async fn ask(&mut self, at: Duration) -> io::Result<()> {
        let number = self.asked.len();
        let id = u16::try_from(number).unwrap_or(u16::MAX);
        self.asked.push(Asked { at, took: None });
        self.socket.send(&question(id, &name(self.resolver, number))?).await?;
        Ok(())
    }

    fn note(&mut self, answer: &[u8], now: Duration) {
        let Some(asked) = answered(answer).and_then(|id| self.asked.get_mut(usize::from(id))) else { return };
        asked.took = Some(now - asked.at).filter(|took| *took <= WAITS);
    }
}

/// A name that nobody else asks for.
pub(super) fn name(resolver: &str, number: usize) -> String {
    format!("{resolver}-{number}.test.")
}

fn question(id: u16, name: &str) -> io::Result<Vec<u8>> {
    let mut question = Message::query();
    question.metadata.id = id;
    question.metadata.recursion_desired = true;
    question.add_query(Query::query(Name::from_ascii(name).map_err(io::Error::other)?, RecordType::A));
    question.to_vec().map_err(io::Error::other)
}

/// The number of the question that a message answers; `None` if it does not help.
fn answered(message: &[u8]) -> Option<u16> {
    let answer = Message::from_vec(message).ok()?;
    let helps = answer.metadata.response_code == ResponseCode::NoError && !answer.answers.is_empty();
    helps.then_some(answer.metadata.id)
}

/// On a busy machine questions that are late are made up for at once: as many are asked as the report says.
fn pace() -> Interval {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    ticks
}

fn failed(resolver: &str) -> impl Fn(io::Error) -> DemoError {
    move |source| DemoError::Dns { of: format!("the resolver {resolver}"), source }
}

/// The longest message without EDNS.
const MOST: usize = 512;
