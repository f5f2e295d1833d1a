//! Alerts by HTTP: `POST /alerts` with an alert as the signal channel has it, and `POST /alerts/ID/clear`.

use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::{Method, Request, StatusCode};
use psmc_signal::Alert;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use super::{Answer, Handler, text};
use crate::engine::{Input, Order, OrderError};

/// What alerts of the hook are called.
const SOURCE: &str = "hook";

/// The longest body, in bytes.
const MAX_BODY: usize = 16 * 1024;

/// How long an alert counts that nobody clears or repeats: whoever has raised it may be gone.
const LASTS: Duration = Duration::from_secs(24 * 3600);

/// What takes alerts.
pub(crate) struct Hook {
    pub(crate) token: String,
    pub(crate) engine: mpsc::Sender<Input>,
}

/// The body of `POST /alerts/ID/clear`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cleared {
    service: String,
}

impl Handler for Hook {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        if !is_authorized(request.headers(), &self.token) {
            return text(
                StatusCode::UNAUTHORIZED,
                "the header `Authorization: Bearer TOKEN` is missing, or its token wrong\n",
            );
        }
        let path = request.uri().path().to_owned();
        let is_post = request.method() == Method::POST;
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["alerts"] if is_post => match body::<Alert>(request).await {
                Ok(alert) => {
                    let order = Order::Alert {
                        source: SOURCE.to_owned(),
                        alert: Box::new(alert),
                        lasts: Some(LASTS),
                    };
                    self.carry_out(order).await
                }
                Err(answer) => answer,
            },
            ["alerts", id, "clear"] if is_post => match body::<Cleared>(request).await {
                Ok(Cleared { service }) => {
                    let order = Order::Clear { source: SOURCE.to_owned(), id: (*id).to_owned(), service };
                    self.carry_out(order).await
                }
                Err(answer) => answer,
            },
            _ => text(StatusCode::NOT_FOUND, "alerts are taken by POST at /alerts and /alerts/ID/clear\n"),
        }
    }
}

impl Hook {
    async fn carry_out(&self, order: Order) -> Answer {
        let (done, result) = oneshot::channel();
        let ended = || text(StatusCode::SERVICE_UNAVAILABLE, "the coordinator is about to end\n");
        if self.engine.send(Input::Order { order, done }).await.is_err() {
            return ended();
        }
        match result.await {
            Ok(Ok(())) => text(StatusCode::OK, "noted\n"),
            Ok(Err(error)) => {
                let status = match error {
                    OrderError::UnknownService(_) | OrderError::UnknownClient(_) | OrderError::Id => {
                        StatusCode::UNPROCESSABLE_ENTITY
                    }
                    OrderError::NotLeading(_) | OrderError::NotKept => StatusCode::SERVICE_UNAVAILABLE,
                };
                text(status, format!("{error}\n"))
            }
            Err(_) => ended(),
        }
    }
}

/// Compares in a time that does not tell how much of a guess was right.
fn is_authorized(headers: &HeaderMap, token: &str) -> bool {
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    shown.is_some_and(|shown| verify_slices_are_equal(shown, token.as_bytes()).is_ok())
}

async fn body<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Answer> {
    let collected = Limited::new(request.into_body(), MAX_BODY).collect().await;
    let bytes =
        collected.map_err(|_| text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long, or broken\n"))?;
    serde_json::from_slice(&bytes.to_bytes()).map_err(|error| {
        text(StatusCode::BAD_REQUEST, format!("the body is not what it should be: {error}\n"))
    })
}
