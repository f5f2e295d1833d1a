//! One connection to a relay.

use std::io;
use std::time::Duration;

use psmc_net::tls::{Dialer, TlsError};
use psmc_wire::control::{LENGTH_LEN, message_length};
use psmc_wire::relay::{ALPN, Far, Hello, Message, RequestId, VERSION, Welcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::RelayError;
use super::reach::{BoxedStream, Caller};
use crate::config::Relay;

/// An answer that takes longer will not come: two round trips over a bad path, and what the relay does meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// A connection to a relay, which has been greeted.
pub(super) struct Link {
    pub(super) relay: Relay,
    stream: BoxedStream,
    /// The beginning of a message whose rest has not come yet.
    partial: Vec<u8>,
    next_request: u32,
}

impl Link {
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
        let mut link = Self { relay: relay.clone(), stream, partial: Vec::new(), next_request: 0 };
        let hello = Hello { version: VERSION, name: caller.name.clone(), grant: None };
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
        self.next_request += 1;
        self.send(&make(RequestId(self.next_request))).await?;
        self.answer().await
    }

    /// The same for a request that is answered with [`Message::Done`].
    pub(super) async fn order(&mut self, make: impl FnOnce(RequestId) -> Message) -> Result<(), RelayError> {
        let message = self.ask(make).await?;
        if let Message::Done(_) = message { Ok(()) } else { Err(self.unexpected(message)) }
    }

    /// Turns the connection into a byte stream to `far`. To be called on a connection that was just opened.
    pub(super) async fn connect(mut self, far: Far) -> Result<BoxedStream, RelayError> {
        self.next_request += 1;
        self.send(&Message::Connect(RequestId(self.next_request), far)).await?;
        self.welcome().await?;
        let message = self.answer().await?;
        // What has been read ends with this message.
        if let Message::Connected(_) = message { Ok(self.stream) } else { Err(self.unexpected(message)) }
    }

    /// Waits until the connection ends, or the relay says something without having been asked, and returns why it is
    /// of no use any more. May be dropped and called again.
    pub(super) async fn ended(&mut self) -> RelayError {
        loop {
            match self.receive().await {
                Ok(Message::Unknown(_)) => {}
                Ok(other) => return self.unexpected(other),
                Err(error) => return error,
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

    async fn answer(&mut self) -> Result<Message, RelayError> {
        let silent = RelayError::Silent { relay: self.relay.name.clone() };
        timeout(ANSWER_TIMEOUT, async {
            loop {
                match self.receive().await {
                    Ok(Message::Unknown(_)) => {}
                    other => break other,
                }
            }
        })
        .await
        .unwrap_or(Err(silent))
    }

    async fn send(&mut self, message: &Message) -> Result<(), RelayError> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let silent = RelayError::Silent { relay: self.relay.name.clone() };
        let written = timeout(ANSWER_TIMEOUT, async {
            self.stream.write_all(&bytes).await?;
            self.stream.flush().await
        });
        written.await.map_err(|_| silent)?.map_err(|error| self.broke(error))
    }

    /// Reads one message, and nothing behind it: what follows may be a stream. What was read stays when this is
    /// dropped.
    async fn receive(&mut self) -> Result<Message, RelayError> {
        loop {
            let missing = match self.missing() {
                Some(0) => return self.decode(),
                Some(missing) => missing,
                None => return Err(RelayError::Protocol { relay: self.relay.name.clone() }),
            };
            let mut part = [0; 512];
            let length = missing.min(part.len());
            let read = self.stream.read(&mut part[..length]).await.map_err(|error| self.broke(error))?;
            if read == 0 {
                return Err(self.broke(io::ErrorKind::UnexpectedEof.into()));
            }
            self.partial.extend_from_slice(&part[..read]);
        }
    }

    /// How many bytes of a message are still to come; `None` if it is none.
    fn missing(&self) -> Option<usize> {
        match self.partial.first_chunk::<LENGTH_LEN>() {
            None => Some(LENGTH_LEN - self.partial.len()),
            Some(length) => Some(LENGTH_LEN + message_length(*length).ok()? - self.partial.len()),
        }
    }

    fn decode(&mut self) -> Result<Message, RelayError> {
        let message = Message::decode(&self.partial[LENGTH_LEN..]);
        self.partial.clear();
        message.map_err(|_| RelayError::Protocol { relay: self.relay.name.clone() })
    }

    fn broke(&self, error: io::Error) -> RelayError {
        broken(&self.relay, error.into())
    }
}

fn broken(relay: &Relay, source: TlsError) -> RelayError {
    RelayError::Tls { relay: relay.name.clone(), source }
}
