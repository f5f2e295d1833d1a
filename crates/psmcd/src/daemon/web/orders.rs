//! How paths are changed: as by the control socket, and by the same code. Whoever orders shows the token itself, as a bearer. No
//! browser does that by itself, so that no other page can have a browser order anything; and what comes from other pages is refused
//! besides.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::State;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue};
use axum::http::{Extensions, StatusCode};
use axum::response::{IntoResponse, Response};
use psmc_api::{Caller, Request, WantedState};
use psmc_service::http::sender;
use psmc_service::socket::Reply;
use serde::Deserialize;
use serde_json::Number;

use super::Source;
use super::access::{Shown, is_from_here};
use super::pages::json;
use crate::config::{ValueError, Weight};

/// The longest order, in bytes: names are short, even where each character is escaped.
const MAX_ORDER: usize = 2048;

/// An order, as it is sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    peer: String,
    path: String,
    weight: Option<Number>,
    state: Option<WantedState>,
}

/// What is to become of a path. What is absent stays.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    peer: String,
    path: String,
    weight: Option<u16>,
    state: Option<WantedState>,
}

impl Change {
    /// As the control socket has it.
    fn request(&self) -> Request {
        let (peer, path) = (self.peer.clone(), self.path.clone());
        let Self { weight, state, .. } = *self;
        Request::PathSet {
            peer,
            path,
            weight,
            max_rate: None,
            tier: None,
            direction: None,
            state,
            congestion: None,
        }
    }
}

/// Why an order is not obeyed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused(pub(super) StatusCode, pub(super) String);

impl Refused {
    fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self(status, why.into())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(status, error) = self;
        (status, json(&serde_json::json!({ "error": error }))).into_response()
    }
}

/// Changes a path.
pub(super) async fn order(
    State(source): State<Arc<Source>>,
    request: axum::extract::Request,
) -> Result<StatusCode, Refused> {
    let caller = allowed(&source, request.extensions(), request.headers())?;
    let from = sender(request.extensions()).to_string();
    let Ok(body) = to_bytes(request.into_body(), MAX_ORDER).await else {
        let why = format!("an order has {MAX_ORDER} bytes at most");
        return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, why));
    };
    obey(&source, caller, parse(&body)?, &from).await.map(|()| StatusCode::NO_CONTENT)
}

/// Orders are posted.
pub(super) async fn only_post() -> Response {
    let refused = Refused::new(StatusCode::METHOD_NOT_ALLOWED, "orders are sent by POST");
    ([(ALLOW, HeaderValue::from_static("POST"))], refused).into_response()
}

/// Who asks for what is ordered, if somebody may order anything by a request with this head.
fn allowed<'a>(
    source: &'a Source,
    extensions: &Extensions,
    headers: &HeaderMap,
) -> Result<&'a Caller, Refused> {
    let Some(caller) = &source.caller else { return Err(Refused::new(StatusCode::FORBIDDEN, READ_ONLY)) };
    if !is_from_here(headers) {
        return Err(Refused::new(StatusCode::FORBIDDEN, OTHER_PAGE));
    }
    if extensions.get() != Some(&Shown::Token) {
        return Err(Refused::new(StatusCode::FORBIDDEN, NO_BEARER));
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split_once(';').map_or(kind, |(kind, _)| kind).trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, NO_JSON));
    }
    Ok(caller)
}

const READ_ONLY: &str =
    "this page is read only: add `orders = true` and a `token_file` to [web], and restart psmcd";

const OTHER_PAGE: &str = "another page has sent this order: only this server's own page may";

const NO_BEARER: &str =
    "an order shows the token: send `Authorization: Bearer TOKEN`; a cookie is enough for reading only";

const NO_JSON: &str = "an order is JSON: send `Content-Type: application/json`";

