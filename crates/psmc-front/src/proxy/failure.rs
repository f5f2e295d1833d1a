//! Why a request has no answer of a server, and what its client is told then.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use psmc_shares::admission::Refusal;

use crate::body::{AnswerBody, Progress};
use crate::headers::Malformed;
use crate::upstream::ConnectError;

/// Why a request has no answer of a server.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Malformed(Malformed),
    #[error("the target is too long")]
    Target,
    #[error("the body is not what HTTP has, or its client has gone away")]
    Body,
    #[error("timed out waiting for the rest of the body")]
    Stalled,
    #[error("no place at a server: {}", .0.reason)]
    Refused(Refusal),
    #[error("there is no server")]
    NoServer,
    #[error("the server cannot be reached")]
    Unreachable(#[source] ConnectError),
    #[error("the server has given no answer")]
    NoAnswer(#[source] hyper::Error),
    #[error("the server has changed the protocol, which nobody had asked for")]
    Unasked,
    #[error("the servers of the class are asked by HTTP/2, which WebSocket is not passed on by")]
    NoWebSocket,
    #[error("timed out waiting for the server's answer")]
    TimedOut,
}

impl Failure {
    /// What a server does with a request whose client has failed is that client's fault.
    pub(super) fn of_client(self, progress: Option<&Progress>) -> Self {
        let Some(progress) = progress else { return self };
        if progress.is_stalled() {
            Self::Stalled
        } else if progress.is_broken() {
            Self::Body
        } else {
            self
        }
    }

    /// The status that says so (RFC 9110, section 15).
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(Malformed::Connect) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Malformed(Malformed::Host | Malformed::Length | Malformed::Target) | Self::Body => {
                StatusCode::BAD_REQUEST
            }
            Self::Target => StatusCode::URI_TOO_LONG,
            Self::Stalled => StatusCode::REQUEST_TIMEOUT,
            Self::Refused(_) | Self::NoServer => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unreachable(_) | Self::NoAnswer(_) | Self::Unasked => StatusCode::BAD_GATEWAY,
            // RFC 8441 leaves it open; RFC 9220, section 3, has this for the same.
            Self::NoWebSocket => StatusCode::NOT_IMPLEMENTED,
            Self::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Whether the server has no part in it.
    pub(super) fn is_of_client(&self) -> bool {
        matches!(self, Self::Malformed(_) | Self::Target | Self::Body | Self::Stalled)
    }

    /// Whether the connection ends with the answer: what follows on it cannot be told from the rest of this request.
    fn ends_connection(&self) -> bool {
        self.is_of_client()
    }

    /// What the client is told.
    pub(super) fn response(&self) -> Response<AnswerBody> {
        let status = self.status();
        let text = format!("{} {}\n", status.as_u16(), status.canonical_reason().unwrap_or_default());
        let mut response = Response::new(AnswerBody::Own(Full::new(Bytes::from(text))));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        if self.ends_connection() {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        match self {
            Self::Refused(refusal) => {
                let seconds = refusal.retry_after.as_secs_f64().ceil().max(1.0);
                headers.extend(
                    HeaderValue::from_str(&format!("{seconds}")).ok().map(|value| (RETRY_AFTER, value)),
                );
            }
            Self::Malformed(Malformed::Connect) => {
                let methods = "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH";
                headers.insert(ALLOW, HeaderValue::from_static(methods));
            }
            Self::Malformed(Malformed::Host | Malformed::Length | Malformed::Target)
            | Self::Target
            | Self::Body
            | Self::Stalled
            | Self::NoServer
            | Self::Unreachable(_)
            | Self::NoAnswer(_)
            | Self::Unasked
            | Self::NoWebSocket
            | Self::TimedOut => {}
        }
        response
    }
}
