//! One control connection: messages in, messages out, both bounded.

use psmc_core::ConnectionId;
use psmc_net::framing::{FramingError, MessageReader, Pace, close, write_message};
use psmc_net::tls::Secured;
use psmc_wire::control::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::plane::Poster;

/// Serves a connection until it ends: gives what arrives to the engine, writes what comes from `outgoing`.
/// When `outgoing` is closed, what was given before is written, then the connection is closed, without an error.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    id: ConnectionId,
    secured: Secured<S>,
    plane: Poster,
    outgoing: mpsc::UnboundedReceiver<Message>,
) -> Result<(), FramingError> {
    let (mut stream, writer) = tokio::io::split(secured.stream);
    let read = async {
        let (mut messages, mut pace) = (MessageReader::default(), Pace::new());
        loop {
            let message = messages.next(&mut stream).await?;
            plane.post(move |plane| plane.site.handle_message(id, message, std::time::Instant::now())).await;
            pace.wait().await;
        }
    };
    tokio::select! {
        end = write_all(writer, outgoing) => end,
        end = read => end,
    }
}

async fn write_all(
    mut writer: impl AsyncWrite + Unpin,
    mut outgoing: mpsc::UnboundedReceiver<Message>,
) -> Result<(), FramingError> {
    while let Some(message) = outgoing.recv().await {
        write_message(&mut writer, &message).await?;
    }
    close(writer).await;
    Ok(())
}