/// What is ordered.
fn parse(body: &[u8]) -> Result<Change, Refused> {
    let Text { peer, path, weight, state } = serde_json::from_slice(body).map_err(|error| {
        Refused::new(StatusCode::BAD_REQUEST, format!("this is no order: {error}; {EXAMPLE}"))
    })?;
    if weight.is_none() && state.is_none() {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "an order says `weight`, `state`, or both"));
    }
    let weight = weight.map(|weight| weight.to_string().parse()).transpose();
    let weight = weight.map_err(|error: ValueError| {
        Refused::new(StatusCode::UNPROCESSABLE_ENTITY, crate::error_chain(&error))
    })?;
    Ok(Change { peer, path, weight: weight.map(Weight::get), state })
}

const EXAMPLE: &str = r#"one is {"peer":"hq","path":"dsl","weight":2,"state":"standby"}"#;

/// Has the control side do what is ordered, and the log say so.
async fn obey(source: &Source, caller: &Caller, change: Change, from: &str) -> Result<(), Refused> {
    let Change { peer, path, weight, state } = &change;
    let state = state.map(|state| match state {
        WantedState::Active => "active",
        WantedState::Standby => "standby",
    });
    match caller.call(change.request()).await.granted() {
        Ok(_) => {
            tracing::info!(from, peer, path, weight, state, "path changed by the web page");
            source.known.lock().await.is_changed = true;
            Ok(())
        }
        Err(why) => {
            tracing::info!(from, peer, path, weight, state, why, "order of the web page refused");
            Err(why_not(source, peer, path, why).await)
        }
    }
}

/// What the control side has refused, and whether it is about something that is not there.
async fn why_not(source: &Source, peer: &str, path: &str, why: String) -> Refused {
    let Some(status) = source.asker.ask().await else {
        return Refused::new(StatusCode::SERVICE_UNAVAILABLE, why);
    };
    let Some(known) = status.peers.iter().find(|known| known.name == peer) else {
        return Refused::new(StatusCode::NOT_FOUND, why);
    };
    if known.paths.iter().any(|known| known.name == path) {
        return Refused::new(StatusCode::CONFLICT, why);
    }
    Refused::new(
        StatusCode::NOT_FOUND,
        format!("{peer} has no path `{path}`: `psmc path list {peer}` lists them"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_says_what_of_which_path() {
        let change = parse(br#"{"peer":"hq","path":"dsl","weight":1000,"state":"standby"}"#).unwrap();
        let (peer, path) = ("hq".to_owned(), "dsl".to_owned());
        let request = Request::PathSet {
            peer,
            path,
            weight: Some(1000),
            max_rate: None,
            tier: None,
            direction: None,
            state: Some(WantedState::Standby),
            congestion: None,
        };
        assert_eq!(change.request(), request);
        assert_eq!(
            parse(br#"{"peer":"hq","path":"dsl","weight":null,"state":"active"}"#).unwrap().weight,
            None
        );
    }

    #[test]
    fn what_is_no_order_is_refused_with_a_reason() {
        for (body, status, part) in [
            ("", 400, "EOF"),
            ("weight=2", 400, "expected value"),
            ("[]", 400, "this is no order"),
            (r#"{"peer":"hq","weight":2}"#, 400, "missing field `path`"),
            (r#"{"peer":"hq","path":"dsl"}"#, 400, "`weight`, `state`, or both"),
            (r#"{"peer":"hq","path":"dsl","weight":"2"}"#, 400, "string"),
            (r#"{"peer":"hq","path":"dsl","state":"dead"}"#, 400, "unknown variant `dead`"),
            (r#"{"peer":"hq","path":"dsl","max_rate":1}"#, 400, "unknown field `max_rate`"),
            (r#"{"peer":"hq","path":"dsl","weight":0}"#, 422, "0 is not a weight"),
            (r#"{"peer":"hq","path":"dsl","weight":1001}"#, 422, "1001 is not a weight"),
            (r#"{"peer":"hq","path":"dsl","weight":-1}"#, 422, "-1 is not a weight"),
            (r#"{"peer":"hq","path":"dsl","weight":1.5}"#, 422, "1.5 is not a weight"),
        ] {
            let Refused(refused, why) = parse(body.as_bytes()).unwrap_err();
            assert!(refused == status && why.contains(part), "{body}: {refused}, {why}");
        }
        assert!(parse(&[0xff]).is_err());
    }
}
