//! A small server of HTTP/1.1, for metrics and other short answers.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use psmc_net::retry::Retry;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Connections at a time: those who have more to say say it one after the other.
pub const MAX_CONNECTIONS: usize = 64;

/// How long a request and its answer may take in all.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request's head may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest head of a request, in bytes: a browser's.
const MAX_HEAD: usize = 8 * 1024;

/// Nothing can listen there.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: `ss -ltnp` shows which program does")]
pub struct HttpError {
    /// The address and port.
    pub address: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

/// What is answered.
pub type Answer = Response<Full<Bytes>>;

/// Something that answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// Listens on `address`; the future answers requests, one of each connection.
///
/// # Errors
/// [`HttpError`] if nothing can listen there.
pub async fn serve(
    address: SocketAddr,
    handler: impl Handler,
) -> Result<impl Future<Output = ()> + Send, HttpError> {
    let listener = TcpListener::bind(address).await.map_err(|source| HttpError { address, source })?;
    Ok(answer_all(listener, Arc::new(handler)))
}

async fn answer_all(listener: TcpListener, handler: Arc<impl Handler>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut retry = Retry::new("accept HTTP connections");
    loop {
        let client = match listener.accept().await {
            Ok((client, _)) => client,
            Err(error) => {
                retry.after(&error).await;
                continue;
            }
        };
        // One client too many is hung up on.
        let Ok(permit) = room.clone().try_acquire_owned() else { continue };
        let handler = handler.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let service = service_fn(|request| {
                let handler = handler.clone();
                async move { Ok::<_, Infallible>(handler.answer(request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .max_buf_size(MAX_HEAD)
                .keep_alive(false)
                .serve_connection(TokioIo::new(client), service);
            // A client that goes away or says nothing has only itself to blame.
            let _ = timeout(TIMEOUT, connection).await;
        });
    }
}

/// What is there has other methods (RFC 9110, section 15.5.6).
#[must_use]
pub fn only(methods: &[Method]) -> Answer {
    let names = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, format!("this takes {names} only\n"));
    answer.headers_mut().extend(HeaderValue::from_str(&names).ok().map(|names| (ALLOW, names)));
    answer
}

/// An answer with a text.
#[must_use]
pub fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer
}
