//! One connection to a relay.

use std::io;
use std::time::Duration;

use psmc_net::framing::{FramingError, MessageReader, write_message};
use psmc_net::tls::{Dialer, TlsError};
use psmc_wire::relay::{ALPN, Far, Hello, Message, RequestId, StreamId, VERSION, Welcome};
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
        let mut link =
            Self { relay: relay.clone(), stream, messages: MessageReader::default(), next_request: 0 };
        let grant = caller.grants.read(relay.public_key).await;
        let hello = Hello { version: VERSION, name: caller.name.clone(), grant };
        link.send(&Message::Hello(hello)).await?;
        Ok(link)
    }

    /// What the relay says of itself, which is its first answer.
    pub(super) async fn welcome(&mut self) -> Result<Welcome, RelayError> {
        let message = self.answer().await?;
        let Message::Welcome(welcome) = message else { return Err(self.unexpected(message)) };
        Ok(welcome)
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

    /// Waits until the connection ends, or the relay says something without having been asked, and returns why it is
    /// of no use any more. May be dropped and called again.
    pub(super) async fn ended(&mut self) -> RelayError {
        match self.hear().await {
            Ok(message) => self.unexpected(message),
            Err(error) => error,
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
            let message = self.receive().await?;
            if !matches!(message, Message::Unknown(_)) {
                return Ok(message);
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
