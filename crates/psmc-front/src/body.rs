//! Bodies on their way, frame by frame, and what ends with them. Nothing of them is kept here.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::Full;
use hyper::StatusCode;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use psmc_shares::admission::Outcome;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::gate::Permit;
use crate::proxy::Record;
use crate::stream::{Reset, Stall};
use crate::upstream::Borrowed;

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// It does not come as it should.
    #[error(transparent)]
    Read(#[from] hyper::Error),
    /// It stands still.
    #[error("timed out waiting for the rest of the body")]
    Stalled,
    /// The server has answered without it.
    #[error("the server has answered without the body")]
    Unwanted,
}

/// How far the body of a request has come, for who waits for the answer.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    last_ms: AtomicU64,
    is_stalled: AtomicBool,
    is_broken: AtomicBool,
}

impl Progress {
    fn new() -> Arc<Self> {
        let flag = || AtomicBool::new(false);
        Arc::new(Self {
            started: Instant::now(),
            last_ms: AtomicU64::new(0),
            is_stalled: flag(),
            is_broken: flag(),
        })
    }

    /// When it last went on.
    pub(crate) fn last(&self) -> Instant {
        self.started + Duration::from_millis(self.last_ms.load(Ordering::Relaxed))
    }

    /// Whether its client has stopped sending it.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Whether it was not what HTTP has, or its client has gone away.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    fn went_on(&self) {
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(ms, Ordering::Relaxed);
    }
}

/// The body of a request, on its way to a server.
#[derive(Debug)]
pub(crate) struct RequestBody {
    inner: Option<Incoming>,
    stall: Stall,
    /// None for who has nothing to send.
    progress: Option<Arc<Progress>>,
    /// The server is asked first whether it wants it; without a word it does (RFC 9110, section 10.1.1).
    wanted: Option<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    word: oneshot::Receiver<()>,
    patience: Stall,
    /// Its sender goes with the connection. To fail before would take the answer along.
    over: oneshot::Receiver<()>,
    is_refused: bool,
}

impl RequestBody {
    /// The progress is of one that has anything in it.
    pub(crate) fn new(inner: Incoming, stall: Duration) -> (Self, Option<Arc<Progress>>) {
        let progress = (!inner.is_end_stream()).then(Progress::new);
        let inner = progress.is_some().then_some(inner);
        (Self { inner, stall: Stall::new(stall), progress: progress.clone(), wanted: None }, progress)
    }

    /// None, for a request that is sent again.
    pub(crate) fn empty() -> Self {
        Self { inner: None, stall: Stall::new(Duration::ZERO), progress: None, wanted: None }
    }

    /// Waits for this word of the server before it begins, but not for ever. If an answer comes instead, `over` ends when that has
    /// ended.
    pub(crate) fn after(
        &mut self,
        word: oneshot::Receiver<()>,
        patience: Duration,
        over: oneshot::Receiver<()>,
    ) {
        self.wanted = Some(Wanted { word, patience: Stall::new(patience), over, is_refused: false });
    }

    fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        let Some(wanted) = &mut self.wanted else { return Poll::Ready(Ok(())) };
        if !wanted.is_refused {
            let polled = Pin::new(&mut wanted.word).poll(cx);
            let is_over = wanted.patience.is_over(&polled, cx);
            match polled {
                Poll::Pending if !is_over => return Poll::Pending,
                Poll::Ready(Err(_)) => wanted.is_refused = true,
                Poll::Ready(Ok(())) | Poll::Pending => {
                    self.wanted = None;
                    return Poll::Ready(Ok(()));
                }
            }
        }
        Pin::new(&mut wanted.over).poll(cx).map(|_| Err(BodyError::Unwanted))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        match this.poll_wanted(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
            Poll::Pending => return Poll::Pending,
        }
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        let polled = Pin::new(inner).poll_frame(cx);
        let Some(progress) = &this.progress else { return Poll::Ready(None) };
        if this.stall.is_over(&polled, cx) {
            progress.is_stalled.store(true, Ordering::Relaxed);
            return Poll::Ready(Some(Err(BodyError::Stalled)));
        }
        polled.map(|frame| {
            progress.went_on();
            let frame = frame?;
            if frame.is_err() {
                progress.is_broken.store(true, Ordering::Relaxed);
            }
            Some(frame.map_err(BodyError::Read))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

/// The body of an answer, on its way to a client.
pub(crate) enum AnswerBody {
    /// What the front says itself.
    Own(Full<Bytes>),
    /// What a server says.
    Passed(Box<Passed>),
}

impl AnswerBody {
    pub(crate) fn empty() -> Self {
        Self::Own(Full::default())
    }
}

/// The body of a server's answer, with all that ends with it.
pub(crate) struct Passed {
    inner: Incoming,
    stall: Stall,
    bytes: u64,
    /// Taken when it has ended.
    rest: Option<Rest>,
}

/// What ends with an answer.
pub(crate) struct Rest {
    /// The place at the server.
    pub(crate) permit: Permit,
    /// The connection, which goes back after an answer that was complete.
    pub(crate) connection: Borrowed,
    /// The connection of the client, which is reset after one that was not, unless others share it.
    pub(crate) reset: Option<Reset>,
    /// What the log and the counters have of it.
    pub(crate) record: Record,
}

impl Passed {
    pub(crate) fn new(inner: Incoming, stall: Duration, rest: Rest) -> Self {
        Self { inner, stall: Stall::new(stall), bytes: 0, rest: Some(rest) }
    }

    fn complete(&mut self) {
        if let Some(Rest { permit, connection, record, .. }) = self.rest.take() {
            // A server that says so has more than it can do (RFC 9110, section 15.6.4).
            let is_overloaded = record.status() == StatusCode::SERVICE_UNAVAILABLE;
            permit.end(if is_overloaded { Outcome::Failed } else { Outcome::Answered });
            connection.give_back();
            record.complete(self.bytes);
        }
    }

    /// The server has not finished what it began. The client must not take that for all.
    fn cut(&mut self, error: &BodyError) {
        if let Some(Rest { permit, reset, record, .. }) = self.rest.take() {
            permit.end(Outcome::Failed);
            if let Some(reset) = reset {
                reset.set();
            }
            record.cut(self.bytes, error);
        }
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        // Who knows the length does not look for an end.
        if self.inner.is_end_stream() {
            self.complete();
        } else if let Some(Rest { permit, record, .. }) = self.rest.take() {
            permit.end(Outcome::Abandoned);
            record.abandoned(self.bytes);
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let passed = match &mut *self {
            Self::Own(text) => {
                return Pin::new(text)
                    .poll_frame(cx)
                    .map(|frame| frame.map(|frame| frame.map_err(|never| match never {})));
            }
            Self::Passed(passed) => passed,
        };
        let polled = Pin::new(&mut passed.inner).poll_frame(cx);
        let read = if passed.stall.is_over(&polled, cx) {
            Some(Err(BodyError::Stalled))
        } else {
            match polled {
                Poll::Ready(frame) => frame.map(|frame| frame.map_err(BodyError::Read)),
                Poll::Pending => return Poll::Pending,
            }
        };
        match &read {
            Some(Ok(frame)) => {
                passed.bytes +=
                    frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
            }
            Some(Err(error)) => passed.cut(error),
            None => passed.complete(),
        }
        Poll::Ready(read)
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(text) => text.is_end_stream(),
            Self::Passed(passed) => passed.inner.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(text) => text.size_hint(),
            Self::Passed(passed) => passed.inner.size_hint(),
        }
    }
}
