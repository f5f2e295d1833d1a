//! Messages on connections.

use tokio::io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A message behind its length (RFC 1035 §4.2.2).
///
/// # Errors
/// What the stream says.
pub async fn read_stream(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; length.into()];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

/// The same the other way.
///
/// # Errors
/// What the stream says, and that a message is too long.
pub async fn write_stream(stream: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), message].concat()).await?;
    stream.flush().await
}
