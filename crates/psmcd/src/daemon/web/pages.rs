//! What is answered at which address.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use hyper::body::Incoming;
use psmc_service::http::{Handler, sender};
use serde::Serialize;
use tower_service::Service;

use super::Source;
use super::access::{Access, Verdict, parameter};
use super::hour::SAMPLES;
use super::orders::{Refused, only_post, order};
use super::{guesses, view};

/// The page, and what belongs to it: where it is, its type, its text.
const FILES: [(&str, &str, &str); 7] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page/page.css")),
    ("/format.js", "text/javascript; charset=utf-8", include_str!("page/format.js")),
    ("/plot.js", "text/javascript; charset=utf-8", include_str!("page/plot.js")),
    ("/order.js", "text/javascript; charset=utf-8", include_str!("page/order.js")),
    ("/page.js", "text/javascript; charset=utf-8", include_str!("page/page.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// How many samples are told at once: ten minutes, which slow links carry in time.
const MAX_SAMPLES: usize = SAMPLES / 6;

/// What goes with every answer: nothing of others is loaded, nothing is kept, nobody shows the page in one of theirs.
const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Answers those who are let in.
pub(super) struct Pages(Router);

impl Pages {
    pub(super) fn new(source: Arc<Source>, access: Access) -> Self {
        let files = FILES
            .iter()
            .fold(Router::new(), |router, (path, kind, text)| router.route(path, file(kind, text)));
        let router = files
            .route("/api/state", get(state))
            .route("/api/history", get(history))
            .route("/api/path", post(order).fallback(only_post))
            .with_state(source)
            .layer(from_fn_with_state(Arc::new(access), guard));
        Self(router)
    }
}

impl Handler for Pages {
    type Body = Body;

    async fn answer(&self, request: Request<Incoming>) -> Response {
        match self.0.clone().call(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        }
    }
}

fn file(kind: &'static str, text: &'static str) -> MethodRouter<Arc<Source>> {
    get(move || async move { ([(CONTENT_TYPE, HeaderValue::from_static(kind))], text) })
}

/// Lets in who may come, and adds what goes with every answer.
async fn guard(State(access): State<Arc<Access>>, mut request: Request, next: Next) -> Response {
    let from = sender(request.extensions()).ip();
    let is_api = request.uri().path().starts_with("/api/");
    let mut answer = match access.judge(request.uri(), request.headers(), (from, Instant::now())) {
        Verdict::Welcome(shown) => {
            request.extensions_mut().insert(shown);
            next.run(request).await
        }
        Verdict::Known(cookie) => {
            let mut answer = next.run(request).await;
            answer.headers_mut().insert(SET_COOKIE, cookie);
            answer
        }
        Verdict::WrongHost => refuse(is_api, StatusCode::MISDIRECTED_REQUEST, WRONG_HOST),
        Verdict::Stranger | Verdict::Wrong => {
            let challenge = [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"psmcd\""))];
            (challenge, refuse(is_api, StatusCode::UNAUTHORIZED, NO_TOKEN)).into_response()
        }
        Verdict::TooMany => {
            let wait = [(RETRY_AFTER, HeaderValue::from(guesses::PERIOD.as_secs()))];
            (wait, refuse(is_api, StatusCode::TOO_MANY_REQUESTS, TOO_MANY)).into_response()
        }
    };
    answer.headers_mut().extend(HEADERS);
    answer
}

/// Says why not: to programs in JSON.
fn refuse(is_api: bool, status: StatusCode, why: &str) -> Response {
    if is_api {
        Refused(status, why.to_owned()).into_response()
    } else {
        (status, format!("{why}\n")).into_response()
    }
}

const WRONG_HOST: &str =
    "call this page by the address of the machine, or as localhost, and not by another name";

const NO_TOKEN: &str = "the token is missing or wrong: open the page once as http://ADDRESS/?token=TOKEN, with the token of \
                        `token_file`, or send `Authorization: Bearer TOKEN`";

const TOO_MANY: &str = "too many wrong tokens have come from your address: wait a minute";

/// How the site is, and its chosen peer.
async fn state(State(source): State<Arc<Source>>, uri: Uri) -> Response {
    let Some(known) = source.refreshed().await else { return ending() };
    let seen = parameter(&uri, "events").and_then(|count| count.parse().ok()).unwrap_or(0);
    match view::State::new(&source, &known, parameter(&uri, "peer"), seen) {
        Some(state) => json(&state),
        None => ending(),
    }
}

/// A part of the last hour of a peer's paths.
async fn history(State(source): State<Arc<Source>>, uri: Uri) -> Response {
    let from = parameter(&uri, "from").and_then(|number| number.parse().ok()).unwrap_or(0);
    let known = source.known.lock().await;
    json(&known.hour.since(parameter(&uri, "peer").unwrap_or_default(), from, MAX_SAMPLES))
}

fn ending() -> Response {
    refuse(true, StatusCode::SERVICE_UNAVAILABLE, "psmcd is about to end")
}

pub(super) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
