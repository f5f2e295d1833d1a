//! One connection to a relay.

use std::io;
use std::time::{Duration, Instant};

use psmc_net::framing::{FramingError, MessageReader, write_message};
use psmc_net::tls::{Dialer, TlsError};
use psmc_wire::relay::{
    ALPN, Abilities, Counted, Far, Hello, Message, RequestId, SessionId, StreamId, VERSION, Welcome,
};
use tokio::time::timeout;

use super::RelayError;
use super::reach::{BoxedStream, Caller};
use crate::config::Relay;

/// An answer that takes longer will not come: two round trips over a bad path, and what the relay does meanwhile.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// A connection to a relay, which has been greeted.
pub(super) struct RelayClient {
    pub(super) relay: Relay,
    stream: BoxedStream,
    messages: MessageReader,
    next_request: u32,
    abilities: Abilities,
    /// When it was asked what it has counted, and has not answered yet.
    question: Option<(RequestId, Instant)>,
    /// What it has answered.
    counts: Option<RelayCounts>,
}

/// What a relay has counted of a session, and when.
#[derive(Clone, Debug)]
pub(in crate::daemon) struct RelayCounts {
    /// When it was asked.
    pub(in crate::daemon) asked_at: Instant,
    /// When its answer came.
    pub(in crate::daemon) answered_at: Instant,
    pub(in crate::daemon) counted: Counted,
}

/// What a relay has said.
enum Heard {
    Message(Message),
    /// The answer to a question about counts, which is kept.
    Counts,
}

impl RelayClient {
    /// Shakes hands over `stream`, and says who calls. Whether the relay serves this site is known with its first
    /// answer.
    pub(super) async fn open(
        caller: &Caller,
        relay: &Relay,
        stream: BoxedStream,
    ) -> Result<Self, RelayError> {
        let dialer = Dialer::for_protocol(&caller.identity, relay.public_key, ALPN);
        let secured = dialer.connect(stream).await.map_err(|source| broken(relay, source))?;
        let stream = Box::new(secured.stream);
        let mut link = Self {
            relay: relay.clone(),
            stream,
            messages: MessageReader::default(),
            next_request: 0,
            abilities: Abilities::default(),
            question: None,
            counts: None,
        };
        let grant = caller.grants.read(relay.public_key).await;
        let hello = Hello { version: VERSION, name: caller.name.clone(), grant };
        link.send(&Message::Hello(hello)).await?;
        Ok(link)
    }

    /// What the relay says of itself, which is its first answer.
    pub(super) async fn welcome(&mut self) -> Result<Welcome, RelayError> {
        let message = self.answer().await?;
        let Message::Welcome(welcome) = message else { return Err(self.unexpected(message)) };
        self.abilities = welcome.abilities;
        Ok(welcome)
    }

    /// Whether it counts. One that does not would not even refuse.
    pub(super) fn can_count(&self) -> bool {
        self.abilities.counts
    }

    /// Asks what it has counted of a session, unless it was asked already and has not answered, or does not count. The answer is
    /// [taken](Self::take_counts) when it has come, among all that it says.
    pub(super) async fn ask_for_counts(&mut self, session: SessionId) -> Result<(), RelayError> {
        if !self.can_count() || self.question.is_some() {
            return Ok(());
        }
        self.say(|request| Message::Count(request, session)).await?;
        self.question = Some((RequestId(self.next_request), Instant::now()));
        Ok(())
    }

    /// What it has answered last, once.
    pub(super) fn take_counts(&mut self) -> Option<RelayCounts> {
        self.counts.take()
    }

    /// Sends the request that `make` makes of a number, and returns its answer.
    pub(super) async fn ask(
        &mut self,
        make: impl FnOnce(RequestId) -> Message,
    ) -> Result<Message, RelayError> {
        self.say(make).await?;
        self.answer().await
    }

    /// The same for a request that is answered with [`Message::Done`].
    pub(super) async fn order(&mut self, make: impl FnOnce(RequestId) -> Message) -> Result<(), RelayError> {
        let message = self.ask(make).await?;
        if let Message::Done(_) = message { Ok(()) } else { Err(self.unexpected(message)) }
    }

