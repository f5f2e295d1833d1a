//! One client.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::debug;

use super::Call;
use crate::api::frame::{self, FrameError, MAX_RESPONSE};
use crate::api::{Request, Response};

/// How long a client may be silent. `psmc watch` asks every second.
const IDLE: Duration = Duration::from_secs(60);

/// How long the daemon may take to answer, beside what the client wants to wait. Its loop is never held up for so long unless it has stopped.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a client may take to read a response.
const WRITE: Duration = Duration::from_secs(5);

/// Serves a client until it leaves, is silent for too long, or breaks the protocol, or until nobody answers any more.
pub(super) async fn serve(mut stream: UnixStream, calls: mpsc::Sender<Call>) {
    let (read, mut write) = stream.split();
    let mut read = BufReader::new(read);
    loop {
        let line = tokio::select! {
            line = timeout(IDLE, frame::read_line(&mut read)) => line,
            () = calls.closed() => return,
        };
        let (response, end) = match line {
            Ok(Ok(Some(line))) => answer(&line, &calls).await,
            Ok(Ok(None)) | Err(_) => return,
            Ok(Err(error)) => (Response::error(error), true),
        };
        if !send(&mut write, response).await || end {
            return;
        }
    }
}

/// The response to a line, and whether it shall be the last.
async fn answer(line: &[u8], calls: &mpsc::Sender<Call>) -> (Response, bool) {
    let request = match frame::decode(line) {
        Ok(request) => request,
        Err(error @ FrameError::Version { .. }) => return (Response::error(error), true),
        Err(error) => return (Response::error(error), false),
    };
    let limit = ANSWER + Request::patience(&request);
    let (responder, response) = oneshot::channel();
    let asked = async {
        calls.send(Call { request, responder }).await.ok()?;
        response.await.ok()
    };
    (within(limit, asked).await, false)
}

async fn within(limit: Duration, asked: impl Future<Output = Option<Response>>) -> Response {
    match timeout(limit, asked).await {
        Ok(Some(response)) => response,
        Ok(None) => Response::error("the daemon is shutting down"),
        Err(_) => Response::error(format!("the daemon has not answered within {} s", limit.as_secs())),
    }
}

/// Whether the client has taken the response.
async fn send(write: &mut (impl AsyncWriteExt + Unpin), response: Response) -> bool {
    // That of ten thousand peers takes its time.
    let encoded = spawn_blocking(move || {
        let encode = |response: &Response| frame::encode(response, MAX_RESPONSE);
        encode(&response).or_else(|error| encode(&Response::error(error)))
    });
    let Ok(Ok(line)) = encoded.await else { return false };
    match timeout(WRITE, write.write_all(&line)).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            debug!(%error, "a client has gone before its response");
            false
        }
        Err(_) => {
            debug!("a client does not read its response");
            false
        }
    }
}
