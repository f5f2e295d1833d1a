//! Messages on a byte stream: the frames of control connections, to sites and to relays alike, in both directions
//! bounded.

use std::io;
use std::time::Duration;

use psmc_wire::control::{LENGTH_LEN, message_length};
use psmc_wire::{Malformed, control, relay};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep_until, timeout};

/// Who sends faster is read more slowly, so that he waits and not we. A session needs a message per path and change; a
/// hundred a second is more than any person or policy produces.
pub const MESSAGE_INTERVAL: Duration = Duration::from_millis(10);

/// Messages that may come at once: those of a full set of paths, twice.
pub const MESSAGE_BURST: u32 = 128;

/// Who does not take a message for this long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// A message of one of the protocols whose frames are these.
pub trait Framed: Sized {
    /// Reads type and body.
    ///
    /// # Errors
    /// [`Malformed`] if they are none of that protocol.
    fn decode(frame: &[u8]) -> Result<Self, Malformed>;

    /// Appends length, type and body.
    fn encode(&self, out: &mut Vec<u8>);
}

impl Framed for control::Message {
    fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        Self::decode(frame)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

impl Framed for relay::Message {
    fn decode(frame: &[u8]) -> Result<Self, Malformed> {
        Self::decode(frame)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }
}

/// Why messages come or go no more.
#[derive(Debug, Error)]
pub enum FramingError {
    /// The other side has closed the stream.
    #[error("closed by the peer")]
    Ended,
    /// The stream broke.
    #[error("connection lost")]
    Broken(#[source] io::Error),
    /// The other side does not read.
    #[error("the peer does not read")]
    Stuck,
    /// The other side has sent what is no message.
    #[error("protocol violation by the peer")]
    Malformed(#[source] Malformed),
}

/// Reads messages one by one, and nothing behind them: what follows may be of another kind.
#[derive(Debug, Default)]
pub struct MessageReader {
    /// The beginning of a message whose rest has not come yet.
    partial: Vec<u8>,
}

impl MessageReader {
    /// Reads the next message. Memory is taken for what has come, never for what a length promises. May be dropped and
    /// called again: what was read stays.
    ///
    /// # Errors
    /// [`FramingError`]; the stream is of no use any more then.
    pub async fn next<M: Framed>(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Result<M, FramingError> {
        loop {
            let missing = self.missing().map_err(FramingError::Malformed)?;
            if missing == 0 {
                let message = M::decode(&self.partial[LENGTH_LEN..]);
                self.partial.clear();
                return message.map_err(FramingError::Malformed);
            }
            let mut rest = (&mut *stream).take(missing as u64);
            match rest.read_buf(&mut self.partial).await {
                Ok(0) => return Err(FramingError::Ended),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(FramingError::Ended);
                }
                Err(error) => return Err(FramingError::Broken(error)),
            }
        }
    }

    /// How many bytes of the length, or behind it of the message, are still to come.
    fn missing(&self) -> Result<usize, Malformed> {
        match self.partial.first_chunk::<LENGTH_LEN>() {
            None => Ok(LENGTH_LEN - self.partial.len()),
            Some(length) => Ok(LENGTH_LEN + message_length(*length)? - self.partial.len()),
        }
    }
}

/// Lets messages pass in bursts, but at a limited rate in the long run.
#[derive(Debug)]
pub struct Pace {
    /// When the messages so far would have come at the limited rate.
    due: Instant,
}

impl Pace {
    /// The pace of a stream that begins.
    #[must_use]
    pub fn new() -> Self {
        Self { due: Instant::now() }
    }

    /// To be called after each message; waits if there were too many.
    pub async fn wait(&mut self) {
        let now = Instant::now();
        self.due = self.due.max(now) + MESSAGE_INTERVAL;
        let burst = MESSAGE_INTERVAL * MESSAGE_BURST;
        if self.due > now + burst {
            sleep_until(self.due - burst).await;
        }
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes one message.
///
/// # Errors
/// [`FramingError`], if it does not leave.
pub async fn write_message<M: Framed>(
    writer: &mut (impl AsyncWrite + Unpin),
    message: &M,
) -> Result<(), FramingError> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let written = timeout(WRITE_TIMEOUT, async {
        writer.write_all(&bytes).await?;
        writer.flush().await
    });
    written.await.map_err(|_| FramingError::Stuck)?.map_err(FramingError::Broken)
}

/// Closes a stream behind what was written last.
pub async fn close(mut writer: impl AsyncWrite + Unpin) {
    // The other side may be gone already; there is nothing more to say to it.
    let _ = timeout(WRITE_TIMEOUT, writer.shutdown()).await;
}

#[cfg(test)]
mod tests {
    use psmc_wire::control::{CloseReason, Message};
    use psmc_wire::relay::RequestId;

    use super::*;

    #[tokio::test]
    async fn a_message_of_four_gigabytes_is_refused_before_it_is_read() {
        let mut bytes: &[u8] = &[0xff, 0xff, 0xff, 0xff, 1];
        let mut reader = MessageReader::default();
        let read = reader.next::<Message>(&mut bytes).await;
        assert!(matches!(read, Err(FramingError::Malformed(_))));
        assert_eq!(bytes, [1], "what is behind the length stays");
    }

    #[tokio::test]
    async fn messages_are_read_one_by_one_until_the_end() {
        let mut bytes = Vec::new();
        write_message(&mut bytes, &Message::Close(CloseReason::Shutdown)).await.unwrap();
        write_message(&mut bytes, &relay::Message::Register(RequestId(7))).await.unwrap();
        bytes.extend(b"a stream");
        let (mut stream, mut reader) = (bytes.as_slice(), MessageReader::default());
        assert!(matches!(reader.next(&mut stream).await, Ok(Message::Close(CloseReason::Shutdown))));
        assert!(matches!(reader.next(&mut stream).await, Ok(relay::Message::Register(RequestId(7)))));
        assert_eq!(stream, b"a stream");
        stream = b"";
        assert!(matches!(reader.next::<Message>(&mut stream).await, Err(FramingError::Ended)));
    }

    #[tokio::test]
    async fn what_was_read_of_a_message_stays_when_nobody_waits_for_it_any_more() {
        let mut bytes = Vec::new();
        Framed::encode(&Message::Close(CloseReason::Shutdown), &mut bytes);
        let (mut near, mut far) = tokio::io::duplex(64);
        let mut reader = MessageReader::default();
        for byte in &bytes[..bytes.len() - 1] {
            near.write_all(&[*byte]).await.unwrap();
            let read = timeout(Duration::from_millis(1), reader.next::<Message>(&mut far)).await;
            assert!(read.is_err(), "it is not whole yet");
        }
        near.write_all(&bytes[bytes.len() - 1..]).await.unwrap();
        assert!(matches!(reader.next(&mut far).await, Ok(Message::Close(CloseReason::Shutdown))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_slowed_down_and_a_burst_is_not() {
        let start = Instant::now();
        let mut pace = Pace::new();
        for _ in 0..MESSAGE_BURST {
            pace.wait().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..200 {
            pace.wait().await;
        }
        assert!(start.elapsed() >= Duration::from_millis(1990), "{:?}", start.elapsed());
    }
}
