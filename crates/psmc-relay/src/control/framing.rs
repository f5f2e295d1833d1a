//! Messages on a connection, in both directions bounded.

use std::io;
use std::time::Duration;

use psmc_wire::Malformed;
use psmc_wire::control::{LENGTH_LEN, message_length};
use psmc_wire::relay::Message;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

/// A site that sends faster is read more slowly: a session needs one message, a change of uplinks a few dozen.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(10);

/// Messages that may come at once: those of a full set of paths, twice.
const MESSAGE_BURST: u32 = 128;

/// A site that does not take a message for this long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a connection ended.
#[derive(Debug, Error)]
pub(crate) enum End {
    /// The site has closed it.
    #[error("closed by the site")]
    ByPeer,
    /// It broke.
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// The site does not read.
    #[error("the site does not read")]
    Stuck,
    /// The site sent something that is no message.
    #[error("the site broke the protocol")]
    Malformed(#[source] Malformed),
    /// The site was refused.
    #[error("refused: {0}")]
    Refused(String),
    /// The site said nothing.
    #[error("the site did not say hello")]
    Silent,
}

/// Reads messages, no faster than they may come.
pub(super) struct Reader<R> {
    pub(super) stream: R,
    /// When the messages so far would have come at the limited rate.
    due: Instant,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, due: Instant::now() }
    }

    /// The next message that this version knows.
    pub(super) async fn next(&mut self) -> Result<Message, End> {
        loop {
            let message = read_message(&mut self.stream).await?;
            self.wait().await;
            if !matches!(message, Message::Unknown(_)) {
                return Ok(message);
            }
        }
    }

    async fn wait(&mut self) {
        let now = Instant::now();
        self.due = self.due.max(now) + MESSAGE_INTERVAL;
        let burst = MESSAGE_INTERVAL * MESSAGE_BURST;
        if self.due > now + burst {
            sleep_until(self.due - burst).await;
        }
    }
}

/// Reads one message. Nothing is allocated for one that is longer than any can be.
async fn read_message(reader: &mut (impl AsyncRead + Unpin)) -> Result<Message, End> {
    let mut length = [0; LENGTH_LEN];
    reader.read_exact(&mut length).await.map_err(ended)?;
    let length = message_length(length).map_err(End::Malformed)?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.map_err(ended)?;
    Message::decode(&body).map_err(End::Malformed)
}

/// Writes what comes from `outgoing` until that is closed, and gives the stream back.
pub(super) async fn write_all<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut outgoing: mpsc::Receiver<Message>,
) -> Result<W, End> {
    while let Some(message) = outgoing.recv().await {
        write(&mut writer, &message).await?;
    }
    Ok(writer)
}

/// Writes one message.
pub(super) async fn write(writer: &mut (impl AsyncWrite + Unpin), message: &Message) -> Result<(), End> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let written = timeout(WRITE_TIMEOUT, async {
        writer.write_all(&bytes).await?;
        writer.flush().await
    });
    written.await.map_err(|_| End::Stuck)?.map_err(End::Broken)
}

/// Closes a connection behind what was written last.
pub(super) async fn close(mut writer: impl AsyncWrite + Unpin) {
    // The site may be gone already; there is nothing more to say to it.
    let _ = timeout(WRITE_TIMEOUT, writer.shutdown()).await;
}

fn ended(error: io::Error) -> End {
    if error.kind() == io::ErrorKind::UnexpectedEof { End::ByPeer } else { End::Broken(error) }
}

#[cfg(test)]
mod tests {
    use psmc_wire::relay::RequestId;

    use super::*;

    #[tokio::test]
    async fn a_message_of_four_gigabytes_is_refused_before_it_is_read() {
        let mut bytes: &[u8] = &[0xff, 0xff, 0xff, 0xff, 1];
        assert!(matches!(read_message(&mut bytes).await, Err(End::Malformed(_))));
    }

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
        assert_eq!(reader.next().await.unwrap(), messages[0]);
        assert_eq!(reader.next().await.unwrap(), messages[2]);
        assert!(matches!(reader.next().await, Err(End::ByPeer)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_slowed_down_and_a_burst_is_not() {
        let mut bytes = Vec::new();
        for request in 1..=MESSAGE_BURST + 200 {
            Message::Done(RequestId(request)).encode(&mut bytes);
        }
        let start = Instant::now();
        let mut reader = Reader::new(bytes.as_slice());
        for _ in 0..MESSAGE_BURST {
            reader.next().await.unwrap();
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..200 {
            reader.next().await.unwrap();
        }
        assert!(start.elapsed() >= Duration::from_millis(1990), "{:?}", start.elapsed());
    }
}
