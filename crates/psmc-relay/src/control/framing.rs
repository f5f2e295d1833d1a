//! What control connections carry, and how they end.

use psmc_net::framing::{Framed, FramingError, MessageReader, Pace, write_message};
use psmc_wire::Malformed;
use psmc_wire::relay::{Message, RequestId};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// Why a connection ended.
#[derive(Debug, Error)]
pub(crate) enum End {
    /// Messages come or go no more.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// What became of it, a stream, broke.
    #[error("the stream broke")]
    Stream(#[source] std::io::Error),
    /// The site was refused.
    #[error("refused: {0}")]
    Refused(String),
    /// The site said nothing.
    #[error("the site did not say hello")]
    Silent,
}

/// What a site has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Message(Message),
    /// A request that cannot be read, or asks for what is none: it has an answer all the same, and harms no other.
    Unreadable(RequestId, Malformed),
}

impl Framed for Heard {
    fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        match Message::decode(frame) {
            Ok(message) => Ok(Self::Message(message)),
            Err(error) => {
                Message::request_of(frame).map(|request| Self::Unreadable(request, error)).ok_or(error)
            }
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        if let Self::Message(message) = self {
            message.encode(out);
        }
    }
}

/// Reads messages, no faster than they may come.
pub(super) struct Reader<R> {
    pub(super) stream: R,
    messages: MessageReader,
    pace: Pace,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, messages: MessageReader::default(), pace: Pace::new() }
    }

    /// The next message that this version knows.
    pub(super) async fn next(&mut self) -> Result<Heard, End> {
        loop {
            let heard = self.messages.next(&mut self.stream).await?;
            self.pace.wait().await;
            if !matches!(heard, Heard::Message(Message::Unknown(_))) {
                return Ok(heard);
            }
        }
    }
}

/// Writes what comes from `outgoing` until that is closed, and gives the stream back.
pub(super) async fn write_all<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut outgoing: mpsc::Receiver<Message>,
) -> Result<W, End> {
    while let Some(message) = outgoing.recv().await {
        write_message(&mut writer, &message).await?;
    }
    Ok(writer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_arrive_one_by_one_and_unknown_ones_are_passed_over() {
        let (sender, outgoing) = mpsc::channel(8);
        let messages = [Message::Done(RequestId(1)), Message::Unknown(200), Message::Register(RequestId(2))];
        for message in messages.clone() {
            sender.send(message).await.unwrap();
        }
        drop(sender);
        let bytes = write_all(Vec::new(), outgoing).await.unwrap();
        let mut reader = Reader::new(bytes.as_slice());
        assert_eq!(reader.next().await.unwrap(), Heard::Message(messages[0].clone()));
        assert_eq!(reader.next().await.unwrap(), Heard::Message(messages[2].clone()));
        assert!(matches!(reader.next().await, Err(End::Framing(FramingError::Ended))));
    }
}
