//! A small server of HTTP/1.1, for metrics and other short answers.

use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, HeaderMap, HeaderValue};
use hyper::http::Extensions;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use psmc_net::retry::Retry;
use psmc_net::room::Room;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::time::timeout;

/// Connections at a time: those who have more to say say it one after the other.
pub const MAX_CONNECTIONS: usize = 64;

/// Connections at a time from one source: a browser has six, and of what is on this machine there is one. Three others are left of it.
const MAX_PER_SOURCE: usize = MAX_CONNECTIONS / 4;

/// How long a request and its answer may take in all.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a request's head may take.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest head of a request, in bytes: a browser's.
const MAX_HEAD: usize = 8 * 1024;

/// Who sends a request, among its extensions.
#[derive(Clone, Copy, Debug)]
struct Sender(SocketAddr);

/// Nothing can listen there.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: `ss -ltnp` shows which program does")]
pub struct HttpError {
    /// The address and port.
    pub address: SocketAddr,
    /// What the system said.
    pub source: io::Error,
}

/// A short answer.
pub type Answer = Response<Full<Bytes>>;

/// Something that answers requests.
pub trait Handler: Send + Sync + 'static {
    /// What is in its answers.
    type Body: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// Answers one.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Self::Body>> + Send;
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
    let room = Room::new(MAX_CONNECTIONS, MAX_PER_SOURCE);
    let mut retry = Retry::new("accept HTTP connections");
    loop {
        let (client, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                retry.after(&error).await;
                continue;
            }
        };
        // One client too many is hung up on.
        let Some(place) = room.take(from.ip()) else { continue };
        let handler = handler.clone();
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(|mut request: Request<Incoming>| {
                request.extensions_mut().insert(Sender(from));
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

/// Who sends the request with these extensions; nobody, `[::]:0`, if it has not come by [`serve`].
#[must_use]
pub fn sender(extensions: &Extensions) -> SocketAddr {
    extensions.get().map_or_else(|| (Ipv6Addr::UNSPECIFIED, 0).into(), |Sender(from)| *from)
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

/// The token that a request shows. The scheme is compared without regard to case, and followed by one space or more (RFC 9110,
/// sections 11.1 and 11.4).
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let (scheme, rest) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked("Bearer".len())?;
    let token = rest.trim_ascii();
    let is_bearer = scheme.eq_ignore_ascii_case(b"Bearer") && rest.starts_with(b" ");
    is_bearer.then_some(token)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpSocket, TcpStream};

    use super::*;

    /// What a client hears that sends a request from this address.
    async fn heard(address: SocketAddr, from: &str) -> String {
        let mut client = connect(address, from).await;
        // Whoever is hung up on may hear of that before it has spoken.
        let _ = client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let mut answer = String::new();
        let _ = client.read_to_string(&mut answer).await;
        answer
    }

    async fn connect(address: SocketAddr, from: &str) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        socket.connect(address).await.unwrap()
    }

    #[tokio::test]
    async fn a_source_has_its_places_and_leaves_others_theirs() {
        struct Nothing;
        impl Handler for Nothing {
            type Body = Full<Bytes>;
            async fn answer(&self, _: Request<Incoming>) -> Answer {
                text(StatusCode::OK, "")
            }
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(answer_all(listener, Arc::new(Nothing)));
        let mut silent = Vec::new();
        for _ in 0..MAX_PER_SOURCE {
            silent.push(connect(address, "127.0.0.2").await);
        }
        assert_eq!(heard(address, "127.0.0.2").await, "");
        assert!(heard(address, "127.0.0.3").await.starts_with("HTTP/1.1 200"));
        drop(silent);
        while heard(address, "127.0.0.2").await.is_empty() {}
    }

    #[test]
    fn a_token_is_found_in_any_spelling_of_the_scheme() {
        let found = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(value));
            bearer(&headers).map(|token| String::from_utf8(token.to_vec()).unwrap())
        };
        for right in ["Bearer abc", "bearer abc", "BEARER abc", "Bearer   abc", "Bearer abc "] {
            assert_eq!(found(right).as_deref(), Some("abc"), "{right}");
        }
        for wrong in ["", "Bearer", "Bearerabc", "Basic abc", "abc"] {
            assert_eq!(found(wrong), None, "{wrong}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
