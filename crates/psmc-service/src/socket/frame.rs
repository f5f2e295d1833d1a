//! One JSON object in a line.

use std::io::{self, BufRead, Read};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// The version of this protocol. It changes when an older side would misunderstand a newer one; new optional fields do not.
pub const VERSION: u32 = 1;

/// Longest line with a request in bytes, its end included.
pub const MAX_LINE: usize = 1 << 20;

/// Longest line with a response: that of a relay with a million sessions, with a kilobyte of text each.
pub const MAX_RESPONSE: usize = 1 << 30;

/// Why a line could not be had.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The connection failed.
    #[error("the connection failed")]
    Io(#[from] io::Error),
    /// The other side does not keep to the limit.
    #[error("the line is longer than {0} bytes")]
    TooLong(usize),
    /// The connection ended within a line.
    #[error("the connection ended in the middle of a line")]
    Truncated,
    /// The line says something else than it should.
    #[error("the line is not a message of the control protocol: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The other side is older or newer.
    #[error(
        "the other side speaks version {theirs} of the control protocol, this one {VERSION}; install the same release on both sides"
    )]
    Version {
        /// The other's version.
        theirs: u32,
    },
}

#[derive(Serialize)]
struct Outgoing<'a, T> {
    version: u32,
    #[serde(flatten)]
    message: &'a T,
}

#[derive(Deserialize)]
struct Incoming {
    version: u32,
}

/// A message as a line of at most `longest` bytes.
pub(super) fn encode<T: Serialize>(message: &T, longest: usize) -> Result<Vec<u8>, FrameError> {
    let mut line =
        serde_json::to_vec(&Outgoing { version: VERSION, message }).map_err(FrameError::Malformed)?;
    line.push(b'\n');
    if line.len() > longest { Err(FrameError::TooLong(longest)) } else { Ok(line) }
}

/// The message in a line. The version comes first: a message of another version need not make sense.
pub(super) fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, FrameError> {
    let Incoming { version } = serde_json::from_slice(line).map_err(FrameError::Malformed)?;
    if version != VERSION {
        return Err(FrameError::Version { theirs: version });
    }
    serde_json::from_slice(line).map_err(FrameError::Malformed)
}

/// The next line, or `None` where the connection ends before one begins.
pub(super) async fn read_line<R: AsyncBufRead + Unpin>(
    reader: &mut R,
) -> Result<Option<Vec<u8>>, FrameError> {
    let mut line = Vec::new();
    reader.take(MAX_LINE as u64).read_until(b'\n', &mut line).await?;
    complete(line, MAX_LINE)
}

/// Like [`read_line`] for a response, waiting as long as the socket's own time-out allows.
pub(super) fn read_line_blocking<R: BufRead>(reader: &mut R) -> Result<Option<Vec<u8>>, FrameError> {
    let mut line = Vec::new();
    reader.take(MAX_RESPONSE as u64).read_until(b'\n', &mut line)?;
    complete(line, MAX_RESPONSE)
}

fn complete(line: Vec<u8>, longest: usize) -> Result<Option<Vec<u8>>, FrameError> {
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() >= longest => Err(FrameError::TooLong(longest)),
        Some(_) => Err(FrameError::Truncated),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Test;
    use super::super::{Reply, StatusRequest, StatusResponse};
    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        let line = encode(&StatusRequest::Status, MAX_LINE).unwrap();
        assert_eq!(line, b"{\"version\":1,\"op\":\"status\"}\n");
        assert_eq!(decode::<StatusRequest>(&line).unwrap(), StatusRequest::Status);

        for response in [StatusResponse::Status(Test { number: 7 }), StatusResponse::refusal("no".to_owned())]
        {
            let line = encode(&response, MAX_RESPONSE).unwrap();
            assert_eq!(decode::<StatusResponse<Test>>(&line).unwrap(), response);
        }
    }

    #[test]
    fn another_version_is_named_before_the_message_is_read() {
        let error = decode::<StatusRequest>(b"{\"version\":2,\"op\":\"dance\"}\n").unwrap_err();
        assert!(matches!(error, FrameError::Version { theirs: 2 }));
        for line in ["{\"op\":\"status\"}\n", "\n"] {
            assert!(matches!(decode::<StatusRequest>(line.as_bytes()), Err(FrameError::Malformed(_))));
        }
    }

    #[tokio::test]
    async fn lines_are_bounded_and_whole() {
        let read = |mut bytes: &[u8]| read_line_blocking(&mut bytes);
        let long = vec![b'x'; MAX_LINE + 5];
        assert!(matches!(read_line(&mut long.as_slice()).await, Err(FrameError::TooLong(MAX_LINE))));
        let long = StatusResponse::<Test>::refusal(String::from_utf8(long).unwrap());
        assert!(matches!(encode(&long, MAX_LINE), Err(FrameError::TooLong(MAX_LINE))));
        assert!(encode(&long, MAX_RESPONSE).is_ok());
        assert!(matches!(read(b""), Ok(None)));
        assert!(matches!(read(b"a\nb"), Ok(Some(line)) if line == b"a\n"));
        assert!(matches!(read(b"a"), Err(FrameError::Truncated)));
    }
}
