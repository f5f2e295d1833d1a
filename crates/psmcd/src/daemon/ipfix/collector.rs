//! The socket to a collector, and what is the matter with it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use psmc_net::udp::connect_udp;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::config::{Endpoint, Host};
use crate::daemon::lookup::lookup;

/// A collector that has no address, or to which there is no way, is looked for again after this time.
const RETRY: Duration = Duration::from_secs(5);

/// A trouble is over when it has not been seen for this time: systems tell once a second at most that nobody listens.
const CALM: Duration = Duration::from_secs(30);

/// What was sent, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) messages: u64,
    pub(super) records: u64,
    pub(super) unsent_messages: u64,
    pub(super) unsent_records: u64,
}

/// Where messages go.
#[derive(Debug)]
pub(super) struct Collector {
    endpoint: Endpoint,
    state: State,
    counts: Counts,
    trouble: Option<Trouble>,
    /// Whether the socket is new, and so is the session.
    is_new: bool,
}

#[derive(Debug)]
enum State {
    /// Nothing is open; it is tried then.
    Closed(Instant),
    /// Its name is being resolved.
    Asked(oneshot::Receiver<Vec<SocketAddr>>),
    Open(UdpSocket),
}

/// What is wrong, since it was told, and when it was last seen.
#[derive(Debug)]
struct Trouble {
    what: String,
    seen_at: Instant,
}

impl Collector {
    /// Nothing is open yet.
    pub(super) fn new(endpoint: Endpoint) -> Self {
        let (counts, trouble) = (Counts::default(), None);
        Self { endpoint, state: State::Closed(Instant::now()), counts, trouble, is_new: false }
    }

    /// What was sent, and what was not.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// What is wrong.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| trouble.what.as_str())
    }

    /// Whether messages can be sent; if not, does what can be done for it without waiting.
    pub(super) fn is_ready(&mut self, now: Instant) -> bool {
        if let State::Closed(at) = self.state
            && at <= now
        {
            self.begin(now);
        }
        self.note_answer(now);
        matches!(self.state, State::Open(_))
    }

    /// Whether this is a session that has just begun.
    pub(super) fn take_is_new(&mut self) -> bool {
        std::mem::take(&mut self.is_new)
    }

    /// Sends a message with so many records. What cannot leave is counted and lost: nothing waits for a collector.
    pub(super) fn send(&mut self, message: &[u8], records: u32, now: Instant) {
        let State::Open(socket) = &self.state else { return self.note_unsent(records) };
        let sent = match socket.send(message) {
            // That is about a message before, and this one has not been sent.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let again = socket.send(message);
                self.note_trouble("nobody listens there: is the collector running?", now);
                again
            }
            sent => sent,
        };
        match sent {
            Ok(_) => {
                self.counts.messages += 1;
                self.counts.records += u64::from(records);
                self.note_calm(now);
            }
            Err(error) => {
                self.note_unsent(records);
                self.note_trouble(&error.to_string(), now);
                // With its address the way may have changed, and the socket cannot follow.
                if error.kind() != io::ErrorKind::WouldBlock {
                    self.state = State::Closed(now + RETRY);
                }
            }
        }
    }

    fn note_unsent(&mut self, records: u32) {
        self.counts.unsent_messages += 1;
        self.counts.unsent_records += u64::from(records);
    }

    fn begin(&mut self, now: Instant) {
        match (&self.endpoint.host, self.endpoint.socket_addr()) {
            (Host::Dns(name), _) => {
                let (name, port) = (name.as_str().to_owned(), self.endpoint.port.get());
                let (teller, answer) = oneshot::channel();
                // Whoever has asked may be gone by then.
                tokio::spawn(async move { teller.send(lookup(&name, port).await) });
                self.state = State::Asked(answer);
            }
            (Host::Ip(_), Some(address)) => self.open(address, now),
            (Host::Ip(_), None) => {}
        }
    }

    /// Takes the answer to the question for its address, if it has come.
    fn note_answer(&mut self, now: Instant) {
        let State::Asked(answer) = &mut self.state else { return };
        let found = match answer.try_recv() {
            Ok(found) => found,
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Closed) => Vec::new(),
        };
        match found.first() {
            Some(&address) => self.open(address, now),
            None => {
                self.state = State::Closed(now + RETRY);
                self.note_trouble("its name does not resolve", now);
            }
        }
    }

    fn open(&mut self, address: SocketAddr, now: Instant) {
        match connect_udp(None, address) {
            Ok(socket) => (self.state, self.is_new) = (State::Open(socket), true),
            Err(error) => {
                self.state = State::Closed(now + RETRY);
                self.note_trouble(&error.to_string(), now);
            }
        }
    }

    /// Tells a trouble once, however long it lasts.
    fn note_trouble(&mut self, what: &str, now: Instant) {
        let collector = &self.endpoint;
        if self.trouble.is_none() {
            tracing::warn!(%collector, error = what, "cannot export flows");
        }
        self.trouble = Some(Trouble { what: what.to_owned(), seen_at: now });
    }

    fn note_calm(&mut self, now: Instant) {
        let is_over = |trouble: &mut Trouble| now.saturating_duration_since(trouble.seen_at) >= CALM;
        if self.trouble.take_if(is_over).is_some() {
            let collector = &self.endpoint;
            tracing::info!(%collector, "flows are exported again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(address: SocketAddr) -> Collector {
        Collector::new(address.to_string().parse().expect("an endpoint"))
    }

    #[tokio::test]
    async fn a_collector_that_is_gone_is_told_once_and_heard_of_when_it_is_back() {
        let listener = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let mut collector = to(address);
        let start = Instant::now();
        assert!(collector.is_ready(start) && collector.take_is_new() && !collector.take_is_new());
        // The refusal of one message is seen with the next one; on loopback it is there at once.
        for number in 0..4 {
            collector.send(b"message", 2, start + Duration::from_secs(number));
        }
        assert!(collector.trouble().is_some_and(|what| what.contains("nobody listens")));
        assert_eq!(collector.counts(), Counts { messages: 4, records: 8, ..Counts::default() });
        let listener = UdpSocket::bind(address).unwrap();
        let mut buffer = [0; 100];
        for seconds in [40, 80] {
            collector.send(b"again", 1, start + Duration::from_secs(seconds));
        }
        assert_eq!(listener.recv(&mut buffer).unwrap(), 5);
        assert_eq!(collector.trouble(), None);
    }

    #[tokio::test]
    async fn a_name_that_does_not_resolve_is_told_and_asked_for_again() {
        let mut collector = Collector::new("no.such.name.invalid:4739".parse().expect("an endpoint"));
        let start = Instant::now();
        assert!(!collector.is_ready(start));
        while collector.trouble().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!collector.is_ready(start));
        }
        assert!(collector.trouble().is_some_and(|what| what.contains("does not resolve")));
        collector.send(b"message", 3, start);
        assert_eq!(collector.counts(), Counts { unsent_messages: 1, unsent_records: 3, ..Counts::default() });
        assert!(matches!(collector.state, State::Closed(_)));
        assert!(!collector.is_ready(start + RETRY));
        assert!(matches!(collector.state, State::Asked(_)));
    }
}
