//! Alerts by HTTP: `POST /alerts` with an alert as the signal channel has it, and `POST /alerts/ID/clear`.

use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};
use percent_encoding::percent_decode_str;
use psmc_net::token::Token;
use psmc_service::http::{Answer, Handler, bearer, only, text};
use psmc_signal::Alert;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use crate::engine::{Input, Order, OrderError};

/// What alerts of the hook are called.
pub(crate) const HOOK: &str = "hook";

/// The longest body, in bytes.
const MAX_BODY: usize = 16 * 1024;

/// The longest time for which an alert counts, in seconds: a week.
const MAX_LEASE: u32 = 604_800;

/// What takes alerts.
pub(crate) struct Hook {
    pub(crate) token: Token,
    pub(crate) engine: mpsc::Sender<Input>,
}

/// The body of `POST /alerts/ID/clear`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cleared {
    service: String,
}

/// The body of `POST /alerts`.
#[derive(Debug, Deserialize)]
pub struct Raised {
    /// What is attacked, and how.
    #[serde(flatten)]
    pub alert: Alert,
    /// For how many seconds it counts unless it is raised again.
    pub lasts: Option<u32>,
}

impl Handler for Hook {
    type Body = Full<Bytes>;

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if let Some(answer) = refusal(request.headers(), &self.token) {
            return answer;
        }
        let path = request.uri().path().to_owned();
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["alerts"] | ["alerts", _, "clear"] if request.method() != Method::POST => only(&[Method::POST]),
            ["alerts"] => match body::<Raised>(request).await {
                Ok(Raised { alert, lasts }) => {
                    let lasts = lasts.map(|seconds| Duration::from_secs(seconds.clamp(1, MAX_LEASE).into()));
                    let order = Order::Alert { source: HOOK.to_owned(), alert: Box::new(alert), lasts };
                    self.carry_out(order).await
                }
                Err(answer) => answer,
            },
            ["alerts", id, "clear"] => {
                // An id is whatever its source likes, so that a part of a path has it encoded (RFC 3986, section 2.1).
                let Ok(id) = percent_decode_str(id).decode_utf8().map(String::from) else {
                    return text(StatusCode::BAD_REQUEST, "the id in the path is no UTF-8\n");
                };
                match body::<Cleared>(request).await {
                    Ok(Cleared { service }) => {
                        self.carry_out(Order::Clear { source: HOOK.to_owned(), id, service }).await
                    }
                    Err(answer) => answer,
                }
            }
            _ => text(StatusCode::NOT_FOUND, "alerts are taken by POST at /alerts and /alerts/ID/clear\n"),
        }
    }
}

impl Hook {
    async fn carry_out(&self, order: Order) -> Answer {
        let (done, result) = oneshot::channel();
        let ended = || text(StatusCode::SERVICE_UNAVAILABLE, "the coordinator is shutting down\n");
        if self.engine.send(Input::Order { order, done }).await.is_err() {
            return ended();
        }
        match result.await {
            Ok(Ok(())) => text(StatusCode::OK, "noted\n"),
            Ok(Err(error)) => {
                let status = match error {
                    OrderError::UnknownService(_)
                    | OrderError::UnknownClient(_)
                    | OrderError::NotOpen(_)
                    | OrderError::Id => StatusCode::UNPROCESSABLE_ENTITY,
                    OrderError::NotLeading(_) | OrderError::NotKept(_) => StatusCode::SERVICE_UNAVAILABLE,
                };
                text(status, format!("{error}\n"))
            }
            Err(_) => ended(),
        }
    }
}

/// Says why somebody may not do anything, if that is so (RFC 9110, section 11.6.1; RFC 6750, section 3).
fn refusal(headers: &HeaderMap, token: &Token) -> Option<Answer> {
    let (challenge, reason) = match bearer(headers) {
        Some(shown) if token.is(shown) => return None,
        Some(_) => (r#"Bearer realm="psmc-coordinator", error="invalid_token""#, "the token is wrong\n"),
        None => {
            let reason = "the header `Authorization: Bearer TOKEN` is missing, or has another form\n";
            (r#"Bearer realm="psmc-coordinator""#, reason)
        }
    };
    let mut answer = text(StatusCode::UNAUTHORIZED, reason);
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    Some(answer)
}

async fn body<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Answer> {
    let collected = Limited::new(request.into_body(), MAX_BODY).collect().await;
    let bytes =
        collected.map_err(|_| text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long, or broken\n"))?;
    parse(&bytes.to_bytes()).map_err(|error| {
        text(StatusCode::BAD_REQUEST, format!("the body is not what it should be: {error}\n"))
    })
}

/// Reads a body. Some clients write a byte order mark, which may be passed over (RFC 8259, section 8.1).
///
/// # Errors
///
/// If it is no JSON, or not of this shape.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body))
}

#[cfg(test)]
mod tests {
    use hyper::header::AUTHORIZATION;

    use super::*;

    #[test]
    fn who_is_not_let_in_is_told_how_to_be() {
        let mut headers = HeaderMap::new();
        let token = Token::parse("0123456789abcdef").unwrap();
        let challenge = |headers: &HeaderMap| {
            let answer = refusal(headers, &token).unwrap();
            assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
            answer.headers()[WWW_AUTHENTICATE].to_str().unwrap().to_owned()
        };
        assert_eq!(challenge(&headers), r#"Bearer realm="psmc-coordinator""#);
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer wrong"));
        assert!(challenge(&headers).ends_with(r#"error="invalid_token""#));
        headers.insert(AUTHORIZATION, HeaderValue::from_static("bearer  0123456789abcdef"));
        assert!(refusal(&headers, &token).is_none());
    }
}
