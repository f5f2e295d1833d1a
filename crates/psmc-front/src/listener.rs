//! Connections of clients: accepted, told apart by protocol, and ended.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use psmc_net::retry::Retry;
use rustls::ServerConfig;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::config::{Limits, Listener};
use crate::headers::Asker;
use crate::preface::{NoPreface, Preface};
use crate::proxy::{Client, Front};
use crate::stream::{ClientStream, Transport};

/// What is read and written at a time at most, in bytes, and more than any head.
pub(crate) const BUFFER: usize = 64 * 1024;

/// Requests at a time on one connection of HTTP/2: what browsers and nginx use.
const STREAMS: u32 = 128;

/// After how long without a packet a client is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A listener that runs. New connections go by what it was told last.
pub(crate) struct Listening {
    settings: watch::Sender<Listener>,
    stop: watch::Sender<bool>,
}

impl Listening {
    /// Accepts connections on `socket`, as many as there is `room` for.
    pub(crate) fn start(
        socket: std::net::TcpListener,
        listener: Listener,
        front: Arc<Front>,
        room: Arc<Semaphore>,
        ending: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = TcpListener::from_std(socket)?;
        let (settings, by) = watch::channel(listener);
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(accept_all(socket, Acceptor { by, front, room, ending }, stopped));
        Ok(Self { settings, stop })
    }

    /// Goes by other settings for the same address.
    pub(crate) fn change(&self, listener: Listener) {
        self.settings.send_replace(listener);
    }

    /// Accepts what has come already, and no more.
    pub(crate) async fn stop(&self) {
        self.stop.send_replace(true);
        self.stop.closed().await;
    }
}

/// What a connection needs.
#[derive(Clone)]
struct Acceptor {
    by: watch::Receiver<Listener>,
    front: Arc<Front>,
    room: Arc<Semaphore>,
    ending: watch::Receiver<bool>,
}

async fn accept_all(socket: TcpListener, acceptor: Acceptor, stopped: watch::Receiver<bool>) {
    let mut retry = Retry::new("accept connections");
    loop {
        // Who finds no room waits in the kernel's queue.
        let room = tokio::select! {
            biased;
            room = acceptor.room.clone().acquire_owned() => room,
            () = is_true(stopped.clone()) => return,
        };
        let Ok(room) = room else { return };
        let accepted = tokio::select! {
            biased;
            accepted = socket.accept() => accepted,
            () = is_true(stopped.clone()) => return,
        };
        match accepted {
            Ok((stream, from)) => {
                tokio::spawn(acceptor.clone().serve(stream, from, room));
            }
            Err(error) => retry.after(&error).await,
        }
    }
}

/// Why a connection did not come to its first request.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("cannot read what it begins with")]
    Read(#[from] io::Error),
    #[error(transparent)]
    Proxy(#[from] NoPreface),
    #[error("timed out")]
    TimedOut,
}

impl Acceptor {
    async fn serve(self, stream: TcpStream, from: SocketAddr, room: OwnedSemaphorePermit) {
        self.front.counters.connections();
        let listener = self.by.borrow().clone();
        let Limits { head_time, stall_time, .. } = self.front.state().config.limits;
        // Without them it works as well.
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
        let starting = timeout(head_time, start(stream, from, &listener, stall_time));
        match starting.await.unwrap_or(Err(StartError::TimedOut)) {
            Ok(started) => self.talk(started, room, head_time, &listener).await,
            Err(error) => {
                self.front.counters.failed_handshakes();
                tracing::debug!(client = %from, error = crate::error_chain(&error), "connection failed");
            }
        }
    }

    async fn talk(
        self,
        started: Started,
        room: OwnedSemaphorePermit,
        idle_time: Duration,
        listener: &Listener,
    ) {
        let Started { stream, client: address, is_h2 } = started;
        let config = &self.front.state().config;
        let source = address.ip().to_canonical();
        let is_trusted = config.trusted.iter().any(|net| net.contains(&source));
        let asker = Asker::new(address, listener.tls.is_some(), is_trusted);
        let reset = (!is_h2).then(|| stream.reset());
        let activity = Arc::new(Activity::new());
        let client = Arc::new(Client {
            asker,
            reset,
            activity: activity.clone(),
            _alive: self.ending.clone(),
            _room: room,
        });
        let limits = config.limits.clone();
        let mut to_end = pin!(async {
            tokio::select! {
                () = is_true(self.ending) => Ending::Asked,
                () = activity.idle_for(idle_time) => Ending::Idle,
            }
        });
        if is_h2 {
            talk_h2(self.front, stream, client, idle_time, &limits, to_end.as_mut()).await;
        } else {
            talk_h1(self.front, stream, client, &limits, to_end.as_mut()).await;
        }
    }
}

/// Why a connection ends, of all that is not its client's doing.
enum Ending {
    /// The front ends, and no more requests are taken.
    Asked,
    /// No request has come for too long, or none that is complete.
    Idle,
}

async fn talk_h1(
    front: Arc<Front>,
    stream: ClientStream,
    client: Arc<Client>,
    limits: &Limits,
    to_end: Pin<&mut impl Future<Output = Ending>>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (front, client) = (front.clone(), client.clone());
        // Apart from the connection, which is small then while it is idle.
        Box::pin(async move { Ok::<_, Infallible>(front.answer(&client, request).await) })
    });
    let mut builder = http1::Builder::new();
    // Its clock is one for all heads of a connection (`to_end`).
    builder.header_read_timeout(None).max_buf_size(BUFFER).max_header_size(limits.head_size);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    match beside(connection.as_mut(), to_end).await {
        Beside::First(ended) => told(ended),
        Beside::Second(Ending::Idle) => {}
        Beside::Second(Ending::Asked) => {
            connection.as_mut().graceful_shutdown();
            told(connection.await);
        }
    }
}

