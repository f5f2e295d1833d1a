//! Connections of the signal channel: [`Link`] dials and keeps one, [`Greeting`] and [`Channel`] are the end that accepts.
//!
//! Everything is bounded: [`QUEUE`] messages wait in either direction, none is longer than
//! [`MAX_MESSAGE`](psmc_wire::control::MAX_MESSAGE) bytes, and who sends faster than
//! [`Pace`] allows is read more slowly.

mod link;
#[cfg(test)]
mod tests;

use std::time::Duration;

use psmc_net::framing::{FramingError, MessageReader, Pace, close, write_message};
use psmc_net::tls::TlsError;
use psmc_net::tls::tcp::TcpError;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc;
use tokio::time::timeout;

pub use link::{Coordinator, Event, Link, Options, SendError, Sender};

use crate::message::{Message, Role, VERSION};

/// Messages that wait in a queue at most: those of a service with a thousand clients and as many relays, twice.
pub const QUEUE: usize = 160;

/// Why there is no connection any more, or none yet.
#[derive(Debug, Error)]
pub enum ConnectionError {
    /// There is no way to the other side.
    #[error(transparent)]
    Tcp(#[from] TcpError),
    /// The other side is another one, or wants another one.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Messages come or go no more.
    #[error(transparent)]
    Framing(FramingError),
    /// The coordinator does not want this dialler, and says why.
    #[error("the coordinator refuses: {0}")]
    Refused(String),
    /// The first message is none that begins a connection.
    #[error("the other side does not speak the signal protocol")]
    Impolite,
    /// Nothing came for six seconds.
    #[error("timed out")]
    Silent,
    /// The coordinator took too long.
    #[error("no WELCOME within {0:?}: is the line congested?")]
    TimedOut(std::time::Duration),
    /// This side has nothing to say any more.
    #[error("closed here")]
    Closed,
}

impl From<FramingError> for ConnectionError {
    /// A dialler learns from its first read whether its key is accepted; then that is the error.
    fn from(error: FramingError) -> Self {
        match error {
            FramingError::Broken(source) => Self::Tls(source.into()),
            FramingError::Ended | FramingError::Stuck | FramingError::Malformed(_) => Self::Framing(error),
        }
    }
}

/// Somebody who has dialled and said who it is, and has no answer yet.
#[derive(Debug)]
pub struct Greeting<S> {
    /// What it is.
    pub role: Role,
    /// The services that it is about.
    pub services: Vec<String>,
    stream: S,
    reader: MessageReader,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Greeting<S> {
    /// Waits at most five seconds for the dialler's first message.
    ///
    /// # Errors
    /// [`ConnectionError`], if it is another one, or none.
    pub async fn receive(mut stream: S) -> Result<Self, ConnectionError> {
        let mut reader = MessageReader::default();
        let first = timeout(GREETING_TIMEOUT, reader.next(&mut stream)).await;
        let Message::Hello { role, services, .. } = first.map_err(|_| ConnectionError::Silent)?? else {
            return Err(ConnectionError::Impolite);
        };
        Ok(Self { role, services, stream, reader })
    }

    /// Lets it in.
    ///
    /// # Errors
    /// [`ConnectionError`], if it does not take the answer.
    pub async fn welcome(mut self) -> Result<Channel<S>, ConnectionError> {
        write_message(&mut self.stream, &Message::Welcome { version: VERSION }).await?;
        Ok(Channel { stream: self.stream, reader: self.reader })
    }

    /// Tells it why not, and hangs up.
    pub async fn refuse(mut self, reason: String) {
        // Who does not take the answer is gone as well.
        let _ = write_message(&mut self.stream, &Message::Refused { reason }).await;
        close(self.stream).await;
    }
}

/// A connection on which both sides have greeted.
#[derive(Debug)]
pub struct Channel<S> {
    stream: S,
    reader: MessageReader,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Channel<S> {
    /// Says hello, and waits for the welcome.
    ///
    /// # Errors
    /// [`ConnectionError`]; [`Refused`](ConnectionError::Refused) if the coordinator says no.
    pub async fn greet(mut stream: S, role: Role, services: Vec<String>) -> Result<Self, ConnectionError> {
        let hello = Message::Hello { version: VERSION, role, services };
        write_message(&mut stream, &hello).await?;
        let mut reader = MessageReader::default();
        let answer = reader.next(&mut stream).await?;
        if let Message::Refused { reason } = answer {
            return Err(ConnectionError::Refused(reason));
        }
        let Message::Welcome { .. } = answer else { return Err(ConnectionError::Impolite) };
        Ok(Self { stream, reader })
    }

    /// Carries messages both ways until the connection ends, and says why it did. Pings are sent and answered for here, and
    /// neither they nor unknown messages come out.
    ///
    /// It ends with [`Closed`](ConnectionError::Closed), behind what was sent last, when there is no sender for `outgoing` or
    /// no receiver for `incoming` any more.
    pub async fn run(
        self,
        outgoing: &mut mpsc::Receiver<Message>,
        incoming: &mpsc::Sender<Message>,
    ) -> ConnectionError {
        let (from, mut to) = split(self.stream);
        let error = tokio::select! {
            error = read(from, self.reader, incoming) => error,
            error = write(&mut to, outgoing) => error,
        };
        if matches!(error, ConnectionError::Closed) {
            close(to).await;
        }
        error
    }
}

async fn read<S: AsyncRead>(
    mut stream: ReadHalf<S>,
    mut reader: MessageReader,
    incoming: &mpsc::Sender<Message>,
) -> ConnectionError {
    let mut pace = Pace::new();
    loop {
        let next = tokio::select! {
            next = timeout(GONE_AFTER, reader.next(&mut stream)) => next,
            () = incoming.closed() => return ConnectionError::Closed,
        };
        match next {
            Err(_) => return ConnectionError::Silent,
            Ok(Err(error)) => return error.into(),
            Ok(Ok(Message::Refused { reason })) => return ConnectionError::Refused(reason),
            Ok(Ok(Message::Ping | Message::Unknown)) => {}
            Ok(Ok(message)) => {
                if incoming.send(message).await.is_err() {
                    return ConnectionError::Closed;
                }
            }
        }
        pace.wait().await;
    }
}

async fn write<S: AsyncWrite>(
    stream: &mut WriteHalf<S>,
    outgoing: &mut mpsc::Receiver<Message>,
) -> ConnectionError {
    loop {
        let message = match timeout(PING_AFTER, outgoing.recv()).await {
            Ok(Some(message)) => message,
            Ok(None) => return ConnectionError::Closed,
            Err(_) => Message::Ping,
        };
        if let Err(error) = write_message(stream, &message).await {
            return error.into();
        }
    }
}

/// How long a dialler may take to say who it is: as long as its handshake.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// After how much silence of this side a ping is sent.
const PING_AFTER: Duration = Duration::from_secs(2);

/// After how much silence of the other side it is gone: three pings. A gateway without a coordinator stands alone in an attack,
/// and TCP gives up what it cannot deliver after five.
const GONE_AFTER: Duration = Duration::from_secs(6);
