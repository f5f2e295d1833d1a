//! A connection of a client, with TLS or without, and what ends it: a client that takes nothing, and an answer that was cut off.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;

/// A timer that runs while something stands still. It costs nothing until that happens.
#[derive(Debug)]
pub(crate) struct Stall {
    time: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    is_running: bool,
}

impl Stall {
    pub(crate) fn new(time: Duration) -> Self {
        Self { time, timer: None, is_running: false }
    }

    /// Whether what was just polled has stood still for too long.
    pub(crate) fn is_over<T>(&mut self, polled: &Poll<T>, cx: &mut Context<'_>) -> bool {
        if polled.is_ready() {
            self.is_running = false;
            return false;
        }
        let time = self.time;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(time)));
        if !self.is_running {
            timer.as_mut().reset(Instant::now() + time);
            self.is_running = true;
        }
        timer.as_mut().poll(cx).is_ready()
    }
}

/// Whether a connection is to be reset instead of closed: HTTP/1.0 has answers that end with their connection, and closing would
/// make a cut one complete (RFC 9112, section 8).
#[derive(Clone, Debug, Default)]
pub(crate) struct Reset(Arc<AtomicBool>);

impl Reset {
    /// It is to be reset.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct ClientStream {
    inner: Inner,
    stall: Stall,
    reset: Reset,
}

#[derive(Debug)]
enum Inner {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl ClientStream {
    pub(crate) fn plain(stream: TcpStream, stall: Duration) -> Self {
        Self { inner: Inner::Plain(stream), stall: Stall::new(stall), reset: Reset::default() }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, stall: Duration) -> Self {
        Self { inner: Inner::Tls(Box::new(stream)), stall: Stall::new(stall), reset: Reset::default() }
    }

    /// By which it is told to be reset.
    pub(crate) fn reset(&self) -> Reset {
        self.reset.clone()
    }

    /// What a write has come to, unless the client has taken nothing for too long.
    fn watched<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut (dyn AsyncWrite + Unpin)>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let inner: &mut (dyn AsyncWrite + Unpin) = match &mut self.inner {
            Inner::Plain(stream) => stream,
            Inner::Tls(stream) => stream,
        };
        let polled = write(Pin::new(inner), cx);
        if self.stall.is_over(&polled, cx) {
            Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
        } else {
            polled
        }
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        if self.reset.0.load(Ordering::Relaxed) {
            let stream = match &self.inner {
                Inner::Plain(stream) => stream,
                Inner::Tls(stream) => stream.get_ref().0,
            };
            // A connection that is gone already needs no reset.
            let _ = stream.set_zero_linger();
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Inner::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Inner::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.watched(cx, |stream, cx| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.watched(cx, |stream, cx| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.inner {
            Inner::Plain(stream) => stream.is_write_vectored(),
            Inner::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watched(cx, |stream, cx| stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watched(cx, |stream, cx| stream.poll_shutdown(cx))
    }
}