async fn talk_h2(
    front: Arc<Front>,
    stream: ClientStream,
    client: Arc<Client>,
    idle_time: Duration,
    limits: &Limits,
    to_end: Pin<&mut impl Future<Output = Ending>>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (front, client) = (front.clone(), client.clone());
        async move { Ok::<_, Infallible>(front.answer(&client, request).await) }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).max_concurrent_streams(STREAMS).enable_connect_protocol();
    builder.max_header_list_size(u32::try_from(limits.head_size).unwrap_or(u32::MAX));
    builder.keep_alive_interval(KEEPALIVE).keep_alive_timeout(idle_time);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    match beside(connection.as_mut(), to_end).await {
        Beside::First(ended) => told(ended),
        Beside::Second(Ending::Idle | Ending::Asked) => {
            connection.as_mut().graceful_shutdown();
            told(connection.await);
        }
    }
}

/// Which of two has ended first.
enum Beside<A, B> {
    First(A),
    Second(B),
}

/// Runs a future that is woken often beside one that is woken seldom, and polled only then.
async fn beside<A: Future, B: Future>(
    mut first: Pin<&mut A>,
    mut second: Pin<&mut B>,
) -> Beside<A::Output, B::Output> {
    let mut seldom: Option<(Arc<Seldom>, Waker)> = None;
    poll_fn(|cx| {
        if let Poll::Ready(output) = first.as_mut().poll(cx) {
            return Poll::Ready(Beside::First(output));
        }
        let (of_second, waker) = seldom.get_or_insert_with(|| {
            // Both run in one task, whose waker stays the same.
            let seldom = Arc::new(Seldom { is_woken: AtomicBool::new(true), task: cx.waker().clone() });
            (seldom.clone(), seldom.into())
        });
        if !of_second.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        second.as_mut().poll(&mut Context::from_waker(waker)).map(Beside::Second)
    })
    .await
}

/// Wakes the task, and says by whom.
struct Seldom {
    is_woken: AtomicBool,
    task: Waker,
}

impl Wake for Seldom {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

/// Waits for the word, or for whoever would give it to be gone.
async fn is_true(mut word: watch::Receiver<bool>) {
    let _ = word.wait_for(|is_true| *is_true).await;
}

/// How a connection has ended, which is its client's affair.
fn told(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(error = crate::error_chain(&error), "connection ended");
    }
}

/// A connection that has come to its first request.
struct Started {
    stream: ClientStream,
    client: SocketAddr,
    is_h2: bool,
}

async fn start(
    mut stream: TcpStream,
    from: SocketAddr,
    listener: &Listener,
    stall_time: Duration,
) -> Result<Started, StartError> {
    let client = if listener.proxy_protocol { proxied(&mut stream).await?.unwrap_or(from) } else { from };
    let Some(tls) = &listener.tls else {
        return Ok(Started {
            stream: ClientStream::new(Transport::Plain(stream), stall_time),
            client,
            is_h2: false,
        });
    };
    let config: Arc<ServerConfig> = tls.config.clone();
    let stream = TlsAcceptor::from(config).accept(stream).await?;
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = Transport::Tls(Box::new(stream.into()));
    Ok(Started { stream: ClientStream::new(stream, stall_time), client, is_h2 })
}

/// Who a proxy in front of this one says the client is; nobody, if it speaks for itself.
async fn proxied(stream: &mut TcpStream) -> Result<Option<SocketAddr>, StartError> {
    let mut bytes = Vec::new();
    loop {
        match Preface::read(&bytes)? {
            Preface::Whole(client) => return Ok(client),
            Preface::More(more) => {
                let read = bytes.len();
                bytes.resize(read + more, 0);
                stream.read_exact(&mut bytes[read..]).await?;
            }
        }
    }
}

/// Whether anything goes on on a connection, and when something last did.
#[derive(Debug)]
pub(crate) struct Activity {
    requests: AtomicUsize,
    started: Instant,
    /// When the last request ended, in milliseconds from the start.
    last_ms: AtomicU64,
}

/// A request that goes on.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Activity>);

impl Activity {
    fn new() -> Self {
        Self { requests: AtomicUsize::new(0), started: Instant::now(), last_ms: AtomicU64::new(0) }
    }

    pub(crate) fn begin(self: &Arc<Self>) -> Busy {
        self.requests.fetch_add(1, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// Ends when nothing has gone on for so long.
    async fn idle_for(&self, time: Duration) {
        loop {
            let last = self.started + Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let left = (last + time).saturating_duration_since(Instant::now());
            let is_idle = self.requests.load(Ordering::Relaxed) == 0;
            if is_idle && left.is_zero() {
                return;
            }
            sleep(if is_idle { left } else { time }).await;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let ms = u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last_ms.store(ms, Ordering::Relaxed);
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}
