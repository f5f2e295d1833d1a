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
use crate::socket::frame::{self, FrameError, MAX_RESPONSE};
use crate::socket::{Protocol, Reply};

/// How long a client may be silent. `psmc watch` asks every second.
const IDLE: Duration = Duration::from_secs(60);

/// How long the daemon may take to answer, beside what the client wants to wait. Its loop is never held up for so long unless it has stopped.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a client may take to read a response.
const WRITE: Duration = Duration::from_secs(5);

/// What those are told whom nobody answers any more.
pub(super) const ENDING: &str = "the daemon is shutting down";

/// Serves a client until it leaves, is silent for too long, or breaks the protocol, or until nobody answers any more.
pub(super) async fn serve<P: Protocol>(mut stream: UnixStream, calls: mpsc::Sender<Call<P>>) {
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
            Ok(Err(error)) => (refuse::<P>(&error), true),
        };
        if !send(&mut write, response).await || end {
            return;
        }
    }
}

/// The response to a line, and whether it shall be the last.
async fn answer<P: Protocol>(line: &[u8], calls: &mpsc::Sender<Call<P>>) -> (P::Response, bool) {
    let request = match frame::decode(line) {
        Ok(request) => request,
        Err(error @ FrameError::Version { .. }) => return (refuse::<P>(&error), true),
        Err(error) => return (refuse::<P>(&error), false),
    };
    (ask(request, calls).await, false)
}

/// What the program's loop responds to a request.
pub(super) async fn ask<P: Protocol>(request: P::Request, calls: &mpsc::Sender<Call<P>>) -> P::Response {
    let limit = ANSWER + P::patience(&request);
    let (responder, response) = oneshot::channel();
    let asked = async {
        calls.send(Call { request, responder }).await.ok()?;
        response.await.ok()
    };
    within(limit, asked).await
}

async fn within<R: Reply>(limit: Duration, asked: impl Future<Output = Option<R>>) -> R {
    match timeout(limit, asked).await {
        Ok(Some(response)) => response,
        Ok(None) => R::refusal(ENDING.to_owned()),
        Err(_) => R::refusal(format!("the daemon has not answered within {} s", limit.as_secs())),
    }
}

/// Whether the client has taken the response.
async fn send(write: &mut (impl AsyncWriteExt + Unpin), response: impl Reply) -> bool {
    // That of ten thousand peers takes its time.
    let encoded = spawn_blocking(move || encode(&response));
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

/// A response as a line, or why it is none.
fn encode<R: Reply>(response: &R) -> Result<Vec<u8>, FrameError> {
    let line = frame::encode(response, MAX_RESPONSE);
    line.or_else(|error| frame::encode(&R::refusal(error.to_string()), MAX_RESPONSE))
}

fn refuse<P: Protocol>(error: &FrameError) -> P::Response {
    P::Response::refusal(error.to_string())
}
