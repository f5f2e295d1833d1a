//! What the log and the counters have of a request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::http::request;
use hyper::{Response, StatusCode};
use psmc_shares::ClassId;
use tokio::time::Instant;

use super::failure::Failure;
use super::{Client, Front};
use crate::body::{AnswerBody, BodyError};
use crate::config::Config;
use crate::listener::Busy;

/// A request, as the log and the counters have it. Ended by one of the methods that take it, or dropped.
pub(crate) struct Record {
    front: Arc<Front>,
    started: Instant,
    waited: Duration,
    status: StatusCode,
    is_ended: bool,
    line: Option<Box<Line>>,
    _busy: Busy,
}

/// What only a log wants to know.
struct Line {
    client: SocketAddr,
    method: String,
    target: String,
    class: String,
}

impl Record {
    pub(super) fn new(
        front: &Arc<Front>,
        config: &Config,
        class: ClassId,
        head: &request::Parts,
        client: &Client,
    ) -> Self {
        let line = config.access_log.then(|| {
            let class = config.classes.get(class.0).map(|class| class.name.to_string());
            Box::new(Line {
                client: client.asker.address(),
                method: head.method.to_string(),
                target: head.uri.to_string(),
                class: class.unwrap_or_default(),
            })
        });
        let (started, waited) = (Instant::now(), Duration::ZERO);
        let busy = client.activity.begin();
        let front = front.clone();
        Self { front, started, waited, status: StatusCode::OK, is_ended: false, line, _busy: busy }
    }

    pub(super) fn is_admitted(&mut self, waited: Duration) {
        self.waited = waited;
    }

    pub(super) fn is_answered(&mut self, status: StatusCode) {
        self.status = status;
    }

    /// What the server has said.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The answer was complete.
    pub(crate) fn complete(mut self, bytes: u64) {
        self.front.counters.complete();
        self.log(bytes, "complete");
    }

    /// The server has not finished its answer.
    pub(crate) fn cut(mut self, bytes: u64, error: &BodyError) {
        self.front.counters.cut();
        tracing::debug!(error = crate::error_chain(error), "answer cut off");
        self.log(bytes, "cut");
    }

    /// The client has not waited for the end of it.
    pub(crate) fn abandoned(mut self, bytes: u64) {
        self.abandon(bytes);
    }

    fn abandon(&mut self, bytes: u64) {
        self.front.counters.abandoned();
        self.log(bytes, "abandoned");
    }

    /// There is no answer of a server: what the client is told instead.
    pub(super) fn fail(mut self, failure: &Failure) -> Response<AnswerBody> {
        let counters = &self.front.counters;
        match failure {
            Failure::Malformed(_)
            | Failure::Target
            | Failure::Body
            | Failure::Stalled
            | Failure::NoWebSocket => counters.malformed(),
            Failure::Refused(_) => counters.refused(),
            Failure::NoServer | Failure::Unreachable(_) | Failure::NoAnswer(_) | Failure::Unasked => {
                counters.unreachable();
            }
            Failure::TimedOut => counters.timed_out(),
        }
        tracing::debug!(error = crate::error_chain(failure), "request failed");
        self.status = failure.status();
        self.log(0, "failed");
        failure.response()
    }

    fn log(&mut self, bytes: u64, end: &'static str) {
        self.is_ended = true;
        let Some(Line { client, method, target, class }) = self.line.as_deref() else { return };
        tracing::info!(
            %client,
            method,
            target,
            class,
            status = self.status.as_u16(),
            bytes,
            waited_ms = millis(self.waited),
            total_ms = millis(self.started.elapsed()),
            end,
            "request"
        );
    }
}

/// A request that nobody has ended is one whose client has gone away before the answer came.
impl Drop for Record {
    fn drop(&mut self) {
        if !self.is_ended {
            self.abandon(0);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
