//! One control connection: messages in, messages out, both bounded.

use std::io;
use std::time::Duration;

use psmc_core::ConnectionId;
use psmc_net::tls::Secured;
use psmc_wire::Malformed;
use psmc_wire::control::{LENGTH_LEN, Message, message_length};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::plane::Poster;

/// A peer that sends faster is read more slowly, so that it waits and not we. A session needs a message per
/// path and change; a hundred a second is more than any person or policy produces.
const MESSAGE_INTERVAL: Duration = Duration::from_millis(10);

/// Messages that may come at once: those of a full set of paths, twice.
const MESSAGE_BURST: u32 = 128;

/// A peer that doesn't take a message for this long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a control connection ended.
#[derive(Debug, Error)]
pub(super) enum ConnectionEnd {
    /// The peer has closed it.
    #[error("closed by the peer")]
    ByPeer,
    /// The engine wanted it to end.
    #[error("closed by this site")]
    ByUs,
    /// It broke.
    #[error("the connection broke")]
    Broken(#[source] io::Error),
    /// The peer doesn't read.
    #[error("the peer does not read")]
    Stuck,
    /// The peer sent something that is no message.
    #[error("the peer broke the protocol")]
    Malformed(#[source] Malformed),
}

/// Serves a connection until it ends: gives what arrives to the engine, writes what comes from `outgoing`.
/// When `outgoing` is closed, what was given before is written, then the connection is closed.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    id: ConnectionId,
    secured: Secured<S>,
    plane: Poster,
    outgoing: mpsc::UnboundedReceiver<Message>,
) -> ConnectionEnd {
    let (mut reader, writer) = tokio::io::split(secured.stream);
    let read = async {
        let mut pace = Pace::new();
        loop {
            match read_message(&mut reader).await {
                Ok(message) => {
                    plane
                        .post(move |plane| plane.site.handle_message(id, message, std::time::Instant::now()))
                        .await;
                }
                Err(end) => break end,
            }
            pace.wait().await;
        }
    };
    tokio::select! {
        end = write_all(writer, outgoing) => end,
        end = read => end,
    }
}

/// Reads one message. Nothing is allocated for one that is longer than any can be.
async fn read_message(reader: &mut (impl AsyncRead + Unpin)) -> Result<Message, ConnectionEnd> {
    let mut length = [0; LENGTH_LEN];
    reader.read_exact(&mut length).await.map_err(ended)?;
    let length = message_length(length).map_err(ConnectionEnd::Malformed)?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await.map_err(ended)?;
    Message::decode(&body).map_err(ConnectionEnd::Malformed)
}

async fn write_all(
    mut writer: impl AsyncWrite + Unpin,
    mut outgoing: mpsc::UnboundedReceiver<Message>,
) -> ConnectionEnd {
    let mut bytes = Vec::new();
    while let Some(message) = outgoing.recv().await {
        bytes.clear();
        message.encode(&mut bytes);
        let written = timeout(WRITE_TIMEOUT, async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        });
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return ConnectionEnd::Broken(error),
            Err(_) => return ConnectionEnd::Stuck,
        }
    }
    // The peer may be gone already; there is nothing more to say to it.
    let _ = timeout(WRITE_TIMEOUT, writer.shutdown()).await;
    ConnectionEnd::ByUs
}

fn ended(error: io::Error) -> ConnectionEnd {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        ConnectionEnd::ByPeer
    } else {
        ConnectionEnd::Broken(error)
    }
}

/// Lets messages pass in bursts, but at a limited rate in the long run.
struct Pace {
    /// When the messages so far would have come at the limited rate.
    due: Instant,
}

impl Pace {
    fn new() -> Self {
        Self { due: Instant::now() }
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

#[cfg(test)]
mod tests {
    use psmc_wire::control::CloseReason;

    use super::*;

    #[tokio::test]
    async fn a_message_of_four_gigabytes_is_refused_before_it_is_read() {
        let mut bytes: &[u8] = &[0xff, 0xff, 0xff, 0xff, 1];
        assert!(matches!(read_message(&mut bytes).await, Err(ConnectionEnd::Malformed(_))));
    }

    #[tokio::test]
    async fn messages_are_read_one_by_one_until_the_end() {
        let mut bytes = Vec::new();
        Message::Close(CloseReason::Shutdown).encode(&mut bytes);
        Message::Unknown(77).encode(&mut bytes);
        let mut reader = bytes.as_slice();
        assert!(matches!(read_message(&mut reader).await, Ok(Message::Close(CloseReason::Shutdown))));
        assert!(matches!(read_message(&mut reader).await, Ok(Message::Unknown(77))));
        assert!(matches!(read_message(&mut reader).await, Err(ConnectionEnd::ByPeer)));
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