    /// Turns the connection into a byte stream to `far`. To be called on a connection that was just opened.
    pub(super) async fn connect(mut self, far: Far) -> Result<BoxedStream, RelayError> {
        self.say(|request| Message::Connect(request, far)).await?;
        self.into_stream().await
    }

    /// The stream, if that is what the relay makes of the connection.
    async fn into_stream(mut self) -> Result<BoxedStream, RelayError> {
        self.welcome().await?;
        let message = self.answer().await?;
        // What has been read ends with this message.
        if let Message::Connected(_) = message { Ok(self.stream) } else { Err(self.unexpected(message)) }
    }

    /// Makes the connection this site's end of a stream that waits for it. To be called on a connection that was just
    /// opened.
    pub(super) async fn accept(mut self, stream: StreamId) -> Result<BoxedStream, RelayError> {
        self.say(|request| Message::Accept(request, stream)).await?;
        self.into_stream().await
    }

    /// Waits until the relay tells what it has counted. May be dropped and called again.
    ///
    /// # Errors
    /// Why the connection is of no use any more: it has ended, or the relay says something without having been asked.
    pub(super) async fn news(&mut self) -> Result<(), RelayError> {
        match self.hear_any().await? {
            Heard::Counts => Ok(()),
            Heard::Message(message) => Err(self.unexpected(message)),
        }
    }

    /// Sends the request that `make` makes of a number, whose answer [`hear`](Self::hear) hears.
    pub(super) async fn say(&mut self, make: impl FnOnce(RequestId) -> Message) -> Result<(), RelayError> {
        self.next_request += 1;
        self.send(&make(RequestId(self.next_request))).await
    }

    /// The next message that this version knows. May be dropped and called again.
    pub(super) async fn hear(&mut self) -> Result<Message, RelayError> {
        loop {
            if let Heard::Message(message) = self.hear_any().await? {
                return Ok(message);
            }
        }
    }

    /// The same, or that it has told what it has counted.
    async fn hear_any(&mut self) -> Result<Heard, RelayError> {
        loop {
            let message = self.receive().await?;
            let question = self.question;
            let answers = |request| question.is_some_and(|(asked, _)| asked == request);
            match (message, question) {
                (Message::Unknown(_), _) => {}
                (Message::Counted(counted), Some((_, asked_at))) if answers(counted.request) => {
                    self.question = None;
                    self.counts = Some(RelayCounts { asked_at, answered_at: Instant::now(), counted });
                    return Ok(Heard::Counts);
                }
                // That a session is gone is told, and seen to, when it is refreshed.
                (Message::Refused(refused), _) if answers(refused.request) => self.question = None,
                (message, _) => return Ok(Heard::Message(message)),
            }
        }
    }

    /// What it means that the relay has said this.
    pub(super) fn unexpected(&self, message: Message) -> RelayError {
        let relay = self.relay.name.clone();
        if let Message::Refused(refused) = message {
            return RelayError::Refused { relay, refused };
        }
        RelayError::Protocol { relay }
    }

    /// The answer to what was [said](Self::say).
    pub(super) async fn answer(&mut self) -> Result<Message, RelayError> {
        let silent = RelayError::Silent { relay: self.relay.name.clone() };
        timeout(ANSWER_TIMEOUT, self.hear()).await.unwrap_or(Err(silent))
    }

    async fn send(&mut self, message: &Message) -> Result<(), RelayError> {
        let silent = RelayError::Silent { relay: self.relay.name.clone() };
        let written = timeout(ANSWER_TIMEOUT, write_message(&mut self.stream, message));
        written.await.map_err(|_| silent)?.map_err(|error| self.failed(error))
    }

    /// Reads one message, and nothing behind it: what follows may be a stream. What was read stays when this is
    /// dropped.
    async fn receive(&mut self) -> Result<Message, RelayError> {
        self.messages.next(&mut self.stream).await.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: FramingError) -> RelayError {
        let relay = self.relay.name.clone();
        match error {
            FramingError::Ended => broken(&self.relay, io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            FramingError::Broken(error) => broken(&self.relay, error.into()),
            FramingError::Stuck => RelayError::Silent { relay },
            FramingError::Malformed(_) => RelayError::Protocol { relay },
        }
    }
}

fn broken(relay: &Relay, source: TlsError) -> RelayError {
    RelayError::Tls { relay: relay.name.clone(), source }
}
