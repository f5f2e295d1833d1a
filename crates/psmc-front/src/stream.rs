//! Connections, with TLS or without, and what ends that of a client: one that takes nothing, and an answer that was cut off.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::TlsStream;

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

/// A connection, of a client or to a server.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(stream) => write_parts(Pin::new(stream), cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// Up to so many bytes, to join parts costs less than what the system does more to take several.
const SMALL: usize = 2048;

fn write_parts(
    stream: Pin<&mut TcpStream>,
    cx: &mut Context<'_>,
    parts: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    if let [part] = parts {
        return stream.poll_write(cx, part);
    }
    let mut joined = [MaybeUninit::uninit(); SMALL];
    let mut joined = ReadBuf::uninit(&mut joined);
    for part in parts {
        if part.len() > joined.remaining() {
            return stream.poll_write_vectored(cx, parts);
        }
        joined.put_slice(part);
    }
    stream.poll_write(cx, joined.filled())
}

/// A connection of a client.
#[derive(Debug)]
pub(crate) struct ClientStream {
    inner: Transport,
    stall: Stall,
    reset: Reset,
}

impl ClientStream {
    pub(crate) fn new(inner: Transport, stall: Duration) -> Self {
        Self { inner, stall: Stall::new(stall), reset: Reset::default() }
    }

    /// By which it is told to be reset.
    pub(crate) fn reset(&self) -> Reset {
        self.reset.clone()
    }

    /// What a write has come to, unless the client has taken nothing for too long.
    fn watched<T>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut Transport>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let polled = write(Pin::new(&mut self.inner), cx);
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
            // A connection that is gone already needs no reset.
            let _ = self.inner.socket().set_zero_linger();
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
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
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watched(cx, |stream, cx| stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watched(cx, |stream, cx| stream.poll_shutdown(cx))
    }
}
